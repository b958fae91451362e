"""What a launch did."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ._findings import Finding, FindingsError


@dataclass(frozen=True)
class LineCount:
    """What one instruction did in the whole launch: `warps`, executions by warps; `lanes` that took part,
    summed; `sectors` of 32 bytes of global memory and the fewest that would have done, `bank_conflicts`
    (extra passes through shared memory), and the requests by warps that these belong to."""

    ptx_line: int
    source: str
    opcode: str
    warps: int
    lanes: int
    sectors: int
    ideal_sectors: int
    bank_conflicts: int
    global_requests: int
    shared_requests: int


@dataclass
class Report:
    """What a launch did. `kernel` is its readable name, `findings` what is wrong, worst first; `printed`
    what the kernel printed; `completed` False where a finding ended it; `warp_instructions` how many it
    executed. `unwritten` has for each Output with elements that no thread wrote their flat indexes, by the
    argument's name. `lines` (with count=True) has a LineCount for each instruction. `symbols` are the
    variables that were asked for, as arrays, `ptx` is the text that ran."""

    kernel: str
    completed: bool
    findings: list[Finding]
    unwritten: dict[str, np.ndarray[Any, np.dtype[np.int64]]]
    printed: str
    warp_instructions: int
    lines: list[LineCount] = field(repr=False)
    symbols: dict[str, np.ndarray[Any, Any]] = field(repr=False)
    ptx: str = field(repr=False)

    @property
    def ok(self) -> bool:
        """Whether nothing is wrong."""
        return not self.findings and not self.unwritten

    def totals(self) -> dict[str, int]:
        """The sums of `lines`."""
        names = ("warps", "lanes", "sectors", "ideal_sectors", "bank_conflicts")
        return {name: sum(getattr(line, name) for line in self.lines) for name in names}

    def check(self) -> Report:
        """Returns the report itself; raises FindingsError, which lists them, where something is wrong."""
        if not self.ok:
            raise FindingsError(str(self), self)
        return self

    def __str__(self) -> str:
        parts = [str(each) for each in self.findings]
        for name, indexes in self.unwritten.items():
            parts.append(f"{name}: {len(indexes)} elements were never written, the first at {indexes[0]}")
        state = "no findings" if self.ok else f"{len(self.findings)} findings"
        parts.append(
            f"{self.kernel}: {self.warp_instructions:,} warp-instructions, {state}"
            + ("" if self.completed else ", ended early")
        )
        return "\n".join(parts)
