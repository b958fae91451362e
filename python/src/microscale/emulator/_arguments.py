"""Python values as a kernel's parameters: arrays as buffers, numbers by the parameter's type, structs by
fields."""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from .._core import PtxModule, ptx_tensor_map
from .._errors import InvalidArgument

_NUMPY = {
    "u8": "u1",
    "s8": "i1",
    "b8": "u1",
    "u16": "u2",
    "s16": "i2",
    "b16": "u2",
    "f16": "f2",
    "u32": "u4",
    "s32": "i4",
    "b32": "u4",
    "f32": "f4",
    "u64": "u8",
    "s64": "i8",
    "b64": "u8",
    "f64": "f8",
}


class Output:
    """An array that the kernel is to fill: what it holds before the launch does not count, a kernel that
    reads it before writing has a finding, and elements that no thread wrote are listed in Report.unwritten
    (and keep their values). `array` is a NumPy array, or a tensor of torch on the CPU."""

    def __init__(self, array: Any) -> None:
        self.array = array


class TensorMap:
    """A CUtensorMap argument over `array` (2 bytes an element and so on, at most 5 axes, rows without
    gaps): boxes of `box` elements, axes as in array.shape; `swizzle` of 0, 32, 64 or 128 bytes."""

    def __init__(self, array: Any, box: Sequence[int], swizzle: int = 0) -> None:
        self.array, self.box, self.swizzle = array, tuple(box), swizzle


class Buffer:
    """An array in the machine's memory."""

    def __init__(self, argument: int, name: str, address: int, array: Any, given: Any, output: bool) -> None:
        self.argument, self.name, self.address = argument, name, address
        self.array, self.given, self.output = array, given, output


def as_numpy(value: Any) -> Any:
    """The numpy array that shares memory with an array on the host; None for what is no array."""
    if isinstance(value, np.ndarray):
        return value
    if type(value).__module__.partition(".")[0] == "torch" and hasattr(value, "detach"):
        import torch

        if value.device.type != "cpu":
            raise InvalidArgument(
                f"a tensor on {value.device}; the emulator takes those on the CPU: pass x.cpu()"
            )
        value = value.detach()
        plain = {
            torch.bfloat16: torch.uint16,
            torch.float8_e4m3fn: torch.uint8,
            torch.float8_e5m2: torch.uint8,
        }
        return value.view(plain[value.dtype]).numpy() if value.dtype in plain else value.numpy()
    return None


class Arguments:
    """The parameter bytes of one launch, and the buffers that they point to."""

    def __init__(self, module: PtxModule, parameters: list[dict[str, Any]], kernel: str) -> None:
        self.module, self.parameters, self.kernel = module, parameters, kernel
        self.buffers: list[Buffer] = []
        self._placed: dict[tuple[int, int, str], Buffer] = {}  # an array that is given twice is one buffer

    def names(self) -> str:
        return ", ".join(_type_of(each) for each in self.parameters) or "none"

    def pack(self, args: Sequence[Any], names: Sequence[str]) -> bytes:
        if len(args) != len(self.parameters):
            raise InvalidArgument(
                f"args: {len(args)} for {self.kernel}, which takes {len(self.parameters)}: {self.names()}"
            )
        data = bytearray()
        for index, (parameter, value) in enumerate(zip(self.parameters, args, strict=True)):
            name = names[index] if index < len(names) else f"argument {index}"
            data += bytes(parameter["offset"] - len(data))
            what = f"args[{index}] ({_type_of(parameter)})"
            made = self._bytes(index, name, what, parameter, value)
            if len(made) != parameter["bytes"]:
                raise InvalidArgument(f"{what}: {len(made)} bytes were given; it takes {parameter['bytes']}")
            data += made
        return bytes(data)

    def _bytes(self, index: int, name: str, what: str, parameter: dict[str, Any], value: Any) -> bytes:
        if value is None:
            if parameter["bytes"] != 8 or (parameter["text"] and not parameter["pointer"]):
                raise InvalidArgument(f"{what}: None is a null pointer, and this is no pointer")
            return bytes(8)
        if isinstance(value, TensorMap):
            return self._tensor_map(index, name, what, value)
        if isinstance(value, np.void):
            return value.tobytes()
        if isinstance(value, (bytes, bytearray, memoryview, ctypes.Structure)):
            return bytes(value)
        array = as_numpy(value.array if isinstance(value, Output) else value)
        if isinstance(value, Output) and array is None:
            raise InvalidArgument(
                f"{what}: Output takes an array, and was given {type(value.array).__name__}"
            )
        if array is not None and not (array.ndim == 0 and array.dtype.names):
            if array.ndim == 0 and not isinstance(value, Output):
                return self._number(what, parameter, array[()])
            self._check_pointer(what, parameter, array)
            return struct.pack("<Q", self._place(index, name, what, value, array).address)
        if array is not None:
            return bytes(array.tobytes())
        if isinstance(value, (tuple, list, Mapping)):
            return self._fields(index, name, what, parameter, value)
        return self._number(what, parameter, value)

    def _check_pointer(self, what: str, parameter: dict[str, Any], array: Any) -> None:
        if (
            parameter["bytes"] != 8
            or (parameter["text"] and not parameter["pointer"])
            or parameter["type"][0] == "f"
        ):
            raise InvalidArgument(
                f"{what}: an array of {array.dtype} was given, and this is no pointer; pass a number, "
                f"or a struct as bytes or a tuple of its fields"
            )
        word = parameter["word"]
        if not word:
            return
        wanted, got = np.dtype(_NUMPY.get(word, "u2")), array.dtype
        alike = wanted.itemsize == got.itemsize and (
            wanted.kind == got.kind
            or "u" in (wanted.kind, got.kind)
            or {wanted.kind, got.kind} <= set("iub")
        )
        bits = got.itemsize == 1 or got.kind == "V"
        if not alike and not bits:
            raise InvalidArgument(
                f"{what}: an array of {got} was given; pass x.astype(numpy.{wanted.name}), "
                f"or x.view(numpy.uint8) for its bytes as they are"
            )

    def _place(self, index: int, name: str, what: str, value: Any, array: Any) -> Buffer:
        output = isinstance(value, Output)
        if array.dtype.hasobject:
            raise InvalidArgument(f"{what}: an array of Python objects; give numbers")
        key = (array.__array_interface__["data"][0], array.nbytes, str(array.dtype))
        if array.nbytes and key in self._placed and self._placed[key].output == output:
            return self._placed[key]
        packed = np.ascontiguousarray(array)
        address = self.module.allocate(packed.nbytes, name)
        if packed.nbytes and not output:
            self.module.write(address, flat_bytes(packed.copy() if not packed.flags.writeable else packed))
        made = Buffer(index, name, address, packed, array, output)
        self.buffers.append(made)
        self._placed[key] = made
        return made

    def _tensor_map(self, index: int, name: str, what: str, value: TensorMap) -> bytes:
        array = as_numpy(value.array)
        if array is None or array.ndim == 0:
            raise InvalidArgument(f"{what}: TensorMap takes an array of 1 to 5 axes")
        if len(value.box) != array.ndim:
            raise InvalidArgument(
                f"{what}: a box of {len(value.box)} axes over an array of {array.ndim}; give as many"
            )
        buffer = self._place(index, name, what, array, array)
        packed = buffer.array
        return ptx_tensor_map(
            buffer.address,
            packed.itemsize,
            list(reversed(packed.shape)),
            list(reversed(packed.strides)),
            list(reversed(value.box)),
            value.swizzle,
        )

    def _number(self, what: str, parameter: dict[str, Any], value: Any) -> bytes:
        if parameter["pointer"]:
            raise InvalidArgument(
                f"{what}: {value!r} is no array; pass a NumPy array, or None for a null pointer"
            )
        word = (
            parameter["word"] if parameter["lanes"] == 1 else "" if parameter["text"] else parameter["type"]
        )
        if not word or (word == "b8" and parameter["bytes"] != 1):
            if isinstance(value, np.generic):
                return value.tobytes()
            raise InvalidArgument(
                f"{what}: {value!r} was given for a struct of {parameter['bytes']} bytes; "
                "pass a tuple of its fields (numpy.int32(3), arrays for pointers), a ctypes.Structure "
                "or bytes"
            )
        if isinstance(value, np.generic) and value.dtype.itemsize == parameter["bytes"] and word[0] == "b":
            return value.tobytes()
        return _packed_number(what, word, value)

    def _fields(self, index: int, name: str, what: str, parameter: dict[str, Any], value: Any) -> bytes:
        fields = list(value.values()) if isinstance(value, Mapping) else list(value)
        labels = list(value) if isinstance(value, Mapping) else [f"[{at}]" for at in range(len(fields))]
        if parameter["lanes"] > 1 and not parameter["pointer"]:
            if len(fields) != parameter["lanes"]:
                raise InvalidArgument(
                    f"{what}: {len(fields)} numbers were given; it has {parameter['lanes']}"
                )
            return b"".join(_packed_number(what, parameter["word"], each) for each in fields)
        if parameter["pointer"] or parameter["lanes"] == 1:
            raise InvalidArgument(f"{what}: {type(value).__name__} was given, and this is no struct")
        data, _ = self._struct(index, name, what, fields, labels)
        return data + bytes(-len(data) % parameter["align"])

    def _struct(
        self, index: int, name: str, what: str, fields: Sequence[Any], labels: Sequence[Any]
    ) -> tuple[bytes, int]:
        """Its bytes and alignment, as C lays it out."""
        data, widest = bytearray(), 1
        for label, each in zip(labels, fields, strict=True):
            made, align = self._field(index, f"{name}.{label}", f"{what}, field {label}", each)
            data += bytes(-len(data) % align) + made
            widest = max(widest, align)
        return bytes(data) + bytes(-len(data) % widest), widest

    def _field(self, index: int, name: str, what: str, value: Any) -> tuple[bytes, int]:
        if value is None:
            return bytes(8), 8
        if isinstance(value, (tuple, list, Mapping)):
            fields = list(value.values()) if isinstance(value, Mapping) else list(value)
            labels = list(value) if isinstance(value, Mapping) else list(range(len(fields)))
            return self._struct(index, name, what, fields, labels)
        if isinstance(value, bool):
            return bytes([value]), 1
        array = as_numpy(value.array if isinstance(value, Output) else value)
        if array is not None:
            return struct.pack("<Q", self._place(index, name, what, value, array).address), 8
        if isinstance(value, np.generic):
            return value.tobytes(), value.dtype.alignment
        if isinstance(value, ctypes.Structure):
            return bytes(value), ctypes.alignment(value)
        raise InvalidArgument(
            f"{what}: {value!r} has no size of its own; write numpy.int32({value!r}), "
            f"numpy.float32({value!r}) or as the struct has it"
        )

    def take_back(self) -> dict[str, Any]:
        """Copies what the kernel left into the arrays; the elements of outputs that it did not write, by
        name."""
        missing: dict[str, Any] = {}
        for buffer in self.buffers:
            if not buffer.array.nbytes:
                continue
            came = np.empty_like(buffer.array)
            self.module.read(buffer.address, flat_bytes(came))
            if buffer.output:
                mask = np.zeros(came.size, np.uint8)
                self.module.unwritten(buffer.address, came.itemsize, mask)
                indexes = np.flatnonzero(mask)
                if len(indexes):
                    missing[buffer.name] = indexes
                    came.reshape(-1)[indexes] = buffer.array.reshape(-1)[indexes]
            if buffer.given.flags.writeable:
                buffer.given[...] = came.reshape(buffer.given.shape)
            elif flat_bytes(came).tobytes() != buffer.array.tobytes():
                raise InvalidArgument(
                    f"{buffer.name}: the kernel wrote to it, and the array is read-only; pass a copy of it"
                )
        return missing


def flat_bytes(array: Any) -> Any:
    """The bytes of an array without gaps, as an array that shares them."""
    return array.reshape(-1).view(np.uint8)


def _type_of(parameter: dict[str, Any]) -> str:
    if parameter["text"]:
        return str(parameter["text"])
    if parameter["type"] == "b8" and parameter["bytes"] > 1:
        return f"{parameter['bytes']} bytes"
    return f"{parameter['type']} {parameter['name'].rpartition('_param_')[2]}"


def _packed_number(what: str, word: str, value: Any) -> bytes:
    if isinstance(value, str):
        raise InvalidArgument(f"{what}: expected a number, got the string {value!r}")
    if word in ("bf16", "tf32"):
        bits = np.float32(value).view(np.uint32)
        return struct.pack("<H", (int(bits) + 0x7FFF + (int(bits) >> 16 & 1)) >> 16)
    dtype = np.dtype(_NUMPY[word]) if word in _NUMPY else np.dtype(f"u{int(word[1:]) // 8}")
    try:
        if dtype.kind == "f":
            return np.array(float(value), dtype).tobytes()
        if not hasattr(value, "__index__") and not isinstance(value, np.bool_):
            raise InvalidArgument(f"{what}: {value!r} is no whole number")
        return np.array(int(value), dtype).tobytes()
    except OverflowError:
        raise InvalidArgument(f"{what}: {value!r} is beyond what {dtype.name} holds") from None
    except (TypeError, ValueError) as error:
        if isinstance(error, InvalidArgument):
            raise
        raise InvalidArgument(
            f"{what}: expected a number, got {type(value).__name__}; a pointer takes a NumPy array"
        ) from None
