"""Tensor parallelism: a model's packed layers cut among processes of torch.distributed, any number of
them, on one host or several; gloo on CPUs, NCCL and symmetric memory on GPUs.

    import microscale.torch.parallel as mstp
    print(mstp.parallelize(model, mesh))       # Llama, Mistral, Qwen, Mixtral, gpt-oss of transformers
    layer = mstp.RowParallelLinear.from_linear(linear, mesh)

Blocks of 16 or 32 elements are never cut; where a layer cannot be shared out, the error says its name.
Layers have no gradients.
"""

import torch.distributed as _distributed

if not _distributed.is_available():
    raise ImportError("microscale.torch.parallel needs a PyTorch that was built with torch.distributed")

from ._experts import ParallelExperts
from ._layers import ColumnParallelLinear, ParallelGatedMlp, RowParallelLinear
from ._model import Parallelized, parallelize
from ._plans import PLANS
from ._ranks import Ranks

__all__ = [
    "PLANS",
    "ColumnParallelLinear",
    "ParallelExperts",
    "ParallelGatedMlp",
    "Parallelized",
    "Ranks",
    "RowParallelLinear",
    "parallelize",
]
