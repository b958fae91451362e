"""Names of what arguments may be. Nothing is imported for them: a framework's types are not known here."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Optional

Array = Any
"""An array of numpy, torch, cupy or jax, or a DeviceArray."""

DTypeLike = Any
"""'f32', 'bf16', 'f16', a framework's dtype, or None."""

Stream = Any
"""An integer, an object with __cuda_stream__(), cuda_stream or ptr, or None."""

Progress = Optional[Callable[[int, int, str], Any]]
"""A function of bytes done, bytes in all and what is at work; False stops."""
