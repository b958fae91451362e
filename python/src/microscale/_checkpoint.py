"""A model folder as a mapping of names to tensors, where the files are mapped into memory."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from typing import Any

from ._core import BlockTensor, CheckpointFile

# numpy's names of what safetensors stores; where numpy has none, ml_dtypes' and the integers' in its place.
_NUMPY = {
    "BOOL": "bool",
    "U8": "uint8",
    "I8": "int8",
    "U16": "uint16",
    "I16": "int16",
    "U32": "uint32",
    "I32": "int32",
    "U64": "uint64",
    "I64": "int64",
    "F16": "float16",
    "F32": "float32",
    "F64": "float64",
    "C64": "complex64",
}
_ML_DTYPES = {
    "BF16": ("bfloat16", "uint16"),
    "F8_E4M3": ("float8_e4m3fn", "uint8"),
    "F8_E5M2": ("float8_e5m2", "uint8"),
    "F8_E8M0": ("float8_e8m0fnu", "uint8"),
}


class Checkpoint(Mapping[str, Any]):
    """What open_checkpoint gives: by the original name of each weight ("P.weight"), or of its layer ("P"), a
    BlockTensor where it is quantized and a numpy array where not. Both are read-only views of the mapped
    files; they keep the mapping alive, and pages are read when they are touched."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self._file: CheckpointFile | None = CheckpointFile(os.fspath(path))
        self._path = os.path.abspath(os.fsdecode(path))
        self._names = self._file.names()

    def _find(self, name: str) -> Any:
        if self._file is None:
            raise ValueError(f"{self!r} is closed; open_checkpoint opens it again")
        return self._file.find(name)

    def close(self) -> None:
        """Lets go of the files. Tensors that were taken stay good, and keep what they need."""
        self._file = None

    def __enter__(self) -> Checkpoint:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def __getitem__(self, name: str) -> Any:
        found = self._find(name) if isinstance(name, str) else None
        if found is None:
            raise KeyError(name)
        return found if isinstance(found, BlockTensor) else _dense(*found)

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and self._find(name) is not None

    # A mapping of arrays has no truth of "==": each is equal to itself alone.
    __eq__ = object.__eq__
    __hash__ = object.__hash__

    def __reduce__(self) -> tuple[Any, ...]:
        return Checkpoint, (self._path,)

    def _ipython_key_completions_(self) -> list[str]:
        return self._names

    def __repr__(self) -> str:
        return f"Checkpoint({self._path!r}, {len(self)} tensors)"


def _dense(dtype: str, shape: tuple[int, ...], data: Any) -> Any:
    if dtype in _NUMPY:
        return data.view(_NUMPY[dtype]).reshape(shape)
    if dtype not in _ML_DTYPES:
        return data  # FP4 and FP6, packed: the bytes
    name, width = _ML_DTYPES[dtype]
    try:
        import ml_dtypes
    except ImportError:
        return data.view(width).reshape(shape)
    return data.view(getattr(ml_dtypes, name)).reshape(shape)


def open_checkpoint(path: str | os.PathLike[str]) -> Checkpoint:
    """Opens a model folder or one .safetensors file, quantized or dense, without copying: a mapping of names
    to BlockTensors and numpy arrays (bfloat16 and float8 by ml_dtypes where it is installed, else their bits
    as integers). NVFP4's divisors are multipliers here. It can be pickled (by its path), and closed: `with
    open_checkpoint(path) as model:`. Raises OSError where it cannot be read, ValueError
    where it is no checkpoint. Nothing may shorten the files meanwhile."""
    return Checkpoint(path)
