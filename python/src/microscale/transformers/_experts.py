"""Experts of a mixture, packed: read from the checkpoint, as transformers does not keep them so."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from typing import Any

import torch
from torch import Tensor, nn

from .. import _core
from .._checkpoint import open_checkpoint
from ..torch._experts import CLAMPED, Experts
from ..torch._mlp import _activation_of
from ..torch._module import Parts, _stacked, quantized, quantized_together, require_format
from ._gpt_oss import GptOssFile
from ._trial import agree, some_input

WORDS = {"gate_proj": 0, "w1": 0, "up_proj": 1, "w3": 1, "down_proj": 2, "w2": 2}
NAME = re.compile(rf"(.*\.(\d+)\..*experts)\.(\d+)\.({'|'.join(WORDS)})\.weight$")

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


class Layout:
    """How a module of transformers holds its experts: gate_up_proj (experts, 2 * inner, hidden), the gate
    first, and down_proj (experts, hidden, inner); or, as gpt-oss has it, both transposed, rows of gate and
    up in turn, with biases."""

    def __init__(self, module: Any) -> None:
        """ValueError says why it is neither."""
        own = {name: p for name, p in module._parameters.items() if p is not None}
        self.module, self.biases = module, {"gate_up_proj_bias", "down_proj_bias"} <= own.keys()
        self.clamped = self.biases and hasattr(module, "alpha") and hasattr(module, "limit")
        if not {"gate_up_proj", "down_proj"} <= own.keys() or len(own) != (4 if self.clamped else 2):
            raise ValueError(f"it holds {', '.join(sorted(own))}: a layout of its own")
        gate_up, down = own["gate_up_proj"], own["down_proj"]
        self.experts, self.hidden, self.inner = down.shape
        if self.clamped:
            self.hidden, self.inner = self.inner, self.hidden
        wanted = (self.experts, 2 * self.inner, self.hidden)
        if self.clamped:
            wanted = (self.experts, self.hidden, 2 * self.inner)
        if tuple(gate_up.shape) != wanted:
            raise ValueError(f"its gate_up_proj lies as {tuple(gate_up.shape)}, beside {tuple(down.shape)}")
        self.activation = CLAMPED if self.clamped else _activation_of(module.act_fn)
        self.device, self.dtype = down.device, down.dtype

    def empty(self, format: str) -> Experts:
        """A packed module of its sizes, without weights."""
        more = {"alpha": self.module.alpha, "limit": self.module.limit} if self.clamped else {}
        made = Experts(self.experts, self.hidden, self.inner, format, self.activation, device="meta", **more)
        return made.train(self.module.training)

    def weights(self, gate_up: Tensor, down: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """(experts, inner, hidden) twice and (experts, hidden, inner), of the module's own tensors."""
        if not self.clamped:
            gate, up = gate_up.chunk(2, 1)
            return gate, up, down
        turned = gate_up.transpose(1, 2)
        return turned[:, ::2], turned[:, 1::2], down.transpose(1, 2)

    def quantized(self, gate_up: Tensor, down: Tensor, format: str, **options: Any) -> list[Parts]:
        """Of the module's own tensors: gate, up and down of all experts; an expert's gate and up have one
        global scale, as engines want it."""
        gate, up, down = self.weights(gate_up, down)
        each = [quantized_together(pair, format, **options) for pair in zip(gate, up, strict=True)]
        return [
            *(_stacked([parts[i] for parts in each]) for i in range(2)),
            _stacked([quantized(one, format, **options) for one in down]),
        ]

    def packed(self, format: str, every: list[Parts]) -> Experts:
        """The module of such weights, with the own biases."""
        made = self.empty(format)
        for of, parts in zip(made._sets, every, strict=True):
            made._set_weights(of, [parts])
        if self.biases:
            both = self.module.gate_up_proj_bias.detach()
            biases = (both[:, ::2], both[:, 1::2], self.module.down_proj_bias.detach())
            for of, bias in zip(made._sets, biases, strict=True):
                made.set_bias(of.name + "bias", bias.contiguous())
        return made

    def put(self, number: int, every: list[Tensor], biases: list[Tensor] | None) -> None:
        """An expert's gate, up and down, and what is added to them, into the module's own tensors."""
        gate, up, down = every
        if self.clamped:
            self.module.gate_up_proj[number].copy_(torch.stack([gate, up], 1).flatten(0, 1).T)
            self.module.down_proj[number].copy_(down.T)
        else:
            self.module.gate_up_proj[number].copy_(torch.cat([gate, up]))
            self.module.down_proj[number].copy_(down)
        if self.biases:
            zeros = [torch.zeros(len(one)) for one in every]
            gate, up, down = biases if biases is not None else zeros
            self.module.gate_up_proj_bias[number].copy_(torch.stack([gate, up], 1).flatten())
            self.module.down_proj_bias[number].copy_(down)


def quantized_experts(module: Any, format: str) -> tuple[Experts | None, str]:
    """A module of dense experts in a format; or None and why not."""
    try:
        layout = Layout(module)
        for size in (layout.hidden, layout.inner):
            require_format(format, size, "experts")
    except (AttributeError, ValueError) as error:
        return None, str(error)
    if layout.device.type == "meta":
        return None, "its weights are on the meta device, without values"
    parts = layout.quantized(module.gate_up_proj, module.down_proj, format)
    made = layout.packed(format, parts)
    tried = sorted({0, layout.experts - 1})
    own = {name: p.detach()[tried].clone() for name, p in module._parameters.items() if p is not None}
    every = [{number: _one_of(one, number, format) for number in tried} for one in parts]
    biases = [made._parameters[of.name + "bias"] for of in made._sets] if layout.biases else None
    reason = _other_formula(layout, made, every, biases)  # type: ignore[arg-type]
    if reason:
        with torch.no_grad():
            for name, values in own.items():
                module._parameters[name][tried] = values
        return None, reason
    return made, ""


def _one_of(parts: Parts, number: int, format: str) -> _core.BlockTensor:
    """An expert's weights of those of all."""
    scale = None if parts.divisor is None else 1.0 / parts.divisor.float().reshape(-1)[number].reshape(1)
    codes, scales = parts.codes[number].contiguous(), parts.scales[number].contiguous()
    return _core.BlockTensor.from_parts(codes, scales, scale, format=format)


class ExpertReader:
    """The experts of a checkpoint, by layer: one by one, or stacked as gpt-oss's."""

    def __init__(self, folder: str) -> None:
        self._file: Mapping[str, Any] = {}
        self._stacked = GptOssFile(folder)
        self._layers: dict[str, Group] = {}
        self._why = ""
        try:
            self._file = open_checkpoint(folder)
        except (NotImplementedError, ValueError) as error:
            self._why = f": {error}"
        for name in self._file:
            found = NAME.match(name)
            if found:
                group = self._layers.setdefault(found[2], [{}, {}, {}])
                group[WORDS[found[4]]][int(found[3])] = name

    def read(self, name: str, module: Any) -> tuple[Experts | None, str]:
        """The module `name` of a model, packed; or None and why not."""
        try:
            layout = Layout(module)
        except (AttributeError, ValueError) as error:
            return None, str(error)
        biases: list[Any] | None
        if self._stacked.has(name):
            every, biases = self._stacked.read(name)
        else:
            layer = re.search(r"\.(\d+)\.", name)
            group = self._layers.get(layer[1]) if layer else None
            if group is None:
                return None, f"the checkpoint has no experts one by one in that layer{self._why}"
            if any(sorted(part) != list(range(layout.experts)) for part in group):
                return None, "the checkpoint lacks some of its experts"
            every = [[self._file[part[i]] for i in range(layout.experts)] for part in group]
            biases = self._biases(group, layout.experts)
        formats = {getattr(one, "format", "dense") for part in every for one in part}
        if len(formats) != 1 or not isinstance(every[0][0], _core.BlockTensor):
            return None, f"its experts are {' and '.join(sorted(formats))} in the checkpoint"
        if (biases is not None) != layout.biases:
            return None, "only one of the model's code and the checkpoint has biases"
        made = layout.empty(formats.pop())
        for i, (of, part) in enumerate(zip(made._sets, every, strict=True)):
            if tuple(part[0].shape) != (of.n, of.k):
                return None, f"its experts are of shape {tuple(part[0].shape)} in the checkpoint"
            parts = [_moved(Parts.of(one), layout.device) for one in part]
            made._set_weights(of, [_stacked(parts)])
            if biases is not None:
                made.set_bias(of.name + "bias", biases[i].to(layout.device, layout.dtype))
        reason = "" if layout.device.type == "meta" else _other_formula(layout, made, every, biases)
        return (None, reason) if reason else (made, "")

    def _biases(self, group: Group, experts: int) -> list[Tensor] | None:
        names = [[part[i].removesuffix("weight") + "bias" for i in range(experts)] for part in group]
        if not all(name in self._file for part in names for name in part):
            return None
        return [torch.stack([_number(self._file[name]) for name in part]) for part in names]


def _number(array: Any) -> Tensor:
    """A dense array of a checkpoint in FP32: exact."""
    if str(array.dtype) == "uint16":  # bfloat16 without ml_dtypes
        return torch.from_numpy(array.copy()).view(torch.bfloat16).float()
    return torch.from_numpy(array.astype("float32"))


def _other_formula(layout: Layout, made: Experts, every: list[Any], biases: list[Tensor] | None) -> str:
    """Whether the model's own code computes the same from the same weights, "" if so: tried on two rows by
    two experts, whose weights in the model are overwritten. (Not every version of transformers can load
    experts one by one, so they may be anything.) every: of gate, up and down, an expert's by its number."""
    last = made.num_experts - 1
    with torch.no_grad():
        for number in {0, last}:
            layout.put(
                number,
                [torch.as_tensor(part[number].dequantize("f32")) for part in every],
                None if biases is None else [one[number] for one in biases],
            )
        x = some_input(made.hidden_size, layout.device, layout.dtype)
        indices = torch.tensor([[0, last], [last, 0]], device=layout.device)
        weights = torch.tensor([[0.75, 0.25], [0.625, 0.375]], device=layout.device, dtype=layout.dtype)
        try:
            wanted, got = layout.module(x, indices, weights), made(x, indices, weights)
        except Exception as error:
            return f"its own code is not called with rows, experts and weights ({type(error).__name__})"
    return "" if agree(got, wanted) else "its own code computes something else"


def _moved(parts: Parts, device: torch.device) -> Parts:
    divisor = None if parts.divisor is None else parts.divisor.to(device)
    return Parts(parts.codes.to(device), parts.scales.to(device), divisor)
