"""Triton kernels: compiled for a GPU that need not be there, and run on the machine."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from .._errors import InvalidArgument, Unsupported
from ._arguments import Output, as_numpy
from ._launch import Shape, launch
from ._report import Report

_ELEMENTS = {
    "bool": "i1",
    "int8": "i8",
    "int16": "i16",
    "int32": "i32",
    "int64": "i64",
    "uint8": "u8",
    "uint16": "u16",
    "uint32": "u32",
    "uint64": "u64",
    "float16": "fp16",
    "bfloat16": "bf16",
    "float32": "fp32",
    "float64": "fp64",
    "float8_e4m3fn": "fp8e4nv",
    "float8_e5m2": "fp8e5",
}


def triton(
    kernel: Any,
    grid: Shape | Callable[[Mapping[str, Any]], Any],
    args: Sequence[Any] = (),
    *,
    arch: str = "sm_90",
    num_warps: int = 4,
    num_stages: int = 3,
    options: Mapping[str, Any] | None = None,
    specialize: bool = True,
    schedule: str = "round_robin",
    completion: str = "latest",
    seed: int = 0,
    budget: int | None = None,
    threads: int | None = None,
    races: bool = True,
    count: bool = False,
    **constants: Any,
) -> Report:
    """Compiles a Triton kernel for `arch` (no GPU is needed; the package triton is) and runs it on the
    machine, as launch() does; returns its Report.

    kernel: what @triton.jit made; of an @triton.autotune or heuristics around it, the kernel inside.
    grid: programs, a number or up to three, or a function of all arguments by name that gives them.
    args: the arguments that are no tl.constexpr, in order: arrays of NumPy (ml_dtypes' bfloat16 and float8
        too) or of torch on the CPU, changed in place, Output(array), numbers.
    constants: the tl.constexpr ones by name: BLOCK=256.
    arch: "sm_80", "sm_90", "sm_120", ...
    num_warps, num_stages, options: as in a launch of Triton; options are others of Triton's compiler, such
        as {"debug": True}.
    specialize: as Triton does, integers that are multiples of 16, or 1, are told to the compiler; False
        compiles for any.
    The rest is as in launch(). Raises Unsupported where triton is not installed; what Triton's compiler
    refuses is its own exception."""
    try:
        import triton as package
        from triton.backends.compiler import GPUTarget
        from triton.compiler import ASTSource
    except ImportError:
        raise Unsupported("triton is not installed; pip install triton (no GPU is needed)") from None

    function = _function(kernel)
    values = _by_name(function, args, constants)
    signature, fixed, hints = _types(function, values, specialize)
    capability = _capability(arch)
    made = package.compile(
        ASTSource(function, signature, fixed, hints),
        target=GPUTarget("cuda", capability, 32),
        options={"num_warps": num_warps, "num_stages": num_stages, **(options or {})},
    )
    programs = grid({**values}) if callable(grid) else grid
    shape = tuple(programs) if isinstance(programs, (tuple, list)) else (programs,)
    cluster = (getattr(made.metadata, "num_ctas", 1), 1, 1)
    blocks = tuple(int(a) * int(b) for a, b in zip((*shape, 1, 1, 1)[:3], cluster, strict=True))
    given = [(name, value) for name, value in values.items() if signature[name] != "constexpr"]
    size = getattr(made.metadata, "global_scratch_size", 0) or 0
    scratch = np.zeros(size * int(np.prod(blocks)), np.uint8) if size else None
    lane_warps = getattr(made.metadata, "num_warps", num_warps)
    return launch(
        made.asm["ptx"],
        made.metadata.name,
        blocks,
        32 * lane_warps,
        [_typed(signature[name], value) for name, value in given]
        + [Output(scratch) if size else None, None],
        shared=made.metadata.shared,
        cluster=cluster,
        cooperative=True,
        schedule=schedule,
        completion=completion,
        seed=seed,
        budget=budget,
        threads=threads,
        races=races,
        # Where a layout has fewer elements than threads, warps store the same twice.
        equal_stores_race=False,
        count=count,
        names=[name for name, _ in given],
    )


def _function(kernel: Any) -> Any:
    """The JITFunction in an autotuner or heuristics."""
    while not hasattr(kernel, "arg_names") or not hasattr(kernel, "params"):
        inner = getattr(kernel, "fn", None)
        if inner is None or inner is kernel:
            raise InvalidArgument(f"kernel: expected what @triton.jit makes, got {type(kernel).__name__}")
        kernel = inner
    return kernel


def _by_name(function: Any, args: Sequence[Any], constants: Mapping[str, Any]) -> dict[str, Any]:
    """Every parameter's value, in the kernel's order."""
    unknown = [name for name in constants if name not in function.arg_names]
    if unknown:
        raise InvalidArgument(
            f"constants: {', '.join(unknown)}: the kernel has no such parameter; it has "
            f"{', '.join(function.arg_names)}"
        )
    rest, values = list(args), {}
    for parameter in function.params:
        if parameter.name in constants:
            values[parameter.name] = constants[parameter.name]
        elif rest and not parameter.is_constexpr:
            values[parameter.name] = rest.pop(0)
        elif getattr(parameter, "has_default", False):
            values[parameter.name] = parameter.default
        else:
            kind = "constants" if parameter.is_constexpr else "args"
            raise InvalidArgument(
                f"{kind}: nothing for '{parameter.name}'; it takes {', '.join(function.arg_names)}"
            )
    if rest:
        raise InvalidArgument(
            f"args: {len(args)} were given, {len(rest)} too many; pass tl.constexpr ones by name"
        )
    return values


def _types(
    function: Any, values: Mapping[str, Any], specialize: bool
) -> tuple[dict[str, str], dict[str, Any], dict[tuple[int, ...], list[list[Any]]]]:
    """Triton's signature, the constants and what the compiler may know of the others."""
    signature: dict[str, str] = {}
    fixed: dict[str, Any] = {}
    hints: dict[tuple[int, ...], list[list[Any]]] = {}
    for index, parameter in enumerate(function.params):
        name, value = parameter.name, values[parameter.name]
        special = specialize and not getattr(parameter, "do_not_specialize", False)
        number = isinstance(value, (int, np.integer)) and not isinstance(value, (bool, np.bool_))
        if parameter.is_constexpr or value is None or (special and number and int(value) == 1):
            signature[name], fixed[name] = "constexpr", value
            continue
        signature[name] = _type_of(name, value)
        if signature[name][0] == "*" or (special and number and int(value) % 16 == 0):
            hints[(index,)] = [["tt.divisibility", 16]]  # arrays lie at multiples of 256 here
    return signature, fixed, hints


def _type_of(name: str, value: Any) -> str:
    inner = value.array if isinstance(value, Output) else value
    array = as_numpy(inner)
    if array is not None and array.ndim:
        element = _ELEMENTS.get(str(inner.dtype).rpartition(".")[2])
        if element is None:
            raise InvalidArgument(
                f"{name}: Triton has no pointer to {inner.dtype}; choose one of {', '.join(_ELEMENTS)}"
            )
        return f"*{element}"
    if isinstance(value, np.generic) or array is not None:
        return _ELEMENTS[str(np.asarray(value).dtype)]
    if isinstance(value, bool):
        return "u1"
    if isinstance(value, int):
        if -(2**31) <= value < 2**31:
            return "i32"
        return "i64" if value < 2**63 else "u64"
    if isinstance(value, float):
        return "fp32"
    raise InvalidArgument(f"{name}: expected an array or a number, got {type(value).__name__}")


def _typed(kind: str, value: Any) -> Any:
    """A number as many bytes as the signature says; arrays as they are."""
    sizes: dict[str, Any] = {
        "fp32": np.float32,
        "fp64": np.float64,
        "fp16": np.float16,
        "u1": np.uint8,
        "i1": np.uint8,
    }
    if kind[0] == "*":
        return value
    if kind in sizes:
        return sizes[kind](value)
    return np.dtype(("u" if kind[0] == "u" else "") + f"int{kind[1:]}").type(value)


def _capability(arch: str) -> int:
    number = arch.removeprefix("sm_").rstrip("af")
    if not number.isdigit():
        raise InvalidArgument(
            f"arch: '{arch}' is none that Triton compiles for; pass sm_80, sm_90, sm_120, ..."
        )
    return int(number)
