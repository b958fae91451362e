"""KvCache: a cache of keys and values in 4 or 8 bits, in buffers of a module."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from .._cache import sizes_of
from ._module import ops


class KvCache(nn.Module):
    """Keys and values of `batch` sequences of up to max_tokens tokens (rounded up to whole pages, or to a
    multiple of 16 without page_size), (kv_heads, head_dim) each, quantized.

    format: nvfp4, mxfp4, mxfp8 or fp8. page_size: 16, 32 or 64 makes it paged: page_table (batch, pages of a
    sequence) may be rewritten. first, recent: tokens at the beginning and the end whose bfloat16 copies
    attention reads instead. hadamard: 16 rotates keys. k_global_scale, v_global_scale: of nvfp4 and fp8.
    lengths has the tokens of each sequence, int32. append and attend are operators: torch.compile and CUDA
    graphs take them. No part of it is in a state dict.
    """

    memory: Tensor
    lengths: Tensor

    def __init__(
        self,
        batch: int,
        kv_heads: int,
        head_dim: int,
        max_tokens: int,
        *,
        format: str = "nvfp4",
        page_size: int | None = None,
        first: int = 0,
        recent: int = 0,
        hadamard: int = 0,
        k_global_scale: float = 1.0,
        v_global_scale: float = 1.0,
        device: Any = None,
    ) -> None:
        super().__init__()
        self.page_size, each, _, memory_bytes = sizes_of(
            batch,
            kv_heads,
            head_dim,
            max_tokens,
            format=format,
            page_size=page_size,
            pages=None,
            first=first,
            recent=recent,
            hadamard=hadamard,
            k_global_scale=k_global_scale,
            v_global_scale=v_global_scale,
        )
        self.format, self.kv_heads, self.head_dim, self.hadamard = format, kv_heads, head_dim, hadamard
        self._add("memory", torch.zeros(memory_bytes, dtype=torch.uint8, device=device))
        self._add("lengths", torch.zeros(batch, dtype=torch.int32, device=device))
        table = torch.arange(batch * each, dtype=torch.int32, device=device).view(batch, each)
        self._add("page_table", None if page_size is None else table)
        scales = torch.tensor([k_global_scale, v_global_scale], dtype=torch.float32, device=device)
        self._add("global_scales", scales if format in ("nvfp4", "fp8") else None)
        for name, count in (("first", first), ("recent", recent)):
            for part in ("k", "v"):
                shape = (batch, count, kv_heads, head_dim)
                copies = torch.zeros(shape, dtype=torch.bfloat16, device=device) if count else None
                self._add(f"{name}_{part}", copies)

    def _add(self, name: str, value: Tensor | None) -> None:
        self.register_buffer(name, value, persistent=False)

    def _apply(self, fn: Any, recurse: bool = True) -> KvCache:
        """To another device; types stay."""
        super()._apply(
            lambda t: moved if (moved := fn(t)).dtype == t.dtype else t.to(moved.device), recurse
        )
        return self

    def _parts(self) -> tuple[Any, ...]:
        return (self.memory, self.lengths, self.page_table, self.global_scales, self.first_k, self.first_v,
                self.recent_k, self.recent_v, self.format, self.kv_heads, self.head_dim, self.page_size,
                self.hadamard)  # fmt: skip

    def append(
        self,
        k: Tensor,
        v: Tensor,
        *,
        offsets: Tensor | None = None,
        rope: tuple[Tensor, Tensor] | None = None,
        rope_interleaved: bool = False,
    ) -> None:
        """Quantizes new tokens into the cache and adds them to lengths: k, v (batch, tokens, kv_heads,
        head_dim), or with offsets (int32, batch + 1) all sequences' tokens in one row. rope: (cos, sin) of
        microscale.rope_tables, applied to k."""
        cos, sin = rope or (None, None)
        ops.append_kv(k, v, offsets, cos, sin, rope_interleaved, *self._parts())

    def attend(
        self,
        q: Tensor,
        *,
        scale: float | None = None,
        causal: bool = True,
        window: int = 0,
        softcap: float = 0.0,
        sinks: Tensor | None = None,
        q_offsets: Tensor | None = None,
        max_q_len: int = 0,
        max_kv_len: int = 0,
        accuracy: str = "storage",
        out: Tensor | None = None,
    ) -> Tensor:
        """Attention of q (batch, tokens, heads, head_dim), the last tokens of each sequence, to the cache;
        keywords as of microscale.attention."""
        mask = (scale, causal, window, softcap, sinks, q_offsets, None, max_q_len, max_kv_len, accuracy)
        if out is None:
            return ops.cached_attention(q, *self._parts(), *mask)
        ops.cached_attention_out(q, *self._parts(), *mask, out)
        return out

    def reset(self) -> None:
        """Forgets all tokens."""
        self.lengths.zero_()

    def extra_repr(self) -> str:
        return (
            f"batch={self.lengths.numel()}, kv_heads={self.kv_heads}, head_dim={self.head_dim}, "
            f"format={self.format}, page_size={self.page_size}"
        )
