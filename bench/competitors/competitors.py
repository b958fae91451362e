"""Times ggml's and ml_dtypes' CPU quantizers beside ours, one thread each, on buffers past the caches.

usage: competitors.py MICROSCALE [--size-mib N] [--runs N]      (bench/competitors/run calls it)

GB/s are of FP32 data, read or written. ggml is the library inside the pywhispercpp wheel, called through ctypes:
quantize_row_*_ref (which its CPU backend also calls) and dequantize_row_*. ml_dtypes only casts elements: it has
no block scales, so its task is the smaller one.
"""

import argparse
import ctypes
import json
import pathlib
import statistics
import subprocess
import sys
import time

import ml_dtypes
import numpy

GGML_FORMATS = {"mxfp4": (32, 17), "nvfp4": (64, 36)}  # elements and bytes of a ggml block


def seconds(call, runs):
    """Median time of `runs` calls after one that warms up."""
    times = []
    for _ in range(runs + 1):
        start = time.perf_counter()
        call()
        times.append(time.perf_counter() - start)
    return statistics.median(times[1:])


def load_ggml(name="libggml-base"):
    """A library of ggml's in this environment; of the base one, the quantizers' types are declared."""
    import pywhispercpp

    folders = [pathlib.Path(pywhispercpp.__file__).parent.parent]
    found = sorted(path for folder in folders for path in folder.rglob(f"{name}*.so*"))
    if not found:
        sys.exit(f"competitors: no {name} below {folders[0]}; the pinned wheel has one")
    library = ctypes.CDLL(str(found[0]))
    if name != "libggml-base":
        return library
    for format_ in GGML_FORMATS:
        for function in (f"quantize_row_{format_}_ref", f"dequantize_row_{format_}"):
            getattr(library, function).argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64]
            getattr(library, function).restype = None
    return library


def ggml_rates(values, runs):
    """Yields (case, GB/s) for each format and direction."""
    library = load_ggml()
    for name, (elements, block_bytes) in GGML_FORMATS.items():
        packed = numpy.empty(values.size // elements * block_bytes, numpy.uint8)
        output = numpy.empty_like(values)
        quantize, dequantize = getattr(library, f"quantize_row_{name}_ref"), getattr(library, f"dequantize_row_{name}")
        calls = {
            f"f32 to {name}": lambda: quantize(values.ctypes.data, packed.ctypes.data, values.size),
            f"{name} to f32": lambda: dequantize(packed.ctypes.data, output.ctypes.data, values.size),
        }
        for case, call in calls.items():
            yield case, values.nbytes / seconds(call, runs) / 1e9
        error = float(numpy.mean((values - output) ** 2) / numpy.mean(values**2))
        if not 0.001 < error < 0.05:
            sys.exit(f"competitors: ggml's {name} has a relative MSE of {error:.3g}: it was called wrongly")


def ml_dtypes_rates(values, runs):
    """Yields (case, GB/s) of plain element casts."""
    casts = {"f32 to mxfp4": ml_dtypes.float4_e2m1fn, "f32 to mxfp8": ml_dtypes.float8_e4m3fn}
    for case, dtype in casts.items():
        yield case, values.nbytes / seconds(lambda: values.astype(dtype), runs) / 1e9


def our_rates(program, size_mib, runs):
    """{case: (GB/s of FP32, share of the loop that only moves the bytes)} from microscale bench quantize."""
    command = [program, "bench", "quantize", "--backend", "cpu", "--json", "--threads", "1", "--filter", "f32"]
    command += ["--size", f"{size_mib}MiB", "--runs", str(runs)]
    tables = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)["tables"]
    names = {row["case"].replace(" rceil", "").replace(" nearest", ""): row for row in tables[0]["cases"]}
    return {case: (row["dense_gb_per_s"], row["share"]) for case, row in names.items()}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("microscale")
    parser.add_argument("--size-mib", type=int, default=1024)
    parser.add_argument("--runs", type=int, default=5)
    options = parser.parse_args()
    count = options.size_mib * 2**20 // 4 // 8192 * 8192
    values = numpy.random.default_rng(1).standard_normal(count, numpy.float32)
    ours = our_rates(options.microscale, options.size_mib, options.runs)
    ggml = dict(ggml_rates(values, options.runs))
    casts = dict(ml_dtypes_rates(values[: count // 8], 1))
    print(f"{'case (1 thread, GB/s of FP32)':<32} {'microscale':>10} {'of loop':>8} {'ggml':>8} {'ml_dtypes cast':>15}")
    for case in sorted(set(ours) | set(ggml) | set(casts)):
        rate, share = ours.get(case, (None, None))
        cells = [f"{rate:.2f}" if rate else "-", f"{share:.0%}" if share else "-"]
        cells += [f"{table[case]:.2f}" if case in table else "-" for table in (ggml, casts)]
        print(f"{case:<32} {cells[0]:>10} {cells[1]:>8} {cells[2]:>8} {cells[3]:>15}")


if __name__ == "__main__":
    main()
