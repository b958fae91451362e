"""The operators attention, cached_attention and append_kv."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from .. import _core
from ._ops import define, require_dense

CACHE = (
    "Tensor? page_table, Tensor? global_scales, Tensor{c}? first_k, Tensor{d}? first_v, "
    "Tensor{e}? recent_k, Tensor{f}? recent_v, str format, SymInt kv_heads, SymInt head_dim, "
    "SymInt page_size, int hadamard"
)
"""What a cache is besides its memory and lengths."""
_READ = CACHE.format(c="", d="", e="", f="")
_WRITTEN = CACHE.format(c="(c!)", d="(d!)", e="(e!)", f="(f!)")
_MASK = (
    "float? scale=None, bool causal=False, SymInt window=0, float softcap=0.0, Tensor? sinks=None, "
    "Tensor? q_offsets=None, Tensor? kv_offsets=None, SymInt max_q_len=0, SymInt max_kv_len=0, "
    'str accuracy="storage"'
)
_MASK_OF_OUT = _MASK.replace("=None", "").replace("=False", "").replace("=0.0", "").replace("=0", "")
_MASK_OF_OUT = _MASK_OF_OUT.replace('="storage"', "")
_MASK_WORDS = ("scale", "causal", "window", "softcap", "sinks", "q_offsets", "kv_offsets", "max_q_len",
               "max_kv_len", "accuracy")  # fmt: skip


def cache_of(
    memory: Tensor,
    lengths: Tensor,
    page_table: Tensor | None,
    global_scales: Tensor | None,
    first_k: Tensor | None,
    first_v: Tensor | None,
    recent_k: Tensor | None,
    recent_v: Tensor | None,
    format: str,
    kv_heads: int,
    head_dim: int,
    page_size: int,
    hadamard: int,
) -> _core.KvCache:
    """A view of tensors as the package's cache."""
    return _core.KvCache.from_memory(
        memory,
        format=format,
        kv_heads=kv_heads,
        head_dim=head_dim,
        page_size=page_size,
        lengths=lengths,
        page_table=page_table,
        global_scales=global_scales,
        first_k=first_k,
        first_v=first_v,
        recent_k=recent_k,
        recent_v=recent_v,
        hadamard=hadamard,
    )


def _call(
    q: Tensor, k: Tensor | None, v: Tensor | None, cache: Any, mask: tuple[Any, ...], out: Any
) -> Tensor:
    words = dict(zip(_MASK_WORDS, mask, strict=False))
    if q.dtype == torch.float32 and q.is_cuda:
        if out is None:
            out = torch.empty(q.shape, dtype=torch.float32, device=q.device)
        q = q.to(torch.bfloat16)
        k, v = (None if t is None else t.to(torch.bfloat16) for t in (k, v))
    return _core.attention(q, k, v, cache=cache, out=out, **words)  # type: ignore[arg-type]


def _attention(q: Tensor, k: Tensor, v: Tensor, *mask: Any) -> Tensor:
    return _call(q, k, v, None, mask, None)


def _attention_out(q: Tensor, k: Tensor, v: Tensor, *mask_and_out: Any) -> None:
    _call(q, k, v, None, mask_and_out[:-1], mask_and_out[-1])


def _cached(q: Tensor, *rest: Any) -> Tensor:
    return _call(q, None, None, cache_of(*rest[:13]), rest[13:], None)


def _cached_out(q: Tensor, *rest: Any) -> None:
    _call(q, None, None, cache_of(*rest[:13]), rest[13:-1], rest[-1])


def _result(q: Tensor, *_: Any) -> Tensor:
    require_dense(q, "q")
    return q.new_empty(q.shape)


define(f"attention(Tensor q, Tensor k, Tensor v, {_MASK}) -> Tensor", _attention, _result, autocast=3)
define(
    f"attention_out(Tensor q, Tensor k, Tensor v, {_MASK_OF_OUT}, Tensor(a!) out) -> ()",
    _attention_out,
    lambda *_: None,
)
define(
    f"cached_attention(Tensor q, Tensor memory, Tensor lengths, {_READ}, {_MASK}) -> Tensor",
    _cached,
    _result,
    autocast=1,
)
define(
    f"cached_attention_out(Tensor q, Tensor memory, Tensor lengths, {_READ}, {_MASK_OF_OUT}, "
    "Tensor(a!) out) -> ()",
    _cached_out,
    lambda *_: None,
)


def _append(
    k: Tensor,
    v: Tensor,
    offsets: Tensor | None,
    cos: Tensor | None,
    sin: Tensor | None,
    rope_interleaved: bool,
    memory: Tensor,
    lengths: Tensor,
    *cache: Any,
) -> None:
    rope = None if cos is None or sin is None else (cos, sin)
    cache_of(memory, lengths, *cache).append(
        k, v, offsets=offsets, rope=rope, rope_interleaved=rope_interleaved
    )


define(
    "append_kv(Tensor k, Tensor v, Tensor? offsets, Tensor? cos, Tensor? sin, bool rope_interleaved, "
    f"Tensor(a!) memory, Tensor(b!) lengths, {_WRITTEN}) -> ()",
    _append,
    lambda *_: None,
)
