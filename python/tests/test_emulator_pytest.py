"""The fixture of microscale.emulator.pytest_plugin fails a test with what its kernel does wrong."""

import subprocess
import sys

from test_emulator import SCALE

TEST = f"""
import numpy as np
SCALE = {SCALE!r}

def test_right(emulator):
    x = np.ones(32, np.float32)
    emulator.launch(SCALE, "scale", 1, 32, [x, x, 2])
    assert x[0] == 2 and len(emulator.reports) == 1

def test_wrong(emulator):
    x = np.ones(31, np.float32)
    emulator.launch(SCALE, "scale", 1, 32, [x, x, 2])

def test_known(emulator):
    emulator.allow("out-of-bounds")
    x = np.ones(31, np.float32)
    assert emulator.launch(SCALE, "scale", 1, 32, [x, x, 2]).findings
"""


def test_a_test_fails_with_the_findings(tmp_path):
    (tmp_path / "conftest.py").write_text('pytest_plugins = ["microscale.emulator.pytest_plugin"]\n')
    (tmp_path / "test_kernels.py").write_text(TEST)
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(tmp_path)],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert "1 failed, 2 passed" in done.stdout, done.stdout + done.stderr
    assert "scale(float const*, float*, float) on the emulator:" in done.stdout
    assert "out-of-bounds" in done.stdout and "cure: compare the index" in done.stdout
