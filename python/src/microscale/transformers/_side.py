"""Side: one of the models that an evaluation sets side by side."""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor, nn
from transformers import AutoModelForCausalLM

from .. import _core
from ._attention import NAME, takes_attention
from ._block_weights import BlockWeights, description_of, empty_model, readable

Step = Callable[[float], None]
"""Called with the multiply-adds that were done."""

Visit = Callable[[int, Callable[..., Any], tuple[Any, ...], dict[str, Any]], Any]
"""Called in place of each block with its number, the block and its arguments; gives what the block gives."""

ROWS = {"cpu": 2048, "cuda": 32768}
"""Tokens that go through a block at once."""


class Side:
    """A model of transformers that is in memory (`weights` None), or whose blocks are read one at a time."""

    def __init__(
        self,
        name: str,
        model: Any,
        weights: BlockWeights | None,
        device: torch.device,
        folder: str | None = None,
    ) -> None:
        if getattr(model.config, "is_encoder_decoder", False) or model.base_model is model:
            raise ValueError(f"{name}: a {type(model).__name__} is no language model of a decoder alone")
        self.name, self.model, self.weights, self.device = name, model, weights, device
        self.folder = folder or name
        """Where a tokenizer is."""
        self.config = model.config.get_text_config()
        self.decoder = model.get_decoder()
        lists = [child for child in self.decoder.children() if isinstance(child, nn.ModuleList)]
        longest = max((len(one) for one in lists), default=0)
        self.blocks = next((list(one) for one in lists if len(one) == longest), [])
        names = {id(module): module_name for module_name, module in model.named_modules()}
        self.prefixes = [names[id(block)] + "." for block in self.blocks]
        self._base = names[id(model.base_model)] + "."
        self._output: Any = None  # of the body, without its hidden states

    # What it costs, in multiply-adds

    def block_cost(self) -> int:
        """Of a token in all blocks."""
        return sum(p.numel() for block in self.blocks for p in [*block.parameters(), *block.buffers()])

    def head_cost(self) -> int:
        """Of a scored token."""
        return int(self.config.vocab_size * self.config.hidden_size)

    # What it gives

    def hidden(self, ids: Tensor, scored: slice, step: Step, visit: Visit | None = None) -> Tensor:
        """Final hidden states (chunks, scored, hidden) of ids (chunks, tokens), each chunk by itself."""
        apart = self._taken_apart(ids.shape[0], ids.shape[1], step, visit)
        with self._resident(self._in_body), apart:
            output = self.model.base_model(input_ids=ids.to(self.device), use_cache=False)
        hidden = output.last_hidden_state[:, scored].clone()
        output.last_hidden_state, self._output = None, output
        return hidden

    @contextlib.contextmanager
    def head(self) -> Iterator[Callable[[Tensor], Tensor]]:
        """What makes logits (rows, words) of hidden states (rows, hidden): the model's own code after its
        body, whose place the hidden states take."""
        base = self.model.base_model

        def logits(hidden: Tensor) -> Tensor:
            self._output.last_hidden_state = hidden[None]
            some = torch.zeros(1, len(hidden), dtype=torch.long, device=self.device)
            return self.model(input_ids=some, use_cache=False).logits[0]  # type: ignore[no-any-return]

        with self._resident(lambda name: not name.startswith(self._base)), replaced(base) as set_forward:
            set_forward(lambda *_, **__: self._output)
            yield logits

    def resident_block(self, number: int) -> contextlib.AbstractContextManager[None]:
        """The weights of one block, in memory within it."""
        prefix = self.prefixes[number]
        return self._resident(lambda name: name.startswith(prefix))

    def resident_outside(self) -> contextlib.AbstractContextManager[None]:
        """All weights but those of the blocks."""
        prefixes = tuple(self.prefixes)
        return self._resident(lambda name: not name.startswith(prefixes))

    def _in_body(self, name: str) -> bool:
        return name.startswith(self._base) and not name.startswith(tuple(self.prefixes))

    @contextlib.contextmanager
    def _resident(self, chosen: Callable[[str], bool]) -> Iterator[None]:
        if self.weights is None:
            yield
            return
        self.weights.load(chosen)
        try:
            yield
        finally:
            self.weights.release(chosen)

    @contextlib.contextmanager
    def _taken_apart(self, chunks: int, tokens: int, step: Step, visit: Visit | None) -> Iterator[None]:
        """Within it, blocks and what follows them take a few chunks of a batch at a time, and each block is
        in memory while it is called only."""
        size = max(1, ROWS.get(self.device.type, 2048) // tokens)
        each = self.block_cost() / max(len(self.blocks), 1) * tokens
        with contextlib.ExitStack() as stack:
            for number, (block, prefix) in enumerate(zip(self.blocks, self.prefixes, strict=True)):
                inner = _in_parts(block.forward, chunks, size, lambda n: step(n * each))

                def resident(*args: Any, _inner: Any = inner, _prefix: str = prefix, **kwargs: Any) -> Any:
                    with self._resident(lambda name: name.startswith(_prefix)):
                        return _inner(*args, **kwargs)

                def forward(*args: Any, _run: Any = resident, _number: int = number, **kwargs: Any) -> Any:
                    return _run(*args, **kwargs) if visit is None else visit(_number, _run, args, kwargs)

                stack.enter_context(replaced(block))(forward)
            for child in self.decoder.children():
                if not isinstance(child, (nn.ModuleList, nn.Embedding)) and any(
                    True for _ in child.parameters()
                ):
                    part = _in_parts(child.forward, chunks, size, lambda n: None)
                    stack.enter_context(replaced(child))(part)
            yield


@contextlib.contextmanager
def replaced(module: nn.Module) -> Iterator[Callable[[Any], None]]:
    """A forward of its own for a while."""
    before = vars(module).get("forward")
    try:
        yield lambda forward: setattr(module, "forward", forward)
    finally:
        if before is not None:
            module.forward = before
        else:
            vars(module).pop("forward", None)


def _in_parts(forward: Any, batch: int, size: int, done: Callable[[int], None]) -> Any:
    """forward of a batch, `size` sequences at a time."""

    def call(*args: Any, **kwargs: Any) -> Any:
        first = next((a for a in (*args, *kwargs.values()) if isinstance(a, Tensor)), None)
        if first is None or first.dim() < 3 or first.shape[0] != batch or batch <= size:
            result = forward(*args, **kwargs)
            done(batch)
            return result
        whole: Any = None
        for start in range(0, batch, size):
            cut = slice(start, start + size)
            result = forward(*cut_of(args, batch, cut), **cut_of(kwargs, batch, cut))
            part = result[0] if isinstance(result, tuple) else result
            if whole is None:
                whole = part.new_empty(batch, *part.shape[1:])
            whole[cut] = part
            done(len(part))
        return (whole, *result[1:]) if isinstance(result, tuple) else whole

    return call


def cut_of(value: Any, batch: int, part: slice) -> Any:
    """A part of the sequences of a batch, of whatever a block takes."""
    if isinstance(value, Tensor):
        return value[part] if value.dim() > 1 and value.shape[0] == batch else value
    if isinstance(value, dict):
        return {key: cut_of(one, batch, part) for key, one in value.items()}
    if type(value) in (tuple, list):
        return type(value)(cut_of(one, batch, part) for one in value)
    return value


# Where it comes from


@contextlib.contextmanager
def opened(
    model: Any, dtype: torch.dtype, device: torch.device, note: Callable[[str], None]
) -> Iterator[Side]:
    """A Side of a model of transformers, of a folder or a file, or of a name that transformers knows."""
    if isinstance(model, nn.Module):
        name = getattr(model, "name_or_path", "") or type(model).__name__
        if not hasattr(model, "base_model"):
            raise TypeError(f"{type(model).__name__}: expected a model of transformers, a folder or a file")
        training = model.training
        model.eval()
        try:
            yield Side(name, model, None, next(model.parameters()).device)
        finally:
            model.train(training)
        return
    path = os.fspath(model)
    with tempfile.TemporaryDirectory(prefix="microscale-evaluate-") as work:
        folder = _readable_folder(path, work, dtype, note)
        if folder is None:
            note(f"{path}: transformers loads it whole")
            whole = AutoModelForCausalLM.from_pretrained(path, dtype=dtype).eval().to(device)
            if takes_attention(whole):
                whole.set_attn_implementation(NAME)
            yield Side(path, whole, None, device)
            return
        empty = empty_model(folder, dtype, device)
        if takes_attention(empty):
            empty.set_attn_implementation(NAME)
        yield Side(path, empty, BlockWeights(empty, folder, dtype, device), device, folder)


def _readable_folder(path: str, work: str, dtype: torch.dtype, note: Callable[[str], None]) -> str | None:
    """`path`, or a dense copy of it in `work`; None where transformers has to load it."""
    if os.path.isdir(path):
        if readable(path):
            return path
        if "quantization_config" not in description_of(path):
            return None
    elif not os.path.isfile(path):
        return None
    wide = "f32" if dtype == torch.float32 else "bf16"
    note(f"{path}: dense in {wide} in {work} meanwhile")
    try:
        _core.dequantize_model(path, os.path.join(work, "dense"), wide)
    except NotImplementedError:
        return None
    except ValueError:
        if os.path.isfile(path):
            raise
        return None
    return os.path.join(work, "dense")
