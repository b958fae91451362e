"""Statistics weighted by gradients: every block is run again from the last to the first, and backwards."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor

from ._side import Side, cut_of, replaced

_LOGITS = 1 << 27
"""Numbers of logits at a time; backwards they are held four times."""
ROWS = {"cpu": 2048, "cuda": 16384}
"""Tokens that go through a block and back at once."""

Call = tuple[tuple[Any, ...], dict[str, Any]]
"""Arguments of a block, without the hidden states."""


class Calls:
    """What goes into each block: hidden states in `put` (a folder), the rest by reference."""

    def __init__(self, put: Callable[[int, Tensor], None]) -> None:
        self._put = put
        self.found: list[Call] = []
        self.last: Tensor | None = None
        """What the last block gives."""
        self.in_tuple = False

    def visit(
        self, number: int, run: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        """For Side.hidden."""
        if args:
            self._put(number, args[0])
            self.found.append(((None, *args[1:]), kwargs))
        else:
            self._put(number, kwargs["hidden_states"])
            self.found.append(((), {**kwargs, "hidden_states": None}))
        result = run(*args, **kwargs)
        self.in_tuple = isinstance(result, tuple)
        self.last = result[0] if self.in_tuple else result
        return result


def of_words(side: Side, calls: Calls, chunks: Tensor, seed: int, step: Callable[[float], None]) -> Tensor:
    """The gradient of -log p(word), summed over all tokens, at what the last block gives. Words are drawn
    from the model's own probabilities: the expected square of it is the curvature of the Kullback-Leibler
    divergence."""
    last = calls.last
    assert last is not None
    drawn = torch.rand(chunks.shape, generator=torch.Generator().manual_seed(seed))
    gradient = torch.empty_like(last)
    size = max(1, _LOGITS // (chunks.shape[1] * int(side.config.vocab_size)))
    with contextlib.ExitStack() as stack:
        stack.enter_context(side.resident_outside())
        stack.enter_context(_frozen(side.model))
        put: list[Any] = [None]
        for block in side.blocks:
            stack.enter_context(replaced(block))(lambda *_, **__: put[0])
        for start in range(0, len(chunks), size):
            cut = slice(start, start + size)
            leaf = last[cut].detach().requires_grad_(True)
            put[0] = (leaf,) if calls.in_tuple else leaf
            with torch.enable_grad():
                logits = side.model(input_ids=chunks[cut].to(side.device), use_cache=False).logits
                logs = logits.float().log_softmax(-1)
                words = _words(logs.detach(), drawn[cut].to(side.device))
                loss = -logs.gather(-1, words[..., None]).sum()
            gradient[cut] = _back(loss, None, leaf, f"{side.name}: what follows its blocks")
            step(3 * side.head_cost() * chunks[cut].numel())
    return gradient


def _back(result: Tensor, gradient: Tensor | None, leaf: Tensor, what: str) -> Tensor:
    """The gradient at a leaf that a result was computed from."""
    try:
        torch.autograd.backward(result, gradient)
    except torch.OutOfMemoryError:
        raise
    except RuntimeError as error:  # no formula, or none needed as nothing depends on the leaf
        raise NotImplementedError(f"{what} has no gradient ({error})") from error
    if leaf.grad is None:
        raise NotImplementedError(f"{what} has no gradient")
    return leaf.grad


def _words(logs: Tensor, drawn: Tensor) -> Tensor:
    """One of each row of log probabilities, by a number from 0 to 1."""
    below = logs.exp().cumsum(-1) < drawn[..., None]
    return below.sum(-1).clamp_(max=logs.shape[-1] - 1)


def through(
    side: Side, number: int, call: Call, hidden: Tensor, gradient: Tensor, settle: Callable[[], None]
) -> Tensor:
    """Runs a block, and back: the gradient at what goes into it. settle is called after each part."""
    block, batch = side.blocks[number], len(hidden)
    size = max(1, ROWS.get(side.device.type, 2048) // hidden.shape[1])
    before = torch.empty_like(gradient)
    with side.resident_block(number), _frozen(block):
        for start in range(0, batch, size):
            cut = slice(start, start + size)
            leaf = hidden[cut].to(side.device).requires_grad_(True)
            args, kwargs = (cut_of(part, batch, cut) for part in call)
            if args:
                args = (leaf, *args[1:])
            else:
                kwargs["hidden_states"] = leaf
            with torch.enable_grad():
                result = block(*args, **kwargs)
                result = result[0] if isinstance(result, tuple) else result
            before[cut] = _back(result, gradient[cut], leaf, f"{side.prefixes[number]}: this block")
            settle()
    if not math.isfinite(float(before.float().abs().amax())):
        raise ValueError(
            f"{side.prefixes[number]}: NaN or Inf in its gradients; weights are not finite, or the numbers "
            "are too large for this dtype (float32 has the widest range)"
        )
    return before


@contextlib.contextmanager
def _frozen(module: Any) -> Iterator[None]:
    """Parameters get no gradient."""
    wanted = [one for one in module.parameters() if one.requires_grad]
    for one in wanted:
        one.requires_grad_(False)
    try:
        yield
    finally:
        for one in wanted:
            one.requires_grad_(True)
