"""PyTorch: operators (torch.ops.microscale) and modules with weights in block-scaled formats.

    import microscale.torch as mst
    mst.quantize_(model, "nvfp4")        # every torch.nn.Linear, in place
    layer = mst.Linear.from_linear(linear, "mxfp4")

Operators have fake kernels: torch.compile, torch.export and CUDA graphs take them. Needs torch 2.10 or
newer.
"""

try:
    import torch as _torch
except ImportError as error:
    raise ImportError("microscale.torch needs PyTorch: pip install 'torch>=2.10'") from error

if not hasattr(_torch.Tensor, "__dlpack_c_exchange_api__"):
    raise ImportError(f"microscale.torch needs torch 2.10 or newer, this is {_torch.__version__}")

from . import _attention, _norms, _ops, _products  # noqa: F401  registers the operators
from ._cache import KvCache
from ._experts import Experts
from ._linear import Linear
from ._mlp import GatedMlp
from ._quantize import quantize_

__all__ = ["Experts", "GatedMlp", "KvCache", "Linear", "quantize_"]
