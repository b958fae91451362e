#!/usr/bin/env python3
"""How fast models are quantized and converted, beside `cp` of the same bytes: synthetic Llama-like models of SIZE, written to
PLACE and removed again. One table: what was done, how long it took, the processor time of all threads and of the system on
their behalf, the figure that matters, and the one that is wanted.

usage: bench/conversion_rates.py [MICROSCALE] [--size 16G] [--place FOLDER] [--mpi MICROSCALE] [--only WORD] [--repeat 1]

Takes three times SIZE on the disk. For figures of the program and not of the disk, PLACE is a fast disk or memory
(/dev/shm), and nothing else runs. Where something else does, the processor time says what the clock cannot: `at most` is the
share of cp's rate that it leaves two cores. Of --repeat runs the fastest counts, each beside a cp of its own. --mpi names a
program built with MICROSCALE_MPI=ON for the comparison of four ranks with four threads; without it, and without mpirun, that
line says NOT RUN.
"""
import argparse
import collections
import json
import math
import os
import shutil
import struct
import subprocess
import sys
import tempfile
import time
from pathlib import Path

MEMORY = 1 << 30  # what --max-memory is by default
CORES = 2  # that the wanted figures are for
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

    def keep(shard, name, shape):
        shards[shard].append((name, "BF16", shape, 2 * math.prod(shape), tiles["bf16"]))

    keep(0, "model.embed_tokens.weight", [256, width])
    keep(-1, "model.norm.weight", [width])
    for i in range(count):
        for norm in ("input_layernorm", "post_attention_layernorm"):
            keep(i * SHARDS // count, f"model.layers.{i}.{norm}.weight", [width])
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
    config = {"model_type": "llama", "architectures": ["LlamaForCausalLM"], "hidden_size": width, "num_hidden_layers": count,
              "vocab_size": 256, "tie_word_embeddings": True, "torch_dtype": "bfloat16"}
    if description:
        config["quantization_config"] = description
    (folder / "config.json").write_text(json.dumps(config))
    return sum(n * k for n, k in modules.values()), total


Cost = collections.namedtuple("Cost", "seconds cpu memory")  # cpu: seconds of all threads and processes; memory: MiB


def run(command, target=None):
    """The target is removed."""
    begin = time.monotonic()
    child = subprocess.Popen([str(word) for word in command], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    said = child.stderr.read()
    _, status, usage = os.wait4(child.pid, 0)
    child.returncode = os.waitstatus_to_exitcode(status)
    if child.returncode:
        sys.exit(f"{' '.join(map(str, command))} ended with {child.returncode}: {said.decode()}")
    seconds = time.monotonic() - begin
    if target:
        shutil.rmtree(target)
    return Cost(seconds, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024)


def copy(source, target):
    """A copy that lies on the disk, as what microscale writes does when it ends."""
    begin, own = time.monotonic(), time.process_time()
    cost = run(["cp", "-r", source, target])
    for path in target.iterdir():
        with open(path, "rb") as file:
            os.fsync(file.fileno())
    cost = Cost(time.monotonic() - begin, cost.cpu + time.process_time() - own, cost.memory)
    shutil.rmtree(target)
    return cost


def least(costs):
    """The fastest of several runs, with the least processor time of any."""
    costs = list(costs)
    return Cost(min(c.seconds for c in costs), min(c.cpu for c in costs), max(c.memory for c in costs))


class Table:
    def __init__(self):
        print(f"{'what':44} {'seconds':>8} {'cpu s':>7} {'GB/s':>6} {'Gelem/s':>8} {'MiB':>6}  figure")

    def row(self, what, cost, total, elements, figure=""):
        print(f"{what:44} {cost.seconds:8.2f} {cost.cpu:7.2f} {total / cost.seconds / 1e9:6.2f} "
              f"{elements / cost.seconds / 1e9:8.3f} {cost.memory:6.0f}  {figure}", flush=True)


def peak(memory):
    return f"memory {memory / (MEMORY >> 20):.0%} of --max-memory (wanted below 100 %)"


def measure_quantize(given, place, size, table):
    rates = {}
    for kind, name in (("bf16", "BF16"), ("fp8", "FP8 blocks")):
        elements, total = make_model(place / "in", kind, size)
        command = [given.microscale, "quantize", place / "in", "-o", place / "out", "--format", "nvfp4"]
        cost = least(run(command, place / "out") for _ in range(given.repeat))
        shutil.rmtree(place / "in")
        rates[kind] = elements / cost.seconds, elements / cost.cpu
        figure = ""
        if kind == "fp8":
            clock, cpu = (rates["fp8"][i] / rates["bf16"][i] for i in (0, 1))
            figure = f"{clock:.2f} x BF16 per element (wanted 1.00), by processor time {cpu:.2f}; "
        table.row(f"quantize {name} -> NVFP4 (search)", cost, total, elements, figure + peak(cost.memory))


def measure_convert(given, place, size, table):
    for kind, what in (("nvfp4", "convert NVFP4 to ModelOpt, same payload"), ("mxfp4", "convert MXFP4 -> NVFP4, exact cast")):
        elements, total = make_model(place / "in", kind, size)
        command = [given.microscale, "convert", place / "in", "-o", place / "out", "--to", "modelopt", "--exact"]
        pairs = [(copy(place / "in", place / "out"), run(command, place / "out")) for _ in range(given.repeat)]
        copied, cost = (least(each) for each in zip(*pairs))
        shutil.rmtree(place / "in")
        table.row(f"cp of the {kind.upper()} folder", copied, total, elements)
        table.row(what, cost, total, elements,
                  f"{copied.seconds / cost.seconds:.0%} of cp (wanted 80 %), by processor time at most "
                  f"{copied.cpu / (cost.cpu / CORES):.0%}; " + peak(cost.memory))


def write_gguf(path, size):
    """A file of Q4_K blocks of a small spread; returns its values."""
    block, values, rows, cols = 144, 256, 4096, 4096
    head = struct.pack("<ee", 0.002, 0.001)
    tile = b"".join(head + bytes(each) for each in zip(*[iter(os.urandom((TILE // block) * 140))] * 140))
    count = max(1, size // (rows * cols // values * block))

    def text(word):
        return struct.pack("<Q", len(word)) + word.encode()

    each = rows * cols // values * block
    header = b"GGUF" + struct.pack("<IQQ", 3, count, 1) + text("general.architecture") + struct.pack("<I", 8) + text("bench")
    for i in range(count):
        header += text(f"blk.{i}.w.weight") + struct.pack("<IQQIQ", 2, cols, rows, 12, i * each)
    with open(path, "wb") as file:
        file.write(header + b"\0" * (-len(header) % 32))
        for _ in range(count):
            left = each
            while left:
                part = tile[:left]
                file.write(part)
                left -= len(part)
    return count * rows * cols


def measure_gguf(given, place, size, table):
    """Decoding Q4_K: what `dequantize` needs beside copying the values that it writes."""
    values = write_gguf(place / "in.gguf", size // 4)
    command = [given.microscale, "compare", place / "in.gguf", place / "in.gguf", "--json"]
    cost = least(run(command) for _ in range(given.repeat))
    figure = f"{2 * values * 2 / cost.cpu / 1e9:.2f} GB/s of BF16 values a core, read, decoded and compared (wanted 1.00)"
    table.row("decode GGUF Q4_K (compare with itself)", cost, 2 * (place / "in.gguf").stat().st_size, 2 * values, figure)
    (place / "in.gguf").unlink()


def measure_ranks(given, place, size, table):
    if not given.mpi or not shutil.which("mpirun"):
        print(f"{'four ranks beside four threads':44} NOT RUN: "
              f"{'mpirun is missing' if given.mpi else 'give --mpi MICROSCALE'}")
        return
    elements, total = make_model(place / "in", "bf16", size)
    command = ["quantize", place / "in", "-o", place / "out", "--format", "nvfp4", "--threads"]
    root = ["--allow-run-as-root"] if os.geteuid() == 0 else []
    ranked = ["mpirun", *root, "--oversubscribe", "-n", 4, given.mpi, *command, 1]
    pairs = [(run([given.mpi, *command, 4], place / "out"), run(ranked, place / "out")) for _ in range(given.repeat)]
    threads, ranks = (least(each) for each in zip(*pairs))
    shutil.rmtree(place / "in")
    table.row("one process, four threads", threads, total, elements)
    table.row("four ranks, a thread each", ranks, total, elements,
              f"{threads.seconds / ranks.seconds:.2f} x four threads (wanted 1.00), by processor time "
              f"{threads.cpu / ranks.cpu:.2f}")


def main():
    parser = argparse.ArgumentParser(usage=__doc__[__doc__.index("usage:") + 7:].split("\n")[0])
    parser.add_argument("microscale", nargs="?", default="build/microscale")
    parser.add_argument("--size", default="16G")
    parser.add_argument("--place", default=None)
    parser.add_argument("--mpi", default="")
    parser.add_argument("--only", choices=["quantize", "convert", "gguf", "ranks"])
    parser.add_argument("--repeat", type=int, default=1)
    given = parser.parse_args()
    size = bytes_of(given.size)
    with tempfile.TemporaryDirectory(dir=given.place) as folder:
        place = Path(folder)
        free = shutil.disk_usage(place).free
        if free < 3 * size:
            sys.exit(f"{place} has {free / 1e9:.1f} GB free, and models of {size / 1e9:.1f} GB need three times that; "
                     "give another --place, or a smaller --size")
        table = Table()
        for name, measure in (("quantize", measure_quantize), ("convert", measure_convert), ("gguf", measure_gguf),
                              ("ranks", measure_ranks)):
            if given.only in (None, name):
                measure(given, place, size, table)


if __name__ == "__main__":
    main()
