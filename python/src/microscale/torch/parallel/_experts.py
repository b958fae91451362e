"""ParallelExperts: a mixture of which each rank has some experts, or a part of each."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from .._experts import Experts
from .._packing import block_of
from ._cut import cut_dense_experts, cut_experts
from ._ranks import Ranks, require_no_gradient
from ._shares import share, share_of

_WAYS = ("inner", "experts")


class ParallelExperts(nn.Module):
    """The experts of a mixture, shared out; called as the module is that it is made of, with x, indices and
    weights whole on each rank, and the result too.

    experts: a microscale.torch.Experts, or a module of transformers that is called alike and has one dense
    tensor for all experts, which stays dense. by: "inner" gives each rank a part of every expert, so that
    all have the same work whatever is chosen; "experts" whole experts, the only way of dense ones. None
    chooses "inner" where whole blocks allow it.
    """

    def __init__(
        self, experts: Any, mesh: Any = None, *, by: str | None = None, name: str = "experts"
    ) -> None:
        super().__init__()
        if by not in (None, *_WAYS):
            raise ValueError(f"by: there is no '{by}'; choose one of {', '.join(_WAYS)}")
        self.ranks = ranks = Ranks.of(mesh)
        self.num_experts = experts.num_experts
        packed = isinstance(experts, Experts)
        if by == "inner" and not packed:
            raise ValueError(f"{name}: dense experts are shared out whole; leave out by='inner'")
        if by is None:
            blocks = experts.intermediate_size // block_of(experts.format) if packed else 0
            by = "inner" if blocks >= ranks.size else "experts"
        self.by = by
        if by == "inner":
            sizes = (experts.intermediate_size, ranks.size, ranks.rank)
            self.span = share_of(*sizes, name, block_of(experts.format))
            self.local: Any = cut_experts(experts, None, self.span, name)
            return
        if experts.num_experts < ranks.size:
            raise ValueError(
                f"{name}: {experts.num_experts} experts cannot be shared by {ranks.size} ranks"
            )
        self.span = share(experts.num_experts, ranks.size, ranks.rank)
        cut = cut_experts(experts, self.span, None, name) if packed else None
        self.local = cut or cut_dense_experts(experts, self.span)

    def forward(self, x: Tensor, indices: Tensor, weights: Tensor) -> Tensor:
        require_no_gradient(x)
        if self.by == "experts":
            start, end = self.span
            own = (indices >= start) & (indices < end)
            # Packed experts skip choices of experts on other ranks. Dense ones compute their first expert
            # for them, and weigh it with zero.
            elsewhere = -1 if isinstance(self.local, Experts) else 0
            indices = torch.where(own, indices - start, elsewhere)
            weights = torch.where(own, weights, 0)
        part = self.local(x, indices, weights)
        if part.device.type == "cpu":
            return self.ranks.sum(part.float()).to(x.dtype)
        return self.ranks.sum(part)

    def extra_repr(self) -> str:
        return f"{self.by} {self.span[0]} to {self.span[1]}, rank {self.ranks.rank} of {self.ranks.size}"
