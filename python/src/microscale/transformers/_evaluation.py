"""evaluate: perplexity and divergence of models on a text."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import os
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from .._errors import Interrupted
from ._divergence import Divergence

if TYPE_CHECKING:
    from ._side import Side

_RESIDUALS = 1 << 31  # bytes of hidden states that go through all blocks before the next chunks do
_LOGITS = 1 << 23  # numbers of logits at a time


@dataclasses.dataclass
class Evaluation:
    """What `evaluate` found, by llama.cpp's definitions; an _error is a standard error."""

    model: str
    other: str | None
    tokens: int
    """Of the text."""
    context: int
    chunks: int
    scored: int
    """Tokens that were predicted: the second half of each chunk but its last."""
    perplexity: float
    perplexity_error: float
    running_perplexity: list[float]
    """After the first chunk, the first two, ..."""
    other_perplexity: float | None = None
    other_perplexity_error: float | None = None
    other_running_perplexity: list[float] | None = None
    log_ratio: float | None = None
    """ln(other_perplexity / perplexity); its error is that of the pairs, far smaller than either's."""
    log_ratio_error: float | None = None
    kl_mean: float | None = None
    """Kullback-Leibler divergence of the other's probabilities from the model's, in nats a token."""
    kl_error: float | None = None
    kl_median: float | None = None
    kl_95: float | None = None
    kl_99: float | None = None
    kl_999: float | None = None
    kl_max: float | None = None
    same_top: float | None = None
    """Share of tokens for which both find the same word most likely."""
    same_top_error: float | None = None
    p_change_mean: float | None = None
    """Change of the probability of the right token."""
    p_change_error: float | None = None
    p_change_rms: float | None = None
    notes: list[str] = dataclasses.field(default_factory=list)

    def to_dict(self) -> dict[str, Any]:
        return {key: value for key, value in dataclasses.asdict(self).items() if value is not None}

    def rows(self) -> list[tuple[str, str]]:
        """What a table says: names and values with their errors."""

        def pair(value: float | None, error: float | None, digits: int = 4, factor: int = 1) -> str:
            assert value is not None and error is not None
            return f"{factor * value:.{digits}f} ± {factor * error:.{digits}f}"

        first = (f"perplexity of {self.model}", pair(self.perplexity, self.perplexity_error))
        if self.other is None:
            return [first]
        spread = ", ".join(
            f"{name} {value:.4f}"
            for name, value in (
                ("median", self.kl_median),
                ("95 %", self.kl_95),
                ("99 %", self.kl_99),
                ("99.9 %", self.kl_999),
                ("most", self.kl_max),
            )
        )
        right = pair(self.p_change_mean, self.p_change_error, 3, 100)
        return [
            first,
            (f"perplexity of {self.other}", pair(self.other_perplexity, self.other_perplexity_error)),
            ("ln of their ratio", pair(self.log_ratio, self.log_ratio_error)),
            ("KL divergence, mean", pair(self.kl_mean, self.kl_error, 5)),
            ("KL divergence of tokens", spread),
            ("same top word", f"{pair(self.same_top, self.same_top_error, 2, 100)} %"),
            (
                "change of the right word's probability",
                f"{right} %, RMS {100 * (self.p_change_rms or 0):.3f} %",
            ),
        ]

    def __str__(self) -> str:
        head = f"{self.chunks} chunks of {self.context} tokens, {self.scored} scored"
        return "\n".join([head, *(f"{name}: {value}" for name, value in self.rows())])


def evaluate(
    model: Any,
    other: Any = None,
    *,
    text: str | os.PathLike[str] | None = None,
    tokens: Sequence[int] | None = None,
    tokenizer: Any = None,
    context: int = 512,
    chunks: int | None = 64,
    dtype: str = "float32",
    device: Any = None,
    progress: Callable[[int, int, str], Any] | None = None,
) -> Evaluation:
    """See microscale.evaluate."""
    kind = getattr(torch, dtype, None)
    if kind not in (torch.float32, torch.bfloat16, torch.float16):
        raise ValueError(f"dtype: '{dtype}'; choose one of float32, bfloat16, float16")
    if context < 4 or (chunks is not None and chunks < 1):
        raise ValueError(f"context: {context}, chunks: {chunks}; pass 4 or more, and 1 or more or None")
    if (text is None) == (tokens is None):
        raise ValueError("text: pass a text (a Path is read) or tokens, one of both")
    from ._side import opened  # now: it needs more of transformers than the rest of this package

    place = torch.device(device or ("cuda" if torch.cuda.is_available() else "cpu"))
    notes: list[str] = []
    with contextlib.ExitStack() as stack, torch.no_grad():
        sides = [
            stack.enter_context(opened(one, kind, place, notes.append))
            for one in (model, other)
            if one is not None
        ]
        ids, bos = ids_of(sides, text, tokens, tokenizer)
        every = chunks_of(ids, context, chunks, bos)
        _check_words(sides, every)
        sums = _run(sides, every, progress)
    figures: dict[str, Any] = sums.figures()
    each = context - 1 - context // 2
    curves = sums.running(each)
    if len(curves) > 1:
        figures["other_running_perplexity"] = curves[1]
    return Evaluation(
        model=sides[0].name,
        other=sides[1].name if len(sides) > 1 else None,
        tokens=len(ids),
        context=context,
        chunks=len(every),
        scored=len(every) * each,
        running_perplexity=curves[0],
        notes=notes,
        **figures,
    )


def _run(sides: list[Side], every: Tensor, progress: Callable[[int, int, str], Any] | None) -> Divergence:
    chunks, context = every.shape
    first = context // 2
    scored = slice(first, context - 1)
    count = context - 1 - first
    of_blocks = sum(side.block_cost() * context for side in sides)
    of_heads = sum(side.head_cost() * count for side in sides)
    total, done = chunks * (of_blocks + of_heads), 0.0

    def step(what: str, more: float) -> None:
        nonlocal done
        done += more
        if progress is not None and progress(min(int(done), total), total, what) is False:
            raise Interrupted("evaluate was stopped by its progress function")

    sums = Divergence()
    widest = max(side.config.hidden_size for side in sides)
    wave = max(1, _RESIDUALS // (3 * 4 * context * widest))
    rows = max(8, _LOGITS // max(side.config.vocab_size for side in sides))
    for start in range(0, chunks, wave):
        part = every[start : start + wave]
        states = []
        for side in sides:
            states.append(side.hidden(part, scored, functools.partial(step, side.name)).flatten(0, 1))
        targets = part[:, first + 1 :].flatten()
        with contextlib.ExitStack() as stack:
            heads = [stack.enter_context(side.head()) for side in sides]
            for low in range(0, len(targets), rows):
                cut = slice(low, low + rows)
                logits = [head(state[cut]) for head, state in zip(heads, states, strict=True)]
                logits = [one.to(logits[0].device) for one in logits]
                sums.add(logits, targets[cut].to(logits[0].device))
                step("words", len(targets[cut]) / count * of_heads)
    return sums


# Text


def ids_of(sides: list[Side], text: Any, tokens: Any, tokenizer: Any) -> tuple[list[int], int | None]:
    """Tokens, and the one that every chunk begins with, if the model's texts begin with one."""
    if tokens is not None:
        return [int(one) for one in tokens], None
    if not isinstance(text, str):
        with open(text, "rb") as file:  # line ends as they are
            text = file.read().decode("utf-8")
    first = tokenizer if tokenizer is not None else tokenizer_of(sides[0])
    if first is None:
        raise ValueError(f"{sides[0].name}: it has no tokenizer; pass tokenizer= or tokens=")
    ids = list(first(text, verbose=False)["input_ids"])
    if len(sides) > 1 and tokenizer is None:
        second = tokenizer_of(sides[1])
        some = text[:20000]
        if (
            second is not None
            and second(some, verbose=False)["input_ids"] != first(some, verbose=False)["input_ids"]
        ):
            raise ValueError(
                f"{sides[1].name}: its tokenizer makes other tokens of the text than that of "
                f"{sides[0].name}; their probabilities cannot be compared"
            )
    bos = getattr(first, "bos_token_id", None)
    return ids, bos if bos is not None and ids[:1] == [bos] else None


def tokenizer_of(side: Side) -> Any:
    from transformers import AutoTokenizer

    try:
        return AutoTokenizer.from_pretrained(side.folder)
    except (OSError, ValueError, KeyError):
        return None


def chunks_of(ids: list[int], context: int, most: int | None, bos: int | None) -> Tensor:
    """(chunks, context), without the rest."""
    count = len(ids) // context
    if count == 0:
        raise ValueError(f"text: {len(ids)} tokens; one chunk takes context={context}")
    count = count if most is None else min(count, most)
    every = torch.tensor(ids[: count * context]).view(count, context)
    if bos is not None:
        every[:, 0] = bos
    return every


def _check_words(sides: list[Side], every: Tensor) -> None:
    words = [int(side.config.vocab_size) for side in sides]
    if len(set(words)) > 1:
        raise ValueError(
            f"{sides[1].name} has {words[1]} words, {sides[0].name} {words[0]}: their probabilities "
            "cannot be compared"
        )
    low, high = int(every.min()), int(every.max())
    if low < 0 or high >= words[0]:
        raise ValueError(f"tokens: from {low} to {high}; {sides[0].name} has {words[0]} words")
