"""The Python blocks of docs/python.md, docs/emulator-python.md and README, and the examples, are
executed."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from models import write_model

ROOT = Path(__file__).parents[2]
BLOCK = re.compile(r"^```python\n(.*?)^```$", re.M | re.S)


def run(program, tmp_path):
    write_model(tmp_path / "model")
    environment = {**os.environ, "MODEL": str(tmp_path / "model"), "WORK": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, *program],
        env=environment,
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.parametrize("document", ["docs/python.md", "docs/emulator-python.md", "README.md"])
def test_blocks_run_in_order(document, tmp_path):
    blocks = BLOCK.findall((ROOT / document).read_text())
    assert blocks
    run(["-c", "\n".join(blocks)], tmp_path)


@pytest.mark.parametrize(
    "example", sorted((ROOT / "examples/python").glob("*.py")), ids=lambda path: path.name
)
def test_examples_run(example, tmp_path):
    assert run([str(example)], tmp_path)
