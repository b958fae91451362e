#!/usr/bin/env python3
"""Writes tests/golden/gguf_blocks.txt: blocks of every GGUF type and the values that the gguf package gives them.

Usage: gguf_blocks.py [OUTPUT_DIRECTORY]      needs gguf and numpy
"""
import importlib.metadata
import pathlib
import sys

import numpy as np
from gguf import GGML_QUANT_SIZES, GGMLQuantizationType, dequantize

HERE = pathlib.Path(__file__).resolve().parent
DEFAULT_OUTPUT = HERE.parent.parent / "tests" / "golden"
NAMES = ("F16 BF16 Q4_0 Q4_1 Q5_0 Q5_1 Q8_0 Q2_K Q3_K Q4_K Q5_K Q6_K IQ4_NL IQ4_XS MXFP4 NVFP4").split()
SEED = 35


def values_of(name, blocks):
    kind = GGMLQuantizationType[name]
    with np.errstate(all="ignore"):
        return dequantize(blocks.reshape(-1) if name == "F16" else blocks, kind).astype(np.float32).reshape(-1)


def lines():
    versions = " ".join(f"{p} {importlib.metadata.version(p)}" for p in ("gguf", "numpy"))
    yield "# microscale golden vectors; made by scripts/golden/gguf_blocks.py, do not edit"
    yield f"version {versions}"
    rng = np.random.default_rng(SEED)
    for name in NAMES:
        block, size = GGML_QUANT_SIZES[GGMLQuantizationType[name]]
        for _ in range(2 if block == 256 else 6):
            while True:  # random bits, but no NaN: its payload is nobody's promise
                blocks = rng.integers(0, 256, (1, size), dtype=np.uint8)
                values = values_of(name, blocks)
                if not np.isnan(values).any():
                    break
            yield f"{name} {blocks.tobytes().hex()} {values.astype('>f4').tobytes().hex()}"


if __name__ == "__main__":
    out = pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else DEFAULT_OUTPUT
    (out / "gguf_blocks.txt").write_text("\n".join(lines()) + "\n", encoding="ascii")
