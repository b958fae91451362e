"""New caches of keys and values: arrays of a framework's own making."""

from __future__ import annotations

import operator
import sys
from typing import Any

from ._arrays import _framework, _moved, as_bytes
from ._core import DeviceArray, KvCache, kv_page_bytes
from ._errors import InvalidArgument

_MOST_BYTES = 1 << 62


def whole(name: str, value: Any, least: int = 0) -> int:
    """A size that a caller gave: a whole number from `least` on, of 64 bits."""
    try:
        number = operator.index(value)
    except TypeError:
        raise TypeError(f"{name}: expected a whole number, got {type(value).__name__}") from None
    if not least <= number < 1 << 62:
        raise InvalidArgument(f"{name}: {number}; pass {least} or more, and no more than fits in memory")
    return number


def sizes_of(
    batch: Any,
    kv_heads: Any,
    head_dim: Any,
    max_tokens: Any,
    *,
    format: str,
    page_size: Any,
    pages: Any,
    first: Any,
    recent: Any,
    hadamard: Any,
    k_global_scale: Any,
    v_global_scale: Any,
) -> tuple[int, int, int, int]:
    """Checks what a new cache is asked to be. Returns the tokens of a page, the pages of a sequence, pages
    in all, and their bytes."""
    sizes = (("batch", batch), ("kv_heads", kv_heads), ("head_dim", head_dim), ("max_tokens", max_tokens))
    batch, kv_heads, head_dim, max_tokens = (whole(name, value, 1) for name, value in sizes)
    for name, value in (("first", first), ("recent", recent)):
        if batch * whole(name, value) * kv_heads * head_dim * 2 > _MOST_BYTES:
            raise InvalidArgument(f"{name}: copies of {value} tokens are more than fits in memory")
    if head_dim % 32 or head_dim > 256:
        raise InvalidArgument(f"head_dim: {head_dim}; pass a multiple of 32 up to 256")
    if whole("hadamard", hadamard) not in (0, 16):
        raise InvalidArgument(f"hadamard: {hadamard}; pass 16 to rotate keys, or 0")
    for name, scale in (("k_global_scale", k_global_scale), ("v_global_scale", v_global_scale)):
        try:
            fits = 2.0**-126 <= float(scale) < 2.0**128 and not isinstance(scale, str)
        except (TypeError, ValueError):
            fits = False
        if not fits:
            raise InvalidArgument(f"{name}: {scale!r}; pass a positive number, a normal one of float32")
    if page_size is None:
        if pages is not None:
            raise InvalidArgument("pages: only a paged cache has a number of them; pass page_size too")
        page_size, each, pages = -(-max_tokens // 16) * 16, 1, batch
    else:
        if whole("page_size", page_size) not in (16, 32, 64):
            raise InvalidArgument(f"page_size: {page_size}; pass 16, 32 or 64, or leave it out")
        each = -(-max_tokens // page_size)
        pages = batch * each if pages is None else whole("pages", pages)
        if pages < batch * each:
            raise InvalidArgument(
                f"pages: {pages}; {batch} sequences of {max_tokens} tokens have {batch * each} of "
                f"{page_size} tokens; pass as many or more"
            )
    if pages * page_size * kv_heads * head_dim > _MOST_BYTES:
        raise InvalidArgument(f"max_tokens: {pages * page_size} tokens are more than fits in memory")
    page = kv_page_bytes(format, kv_heads=kv_heads, head_dim=head_dim, page_size=page_size)
    return page_size, each, pages, pages * page


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

    page_size_given = page_size is not None
    page_size, each, _, memory_bytes = sizes_of(
        batch,
        kv_heads,
        head_dim,
        max_tokens,
        format=format,
        page_size=page_size,
        pages=pages,
        first=first,
        recent=recent,
        hadamard=hadamard,
        k_global_scale=k_global_scale,
        v_global_scale=v_global_scale,
    )
    like = _array_like(like, device)
    table = None
    if page_size_given:
        table = numpy.arange(batch * each, dtype=numpy.int32).reshape(batch, each)
    words: dict[str, Any] = {}
    for name, count in (("first", first), ("recent", recent)):
        if count > 0:
            words[name + "_k"] = _empty_copies((batch, count, kv_heads, head_dim), like)
            words[name + "_v"] = _empty_copies((batch, count, kv_heads, head_dim), like)
    scales = None
    if format in ("nvfp4", "fp8"):
        scales = put_beside(numpy.array([k_global_scale, v_global_scale], numpy.float32), like)
    return KvCache.from_memory(
        _zero_bytes(memory_bytes, like),
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


def _array_like(like: Any, device: str) -> Any:
    """An array whose framework and device a cache takes; one of JAX stands for what results of it are."""
    import numpy

    framework = _framework(like)
    if like is not None and not framework:
        raise TypeError(
            f"like: expected an array (numpy, torch, cupy, jax or DeviceArray), got {type(like).__name__}"
        )
    if framework.startswith("jax"):
        (place,) = like.devices()
        device = f"cuda:{place.id}" if place.platform == "gpu" else "cpu"
    elif like is not None:
        return like
    nothing = numpy.zeros(1, numpy.uint8)
    return nothing if device == "cpu" else _moved(nothing, device)


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
    more = numpy.zeros(count + 64, numpy.uint8)
    start = -more.ctypes.data % 64
    return more[start : start + count]


def reduce(
    memory: Any, parts: tuple[Any, ...], words: dict[str, Any]
) -> tuple[Any, tuple[Any, ...]]:
    """Of a cache, for pickle and copy: its arrays, and what they mean."""
    return _restore, (memory, tuple(as_bytes(part) for part in parts), words)


def _restore(memory: Any, parts: tuple[Any, ...], words: dict[str, Any]) -> KvCache:
    if memory is None:
        return KvCache.from_parts(*parts, **words)
    if _framework(memory) == "numpy" and memory.ctypes.data % 64:  # unpickled
        aligned = _zero_bytes(memory.size, memory)
        aligned[:] = memory
        memory = aligned
    return KvCache.from_memory(memory, **words)


def advance(lengths: Any, tokens: int, offsets: Any, sign: int) -> None:
    """Adds the new tokens of each sequence to `lengths`, or takes them away again, in place."""
    if isinstance(lengths, DeviceArray):
        raise ValueError(
            "advance: a DeviceArray cannot be added to; write the lengths (lengths.copy_from(array)) and "
            "pass advance=False"
        )
    lengths += sign * (tokens if offsets is None else offsets[1:] - offsets[:-1])
