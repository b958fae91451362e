#!/usr/bin/env python3
"""Keeps README.md and HACKING.md honest: runs their commands, compares their C++ with the examples.

A block opened with ```sh run is executed by bash in a scratch folder where build/ is this checkout's and
demo/smollm2 has a small model made here; every command must succeed. A ```cpp block must equal a file of examples/.
usage: scripts/check_readme.py
"""
import array
import math
import os
import random
import re
import struct
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
BLOCK = re.compile(r"^```(?P<info>[^\n]*)\n(?P<text>.*?)^```$", re.M | re.S)


def write_small_model(path):
    """A one-layer llama of a few thousand FP32 parameters as a GGUF file."""
    path.parent.mkdir(parents=True)
    hidden, inner, vocabulary = 64, 128, 50
    facts = {"general.architecture": "llama", "llama.block_count": 1, "llama.context_length": 128,
             "llama.embedding_length": hidden, "llama.feed_forward_length": inner, "llama.attention.head_count": 4,
             "llama.attention.head_count_kv": 4, "llama.attention.layer_norm_rms_epsilon": 1e-5}
    shapes = {"token_embd.weight": [hidden, vocabulary], "output_norm.weight": [hidden]}
    for name in ("attn_norm", "ffn_norm"):
        shapes[f"blk.0.{name}.weight"] = [hidden]
    for name in ("attn_q", "attn_k", "attn_v", "attn_output"):
        shapes[f"blk.0.{name}.weight"] = [hidden, hidden]
    shapes |= {"blk.0.ffn_gate.weight": [hidden, inner], "blk.0.ffn_up.weight": [hidden, inner],
               "blk.0.ffn_down.weight": [inner, hidden]}

    def text(value):
        return struct.pack("<Q", len(value)) + value.encode()

    types = {str: (8, text), int: (4, struct.Struct("<I").pack), float: (6, struct.Struct("<f").pack)}
    head, data, draw = b"GGUF" + struct.pack("<IQQ", 3, len(shapes), len(facts)), bytearray(), random.Random(1)
    for key, value in facts.items():
        number, pack = types[type(value)]
        head += text(key) + struct.pack("<I", number) + pack(value)
    for name, shape in shapes.items():
        head += text(name) + struct.pack(f"<I{len(shape)}QIQ", len(shape), *shape, 0, len(data))
        data += array.array("f", (draw.gauss(0, 0.05) for _ in range(math.prod(shape)))).tobytes()
    path.write_bytes(head + bytes(-len(head) % 32) + data)


def main():
    examples = {p.name: p.read_text() for p in (ROOT / "examples").glob("*.cpp")}
    commands, programs, problems = 0, 0, []
    with tempfile.TemporaryDirectory() as scratch:
        os.symlink(ROOT / "build", Path(scratch, "build"))
        write_small_model(Path(scratch, "demo", "smollm2", "SmolLM2-135M-Instruct.Q4_1.gguf"))
        for document in ("README.md", "HACKING.md"):
            text = (ROOT / document).read_text()
            for block in BLOCK.finditer(text):
                where = f"{document}:{text.count(chr(10), 0, block.start()) + 1}"
                if block["info"] == "sh run":
                    commands += 1
                    result = subprocess.run(["bash", "-euo", "pipefail", "-c", block["text"]], cwd=scratch,
                                            stdin=subprocess.DEVNULL, capture_output=True, text=True)
                    if result.returncode:
                        problems.append(f"{where}: exit code {result.returncode}\n{block['text']}"
                                        f"{result.stdout}{result.stderr}")
                elif block["info"] == "cpp":
                    programs += 1
                    if block["text"] not in examples.values():
                        problems.append(f"{where}: equals no file of examples/ ({', '.join(examples)})")
    if not commands or not programs:
        problems.append("README.md needs at least one ```sh run block and one ```cpp block")
    print("\n".join(problems + [f"check_readme: {commands} command blocks, {programs} programs, "
                                f"{len(problems)} problems"]))
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
