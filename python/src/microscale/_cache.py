"""New caches of keys and values: arrays of a framework's own making."""

from __future__ import annotations

import sys
from typing import Any

from ._arrays import _framework, _moved
from ._core import DeviceArray, KvCache, kv_page_bytes


def put_beside(array: Any, like: Any) -> Any:
    """An array of numpy, as one of the framework and on the device of `like`."""
    framework = _framework(like)
    if framework == "torch":
        torch = sys.modules["torch"]
        return torch.from_numpy(array).to(like.device)
    if framework == "cupy":
        cupy = sys.modules["cupy"]
        with like.device:
            return cupy.asarray(array)
    if framework == "microscale":
        return _moved(array, like.device)
    return array


def _empty_copies(shape: tuple[int, ...], like: Any) -> Any:
    if _framework(like) == "torch":
        torch = sys.modules["torch"]
        return torch.zeros(shape, dtype=torch.bfloat16, device=like.device)
    import numpy

    return put_beside(numpy.zeros(shape, numpy.uint16), like)


def allocate(
    batch: int,
    kv_heads: int,
    head_dim: int,
    max_tokens: int,
    *,
    format: str = "nvfp4",
    page_size: int | None = None,
    pages: int | None = None,
    first: int = 0,
    recent: int = 0,
    hadamard: int = 0,
    k_global_scale: float = 1.0,
    v_global_scale: float = 1.0,
    device: str = "cpu",
    like: Any = None,
) -> KvCache:
    import numpy

    if min(batch, kv_heads, head_dim, max_tokens) < 1:
        raise ValueError("batch, kv_heads, head_dim, max_tokens: pass 1 or more of each")
    if like is None:
        like = numpy.empty(0, numpy.uint8)
        if device != "cpu":
            like = _moved(numpy.zeros(1, numpy.uint8), device)
    table = None
    if page_size is None:
        page_size, pages = -(-max_tokens // 16) * 16, batch
    else:
        each = -(-max_tokens // page_size)
        pages = max(pages or 0, batch * each)
        table = numpy.arange(batch * each, dtype=numpy.int32).reshape(batch, each)
    words: dict[str, Any] = {}
    for name, count in (("first", first), ("recent", recent)):
        if count > 0:
            words[name + "_k"] = _empty_copies((batch, count, kv_heads, head_dim), like)
            words[name + "_v"] = _empty_copies((batch, count, kv_heads, head_dim), like)
    scales = None
    if format in ("nvfp4", "fp8"):
        scales = put_beside(numpy.array([k_global_scale, v_global_scale], numpy.float32), like)
    page = kv_page_bytes(format, kv_heads=kv_heads, head_dim=head_dim, page_size=page_size)
    memory = _zero_bytes(pages * page, like)
    return KvCache.from_memory(
        memory,
        format=format,
        kv_heads=kv_heads,
        head_dim=head_dim,
        page_size=page_size,
        lengths=put_beside(numpy.zeros(batch, numpy.int32), like),
        page_table=None if table is None else put_beside(table, like),
        global_scales=scales,
        hadamard=hadamard,
        **words,
    )


def _zero_bytes(count: int, like: Any) -> Any:
    if _framework(like) == "torch":
        torch = sys.modules["torch"]
        return torch.zeros(count, dtype=torch.uint8, device=like.device)
    if _framework(like) == "cupy":
        with like.device:
            return sys.modules["cupy"].zeros(count, "u1")
    import numpy

    if _framework(like) == "microscale":
        return _moved(numpy.zeros(count, numpy.uint8), like.device)
    whole = numpy.zeros(count + 64, numpy.uint8)
    start = -whole.ctypes.data % 64
    return whole[start : start + count]


def advance(lengths: Any, tokens: int, offsets: Any, sign: int) -> None:
    """Adds the new tokens of each sequence to `lengths`, or takes them away again, in place."""
    if isinstance(lengths, DeviceArray):
        raise ValueError(
            "advance: a DeviceArray cannot be added to; write the lengths and pass advance=False"
        )
    lengths += sign * (tokens if offsets is None else offsets[1:] - offsets[:-1])
