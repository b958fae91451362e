"""evaluate: what quantizing costs in words. The work is microscale.transformers'."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .transformers._evaluation import Evaluation

NEEDS = "evaluate needs PyTorch and transformers: pip install 'microscale[transformers]'"


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
    """Perplexity of a model on a text; with another, of both, and the divergence of the other's
    probabilities from the model's, by llama.cpp's definitions.

    model, other: folders, .gguf or .safetensors files, dense or quantized in any way that microscale reads
    or transformers loads, or models of transformers in memory, accelerated ones too. Of a folder one block
    is in memory at a time; other containers than compressed-tensors' 4 and 8 bits are expanded into a
    temporary folder first, or, where only transformers knows them, loaded whole. Activations are not
    quantized.

    text: the text, or a Path that is read; tokens: its tokens instead. tokenizer: where the first model's
    folder has none. The text is cut into chunks of `context` tokens (the rest is dropped), each by itself,
    the first `chunks` of them (None: all); the second half of each is scored. dtype: float32, bfloat16 or
    float16, what is computed in. device: left out, a GPU if there is one. progress: a function of work done,
    work in all and what is at work; False stops.

    Raises ImportError without PyTorch and transformers 5.10, ValueError where words, tokenizers or weights
    do not go together, OSError for what cannot be read.
    """
    try:
        from .transformers._evaluation import evaluate
    except ImportError as error:
        raise ImportError(f"{NEEDS} ({error})") from error
    return evaluate(
        model,
        other,
        text=text,
        tokens=tokens,
        tokenizer=tokenizer,
        context=context,
        chunks=chunks,
        dtype=dtype,
        device=device,
        progress=progress,
    )
