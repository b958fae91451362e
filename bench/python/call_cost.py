"""What a call of the Python package costs beside the work itself: the tables of docs/python.md.

usage: python bench/python/call_cost.py [--gigabyte]     with the wheel installed; torch's rows where torch is
       --gigabyte: also quantize and dequantize 1 GB from numpy, beside `microscale bench quantize` of the same run
"""

import json
import re
import subprocess
import sys
import time
from pathlib import Path

import numpy as np

import microscale as ms


def microseconds(call, calls=20_000, rounds=7):
    """The least mean of several rounds, of the thread's own time: what else runs does not count."""
    best = float("inf")
    for _ in range(rounds):
        begun = time.thread_time()
        for _ in range(calls):
            call()
        best = min(best, time.thread_time() - begun)
    return best / calls * 1e6


def row(what, figure):
    print(f"{what:72} {figure:8.2f} us", flush=True)


def product_rows(name, empty, weights, rows):
    """Products of no rows: arguments, checks and dispatch, and no arithmetic."""
    packed = ms.pack_weights(weights)
    x, out = empty((rows, 32)), empty((rows, 16))
    with ms.context(threads=1):
        row(
            f"{name}: matmul(x, packed, out=out) of no rows",
            microseconds(lambda: ms.matmul(x, packed, out=out)),
        )
        row(f"{name}: matmul(x, packed) of no rows", microseconds(lambda: ms.matmul(x, packed)))
        row(
            f"{name}: matmul(x, blocks, out=out) of no rows",
            microseconds(lambda: ms.matmul(x, weights, out=out)),
        )
        one, one_out = empty((1, 32)), empty((1, 16))
        row(
            f"{name}: matmul of 1 x 16 x 32, the work included",
            microseconds(lambda: ms.matmul(one, packed, out=one_out)),
        )
        row(f"{name}: quantize of 1 x 32, mxfp4", microseconds(lambda: ms.quantize(one, "mxfp4"), 5_000))
    row(f"{name}: an empty array alone", microseconds(lambda: empty((1, 16))))


def process_rows():
    def milliseconds(command):
        times = []
        for _ in range(9):
            begun = time.perf_counter()
            subprocess.run(command, capture_output=True, check=True)
            times.append(time.perf_counter() - begun)
        return min(times) * 1e3

    bare = milliseconds([sys.executable, "-c", "pass"])
    loaded = milliseconds([sys.executable, "-c", "import microscale"])
    version = milliseconds([str(Path(sys.executable).parent / "microscale"), "--version"])
    print(
        f"import microscale: {loaded - bare:.0f} ms beside Python's own {bare:.0f}; microscale --version: {version:.0f} ms"
    )


def gigabyte_rows():
    """1 GiB of float32, beside the same case of the program, just before."""
    x = np.random.default_rng(0).standard_normal((1 << 14, 1 << 14), dtype=np.float32)
    print("GB/s of dense float32, 1 GiB: microscale bench quantize; from numpy")
    bench = [
        sys.executable,
        "-m",
        "microscale",
        "bench",
        "quantize",
        "--backend",
        "cpu",
        "--filter",
        "f32",
        "--json",
    ]
    told = subprocess.run(bench, capture_output=True, text=True, check=True)
    for case in json.loads(told.stdout)["tables"][0]["cases"]:
        words = re.fullmatch(r"(?:f32 to (\w+) (\w+))|(?:(\w+) to f32)", case["case"])
        if not words:
            continue
        format, rule, back = words.groups()
        t = ms.quantize(x, format or back, scale_rule=rule)
        out = t.dequantize()
        call = (
            (lambda: t.dequantize(out=out))
            if back
            else (lambda: ms.quantize(x, format, scale_rule=rule, global_scale=t.global_scale, out=t))
        )
        print(
            f"  {case['case']:28} {case['dense_gb_per_s']:8.2f} {x.nbytes / min(map(timed, [call] * 7)) / 1e9:8.2f}"
        )


def timed(call):
    begun = time.perf_counter()
    call()
    return time.perf_counter() - begun


def main():
    weights = np.random.default_rng(0).standard_normal((16, 32), dtype=np.float32)
    process_rows()
    row("an empty function", microseconds(lambda: None))
    product_rows("numpy", lambda shape: np.empty(shape, np.float32), ms.quantize(weights), 0)
    try:
        import torch
    except ImportError:
        print("torch is not installed: its rows are left out")
    else:
        torch.set_num_threads(1)
        product_rows(
            "torch",
            lambda shape: torch.empty(shape, dtype=torch.bfloat16),
            ms.quantize(torch.from_numpy(weights)),
            0,
        )
    if "--gigabyte" in sys.argv[1:]:
        gigabyte_rows()


if __name__ == "__main__":
    main()
