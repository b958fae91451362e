"""A rank's part of a module: its rows or columns, packed anew."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from .._experts import Experts
from .._linear import Linear
from .._mlp import GatedMlp
from .._module import Parts, no_tensor
from .._packing import BITS, block_of
from ._shares import require_whole_blocks

Span = tuple[int, int]


def _cut(parts: Parts, rows: Any, columns: Span | None, format: str, name: str) -> Parts:
    """Of tensors (matrices, n, bytes): rows, a slice or an index; columns, of elements."""
    codes, scales = parts.codes, parts.scales
    if rows is not None:
        codes, scales = codes[:, rows], scales[:, rows]
    if columns is not None:
        start, end = columns
        block, bits = block_of(format), BITS[format]
        require_whole_blocks(start, end, block, format, name)
        codes = codes[..., start * bits // 8 : end * bits // 8]
        scales = scales[..., start // block : end // block]
    return Parts(codes.contiguous(), scales.contiguous(), parts.divisor)


def _index(spans: Sequence[Span], device: Any) -> Tensor:
    return torch.cat([torch.arange(*span, device=device) for span in spans])


def cut_linear(
    linear: nn.Module, rows: Sequence[Span] | None, columns: Span | None, bias: bool, name: str
) -> Any:
    """The rows in the spans, or the columns, of a packed layer or a torch.nn.Linear."""
    n = linear.out_features if rows is None else sum(end - start for start, end in rows)
    k = linear.in_features if columns is None else columns[1] - columns[0]
    of_bias = linear.bias if bias else None
    if isinstance(linear, Linear):
        of, format = linear._sets[0], linear.format
        whole = linear._weights(of)[0]
        index = None if rows is None else _index(rows, whole.codes.device)
        if of_bias is not None and rows is not None:
            of_bias = of_bias.detach()[_index(rows, of_bias.device)]
        parts = _cut(whole, index, columns, format, name)
        made = type(linear)._made(parts, int(n), int(k), format, of_bias)
        return made.train(linear.training)
    weight = linear.weight.detach()
    if rows is not None:
        if len(rows) == 1:  # of one span a view, so that a head that is an embedding too is there once
            weight = weight[rows[0][0] : rows[0][1]]
        else:
            weight = weight[_index(rows, weight.device)]
        if of_bias is not None:
            of_bias = of_bias.detach()[_index(rows, of_bias.device)]
    if columns is not None:
        weight = weight[:, columns[0] : columns[1]].contiguous()
    made = nn.Linear(int(k), int(n), bias=of_bias is not None, device="meta")
    made.weight = nn.Parameter(weight, requires_grad=False)
    if of_bias is not None:
        made.bias = nn.Parameter(of_bias.detach(), requires_grad=False)
    return made.train(linear.training)


def cut_mlp(mlp: GatedMlp, inner: Span, name: str) -> GatedMlp:
    """Rows of gate and up, columns of down; down's bias is left out."""
    size = inner[1] - inner[0]
    made = GatedMlp(mlp.hidden_size, size, mlp.format, mlp.activation, device="meta")
    first, second = made._sets
    wide = [_cut(parts, slice(*inner), None, mlp.format, name) for parts in mlp._weights(mlp._sets[0])]
    made._set_weights(first, wide)
    down = _cut(mlp._weights(mlp._sets[1])[0], None, inner, mlp.format, f"{name}.down_proj")
    made._set_weights(second, [down])
    for word in ("gate", "up"):
        bias = getattr(mlp, f"{word}_bias")
        own = None if bias is None else bias.detach()[slice(*inner)].clone()
        made._add_bias(f"{word}_bias", f"{word}_proj.bias", own)
    made._add_bias("down_bias", "down_proj.bias", None)
    return made.train(mlp.training)


class RankExperts(Experts):
    """Of which a choice may be another rank's: such an index is that of no expert here, and adds nothing."""

    def _check(self, x: Tensor, indices: Tensor, weights: Tensor) -> None:
        for name, value in (("x", x), ("indices", indices), ("weights", weights)):
            if not isinstance(value, Tensor):
                raise no_tensor(name, value)


def cut_experts(experts: Experts, numbers: Span | None, inner: Span | None, name: str) -> RankExperts:
    """Whole experts, or their part of the inner size."""
    count = experts.num_experts if numbers is None else numbers[1] - numbers[0]
    size = experts.intermediate_size if inner is None else inner[1] - inner[0]
    made = RankExperts(
        count,
        experts.hidden_size,
        size,
        experts.format,
        experts.activation,
        device="meta",
        alpha=experts.alpha,
        limit=experts.limit,
    )
    for of, old in zip(made._sets, experts._sets, strict=True):
        [parts] = experts._weights(old)
        if numbers is not None:
            every = slice(*numbers)
            divisor = None if parts.divisor is None else parts.divisor[every]
            parts = Parts(parts.codes[every], parts.scales[every], divisor)
        if inner is not None:
            down = of.name == "down_"
            span = None if down else slice(*inner)
            parts = _cut(parts, span, inner if down else None, experts.format, f"{name}.{of.name}proj")
        made._set_weights(of, [parts])
        bias = experts._parameters[of.name + "bias"]
        if bias is not None and inner is not None:  # what follows the sum is added once
            bias = bias[:, slice(*inner)] if of.name != "down_" else bias if inner[0] == 0 else None
        if bias is not None:
            own = bias.detach() if numbers is None else bias.detach()[slice(*numbers)]
            made.set_bias(of.name + "bias", own.contiguous())
    return made.train(experts.training)


def cut_dense_experts(experts: Any, numbers: Span) -> Any:
    """Of a module whose parameters are one tensor for all experts each, the first axis being their
    number."""
    total = experts.num_experts
    made = copy.copy(experts)
    made._parameters = dict(experts._parameters)
    for name, parameter in experts._parameters.items():
        if parameter is not None and parameter.shape[0] == total:
            own = parameter.detach()[numbers[0] : numbers[1]].clone()
            made._parameters[name] = nn.Parameter(own, requires_grad=False)
    made.num_experts = numbers[1] - numbers[0]
    return made
