"""Block-scaled numbers (NVFP4, MXFP4, MXFP8): quantizing and matrix products on NumPy, PyTorch, CuPy and JAX
arrays.

    import microscale as ms
    t = ms.quantize(weights, "nvfp4")      # a BlockTensor: codes, scales, global scale
    y = ms.matmul(x, ms.pack_weights(t))   # x @ weights.T

Results are arrays of the first argument's framework, on its device. docs/python.md tells the rest.
"""

from . import cuda
from ._core import (
    BlockTensor,
    DeviceArray,
    PackedWeights,
    __version__,
    abs_max,
    available_backends,
    dequantize,
    formats,
    from_containers,
    gated_matmul,
    grouped_matmul,
    matmul,
    nvfp4_global_scale,
    pack_gated_weights,
    pack_weights,
    quantize,
    quantize_both,
    repack_scales,
    scale_rules,
    to_containers,
)
from ._context import context
from ._errors import Error

__all__ = [
    "BlockTensor",
    "DeviceArray",
    "Error",
    "PackedWeights",
    "__version__",
    "abs_max",
    "available_backends",
    "context",
    "cuda",
    "dequantize",
    "formats",
    "from_containers",
    "gated_matmul",
    "grouped_matmul",
    "matmul",
    "nvfp4_global_scale",
    "pack_gated_weights",
    "pack_weights",
    "quantize",
    "quantize_both",
    "repack_scales",
    "scale_rules",
    "to_containers",
]
