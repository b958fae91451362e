"""For pytest: a fixture whose launches fail the test with what the kernel does wrong.

In conftest.py:  pytest_plugins = ["microscale.emulator.pytest_plugin"]

    def test_scale(emulator):
        emulator.launch("scale.cu", "scale", grid=4, block=256, args=[x, 2.0, n])
        numpy.testing.assert_array_equal(x, expected)

A launch with findings fails the test there, with their sentences, source lines and cures.
emulator.allow("race") lets findings of a kind go by in this test."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from . import launch as _launch
from . import triton as _triton
from ._report import Report


class EmulatorFixture:
    """launch() and triton() of microscale.emulator that fail the test; `reports` has those of all
    launches."""

    def __init__(self) -> None:
        self.reports: list[Report] = []
        self._allowed: set[str] = set()

    def allow(self, *kinds: str) -> None:
        """Findings of these kinds ("race", "uninitialised-memory", ...) do not fail the test; "unwritten"
        stands for elements that no thread wrote."""
        self._allowed.update(kinds)

    def launch(self, *args: Any, **named: Any) -> Report:
        __tracebackhide__ = True
        return self._judge(_launch(*args, **named))

    def triton(self, *args: Any, **named: Any) -> Report:
        __tracebackhide__ = True
        return self._judge(_triton(*args, **named))

    def _judge(self, report: Report) -> Report:
        __tracebackhide__ = True
        self.reports.append(report)
        wrong = [str(each) for each in report.findings if each.kind not in self._allowed]
        if "unwritten" not in self._allowed:
            wrong += [
                f"{name}: {len(indexes)} elements were never written, the first at {indexes[0]}"
                for name, indexes in report.unwritten.items()
            ]
        if wrong:
            pytest.fail(f"{report.kernel} on the emulator:\n" + "\n".join(wrong), pytrace=False)
        return report


@pytest.fixture
def emulator() -> Iterator[EmulatorFixture]:
    """Launches of this test, which fail it where the kernel does something wrong."""
    yield EmulatorFixture()
