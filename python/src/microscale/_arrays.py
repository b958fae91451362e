"""What the bindings ask of a framework in words of its own: rare steps, off the way of a call."""

from __future__ import annotations

import sys
from typing import Any

from ._core import BlockTensor, DeviceArray, PackedWeights

# DLPack's code, bits and lanes of each type that means something here, by PyTorch's name.
_DLPACK = {
    "float32": (2, 32, 1),
    "float16": (2, 16, 1),
    "bfloat16": (4, 16, 1),
    "float64": (2, 64, 1),
    "uint8": (1, 8, 1),
    "int8": (0, 8, 1),
    "int32": (0, 32, 1),
    "int64": (0, 64, 1),
    "bool": (6, 8, 1),
    "float8_e4m3fn": (10, 8, 1),
    "float8_e5m2": (12, 8, 1),
    "float8_e8m0fnu": (14, 8, 1),
    "float4_e2m1fn_x2": (17, 4, 2),
}


def describe_tensor(tensor: Any) -> tuple[Any, ...]:
    """Of a tensor of torch before 2.10: address, shape, strides, DLPack type, device."""
    name = str(tensor.dtype).removeprefix("torch.")
    kinds = {"cpu": 1, "cuda": 2}
    kind = kinds.get(tensor.device.type, 0)
    return (
        tensor.data_ptr(),
        tuple(tensor.shape),
        tuple(tensor.stride()),
        *_DLPACK.get(name, (255, 8, 1)),
        kind,
        tensor.device.index or 0,
    )


def current_stream(framework: str, ordinal: int) -> int:
    if framework == "torch":
        return int(sys.modules["torch"].cuda.current_stream(ordinal).cuda_stream)
    cupy = sys.modules["cupy"]
    with cupy.cuda.Device(ordinal):
        return int(cupy.cuda.get_current_stream().ptr)


def empty_tensor(shape: tuple[int, ...], dtype: str, ordinal: int) -> Any:
    torch = sys.modules["torch"]
    device = torch.device("cpu") if ordinal < 0 else torch.device("cuda", ordinal)
    return torch.empty(shape, dtype=getattr(torch, dtype, torch.uint8), device=device)


def empty_cupy(shape: tuple[int, ...], dtype: str, ordinal: int) -> Any:
    cupy = sys.modules["cupy"]
    known = {"float32": "f4", "float16": "f2", "bfloat16": "u2", "int32": "i4"}
    with cupy.cuda.Device(ordinal):
        return view_as(cupy.empty(shape, known.get(dtype, "u1")), dtype)


def view_as(array: Any, dtype: str) -> Any:
    """An array of integers as numbers of ml_dtypes, where that is imported or can be; else as it is."""
    if dtype not in ("bfloat16", "float8_e4m3fn", "float8_e5m2", "float8_e8m0fnu"):
        return array
    try:
        import ml_dtypes
    except ImportError:
        return array
    return array.view(getattr(ml_dtypes, dtype))


def _framework(array: Any) -> str:
    for base in type(array).__mro__:
        root = base.__module__.partition(".")[0]
        if root in ("torch", "numpy", "cupy", "jax", "jaxlib"):
            return root
    return "microscale" if isinstance(array, DeviceArray) else ""


def _numpy_of(array: Any) -> Any:
    framework = _framework(array)
    if framework == "numpy":
        return array
    if framework == "torch":
        torch = sys.modules["torch"]
        array = array.detach().cpu()
        return (array.view(torch.uint8) if array.element_size() == 1 else array).numpy()
    if framework == "cupy":
        return sys.modules["cupy"].asnumpy(array)
    if framework == "microscale":
        return array.numpy()
    return sys.modules["numpy"].asarray(array)


def _moved(array: Any, device: Any) -> Any:
    if array is None or isinstance(array, float):
        return array
    if _framework(array) == "torch":
        return array.to(device)
    kind, _, number = str(device).partition(":")
    if kind == "cpu":
        return _numpy_of(array)
    if kind != "cuda" or not (number or "0").isdigit():
        raise ValueError(f"device: expected 'cpu' or 'cuda:N', got {device!r}")
    ordinal = int(number or "0")
    if _framework(array) == "cupy":
        cupy = sys.modules["cupy"]
        with cupy.cuda.Device(ordinal):
            return cupy.array(array)
    return DeviceArray.from_host(_numpy_of(array), device=ordinal)


def _scale_for(value: Any, like: Any, device: Any) -> Any:
    """A global scale beside arrays that have moved: a number on the CPU, an array of one on a GPU."""
    if value is None or str(device).startswith("cpu"):
        if value is None or isinstance(value, float):
            return value
        moved = _moved(value, device)
        return float(moved.reshape(-1)[0]) if moved.size == 1 and _framework(moved) == "numpy" else moved
    if isinstance(value, float):
        if _framework(like) == "torch":
            torch = sys.modules["torch"]
            return torch.full((1,), value, dtype=torch.float32, device=device)
        import numpy

        return _moved(numpy.full((1,), value, numpy.float32), device)
    return _moved(value, device)


def _words_of(tensor: BlockTensor) -> dict[str, Any]:
    return {"format": tensor.format, "shape": tensor.shape, "axis": tensor.axis, "layout": tensor.layout}


def move(tensor: BlockTensor, device: Any) -> BlockTensor:
    if "dtype" in type(device).__name__.lower() or isinstance(device, type):
        raise TypeError(
            f"device: expected 'cpu' or 'cuda:N', got {device!r}; dequantize(dtype) makes numbers"
        )
    scale = _scale_for(tensor.global_scale, tensor.codes, device)
    codes, scales = _moved(tensor.codes, device), _moved(tensor.scales, device)
    return BlockTensor.from_parts(codes, scales, scale, **_words_of(tensor))


def as_torch_float4(tensor: BlockTensor) -> Any:
    if _framework(tensor.codes) != "torch" or tensor.format not in ("nvfp4", "mxfp4"):
        raise ValueError(f"as_torch_float4: {tensor!r} does not hold FP4 codes in a torch tensor")
    return tensor.codes.view(sys.modules["torch"].float4_e2m1fn_x2)


def _restore_block_tensor(
    codes: Any, scales: Any, scale_type: str, global_scale: Any, words: dict[str, Any]
) -> BlockTensor:
    if scale_type:
        scales = scales.view(getattr(sys.modules["torch"], scale_type))
    return BlockTensor.from_parts(codes, scales, global_scale, **words)


def as_bytes(array: Any) -> Any:
    """A tensor of torch's float8, which does not pickle, as bytes; others as they are."""
    if array is not None and _framework(array) == "torch" and array.element_size() == 1:
        return array.view(sys.modules["torch"].uint8)
    return array


def reduce_block_tensor(tensor: BlockTensor) -> tuple[Any, ...]:
    is_torch = _framework(tensor.scales) == "torch"
    scale_type = str(tensor.scales.dtype).removeprefix("torch.") if is_torch else ""
    parts = (tensor.codes, as_bytes(tensor.scales), scale_type, tensor.global_scale, _words_of(tensor))
    return _restore_block_tensor, parts


def _restore_packed_weights(data: Any, scale: Any, up_scale: Any, words: dict[str, Any]) -> PackedWeights:
    return PackedWeights.from_parts(data, scale, up_scale, **words)


def reduce_packed_weights(weights: PackedWeights) -> tuple[Any, ...]:
    words = {"format": weights.format, "shape": weights.shape, "gated": weights.gated}
    return _restore_packed_weights, (weights.bytes, weights.global_scale, weights.up_global_scale, words)
