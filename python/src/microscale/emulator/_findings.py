"""What the machine noticed, as objects."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from .._errors import Error


class FindingsError(Error):
    """A launch had findings, or left elements of an Output unwritten. `report` is its Report."""

    code = "check_failed"

    def __init__(self, message: str, report: Any = None) -> None:
        super().__init__(message)
        self.report = report


@dataclass(frozen=True)
class SourceLine:
    """A line of a source file, as the PTX names it (nvcc -lineinfo)."""

    file: str
    line: int

    def __str__(self) -> str:
        return f"{self.file}:{self.line}"


@dataclass(frozen=True)
class Finding:
    """One thing that is wrong at one place; `count` says how often it happened there.

    `source` is the line of the instruction, and `calls` the lines it was inlined at, innermost first;
    `place` is the last of them: in a kernel that calls __shfl_sync, a line of the kernel and not of CUDA's
    header. `block` and `thread` are (x, y, z) of the first to do it. What it is about, where it is about
    memory: `address`, `access` ("reads", "writes" or "updates"), `object` ("x + 1000": bytes behind the
    start of the argument or variable x), `argument`, its number in `args`. `cuda_words` says what it is as
    CUDA programmers do, `cure` what mends it. `same_cause`: the finding before it in Report.findings has
    the same cause, as far as the machine can tell.
    """

    kind: str
    message: str
    kernel: str
    block: tuple[int, int, int]
    thread: tuple[int, int, int]
    source: SourceLine | None
    calls: tuple[SourceLine, ...]
    ptx_line: int
    address: int | None
    access: str
    object: str
    argument: int | None
    cuda_words: str
    cure: str
    count: int
    same_cause: bool
    sentence: str = field(repr=False)

    @property
    def file(self) -> str | None:
        """Of `place`; None where the PTX does not say."""
        return self.place.file if self.place else None

    @property
    def line(self) -> int | None:
        """Of `place`; None where the PTX does not say."""
        return self.place.line if self.place else None

    @property
    def place(self) -> SourceLine | None:
        """The outermost of source and calls: a line of the kernel's own file."""
        return self.calls[-1] if self.calls else self.source

    def __str__(self) -> str:
        if self.same_cause:
            return f"  also: {self.sentence}"
        return f"{self.sentence}\n  in CUDA: {self.cuda_words}\n  cure: {self.cure}"


def source_line(text: str) -> SourceLine | None:
    file, _, line = text.rpartition(":")
    return SourceLine(file, int(line)) if file else None


def findings_of(rows: list[dict[str, Any]], buffers: list[tuple[int, int, int]]) -> list[Finding]:
    """`buffers`: argument, address and bytes of each."""
    made = []
    for row in rows:
        inlined = source_line(row["inlined_at"])
        address = row["address"]
        made.append(
            Finding(
                kind=row["kind"],
                message=row["message"],
                kernel=row["kernel"],
                block=row["block"],
                thread=row["thread"],
                source=source_line(row["source"]),
                calls=(inlined,) if inlined else (),
                ptx_line=row["ptx_line"],
                address=address or None,
                access=row["access"],
                object=row["object"],
                argument=_argument(address, buffers) if row["object"] else None,
                cuda_words=row["cuda_words"],
                cure=row["cure"],
                count=row["count"],
                same_cause=row["same_cause"],
                sentence=row["sentence"],
            )
        )
    return made


def _argument(address: int, buffers: list[tuple[int, int, int]]) -> int | None:
    red_zone = 4096  # bytes around an allocation that belong to no other
    for argument, begin, size in buffers:
        if begin - red_zone <= address < begin + size + red_zone:
            return argument
    return None
