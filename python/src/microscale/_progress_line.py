"""A line of progress on a terminal, for the commands that only the package has."""

from __future__ import annotations

import sys
import time


class ProgressLine:
    """A line of progress on a terminal's stderr."""

    def __init__(self, operation: str) -> None:
        self._operation, self._start, self._shown = operation, time.monotonic(), 0.0
        self._from: int | None = None
        self._drawn = False

    def show(self, done: int, total: int, what: str) -> None:
        now = time.monotonic()
        if self._from is None:  # what is done already, of an interrupted run
            self._start, self._from = now, done
        if not sys.stderr.isatty() or now - self._shown < 0.2 or done == self._from:
            return
        left = (now - self._start) * (total - done) / (done - self._from)
        text = f"{self._operation}: {100 * done / total:3.0f} %, {_span(left)} left, {what}"
        print(f"\r\033[K{text[:110]}", end="", file=sys.stderr, flush=True)
        self._shown, self._drawn = now, True

    def clear(self) -> None:
        if self._drawn:
            print("\r\033[K", end="", file=sys.stderr, flush=True)
            self._drawn = False

    def end(self, sentence: str, code: int) -> int:
        self.clear()
        print(f"microscale {self._operation}: {sentence}", file=sys.stderr)
        return code


def _span(seconds: float) -> str:
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"
