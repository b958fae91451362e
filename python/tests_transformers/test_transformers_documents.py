"""The Python blocks of docs/python_transformers.md are executed, in order."""

import re
import subprocess
import sys
from pathlib import Path

BLOCK = re.compile(r"^```python\n(.*?)^```$", re.M | re.S)


def test_blocks_run_in_order():
    blocks = BLOCK.findall((Path(__file__).parents[2] / "docs/python_transformers.md").read_text())
    assert blocks
    done = subprocess.run(
        [sys.executable, "-c", "\n".join(blocks)], capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "14 linear layers packed (14 nvfp4), 4 products fused" in done.stdout
