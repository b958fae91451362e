"""The Python blocks of docs/python_torch.md and docs/python_parallel.md, and the examples of PyTorch, are
executed, in order."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
BLOCK = re.compile(r"^```python\n(.*?)^```$", re.M | re.S)


def run(*program):
    done = subprocess.run([sys.executable, *program], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("page", ["python_torch.md", "python_parallel.md"])
def test_blocks_run_in_order(page):
    blocks = BLOCK.findall((ROOT / "docs" / page).read_text())
    assert blocks
    run("-c", "\n".join(blocks))


def test_examples_run():
    examples = sorted((ROOT / "examples/python/torch").glob("*.py"))
    assert examples
    for example in examples:
        run(str(example))
