"""The golden vectors of tests/golden, made with other tools: the bytes that C++ tests check too.

Blocks with NaN, infinity or numbers next to FP32's largest are left to the C++ tests, which know where
a tool's bytes are undefined."""

from pathlib import Path

import numpy as np
import pytest

import microscale as ms

FOLDER = Path(__file__).parents[2] / "tests" / "golden"
TOOLS = ["compressed_tensors", "microxcaling", "torchao", "transformer_engine", "vllm", "flashinfer"]
TOOLS += ["llama_cpp", "modelopt"]
FILES = sorted(f.stem for f in FOLDER.glob("*.txt") if any(f.stem.startswith(tool) for tool in TOOLS))


def read_cases():
    ml_dtypes = pytest.importorskip("ml_dtypes")
    types = {"f32": np.float32, "f16": np.float16, "bf16": ml_dtypes.bfloat16}
    cases = []
    for line in (FOLDER / "inputs.txt").read_text().splitlines():
        words = line.split()
        if words[:1] != ["case"]:
            continue
        dtype = np.dtype(types[words[3]])
        digits, width = words[5], 2 * dtype.itemsize
        bits = [int(digits[i : i + width], 16) for i in range(0, len(digits), width)]
        cases.append(np.array(bits, f"u{dtype.itemsize}").view(dtype).reshape(1, 32))
    return cases


def read_file(stem):
    header, lines = {}, []
    for line in (FOLDER / f"{stem}.txt").read_text().splitlines():
        first, _, rest = line.partition(" ")
        if first.isdigit():
            lines.append([int(first), *rest.split()])
        elif first != "#":
            header[first] = rest
    return header, lines


def codes_of(t):
    """One a byte."""
    two_a_byte = t.codes.shape[1] < t.shape[1]
    return (np.stack([t.codes & 15, t.codes >> 4], -1) if two_a_byte else t.codes).reshape(-1)


@pytest.mark.parametrize("stem", FILES)
def test_bytes_are_the_tools(stem):
    header, lines = read_file(stem)
    cases = read_cases()
    compat = next(tool for tool in TOOLS if stem.startswith(tool))
    compared = 0
    for number, *words in lines:
        x = cases[number]
        largest = np.abs(x.astype(np.float64)).max()
        if not np.isfinite(largest) or largest >= 2.0**127:
            continue
        options = {"compat": compat}
        if stem == "torchao_nvfp4_single_level":
            options["global_scale"] = 1.0
            words = words[2:]
        elif header["format"] == "nvfp4":
            options["tensor_amax"] = float(np.frombuffer(bytes.fromhex(words[0]), ">f4")[0])
            words = words[2:]
        elif header.get("rule"):
            options["scale_rule"] = header["rule"]
        t = ms.quantize(x, header["format"], **options)
        wide = 1 if len(words[1]) == 32 else 2
        wanted = [int(words[1][i : i + wide], 16) for i in range(0, len(words[1]), wide)]
        assert bytes(t.scales.reshape(-1)).hex() == words[0], (stem, number)
        assert codes_of(t).tolist() == wanted, (stem, number)
        compared += 1
    assert compared > 30
