"""PTX of what a launch was given: a file, its text, or CUDA source for nvcc."""

from __future__ import annotations

import os
import re
import tempfile
from pathlib import Path

from .._core import ptx_text
from .._errors import InvalidArgument


def ptx_of(source: str | os.PathLike[str], arch: str) -> tuple[str, str]:
    """The PTX, and the CUDA source that it was made of, empty where it is not known."""
    if isinstance(source, os.PathLike):
        return _of_file(Path(source), arch)
    if not isinstance(source, str):
        raise TypeError(f"source: expected a path, PTX text or CUDA source, got {type(source).__name__}")
    if "\n" not in source and "{" not in source:
        return _of_file(Path(source), arch)
    if re.search(r"^\s*\.version\b", source, re.M):
        return source, ""
    if "__global__" not in source:
        raise InvalidArgument(
            "source: the text is neither PTX (no .version) nor CUDA source (no __global__); "
            "pass a path or one of them"
        )
    with tempfile.TemporaryDirectory(prefix="microscale-") as folder:
        path = Path(folder, "source.cu")
        path.write_text(source)
        return ptx_text(path, arch), source


def _of_file(path: Path, arch: str) -> tuple[str, str]:
    text = ptx_text(path, arch)
    return text, path.read_text(errors="replace") if path.suffix == ".cu" else ""
