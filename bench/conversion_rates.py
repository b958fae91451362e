#!/usr/bin/env python3
"""How fast models are quantized and converted, beside `cp` of the same bytes: synthetic Llama-like models of SIZE, written to
PLACE and removed again. One table: what was done, how long it took, the figure that matters, and the one that is wanted.

usage: bench/conversion_rates.py [MICROSCALE] [--size 16G] [--place FOLDER] [--mpi MICROSCALE] [--only WORD]

Takes three times SIZE on the disk. For figures of the program and not of the disk, PLACE is a fast disk or memory
(/dev/shm), and nothing else runs. --mpi names a program built with MICROSCALE_MPI=ON for the comparison of four ranks with
four threads; without it, and without mpirun, that line says NOT RUN.
"""
import argparse
import json
import os
import shutil
import struct
import subprocess
import sys
import tempfile
import time
from pathlib import Path

MEMORY = 1 << 30  # what --max-memory is by default
SHARDS = 8
TILE = 8 << 20  # bytes of random data that tensors are made of


def bytes_of(text):
    units = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30}
    return int(float(text.rstrip("KMGiB")) * units.get(text.rstrip("iB")[-1:], 1))


def random_bytes(low, high):
    """TILE bytes from low to high."""
    return os.urandom(TILE).translate(bytes(low + i * (high - low + 1) // 256 for i in range(256)))


def random_bf16():
    """Numbers of magnitudes 2^-9 to 2^-5, of both signs."""
    data = bytearray(TILE)
    data[0::2] = os.urandom(TILE // 2)
    high = bytes((0x80 if i & 1 else 0) | (0x3B, 0x3C, 0x3C, 0x3C, 0x3C, 0x3C, 0x3D, 0x3B)[i >> 5] for i in range(256))
    data[1::2] = os.urandom(TILE // 2).translate(high)
    return bytes(data)


def layers(elements):
    """Names and shapes of about so many elements."""
    width = 4096 if elements >= 2 << 30 else 1024
    shapes = {"self_attn.q_proj": (width, width), "self_attn.k_proj": (width // 4, width),
              "self_attn.v_proj": (width // 4, width), "self_attn.o_proj": (width, width),
              "mlp.gate_proj": (width * 7 // 2, width), "mlp.up_proj": (width * 7 // 2, width),
              "mlp.down_proj": (width, width * 7 // 2)}
    each = sum(n * k for n, k in shapes.values())
    count = max(SHARDS, round(elements / each))
    return count, width, {f"model.layers.{i}.{name}": shape for i in range(count) for name, shape in shapes.items()}


# A weight [n, k] in each kind of model: tensors as ending, type, shape, bytes and the tile of data they are made of.
def dense(n, k, tiles):
    return [("weight", "BF16", [n, k], 2 * n * k, tiles["bf16"])]


def fp8(n, k, tiles):
    rows, cols = -(-n // 128), -(-k // 128)
    return [("weight", "F8_E4M3", [n, k], n * k, tiles["e4m3"]),
            ("weight_scale_inv", "F32", [rows, cols], 4 * rows * cols, struct.pack("<f", 0.001))]


def mxfp4(n, k, tiles):
    return [("weight_packed", "U8", [n, k // 2], n * k // 2, tiles["any"]),
            ("weight_scale", "U8", [n, k // 32], n * k // 32, tiles["e8m0"])]


def nvfp4(n, k, tiles):
    return [("weight_packed", "U8", [n, k // 2], n * k // 2, tiles["any"]),
            ("weight_scale", "F8_E4M3", [n, k // 16], n * k // 16, tiles["scale"]),
            ("weight_global_scale", "F32", [1], 4, struct.pack("<f", 4096.0))]


def arguments(kind):
    block = {"mxfp4": (32, "group", "uint8"), "nvfp4": (16, "tensor_group", "float8_e4m3fn")}[kind]
    return {"quant_method": "compressed-tensors", "format": f"{kind}-pack-quantized", "ignore": [],
            "quantization_status": "compressed", "config_groups": {"group_0": {
                "targets": ["Linear"], "input_activations": None, "output_activations": None,
                "weights": {"num_bits": 4, "type": "float", "symmetric": True, "dynamic": False, "group_size": block[0],
                            "strategy": block[1], "scale_dtype": "torch." + block[2]}}}}


# Bytes of an element with its share of scales, the weight, and what config.json says of it.
KINDS = {"bf16": (2, dense, None),
         "fp8": (1, fp8, {"quant_method": "fp8", "weight_block_size": [128, 128], "fmt": "e4m3"}),
         "mxfp4": (17 / 32, mxfp4, arguments("mxfp4")), "nvfp4": (9 / 16, nvfp4, arguments("nvfp4"))}


def write_shard(path, tensors):
    header, at = {}, 0
    for name, kind, shape, size, _ in tensors:
        header[name] = {"dtype": kind, "shape": shape, "data_offsets": [at, at + size]}
        at += size
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        for *_, size, tile in tensors:
            for _ in range(size // len(tile)):
                file.write(tile)
            file.write(tile[:size % len(tile)])


def make_model(folder, kind, size):
    """Returns how many elements its weights have, and their bytes."""
    per_element, weight, description = KINDS[kind]
    tiles = {"bf16": random_bf16(), "any": random_bytes(0, 255), "e4m3": random_bytes(0x20, 0x70),
             "e8m0": random_bytes(112, 124), "scale": random_bytes(0x38, 0x7E)}
    count, width, modules = layers(size / per_element)
    folder.mkdir()
    shards = [[] for _ in range(SHARDS)]
    for module, (n, k) in modules.items():
        shard = shards[int(module.split(".")[2]) * SHARDS // count]
        shard += [(f"{module}.{ending}", *rest) for ending, *rest in weight(n, k, tiles)]
    names, total = {}, 0
    for i, tensors in enumerate(shards):
        name = f"model-{i + 1:05}-of-{SHARDS:05}.safetensors"
        write_shard(folder / name, tensors)
        names.update({tensor[0]: name for tensor in tensors})
        total += sum(tensor[3] for tensor in tensors)
    (folder / "model.safetensors.index.json").write_text(
        json.dumps({"metadata": {"total_size": total}, "weight_map": names}))
    config = {"model_type": "llama", "hidden_size": width, "num_hidden_layers": count, "torch_dtype": "bfloat16"}
    if description:
        config["quantization_config"] = description
    (folder / "config.json").write_text(json.dumps(config))
    return sum(n * k for n, k in modules.values()), total


def run(command, target):
    """Seconds and MiB of resident memory at most; the target is removed."""
    begin = time.monotonic()
    child = subprocess.Popen([str(word) for word in command], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    said = child.stderr.read()
    _, status, usage = os.wait4(child.pid, 0)
    child.returncode = os.waitstatus_to_exitcode(status)
    if child.returncode:
        sys.exit(f"{' '.join(map(str, command))} ended with {child.returncode}: {said.decode()}")
    seconds = time.monotonic() - begin
    shutil.rmtree(target)
    return seconds, usage.ru_maxrss / 1024


def copy(source, target):
    """Seconds for a copy that lies on the disk, as what microscale writes does when it ends."""
    begin = time.monotonic()
    subprocess.run(["cp", "-r", source, target], check=True)
    for path in target.iterdir():
        with open(path, "rb") as file:
            os.fsync(file.fileno())
    seconds = time.monotonic() - begin
    shutil.rmtree(target)
    return seconds


class Table:
    def __init__(self):
        print(f"{'what':44} {'seconds':>8} {'GB/s':>6} {'Gelem/s':>8} {'MiB':>6}  figure")

    def row(self, what, seconds, total, elements, memory=None, figure=""):
        print(f"{what:44} {seconds:8.2f} {total / seconds / 1e9:6.2f} {elements / seconds / 1e9:8.3f} "
              f"{'' if memory is None else format(memory, '.0f'):>6}  {figure}", flush=True)


def peak(memory):
    return f"memory {memory / (MEMORY >> 20):.0%} of --max-memory (wanted below 100 %)"


def measure_quantize(program, place, size, table):
    rates = {}
    for kind, name in (("bf16", "BF16"), ("fp8", "FP8 blocks")):
        elements, total = make_model(place / "in", kind, size)
        seconds, memory = run([program, "quantize", place / "in", "-o", place / "out", "--format", "nvfp4"], place / "out")
        shutil.rmtree(place / "in")
        rates[kind] = elements / seconds
        figure = "" if kind == "bf16" else f"{rates['fp8'] / rates['bf16']:.2f} x BF16 per element (wanted 1.00); "
        table.row(f"quantize {name} -> NVFP4 (search)", seconds, total, elements, memory, figure + peak(memory))


def measure_convert(program, place, size, table):
    for kind, what in (("nvfp4", "convert NVFP4 to ModelOpt, same payload"), ("mxfp4", "convert MXFP4 -> NVFP4, exact cast")):
        elements, total = make_model(place / "in", kind, size)
        copied = copy(place / "in", place / "out")
        table.row(f"cp of the {kind.upper()} folder", copied, total, elements)
        command = [program, "convert", place / "in", "-o", place / "out", "--to", "modelopt", "--exact"]
        seconds, memory = run(command, place / "out")
        shutil.rmtree(place / "in")
        table.row(what, seconds, total, elements, memory,
                  f"{copied / seconds:.0%} of cp (wanted 80 %); " + peak(memory))


def measure_ranks(program, place, size, table):
    if not program or not shutil.which("mpirun"):
        print(f"{'four ranks beside four threads':44} NOT RUN: {'mpirun is missing' if program else 'give --mpi MICROSCALE'}")
        return
    elements, total = make_model(place / "in", "bf16", size)
    command = ["quantize", place / "in", "-o", place / "out", "--format", "nvfp4", "--threads"]
    threads, memory = run([program, *command, 4], place / "out")
    table.row("one process, four threads", threads, total, elements, memory)
    root = ["--allow-run-as-root"] if os.geteuid() == 0 else []
    ranks, memory = run(["mpirun", *root, "--oversubscribe", "-n", 4, program, *command, 1], place / "out")
    shutil.rmtree(place / "in")
    table.row("four ranks, a thread each", ranks, total, elements, None,
              f"{threads / ranks:.2f} x four threads (wanted 1.00)")


def main():
    parser = argparse.ArgumentParser(usage=__doc__[__doc__.index("usage:") + 7:].split("\n")[0])
    parser.add_argument("microscale", nargs="?", default="build/microscale")
    parser.add_argument("--size", default="16G")
    parser.add_argument("--place", default=None)
    parser.add_argument("--mpi", default="")
    parser.add_argument("--only", choices=["quantize", "convert", "ranks"])
    given = parser.parse_args()
    size = bytes_of(given.size)
    with tempfile.TemporaryDirectory(dir=given.place) as folder:
        place = Path(folder)
        free = shutil.disk_usage(place).free
        if free < 3 * size:
            sys.exit(f"{place} has {free / 1e9:.1f} GB free, and models of {size / 1e9:.1f} GB need three times that; "
                     "give another --place, or a smaller --size")
        table = Table()
        if given.only in (None, "quantize"):
            measure_quantize(given.microscale, place, size, table)
        if given.only in (None, "convert"):
            measure_convert(given.microscale, place, size, table)
        if given.only in (None, "ranks"):
            measure_ranks(given.mpi, place, size, table)


if __name__ == "__main__":
    main()
