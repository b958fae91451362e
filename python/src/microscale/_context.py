"""Defaults of a thread."""

from __future__ import annotations

import threading
from contextlib import ContextDecorator
from types import TracebackType
from typing import Any

from ._core import set_defaults


class context(ContextDecorator):
    """Within `with microscale.context(backend=..., threads=..., stream=...):` calls of this thread that do
    not say otherwise run there. backend: 'auto', a name of available_backends(), or 'cuda'; threads: 0 is
    one per core; stream: an integer, or an object with __cuda_stream__(), cuda_stream or ptr. What is left
    out becomes the library's default. One object may be entered again, by other threads too, and it
    decorates functions."""

    def __init__(self, *, backend: str = "auto", threads: int = 0, stream: Any = None) -> None:
        self._wanted = (backend, threads, stream)
        self._of_thread = threading.local()

    def __enter__(self) -> context:
        before = set_defaults(*self._wanted)
        self._of_thread.__dict__.setdefault("before", []).append(before)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        set_defaults(*self._of_thread.before.pop())

    def __repr__(self) -> str:
        backend, threads, stream = self._wanted
        return f"context(backend={backend!r}, threads={threads!r}, stream={stream!r})"
