"""rotate: a model with rotations merged into its weights. The work is microscale.transformers'."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .transformers._rotation import Rotation

ROTATE_NEEDS = "rotate needs PyTorch and transformers: pip install 'microscale[transformers]'"


def rotate(
    model: str | os.PathLike[str],
    out: str | os.PathLike[str],
    *,
    statistics: str | os.PathLike[str] | None = None,
    shrink: float | None = None,
    device: Any = None,
    progress: Callable[[int, int, str], Any] | None = None,
) -> Rotation:
    """Writes a model that says the same, but whose hidden states and attention values are turned by
    Hadamard matrices of 32 x 32, all of it merged into the weights: for MXFP4 by GPTQ, which it makes
    more accurate; not for NVFP4, nor without GPTQ. docs/formats/accuracy.md has the formulas.

    model: a folder with dense weights in safetensors. out: the folder to write, as large, but for an
    output layer that was tied to the embedding and is so no longer. Weights of norms become 1.
    statistics: a file of calibrate with Hessians of the model; `OUT.statistics.safetensors` is what they
    are after the rotation, for quantize_model(importance=). They are shrunk before they are turned, by
    `shrink` or, left out, as quantize does it, and quantize shrinks them no more.

    The written model is run beside the first one on 256 random token ids; their words differ by a mean
    Kullback-Leibler divergence of 1e-3 at most. device: where; left out, a GPU if there is one. progress: a
    function of numbers done, numbers in all and the tensor's name; False stops. Returns a Rotation.

    Raises ImportError without PyTorch and transformers 5.10; ValueError for a model whose code lets no
    rotation be merged (norms after attention or MLP, LayerNorm, linear attention, types that are not known),
    with the reason, for one that is quantized, where out exists, for statistics without Hessians; OSError
    for what cannot be read or written.
    """
    try:
        from .transformers._rotation import rotate
    except ImportError as error:
        raise ImportError(f"{ROTATE_NEEDS} ({error})") from error
    return rotate(model, out, statistics=statistics, shrink=shrink, device=device, progress=progress)
