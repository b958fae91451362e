"""Block-scaled numbers (NVFP4, MXFP4, MXFP8): quantizing and matrix products on NumPy, PyTorch, CuPy and JAX
arrays.

    import microscale as ms
    t = ms.quantize(weights, "nvfp4")      # a BlockTensor: codes, scales, global scale
    y = ms.matmul(x, ms.pack_weights(t))   # x @ weights.T

Results are arrays of the first argument's framework, on its device. docs/python.md tells the rest.
"""

import copyreg

from . import cuda
from ._core import (
    __version__,
    abs_max,
    attention,
    available_backends,
    BlockTensor,
    compare_models,
    ConversionPlan,
    convert_model,
    ConvertedModel,
    dequantize,
    dequantize_model,
    DequantizedModel,
    DeviceArray,
    formats,
    from_containers,
    gated_matmul,
    grouped_matmul,
    grouped_quantize,
    hadamard_quantize,
    inspect_model,
    kv_page_bytes,
    KvCache,
    matmul,
    nvfp4_global_scale,
    output_error,
    pack_gated_weights,
    pack_weights,
    PackedWeights,
    plan_quantize_model,
    quantize,
    quantize_both,
    quantize_model,
    quantize_with_hessian,
    repack_scales,
    repair_model,
    RepairReport,
    rms_norm_quantize,
    rope_tables,
    scale_rules,
    silu_mul_quantize,
    TensorPlan,
    to_containers,
    verify_model,
)
from ._calibrate import calibrate
from ._checkpoint import Checkpoint, open_checkpoint
from ._context import context
from ._errors import Error
from ._evaluate import evaluate
from ._rotate import rotate

copyreg.pickle(type(quantize), lambda function: function.__name__)  # by name, as Python's own functions
Error.__module__ = "microscale"

__all__ = [
    "__version__",
    "abs_max",
    "attention",
    "available_backends",
    "BlockTensor",
    "calibrate",
    "Checkpoint",
    "compare_models",
    "context",
    "ConversionPlan",
    "convert_model",
    "ConvertedModel",
    "cuda",
    "dequantize",
    "dequantize_model",
    "DequantizedModel",
    "DeviceArray",
    "Error",
    "evaluate",
    "formats",
    "from_containers",
    "gated_matmul",
    "grouped_matmul",
    "grouped_quantize",
    "hadamard_quantize",
    "inspect_model",
    "kv_page_bytes",
    "KvCache",
    "matmul",
    "nvfp4_global_scale",
    "open_checkpoint",
    "output_error",
    "pack_gated_weights",
    "pack_weights",
    "PackedWeights",
    "plan_quantize_model",
    "quantize",
    "quantize_both",
    "quantize_model",
    "quantize_with_hessian",
    "repack_scales",
    "repair_model",
    "RepairReport",
    "rms_norm_quantize",
    "rope_tables",
    "rotate",
    "scale_rules",
    "silu_mul_quantize",
    "TensorPlan",
    "to_containers",
    "verify_model",
]
