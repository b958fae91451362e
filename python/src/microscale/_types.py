"""Names of what arguments may be. Nothing is imported for them: a framework's types are not known here."""

from typing import Any

Array = Any
"""An array of numpy, torch, cupy or jax, or a DeviceArray."""

DTypeLike = Any
"""'f32', 'bf16', 'f16', a framework's dtype, or None."""

Stream = Any
"""An integer, an object with __cuda_stream__(), cuda_stream or ptr, or None."""
