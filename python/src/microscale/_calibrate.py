"""calibrate: statistics of the inputs of a model's layers. The work is microscale.transformers'."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .transformers._calibration import Calibration

CALIBRATE_NEEDS = "calibrate needs PyTorch and transformers: pip install 'microscale[transformers]'"


def calibrate(
    model: Any,
    text: str | os.PathLike[str] | Sequence[int] | None = None,
    *,
    out: str | os.PathLike[str],
    tokens: int | None = None,
    sequence: int = 512,
    random: bool = False,
    hessian: bool = False,
    gradients: bool | None = None,
    tokenizer: Any = None,
    dtype: str = "float32",
    device: Any = None,
    seed: int = 0,
    progress: Callable[[int, int, str], Any] | None = None,
    resume: bool = False,
    max_memory: int = 4 << 30,
) -> Calibration:
    """Writes statistics of what each linear layer and expert of a model takes in on a text, for
    `quantize_model(importance=)` and `input_scales=`: a safetensors file with, for a layer P of K inputs,
    `P` F32 [K], the mean square of each; `P.mean` and `P.amax` F32 [K], mean and largest magnitude; with
    hessian=True `P.hessian` F32 [K, K], the mean of x x^T, symmetric. docs/calibration.md has the rest.

    gradients (left out, as hessian) weighs each token in the mean square and the Hessian by the mean square
    of the gradient at the outputs of the layers that read it, of -log p of words drawn from the model's own
    probabilities: what counts is how an error changes what the model says. It takes four times the work, and
    4 bytes on disk (OUT.part) for each token, hidden element and block meanwhile. Left out, a model that has
    no gradients is calibrated without, and a note says so.

    model: a folder, a .gguf or .safetensors file, dense or quantized in any way that microscale reads, or a
    model of transformers in memory. Of a folder one block is in memory at a time, and hidden states of all
    tokens (three times 4 bytes for each token and hidden element).

    text: the text, a Path that is read, or token ids; left out, one of several kinds out of installed
    packages (docs/calibration.md), or ids drawn at random where the model has no tokenizer. random=True
    draws them in any case. tokens: how many, in sequences of `sequence`, evenly spread over the text;
    left out, 16384, with Hessians 65536. tokenizer: where the folder has none. dtype: float32, bfloat16
    or float16, what is computed in; sums of Hessians are FP32, all others FP64. device: left out, a GPU
    if there is one. seed: of random ids and of the words of gradients. max_memory: bytes of Hessians at a
    time; a block runs again for those that have no room, and one is held however large it is.

    progress: a function of work done, work in all and the model's name; False stops. What is finished when
    a run stops or is killed stays in the folder OUT.part, and resume=True goes on with it, to the same bytes
    on the same machine with as many threads. Returns a Calibration.

    Raises ImportError without PyTorch and transformers 5.10, ValueError where out exists, the text has no
    tokens, inputs are not finite or no layer is found, OSError for what cannot be read or written.
    """
    try:
        from .transformers._calibration import calibrate
    except ImportError as error:
        raise ImportError(f"{CALIBRATE_NEEDS} ({error})") from error
    return calibrate(
        model,
        text,
        out=out,
        tokens=tokens,
        sequence=sequence,
        random=random,
        hessian=hessian,
        gradients=gradients,
        tokenizer=tokenizer,
        dtype=dtype,
        device=device,
        seed=seed,
        progress=progress,
        resume=resume,
        max_memory=max_memory,
    )
