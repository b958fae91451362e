"""The token ids that a calibration takes."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from ._calibration_sample import sample_text
from ._evaluation import ids_of, tokenizer_of
from ._side import Side

_PIECES = 32
_CHARACTERS = 16  # for each token that is wanted; a longer text is sampled


def chunks_for(
    side: Side,
    text: str | os.PathLike[str] | Sequence[int] | None,
    random: bool,
    tokenizer: Any,
    tokens: int,
    sequence: int,
    seed: int,
    notes: list[str],
) -> tuple[Tensor, str]:
    """(chunks, tokens of a chunk), and in words what they are."""
    words, positions = int(side.config.vocab_size), getattr(side.config, "max_position_embeddings", None)
    sequence = min(sequence, tokens)
    if positions is not None and sequence > positions:
        raise ValueError(f"sequence: {sequence}; {side.name} has {positions} positions")
    if text is None and not random and tokenizer is None and tokenizer_of(side) is None:
        notes.append(f"{side.name}: it has no tokenizer, so the tokens are drawn at random")
        random = True
    if random:
        shape = (max(1, tokens // sequence), sequence)
        drawn = torch.randint(words, shape, generator=torch.Generator().manual_seed(seed))
        return drawn, f"random token ids, seed {seed}"
    ids, bos, said = _ids_of_text(side, text, tokenizer, tokens, notes)
    if not ids:
        raise ValueError("text: it has no tokens; pass one of a few thousand words")
    low, high = min(ids), max(ids)
    if low < 0 or high >= words:
        raise ValueError(f"text: token ids from {low} to {high}; {side.name} has {words} words")
    chunks = _spread(ids, tokens, sequence)
    if bos is not None:
        chunks[:, 0] = bos
    if chunks.numel() < tokens - tokens % sequence:
        notes.append(f"the text gives {chunks.numel():,} tokens, of {tokens:,} that were wanted")
    return chunks, said


def _ids_of_text(
    side: Side, text: Any, tokenizer: Any, tokens: int, notes: list[str]
) -> tuple[list[int], int | None, str]:
    if text is not None and not isinstance(text, (str, os.PathLike)):
        return [int(one) for one in text], None, "token ids that were given"
    if text is None:
        text, said, note = sample_text(tokens)
        notes += [note] if note else []
    elif isinstance(text, str):
        said = "a text that was given"
        if len(text) < 4096 and "\n" not in text and os.path.isfile(text):
            raise ValueError(f"text: '{text}' is the name of a file; pass Path('{text}') to read it")
    else:
        path = os.fspath(text)
        with open(path, "rb") as file:  # line ends as they are
            raw = file.read()
        try:
            text = raw.decode("utf-8")
        except UnicodeDecodeError:
            raise ValueError(f"text: '{path}' is no UTF-8; a calibration takes plain text") from None
        said = os.path.basename(path)
    ids, bos = ids_of([side], _sampled(text, tokens), None, tokenizer)
    return ids, bos, said


def _sampled(text: str, tokens: int) -> str:
    """Pieces from all of a text far longer than is wanted."""
    most = _CHARACTERS * max(tokens, 4096)
    if len(text) <= most:
        return text
    starts = (len(text) * i // _PIECES for i in range(_PIECES))
    return "\n".join(text[start : start + most // _PIECES] for start in starts)


def _spread(ids: list[int], tokens: int, sequence: int) -> Tensor:
    """Sequences evenly spread over the text; all of one that is shorter than a sequence."""
    whole = len(ids) // sequence
    if whole == 0:
        return torch.tensor([ids])
    count = min(max(1, tokens // sequence), whole)
    starts = [whole * i // count * sequence for i in range(count)]
    return torch.tensor([ids[start : start + sequence] for start in starts])


def digest(chunks: Tensor) -> str:
    return hashlib.sha256(chunks.to(torch.int64).numpy().tobytes()).hexdigest()[:16]
