"""NVIDIA GPUs, or the emulated one that MICROSCALE_BACKEND=emulator-sm90 names."""

from ._core import cuda_current_device as current_device
from ._core import cuda_device_count as device_count
from ._core import cuda_device_name as device_name
from ._core import cuda_is_capturing as is_capturing
from ._core import cuda_load_kernels as load_kernels
from ._core import cuda_select_device as select_device
from ._core import cuda_synchronize as synchronize
from ._core import cuda_unavailable_reason as unavailable_reason

__all__ = [
    "current_device",
    "device_count",
    "device_name",
    "is_capturing",
    "load_kernels",
    "select_device",
    "synchronize",
    "unavailable_reason",
]
