"""CUDA and Triton kernels on a machine without a GPU, with every check on: out of bounds, uninitialised,
races, barriers that not all threads reach, asynchronous copies nobody waits for.

    from microscale import emulator
    report = emulator.launch("scale.cu", "scale", grid=4, block=256, args=[x, 2.0, n])   # x in place
    print(report)                 # what is wrong, worst first; `report.findings` holds it as objects
    report.check()                # or raises

docs/emulator-python.md tells the rest, docs/emulator.md what the machine is.
"""

try:
    from .._core import PtxModule as _PtxModule  # noqa: F401
except ImportError:
    from .._errors import Unsupported

    raise Unsupported(
        "this build of microscale is without the emulator; build it with -D MICROSCALE_KERNEL_TOOLS=ON"
    ) from None

from ._arguments import Output, TensorMap
from ._findings import Finding, FindingsError, SourceLine
from ._launch import launch
from ._report import LineCount, Report
from ._triton import triton

__all__ = [
    "Finding",
    "FindingsError",
    "launch",
    "LineCount",
    "Output",
    "Report",
    "SourceLine",
    "TensorMap",
    "triton",
]
