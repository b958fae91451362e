"""Experts of a mixture, packed: read from the checkpoint, as transformers does not keep them so."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from typing import Any

import torch
from torch import nn

from .. import _core
from .._checkpoint import open_checkpoint
from ..torch._experts import Experts
from ..torch._mlp import _activation_of
from ..torch._module import Parts, _stacked
from ._trial import agree, some_input

_WORDS = {"gate_proj": 0, "w1": 0, "up_proj": 1, "w3": 1, "down_proj": 2, "w2": 2}
_NAME = re.compile(rf"(.*\.(\d+)\..*experts)\.(\d+)\.({'|'.join(_WORDS)})\.weight$")

Group = list[dict[int, str]]
"""Of the gate, the up and the down projection: the tensor of each expert, by its number."""


def dense_experts(model: nn.Module) -> Iterator[tuple[str, nn.Module, str, Any]]:
    """Parent's name, parent, attribute and module of what holds experts in tensors of three dimensions."""
    for parent_name, parent in list(model.named_modules()):
        for child_name, child in list(parent._modules.items()):
            if child is None:
                continue
            sizes = [p.dim() for n, p in child._parameters.items() if p is not None and n.endswith("_proj")]
            if sizes and all(size == 3 for size in sizes):
                yield parent_name, parent, child_name, child


def folder_of(model: nn.Module) -> str | None:
    """The checkpoint that the model was loaded from, if it is on this disk."""
    name = getattr(model, "name_or_path", "")
    if not name or os.path.isdir(name):
        return name or None
    from transformers.utils import cached_file

    try:
        found = cached_file(name, "config.json", local_files_only=True)
    except OSError:
        return None
    return os.path.dirname(found) if found else None


class ExpertReader:
    """The experts of a checkpoint, by layer."""

    def __init__(self, folder: str) -> None:
        self._file: Mapping[str, Any] = open_checkpoint(folder)
        self._layers: dict[str, Group] = {}
        for name in self._file:
            found = _NAME.match(name)
            if found:
                group = self._layers.setdefault(found[2], [{}, {}, {}])
                group[_WORDS[found[4]]][int(found[3])] = name

    def read(self, name: str, module: Any) -> tuple[Experts | None, str]:
        """The module `name` of a model, packed; or None and why not."""
        layer = re.search(r"\.(\d+)\.", name)
        group = self._layers.get(layer[1]) if layer else None
        if group is None:
            return None, "the checkpoint has no experts one by one in that layer"
        gate_up, down = (module._parameters.get(one) for one in ("gate_up_proj", "down_proj"))
        if gate_up is None or down is None or len(module._parameters) != 2:
            return None, "it holds more than gate_up_proj and down_proj (biases, a layout of its own)"
        experts, hidden, inner = down.shape
        if tuple(gate_up.shape) != (experts, 2 * inner, hidden):
            return None, f"its gate_up_proj lies as {tuple(gate_up.shape)}, beside {tuple(down.shape)}"
        if any(sorted(part) != list(range(experts)) for part in group):
            return None, "the checkpoint lacks some of its experts"
        try:
            activation = _activation_of(module.act_fn)
        except (AttributeError, ValueError) as error:
            return None, str(error)
        every = [[self._file[part[i]] for i in range(experts)] for part in group]
        formats = {getattr(one, "format", "dense") for part in every for one in part}
        if len(formats) != 1 or not isinstance(every[0][0], _core.BlockTensor):
            return None, f"its experts are {' and '.join(sorted(formats))} in the checkpoint"
        made = Experts(experts, hidden, inner, formats.pop(), activation, device="meta")
        for of, part in zip(made._sets, every, strict=True):
            parts = [_moved(Parts.of(one), down.device) for one in part]
            made._set_weights(of, [_stacked(parts)])
        made.train(module.training)
        reason = "" if down.is_meta else _other_formula(module, made, every)
        return (None, reason) if reason else (made, "")


def _other_formula(module: Any, made: Experts, every: list[list[_core.BlockTensor]]) -> str:
    """Whether the model's own code computes the same from the same weights, "" if so: tried on two rows by
    two experts. What transformers has loaded is overwritten there: it may be anything, as not every version
    can load experts one by one."""
    device, dtype = module.down_proj.device, module.down_proj.dtype
    last = made.num_experts - 1
    with torch.no_grad():
        for number in {0, last}:
            gate, up, down = (torch.as_tensor(part[number].dequantize("f32")) for part in every)
            module.gate_up_proj[number].copy_(torch.cat([gate, up]))
            module.down_proj[number].copy_(down)
        x = some_input(made.hidden_size, device, dtype)
        indices = torch.tensor([[0, last], [last, 0]], device=device)
        weights = torch.tensor([[0.75, 0.25], [0.625, 0.375]], device=device, dtype=dtype)
        try:
            wanted, got = module(x, indices, weights), made(x, indices, weights)
        except Exception as error:
            return f"its own code is not called with rows, experts and weights ({type(error).__name__})"
    if not agree(got, wanted):
        return "its own code computes something else"
    return ""


def _moved(parts: Parts, device: torch.device) -> Parts:
    divisor = None if parts.divisor is None else parts.divisor.to(device)
    return Parts(parts.codes.to(device), parts.scales.to(device), divisor)
