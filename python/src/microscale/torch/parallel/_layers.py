"""Linear layers and MLPs of which each rank has a part."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import torch
from torch import Tensor, nn

from .._linear import Linear
from .._mlp import GatedMlp
from .._module import no_tensor, ops, require_format
from .._packing import block_of
from ._cut import cut_linear, cut_mlp
from ._ranks import Ranks, require_no_gradient
from ._shares import share_of


class _Shared(nn.Module):
    """A layer with a rank's part in `local`. Loading a state dict takes the tensors of the whole layer and
    keeps its part; saving gives the part, under local."""

    _axis: int  # of the weights, that is cut
    span: tuple[int, int]

    def __init__(self, ranks: Ranks, in_features: int, out_features: int, local: nn.Module) -> None:
        super().__init__()
        self.ranks, self.in_features, self.out_features, self.local = (
            ranks,
            in_features,
            out_features,
            local,
        )

    def _load_from_state_dict(
        self, state_dict: dict[str, Any], prefix: str, *arguments: Any, **words: Any
    ) -> None:
        """The parts go in under the names of `local`, which loads after this."""
        size = self.in_features if self._axis else self.out_features
        for name in [key for key in state_dict if key.startswith(prefix)]:
            rest = name[len(prefix) :]
            if "." in rest:
                continue
            tensor = state_dict.pop(name)
            if tensor.dim() > self._axis and tensor.numel() > 1:
                whole = tensor.shape[self._axis]
                start, end = (at * whole // size for at in self.span)
                tensor = tensor.narrow(self._axis, start, end - start).contiguous()
            elif rest == "bias" and not self._has_bias():
                continue  # another rank's
            state_dict[f"{prefix}local.{rest}"] = tensor
        super()._load_from_state_dict(state_dict, prefix, *arguments, **words)

    def _has_bias(self) -> bool:
        return self.local.bias is not None  # type: ignore[union-attr]

    def extra_repr(self) -> str:
        return (
            f"in_features={self.in_features}, out_features={self.out_features}, "
            f"{('rows', 'columns')[self._axis]} {self.span[0]} to {self.span[1]}, rank {self.ranks.rank} of "
            f"{self.ranks.size}"
        )


class ColumnParallelLinear(_Shared):
    """x @ weight.T + bias, each rank with some of the out_features: x whole on each, the result its part,
    or, with gather, all of it on each. Cut at tiles of 64 where there are enough, else at 32, 16 or
    anywhere.

    A new one has weights of zeros: load the state dict of the whole layer, as Linear has it. mesh: a
    DeviceMesh of one dimension, a process group, Ranks, or None for all processes. Raises ValueError for
    fewer rows than ranks.
    """

    _axis = 0

    def __init__(
        self,
        in_features: int,
        out_features: int,
        format: str = "nvfp4",
        bias: bool = True,
        *,
        mesh: Any = None,
        gather: bool = False,
        device: Any = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        ranks = Ranks.of(mesh)
        span = share_of(out_features, ranks.size, ranks.rank, "out_features")
        local = Linear(in_features, span[1] - span[0], format, bias, device, dtype)
        super().__init__(ranks, in_features, out_features, local)
        self.span, self.gather = span, gather

    @classmethod
    def from_linear(
        cls, linear: Any, mesh: Any = None, *, gather: bool = False, name: str = "linear"
    ) -> ColumnParallelLinear:
        """A rank's rows of a microscale.torch.Linear, or of a torch.nn.Linear, which stays dense. name: for
        errors."""
        ranks = Ranks.of(mesh)
        span = share_of(linear.out_features, ranks.size, ranks.rank, name)
        made = cls.__new__(cls)
        _Shared.__init__(
            made,
            ranks,
            linear.in_features,
            linear.out_features,
            cut_linear(linear, [span], None, linear.bias is not None, name),
        )
        made.span, made.gather = span, gather
        return made

    def forward(self, x: Tensor) -> Tensor:
        y = self.local(x)
        if not self.gather:
            return y
        require_no_gradient(y)
        return self.ranks.gather(y, self.sizes)

    @cached_property
    def sizes(self) -> list[int]:
        """Of all ranks' parts."""
        spans = [share_of(self.out_features, self.ranks.size, i, "") for i in range(self.ranks.size)]
        return [end - start for start, end in spans]


class RowParallelLinear(_Shared):
    """x @ weight.T + bias, each rank with some of the in_features: x a rank's part, the result, summed
    over ranks, whole on each and bit for bit the same. Cut as ColumnParallelLinear cuts, and never inside
    a block.

    On CPUs parts are added in FP32 and rounded once. The rest is as of ColumnParallelLinear; ValueError
    where a cut would go through a block.
    """

    _axis = 1

    def __init__(
        self,
        in_features: int,
        out_features: int,
        format: str = "nvfp4",
        bias: bool = True,
        *,
        mesh: Any = None,
        device: Any = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        ranks = Ranks.of(mesh)
        format = require_format(format, in_features, "in_features")
        span = share_of(in_features, ranks.size, ranks.rank, "in_features", block_of(format))
        own = bias and ranks.rank == 0  # it is added once
        local = Linear(span[1] - span[0], out_features, format, own, device, dtype)
        super().__init__(ranks, in_features, out_features, local)
        self.span = span

    @classmethod
    def from_linear(
        cls, linear: Any, mesh: Any = None, *, span: tuple[int, int] | None = None, name: str = "linear"
    ) -> RowParallelLinear:
        """A rank's columns of a microscale.torch.Linear, or of a torch.nn.Linear, which stays dense. span:
        which, where the layer before is cut otherwise (by heads); all ranks' spans make up the whole."""
        ranks = Ranks.of(mesh)
        block = block_of(linear.format) if isinstance(linear, Linear) else 1
        span = span or share_of(linear.in_features, ranks.size, ranks.rank, name, block)
        bias = linear.bias is not None and ranks.rank == 0
        made = cls.__new__(cls)
        local = cut_linear(linear, None, span, bias, name)
        _Shared.__init__(made, ranks, linear.in_features, linear.out_features, local)
        made.span = span
        return made

    def forward(self, x: Tensor) -> Tensor:
        if not isinstance(x, Tensor):
            raise no_tensor("x", x)
        return sum_of_product(self.ranks, self.local, x)


def sum_of_product(ranks: Ranks, local: Any, x: Tensor) -> Tensor:
    """Over ranks, of a packed layer or a dense one."""
    if isinstance(local, Linear):
        return ranks.linear(
            x,
            local.packed,
            local.global_scale,
            local.bias,
            local.out_features,
            local.in_features,
            local.format,
        )
    require_no_gradient(x)
    part = local(x)
    if part.device.type == "cpu":
        return ranks.sum(part.float()).to(part.dtype)
    return ranks.sum(part)


class ParallelGatedMlp(nn.Module):
    """GatedMlp, each rank with some of the inner features: one kernel for its gate and up, one for its
    part of down, one sum. x and the result whole on each rank. A new one has weights of zeros and no
    biases."""

    def __init__(
        self,
        hidden_size: int,
        intermediate_size: int,
        format: str = "nvfp4",
        activation: str = "silu",
        *,
        mesh: Any = None,
        device: Any = None,
        name: str = "mlp",
    ) -> None:
        super().__init__()
        self.ranks = Ranks.of(mesh)
        format = require_format(format, intermediate_size, "intermediate_size")
        sizes = (intermediate_size, self.ranks.size, self.ranks.rank)
        self.span = share_of(*sizes, name, block_of(format))
        inner = self.span[1] - self.span[0]
        self.local = GatedMlp(hidden_size, inner, format, activation, device=device)
        self.register_parameter("down_bias", None)

    @classmethod
    def from_mlp(cls, mlp: GatedMlp, mesh: Any = None, *, name: str = "mlp") -> ParallelGatedMlp:
        """A rank's part of a whole one. name: for errors."""
        sizes = (mlp.hidden_size, mlp.intermediate_size, mlp.format, mlp.activation)
        made = cls(*sizes, mesh=mesh, device="meta", name=name)
        made.local = cut_mlp(mlp, made.span, name)
        if mlp.down_bias is not None and made.ranks.rank == 0:  # it is added once
            made.down_bias = nn.Parameter(mlp.down_bias.detach().clone(), requires_grad=False)
        return made.train(mlp.training)

    def forward(self, x: Tensor) -> Tensor:
        own = self.local
        inner, hidden = own.intermediate_size, own.hidden_size
        require_no_gradient(x)
        active = ops.gated_linear(
            x,
            own.packed,
            own.global_scale,
            own.up_global_scale,
            own.gate_bias,
            own.up_bias,
            inner,
            hidden,
            own.format,
            own.activation,
        )
        return self.ranks.linear(
            active, own.down_packed, own.down_global_scale, self.down_bias, hidden, inner, own.format
        )

    def extra_repr(self) -> str:
        return f"inner {self.span[0]} to {self.span[1]}, rank {self.ranks.rank} of {self.ranks.size}"
