"""from_pretrained: a quantized folder as a model on packed weights, without transformers' decoding."""

from __future__ import annotations

import os
from typing import Any

import torch
from torch import nn

from .. import _core
from ..torch._linear import Linear
from ._accelerate import Accelerated, accelerate
from ._experts import ExpertReader, dense_experts


def from_pretrained(
    folder: str | os.PathLike[str],
    *,
    dtype: torch.dtype = torch.bfloat16,
    device: Any = "cpu",
    **options: Any,
) -> tuple[Any, Accelerated]:
    """A model of a folder in NVFP4, MXFP4 or MXFP8 (compressed-tensors' format), accelerated, and what
    accelerate returned, whose keywords `options` are.

    Nothing becomes dense on the way but one layer of experts at a time, and the package compressed-tensors
    is not needed. It loads what transformers 5.23 cannot: experts in MXFP8, and gpt-oss's one by one. dtype:
    of what is not packed. Raises OSError or ValueError where the folder cannot be read or lacks tensors,
    NotImplementedError for other containers (`microscale convert` makes this one of them).
    """
    from transformers import GenerationConfig

    from ._block_weights import BlockWeights, empty_model

    path, place = os.fspath(folder), torch.device(device)
    model = empty_model(path, dtype, place)
    model.config.name_or_path = model.name_or_path = path
    weights = BlockWeights(model, path, dtype, place)
    packed: list[str] = []
    for name, module in list(model.named_modules()):
        if type(module) is nn.Linear and isinstance(weights.stored(name + ".weight"), _core.BlockTensor):
            made = Linear.from_block_tensor(weights.stored(name + ".weight")).to(place)
            made._add_bias("bias", "bias", module.bias)
            _put(model, name, made.eval())
            packed.append(name + ".weight")
    reader, left = ExpertReader(path), {}
    for parent, _, child, module in dense_experts(model):
        name = f"{parent}.{child}"
        for key, value in module._parameters.items():
            module._parameters[key] = nn.Parameter(
                torch.empty_like(value, device=place), requires_grad=False
            )
        experts, reason = reader.read(name, module)
        if experts is None:
            left[name] = reason
        else:
            _put(model, name, experts)
            packed.append(name + ".")
    weights.load(lambda name: not name.startswith(tuple(packed)))
    if model.can_generate() and os.path.isfile(os.path.join(path, "generation_config.json")):
        model.generation_config = GenerationConfig.from_pretrained(path)
    done = accelerate(model, **options)
    done.left.update(left)
    return model, done


def _put(model: nn.Module, name: str, module: nn.Module) -> None:
    parent, _, child = name.rpartition(".")
    setattr(model.get_submodule(parent), child, module)
