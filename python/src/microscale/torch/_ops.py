"""torch.ops.microscale: operators whose arguments are tensors, numbers and strings.

Each is its function of microscale for the CPU and CUDA, with a fake kernel for tracing. None has an autograd
formula: the modules here do that where a gradient is asked for.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from .. import _core
from ._packing import BITS, block_of, packed_bytes, unpack

_library = torch.library.Library("microscale", "DEF")
_DENSE = (torch.float32, torch.bfloat16, torch.float16)


def define(
    schema: str,
    kernel: Callable[..., Any],
    fake: Callable[..., Any],
    cuda: Callable[..., Any] | None = None,
    autocast: int = 0,
) -> None:
    """autocast: how many of the first arguments torch.autocast rounds, as it does those of linear."""
    name = schema.partition("(")[0]
    _library.define(schema)
    _library.impl(name, kernel, "CPU")
    _library.impl(name, cuda or kernel, "CUDA")
    torch.library.register_fake(f"microscale::{name}", fake, lib=_library)
    if autocast:
        op = getattr(torch.ops.microscale, name).default
        for device in ("cpu", "cuda"):
            _library.impl(name, _rounded_by_autocast(op, device, autocast), f"Autocast{device.upper()}")


def _rounded_by_autocast(op: Any, device: str, count: int) -> Callable[..., Any]:
    def call(*arguments: Any, **words: Any) -> Any:
        dtype = torch.get_autocast_dtype(device)
        rounded = (
            a.to(dtype) if isinstance(a, Tensor) and a.dtype in _DENSE and a.device.type == device else a
            for a in arguments[:count]
        )
        with torch.autocast(device, enabled=False):
            return op(*rounded, *arguments[count:], **words)

    return call


def _in_rows(x: Tensor) -> Tensor | None:
    """A copy where x has strides or an address that the kernels do not take; None where it is as they want
    it."""
    if x.is_contiguous() and x.data_ptr() % 16 == 0:
        return None
    return x.clone(memory_format=torch.contiguous_format)


def retried(function: Callable[..., Any], x: Tensor, *rest: Any) -> Any:
    """A call again that has been refused, in an except clause: it has written nothing, and where x's strides
    were the reason, a copy has none."""
    copy = _in_rows(x)
    if copy is None:
        raise
    return function(copy, *rest)


def for_gpu(x: Tensor, dtype: torch.dtype | None) -> tuple[Tensor, torch.dtype | None]:
    """GPUs multiply 16-bit numbers: FP32 is rounded to BF16 there, and the result is FP32 again."""
    return (x.to(torch.bfloat16), dtype or torch.float32) if x.dtype == torch.float32 else (x, dtype)


def map_rows(name: str) -> None:
    """torch.vmap of an operator whose x has any leading axes: one call; one each where weights differ."""
    op = getattr(torch.ops.microscale, name).default

    def rule(info: Any, dims: tuple[Any, ...], *arguments: Any, **words: Any) -> tuple[Tensor, int]:
        x, *rest = arguments
        if dims[0] is not None and all(dim is None for dim in dims[1:]):
            return op(x.movedim(dims[0], 0), *rest, **words), 0
        every = [
            [a if dim is None else a.select(dim, i) for a, dim in zip(arguments, dims, strict=False)]
            for i in range(info.batch_size)
        ]
        return torch.stack([op(*one, **words) for one in every]), 0

    torch.library.register_vmap(f"microscale::{name}", rule, lib=_library)


def require_dense(x: Tensor, name: str = "x") -> None:
    """While a graph is made; the kernels say the same."""
    if x.dtype not in _DENSE:
        word = str(x.dtype).removeprefix("torch.")
        raise ValueError(f"{name}: the array is {word}; pass float32, bfloat16 or float16")


# quantize and dequantize


def _quantize(
    x: Tensor,
    format: str = "nvfp4",
    axis: int = -1,
    layout: str = "row_major",
    scale_rule: str | None = None,
    rounding: str | None = None,
    compat: str | None = None,
    seed: int = 0,
    global_scale: Tensor | None = None,
) -> tuple[Tensor, Tensor, Tensor]:
    t = _core.quantize(
        x,
        format,
        axis=axis,
        layout=layout,
        scale_rule=scale_rule,
        rounding=rounding,
        compat=compat,
        seed=seed,
        global_scale=global_scale,
    )
    scale = t.global_scale
    if scale is None:
        scale = x.new_empty(0, dtype=torch.float32)
    elif isinstance(scale, float):
        scale = torch.tensor([scale], dtype=torch.float32)
    elif scale is global_scale and global_scale is not None:
        scale = global_scale.clone()
    return t.codes, t.scales.view(torch.uint8), scale


def _bits_of(format: str) -> int:
    return BITS.get(format, 8)  # codes of six bits take a byte


def _quantize_fake(
    x: Tensor,
    format: str = "nvfp4",
    axis: int = -1,
    layout: str = "row_major",
    scale_rule: str | None = None,
    rounding: str | None = None,
    compat: str | None = None,
    seed: int = 0,
    global_scale: Tensor | None = None,
) -> tuple[Tensor, Tensor, Tensor]:
    require_dense(x)
    shape = list(x.shape)
    if axis % x.dim() == x.dim() - 2:
        shape.reverse()
    blocks = shape[-1] // block_of(format)
    scales = [*shape[:-1], blocks]
    if layout == "tiled_128x4":
        scales = [(math.prod(shape[:-1]) + 127) // 128 * 128 * ((blocks + 3) // 4 * 4)]
    return (
        x.new_empty([*shape[:-1], shape[-1] * _bits_of(format) // 8], dtype=torch.uint8),
        x.new_empty(scales, dtype=torch.uint8),
        x.new_empty(1 if format == "nvfp4" else 0, dtype=torch.float32),
    )


define(
    'quantize(Tensor x, str format="nvfp4", int axis=-1, str layout="row_major", str? scale_rule=None, '
    "str? rounding=None, str? compat=None, int seed=0, Tensor? global_scale=None) "
    "-> (Tensor codes, Tensor scales, Tensor global_scale)",
    _quantize,
    _quantize_fake,
)


def _blocks(
    codes: Tensor, scales: Tensor, global_scale: Tensor | None, format: str, axis: int, layout: str
) -> Any:
    scale = global_scale if format == "nvfp4" else None
    return _core.BlockTensor.from_parts(codes, scales, scale, format=format, axis=axis, layout=layout)


def _dequantize(
    codes: Tensor,
    scales: Tensor,
    global_scale: Tensor | None = None,
    format: str = "nvfp4",
    dtype: torch.dtype = torch.float32,
    axis: int = -1,
    layout: str = "row_major",
) -> Tensor:
    blocks = _blocks(codes, scales, global_scale, format, axis, layout)
    out = codes.new_empty(blocks.shape, dtype=dtype)
    return _core.dequantize(blocks, out=out)


def _dequantize_fake(
    codes: Tensor,
    scales: Tensor,
    global_scale: Tensor | None = None,
    format: str = "nvfp4",
    dtype: torch.dtype = torch.float32,
    axis: int = -1,
    layout: str = "row_major",
) -> Tensor:
    shape = [*codes.shape[:-1], codes.shape[-1] * 8 // _bits_of(format)]
    if axis % codes.dim() == codes.dim() - 2:
        shape.reverse()
    return codes.new_empty(shape, dtype=dtype)


def _dequantize_out(
    codes: Tensor,
    scales: Tensor,
    global_scale: Tensor | None,
    format: str,
    axis: int,
    layout: str,
    out: Tensor,
) -> None:
    _core.dequantize(_blocks(codes, scales, global_scale, format, axis, layout), out=out)


define(
    'dequantize(Tensor codes, Tensor scales, Tensor? global_scale=None, str format="nvfp4", '
    'ScalarType dtype=float32, int axis=-1, str layout="row_major") -> Tensor',
    _dequantize,
    _dequantize_fake,
)
define(
    "dequantize_out(Tensor codes, Tensor scales, Tensor? global_scale, str format, int axis, str layout, "
    "Tensor(a!) out) -> ()",
    _dequantize_out,
    lambda *_: None,
)


# Packed weights


def _pack(
    codes: Tensor,
    scales: Tensor,
    format: str,
    up_codes: Tensor | None = None,
    up_scales: Tensor | None = None,
) -> Tensor:
    def blocks(codes: Tensor, scales: Tensor) -> Any:
        one = torch.ones(1, dtype=torch.float32, device=codes.device) if format == "nvfp4" else None
        return _core.BlockTensor.from_parts(codes, scales, one, format=format)

    if up_codes is None or up_scales is None:
        return _core.pack_weights(blocks(codes, scales)).bytes
    return _core.pack_gated_weights(blocks(codes, scales), blocks(up_codes, up_scales)).bytes


def _pack_fake(
    codes: Tensor,
    scales: Tensor,
    format: str,
    up_codes: Tensor | None = None,
    up_scales: Tensor | None = None,
) -> Tensor:
    n, k = codes.shape[-2], codes.shape[-1] * 8 // BITS[format]
    matrices = codes.shape[0] if codes.dim() == 3 else 1
    return codes.new_empty(packed_bytes(n, k, matrices, up_codes is not None, format, codes.device.type))


define(
    "pack_weights(Tensor codes, Tensor scales, str format, Tensor? up_codes=None, Tensor? up_scales=None) "
    "-> Tensor",
    _pack,
    _pack_fake,
)


def _dense_weights(
    packed: Tensor,
    global_scale: Tensor | None,
    matrices: int,
    n: int,
    k: int,
    format: str,
    dtype: torch.dtype,
    up: bool = False,
    gated: bool = False,
) -> Tensor:
    codes, scales = (
        part.contiguous() for part in unpack(packed, n, k, matrices, gated, format)[1 if up else 0]
    )
    out = packed.new_empty((matrices, n, k), dtype=dtype)
    for e in range(matrices):  # each has its global scale
        scale = (
            None
            if global_scale is None
            else global_scale
            if len(global_scale) == 1
            else global_scale[e : e + 1]
        )
        _core.dequantize(
            _core.BlockTensor.from_parts(codes[e], scales[e], scale, format=format), out=out[e]
        )
    return out


define(
    "dense_weights(Tensor packed, Tensor? global_scale, SymInt matrices, SymInt n, SymInt k, str format, "
    "ScalarType dtype, bool up=False, bool gated=False) -> Tensor",
    _dense_weights,
    lambda packed, scale, matrices, n, k, format, dtype, up=False, gated=False: packed.new_empty(
        (matrices, n, k), dtype=dtype
    ),
)


def result_of(x: Tensor, packed: Tensor, n: int, k: int, dtype: torch.dtype | None = None) -> Tensor:
    """The fake of (..., k) by (n, k)."""
    if x.device != packed.device:  # weights on the meta device and an x with values come here, untraced
        raise ValueError(f"x: on {x.device}, but the packed weights are on {packed.device}; move one")
    torch._check(
        x.dim() > 0 and x.shape[-1] == k, lambda: f"x: of shape {tuple(x.shape)}, its last axis must be {k}"
    )
    require_dense(x)
    return x.new_empty([*x.shape[:-1], n], dtype=dtype or x.dtype)
