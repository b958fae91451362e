"""The Python blocks of docs/python_jax.md are executed, one after the other."""

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
BLOCK = re.compile(r"^```python\n(.*?)^```$", re.M | re.S)


def run(*program):
    done = subprocess.run([sys.executable, *program], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr


def test_blocks_run_in_order():
    blocks = BLOCK.findall((ROOT / "docs/python_jax.md").read_text())
    assert blocks
    run("-c", "\n".join(blocks))
