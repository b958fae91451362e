"""Layers as compressed-tensors stores them, which is how vLLM and transformers load them."""

from __future__ import annotations

import struct
import sys
from typing import Any

from ._arrays import _framework, as_bytes, view_as
from ._core import BlockTensor


def _count(array: Any) -> int:
    return int(array.numel() if _framework(array) == "torch" else array.size)


def _reciprocals(values: Any, name: str) -> Any:
    """1 / x of an array of FP32: a number of one on the CPU, else an array."""
    if _count(values) > 1 or _is_cuda(values):
        return (1.0 / values).reshape(-1)
    value = float(values.reshape(-1)[0])
    if not 2.0**-126 <= value <= 2.0**126:
        raise ValueError(f"{name}: {value}; pass a positive number, a normal one of float32")
    return _reciprocal(value)


def from_compressed_tensors(packed: Any, scale: Any, global_scale: Any) -> BlockTensor:
    every = {"weight_packed": packed, "weight_scale": scale, "weight_global_scale": global_scale}
    for name, array in every.items():
        if not hasattr(array, "dtype") and not (array is None and name == "weight_global_scale"):
            raise TypeError(f"{name}: expected an array, got {type(array).__name__}")
    if global_scale is None:
        kind = str(packed.dtype)
        format = next((f for f in ("mxfp8_e4m3", "mxfp8_e5m2") if "float8" + f[5:] in kind), "mxfp4")
        return BlockTensor.from_parts(packed, scale, format=format)
    count = _count(global_scale)
    if count != 1 and (len(packed.shape) != 3 or count != packed.shape[0]):
        raise ValueError(f"weight_global_scale: {count} numbers; pass one, or one for each expert")
    return BlockTensor.from_parts(
        packed, scale, _reciprocals(global_scale, "weight_global_scale"), format="nvfp4"
    )


def _fp32(number: float) -> float:
    return float(struct.unpack("f", struct.pack("f", number))[0])


def _reciprocal(number: float) -> float:
    """The FP32 reciprocal of an FP32 number."""
    return _fp32(1.0 / number)


def _divisor(multiplier: float) -> float:
    """The FP32 number whose reciprocal the multiplier is; the nearest where it is that of none."""
    first = _reciprocal(multiplier)
    near = (first, _fp32(first * (1 + 2.0**-23)), _fp32(first * (1 - 2.0**-24)))
    return next((d for d in near if _reciprocal(d) == multiplier), first)


def to_compressed_tensors(tensor: BlockTensor) -> dict[str, Any]:
    if tensor.layout != "row_major" or tensor.axis != -1:
        raise ValueError(f"{tensor!r}: pass row_major scales and blocks along the last axis")
    if _framework(tensor.codes) == "microscale":
        raise ValueError(f"{tensor!r}: DeviceArrays have no views; call .to('cpu') first")
    if tensor.format not in ("nvfp4", "mxfp4", "mxfp8_e4m3"):
        raise ValueError(f"{tensor!r}: compressed-tensors has nvfp4, mxfp4 and mxfp8_e4m3")
    codes, scales = (_as_uint8(array) for array in (tensor.codes, tensor.scales))
    if tensor.format == "mxfp8_e4m3":
        return {"weight": _viewed(codes, "float8_e4m3fn"), "weight_scale": scales}
    if tensor.format == "mxfp4":
        return {"weight_packed": codes, "weight_scale": scales}
    return {
        "weight_packed": codes,
        "weight_scale": _viewed(scales, "float8_e4m3fn"),
        "weight_global_scale": _divisors(tensor.global_scale, codes),
    }


def _divisors(scale: Any, beside: Any) -> Any:
    if isinstance(scale, float):
        number = _divisor(scale)
    elif _count(scale) > 1 or _is_cuda(scale) or _framework(scale) == "cupy":
        return (1.0 / scale).reshape(-1)
    else:
        number = _divisor(float(scale.reshape(-1)[0]))
    if _framework(beside) == "torch":
        torch = sys.modules["torch"]
        return torch.full((1,), number, dtype=torch.float32, device=beside.device)
    import numpy

    return numpy.full((1,), number, numpy.float32)


def _is_cuda(array: Any) -> bool:
    return str(getattr(array, "device", "cpu")).startswith("cuda")


def _as_uint8(array: Any) -> Any:
    return array.view("u1") if _framework(array) == "numpy" else as_bytes(array)


def _viewed(array: Any, dtype: str) -> Any:
    if _framework(array) == "torch":
        return array.view(getattr(sys.modules["torch"], dtype))
    return view_as(array, dtype)
