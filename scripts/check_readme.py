#!/usr/bin/env python3
"""Keeps README.md and HACKING.md honest: runs their commands, compares their C++ with the examples.

A block opened with ```sh run is executed by bash in a scratch folder where build/ is this checkout's and
demo/model a small model made here; every command must succeed. A ```cpp block must equal a file of examples/.
usage: scripts/check_readme.py
"""
import array
import json
import os
import random
import re
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
BLOCK = re.compile(r"^```(?P<info>[^\n]*)\n(?P<text>.*?)^```$", re.M | re.S)


def write_small_model(folder):
    """A one-layer BERT of a few thousand FP32 parameters: config.json and model.safetensors."""
    folder.mkdir(parents=True)
    hidden, inner, vocabulary = 64, 128, 50
    layer = "encoder.layer.0."
    shapes = {"embeddings.word_embeddings.weight": [vocabulary, hidden]}
    for name in ("attention.self.query", "attention.self.key", "attention.self.value", "attention.output.dense"):
        shapes[layer + name + ".weight"] = [hidden, hidden]
        shapes[layer + name + ".bias"] = [hidden]
    shapes[layer + "attention.output.LayerNorm.weight"] = [hidden]
    shapes[layer + "intermediate.dense.weight"] = [inner, hidden]
    shapes[layer + "output.dense.weight"] = [hidden, inner]
    header, data, draw = {"__metadata__": {"format": "pt"}}, bytearray(), random.Random(1)
    for name, shape in shapes.items():
        count = shape[0] * (shape[1] if len(shape) > 1 else 1)
        start = len(data)
        data += array.array("f", (draw.gauss(0, 0.05) for _ in range(count))).tobytes()
        header[name] = {"dtype": "F32", "shape": shape, "data_offsets": [start, len(data)]}
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    (folder / "model.safetensors").write_bytes(len(text).to_bytes(8, "little") + text + data)
    config = {"architectures": ["BertModel"], "model_type": "bert", "hidden_size": hidden,
              "intermediate_size": inner, "num_attention_heads": 4, "num_hidden_layers": 1,
              "vocab_size": vocabulary}
    (folder / "config.json").write_text(json.dumps(config, indent=2))


def main():
    examples = {p.name: p.read_text() for p in (ROOT / "examples").glob("*.cpp")}
    commands, programs, problems = 0, 0, []
    with tempfile.TemporaryDirectory() as scratch:
        os.symlink(ROOT / "build", Path(scratch, "build"))
        write_small_model(Path(scratch, "demo", "model"))
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
