"""The Python blocks of docs/python_transformers.md and docs/calibration.md are executed, in order."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

BLOCK = re.compile(r"^```python\n(.*?)^```$", re.M | re.S)


@pytest.mark.parametrize(
    ("page", "said"),
    [
        ("python_transformers", "14 linear layers packed (14 nvfp4), 4 products fused"),
        ("calibration", "statistics of 14 layers, of 1,024 tokens in sequences of 128 (random token ids"),
    ],
)
def test_blocks_run_in_order(page, said):
    blocks = BLOCK.findall((Path(__file__).parents[2] / f"docs/{page}.md").read_text())
    assert blocks
    done = subprocess.run(
        [sys.executable, "-c", "\n".join(blocks)], capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert said in done.stdout
