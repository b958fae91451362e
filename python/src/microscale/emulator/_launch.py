"""One launch of a CUDA kernel on the machine that runs PTX."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from .._core import PtxModule, ptx_parameter_names, ptx_readable_name
from .._errors import InvalidArgument
from ._arguments import Arguments, as_numpy, flat_bytes
from ._findings import findings_of
from ._report import LineCount, Report
from ._source import ptx_of

Shape = int | tuple[int, ...] | list[int]


def launch(
    source: str | os.PathLike[str],
    kernel: str = "",
    grid: Shape = 1,
    block: Shape = 1,
    args: Sequence[Any] = (),
    *,
    arch: str | None = None,
    shared: int = 0,
    cluster: Shape = 1,
    cooperative: bool = False,
    schedule: str = "round_robin",
    completion: str = "latest",
    seed: int = 0,
    budget: int | None = None,
    threads: int | None = None,
    races: bool = True,
    equal_stores_race: bool = True,
    count: bool = False,
    symbols: Mapping[str, Any] | None = None,
    read_symbols: Mapping[str, Any] | None = None,
    names: Sequence[str] = (),
) -> Report:
    """Runs a kernel on the CPU with every check on, and returns a Report; what the kernel does wrong is in
    it and raises nothing. What no GPU would take is refused (microscale.Error): a wrong argument, PTX that
    is none.

    source: a .cu file (compiled by nvcc where it is found), a .ptx file, or the text of either.
    kernel: its name, or a part of it that only one kernel has; may be left out where there is only one.
    grid, block, cluster: blocks, threads of a block, blocks of a cluster; a number or up to three (x, y, z).
    args: one for each parameter, in order.
        Arrays (NumPy, torch on the CPU) for pointers, changed in place; Output(array) for one that the
        kernel fills; None for a null pointer; numbers, which take the parameter's type; a tuple or mapping
        of its fields for a struct (numpy.int32(3) says a field's size, an array is a pointer), or bytes or
        a ctypes.Structure of its size; a tuple of numbers for float4 and the like; TensorMap. Types are
        checked where the kernel's name tells them.
    arch: "sm_80", "sm_90a", "sm_120a": what .cu is compiled for (sm_90a), what PTX runs as (its own).
    shared: bytes of dynamic shared memory.
    cooperative: as cudaLaunchCooperativeKernel; a kernel with this_grid() needs it.
    schedule ("round_robin", "reverse", "random"), completion of asynchronous copies ("latest", "eager",
        "random") and seed choose among the orders that a GPU may take.
    budget: warp-instructions after which the launch is called endless (10^11).
    threads: of the host, None for all cores.
    races: False looks for no races. equal_stores_race: False calls it none when warps store equal bytes to
        one place by one instruction.
    count: True fills Report.lines.
    symbols: values for __constant__ and __device__ variables, by name, before the launch.
    read_symbols: arrays to be filled from such variables after it, which Report.symbols has too.
    names: of the arguments, in findings; without them those of the CUDA source, or "argument 0".

    Ctrl-C ends it; other Python threads run meanwhile."""
    text, cuda = ptx_of(source, arch or "")
    module = PtxModule(text, arch or "")
    whole = module.kernel(kernel)
    readable = ptx_readable_name(whole)
    if not cooperative and module.grid_barrier(whole):
        raise InvalidArgument(
            f"{readable} asks for this_grid(), which only a cooperative launch has; "
            f"pass cooperative=True, and launch it by cudaLaunchCooperativeKernel on a GPU"
        )
    arguments = Arguments(module, module.parameters(whole), readable)
    data = arguments.pack(args, names or ptx_parameter_names(cuda, readable))
    for name, value in (symbols or {}).items():
        module.write_variable(name, flat_bytes(_contiguous(f"symbols[{name!r}]", value)))
    ran = module.launch(
        whole,
        _triple("grid", grid),
        _triple("block", block),
        _triple("cluster", cluster),
        shared,
        data,
        schedule,
        completion,
        seed,
        0 if budget is None else _positive("budget", budget),
        0 if threads is None else threads,
        races,
        equal_stores_race,
        count,
    )
    missing = arguments.take_back()
    filled: dict[str, Any] = {}
    for name, value in (read_symbols or {}).items():
        array = _contiguous(f"read_symbols[{name!r}]", value)
        module.read_variable(name, flat_bytes(array))
        as_numpy(value)[...] = array
        filled[name] = value
    buffers = [(each.argument, each.address, each.array.nbytes) for each in arguments.buffers]
    return Report(
        kernel=readable,
        completed=ran["completed"],
        findings=findings_of(ran["findings"], buffers),
        unwritten=missing if ran["completed"] else {},
        printed=ran["printed"],
        warp_instructions=ran["warp_instructions"],
        lines=[LineCount(**each) for each in ran["instructions"]],
        symbols=filled,
        ptx=text,
    )


def _triple(name: str, shape: Shape) -> tuple[int, int, int]:
    parts = tuple(shape) if isinstance(shape, (tuple, list)) else (shape,)
    if not 1 <= len(parts) <= 3 or not all(
        hasattr(each, "__index__") and 0 < int(each) < 2**32 for each in parts
    ):
        raise InvalidArgument(f"{name}: {shape!r}; pass a positive number, or up to three: (x, y, z)")
    x, y, z = (*(int(each) for each in parts), 1, 1)[:3]
    return x, y, z


def _positive(name: str, value: int) -> int:
    if value < 1:
        raise InvalidArgument(f"{name}: {value}; pass 1 or more")
    return value


def _contiguous(what: str, value: Any) -> Any:
    array = as_numpy(value)
    if array is None:
        raise InvalidArgument(
            f"{what}: expected an array of the variable's type, got {type(value).__name__}"
        )
    return np.ascontiguousarray(array)
