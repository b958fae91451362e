"""Ranks: the processes that share a model, and the sums over them."""

from __future__ import annotations

import logging
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor
from torch.distributed import _functional_collectives as collectives

from .._module import ops

_log = logging.getLogger(__name__)
_BUFFER_BYTES = 4 << 20  # of symmetric memory, twice; larger sums are NCCL's


class Ranks:
    """The processes that share a model: of a DeviceMesh of one dimension, a process group, or all there are.

    reduce: how GPUs sum. "auto" is two-shot over torch's symmetric memory where it serves (GPUs of one
    host that reach each other's memory; 16 bits; up to 4 MB), which takes a third of NCCL's time, and NCCL
    elsewhere; "nccl" never uses symmetric memory. Every process makes the same calls in the same order.
    """

    def __init__(self, mesh: Any = None, reduce: str = "auto") -> None:
        if reduce not in ("auto", "nccl"):
            raise ValueError(f"reduce: there is no '{reduce}'; choose auto or nccl")
        if not dist.is_initialized():
            raise ValueError(
                "mesh: torch.distributed is not initialized; call init_process_group, or start with torchrun"
            )
        if mesh is None:
            self.group = dist.group.WORLD
        elif hasattr(mesh, "get_group"):
            if mesh.ndim != 1:
                raise ValueError(f"mesh: it has {mesh.ndim} dimensions; pass one of them, as in mesh['tp']")
            self.group = mesh.get_group()
        elif isinstance(mesh, dist.ProcessGroup):
            self.group = mesh
        else:
            raise TypeError(
                f"mesh: expected a DeviceMesh, a ProcessGroup or None, got {type(mesh).__name__}"
            )
        self.name, self.reduce = self.group.group_name, reduce
        self.size = dist.get_world_size(self.group)
        self.rank = dist.get_rank(self.group)
        self._buffers: list[Tensor] = []  # used in turn
        self._turn = 0
        self._symmetric = reduce == "auto"

    @staticmethod
    def of(mesh: Any) -> Ranks:
        """Itself, or that of a mesh."""
        return mesh if isinstance(mesh, Ranks) else Ranks(mesh)

    def __repr__(self) -> str:
        return f"Ranks(rank={self.rank}, size={self.size}, reduce={self.reduce!r})"

    # Sums

    def linear(
        self,
        x: Tensor,
        packed: Tensor,
        scale: Tensor | None,
        bias: Tensor | None,
        n: int,
        k: int,
        format: str,
    ) -> Tensor:
        """The sum over ranks of x @ weights.T (each rank's k columns) + bias, of x's type. On CPUs the
        parts are added in FP32 and rounded once, on GPUs in x's type. bias: of one rank only."""
        require_no_gradient(x)
        if x.device.type == "cpu":
            part = ops.linear(x, packed, scale, bias, n, k, format, torch.float32)
            return self.sum(part).to(x.dtype)
        buffer = self._buffer((*x.shape[:-1], n), x)
        if buffer is None:
            return self.sum(ops.linear(x, packed, scale, bias, n, k, format))
        ops.linear_out(x, packed, scale, bias, n, k, format, buffer)
        return self._sum_of_buffer(buffer)

    def sum(self, part: Tensor) -> Tensor:
        """The sum over ranks, bit for bit the same on each. It may be in the memory of `part`."""
        if self.size == 1:
            return part
        if torch.compiler.is_compiling():
            return collectives.all_reduce(part, "sum", self.name)
        buffer = self._buffer(part.shape, part)
        if buffer is not None:
            buffer.copy_(part)
            return self._sum_of_buffer(buffer)
        part = part.contiguous()
        dist.all_reduce(part, group=self.group)
        return part

    def gather(self, part: Tensor, sizes: list[int]) -> Tensor:
        """The parts of all ranks, side by side along the last axis; sizes: how long each is."""
        if self.size == 1:
            return part
        longest = max(sizes)
        if part.shape[-1] < longest:
            part = torch.nn.functional.pad(part, (0, longest - part.shape[-1]))
        part = part.contiguous().unsqueeze(0)
        if torch.compiler.is_compiling():
            every = collectives.all_gather_tensor(part, 0, self.name)
        else:
            every = part.new_empty((self.size, *part.shape[1:]))
            dist.all_gather_into_tensor(every, part, group=self.group)
        return torch.cat([every[i, ..., :size] for i, size in enumerate(sizes)], -1)

    # Symmetric memory

    def _buffer(self, shape: Any, like: Tensor) -> Tensor | None:
        """Symmetric memory for a sum of this shape; None where NCCL or gloo does it."""
        count = 1
        for size in shape:
            count *= size
        fits = count * like.element_size() <= _BUFFER_BYTES and count % (8 * self.size) == 0 and count > 0
        if not self._symmetric or not like.is_cuda or not fits or like.dtype != torch.bfloat16:
            return None
        if torch.compiler.is_compiling() or self.size == 1:
            return None
        if not self._buffers:
            if torch.cuda.is_current_stream_capturing():
                return None  # it needs a first call outside of the graph
            self._make_buffers(like.device)
            if not self._buffers:
                return None
        self._turn ^= 1
        return self._buffers[self._turn][:count].view(shape)

    def _make_buffers(self, device: torch.device) -> None:
        """Two, so that a product may write one while other ranks still read the one before. All ranks make
        them, or none does."""
        made: list[Tensor] = []
        try:
            import torch.distributed._symmetric_memory as symmetric

            if not hasattr(torch.ops.symm_mem, "two_shot_all_reduce_out"):
                raise RuntimeError(f"torch {torch.__version__} has no two_shot_all_reduce_out")
            for _ in range(2):
                buffer = symmetric.empty(_BUFFER_BYTES // 2, dtype=torch.bfloat16, device=device)
                symmetric.rendezvous(buffer, self.name)
                made.append(buffer)
            reason = ""
        except Exception as error:
            reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        works = torch.tensor([len(made) == 2], device=device, dtype=torch.int32)
        dist.all_reduce(works, dist.ReduceOp.MIN, group=self.group)
        if works.item():
            self._buffers = made
        else:
            self._symmetric = False
            _log.warning("sums are NCCL's, not symmetric memory's: %s", reason or "another rank has none")

    def _sum_of_buffer(self, buffer: Tensor) -> Tensor:
        out = torch.empty_like(buffer)
        torch.ops.symm_mem.two_shot_all_reduce_out(buffer, "sum", self.name, out)
        return out

    # Copies of a module share the processes, and a pickle has none.

    def __deepcopy__(self, memo: Any) -> Ranks:
        return self

    def __reduce__(self) -> Any:
        raise TypeError("layers that are shared out belong to running processes; save a state dict")


def require_no_gradient(x: Tensor) -> None:
    if torch.is_grad_enabled() and x.requires_grad:
        raise NotImplementedError(
            "layers that are shared out have no gradients; call the model under torch.no_grad()"
        )
