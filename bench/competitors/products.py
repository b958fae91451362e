"""Times ggml's matrix products on the CPU beside ours, all cores, on the same shapes.

usage: products.py MICROSCALE [--rotate-mib N] [--runs N]      (bench/competitors/run --products calls it)

Weights of 4096 x 14336 in MXFP4 and NVFP4. ggml is the library inside the pywhispercpp wheel, called through ctypes:
ggml_mul_mat, which rounds its FP32 activations to 8 bits; ours takes them in BF16 and rounds nothing. As many copies of
the weights are multiplied in turn as fill --rotate-mib, so 256 shows memory and 1 the last cache, where it has room for
31 MiB.
"""

import argparse
import ctypes
import json
import os
import subprocess
import sys
import time

import numpy

from competitors import GGML_FORMATS, load_ggml, seconds

N, K = 4096, 14336
ROWS = (1, 16, 512)


class InitParams(ctypes.Structure):
    _fields_ = [("mem_size", ctypes.c_size_t), ("mem_buffer", ctypes.c_void_p), ("no_alloc", ctypes.c_bool)]


class Ggml:
    """The library with its CPU backend; tensors live in one context."""

    def __init__(self, bytes_wanted):
        self.base, self.cpu = load_ggml("libggml-base"), load_ggml("libggml-cpu")
        pointer, size = ctypes.c_void_p, ctypes.c_int64
        for name, result, arguments in [
            ("ggml_init", pointer, [InitParams]),
            ("ggml_new_tensor_2d", pointer, [pointer, ctypes.c_int, size, size]),
            ("ggml_mul_mat", pointer, [pointer, pointer, pointer]),
            ("ggml_new_graph", pointer, [pointer]),
            ("ggml_build_forward_expand", None, [pointer, pointer]),
            ("ggml_get_data", pointer, [pointer]),
            ("ggml_type_name", ctypes.c_char_p, [ctypes.c_int]),
        ]:
            function = getattr(self.base, name)
            function.restype, function.argtypes = result, arguments
        self.cpu.ggml_graph_compute_with_ctx.restype = ctypes.c_int
        self.cpu.ggml_graph_compute_with_ctx.argtypes = [pointer, pointer, ctypes.c_int]
        self.cpu.ggml_cpu_init()
        self.context = self.base.ggml_init(InitParams(bytes_wanted, None, False))
        names = [self.base.ggml_type_name(i) or b"" for i in range(41)]
        self.types = {name.decode(): i for i, name in enumerate(names)}

    def tensor(self, kind, columns, rows, data):
        made = self.base.ggml_new_tensor_2d(self.context, self.types[kind], columns, rows)
        ctypes.memmove(self.base.ggml_get_data(made), data.ctypes.data, data.nbytes)
        return made

    def product(self, weights, input_):
        """(call that computes it, where the result lies)"""
        output = self.base.ggml_mul_mat(self.context, weights, input_)
        graph = self.base.ggml_new_graph(self.context)
        self.base.ggml_build_forward_expand(graph, output)
        threads = len(os.sched_getaffinity(0))
        return lambda: self.cpu.ggml_graph_compute_with_ctx(self.context, graph, threads), output


def ggml_times(rotate_mib, runs):
    """{case: seconds} of ggml; the first results are held against numpy."""
    random = numpy.random.default_rng(1)
    values = random.standard_normal((N, K), numpy.float32)
    times = {}
    for name, (elements, block_bytes) in GGML_FORMATS.items():
        packed = numpy.empty(N * K // elements * block_bytes, numpy.uint8)
        copies = max(1, -(-rotate_mib * 2**20 // packed.nbytes))
        ggml = Ggml(copies * packed.nbytes + sum(ROWS) * (K + 3 * N) * 8 * copies + 2**28)
        if name not in ggml.types:
            continue
        getattr(ggml.base, f"quantize_row_{name}_ref")(values.ctypes.data, packed.ctypes.data, values.size)
        decoded = numpy.empty_like(values)
        getattr(ggml.base, f"dequantize_row_{name}")(packed.ctypes.data, decoded.ctypes.data, values.size)
        weights = [ggml.tensor(name, K, N, packed) for _ in range(copies)]
        for rows in ROWS:
            activations = random.standard_normal((rows, K), numpy.float32)
            input_ = ggml.tensor("f32", K, rows, activations)
            calls = [ggml.product(each, input_) for each in weights]
            start = time.perf_counter()
            calls[0][0]()
            slow = time.perf_counter() - start > 1  # then once more is enough
            got = numpy.ctypeslib.as_array(
                ctypes.cast(ggml.base.ggml_get_data(calls[0][1]), ctypes.POINTER(ctypes.c_float)), (rows, N)
            )
            wanted = activations @ decoded.T
            error = float(numpy.linalg.norm(got - wanted) / numpy.linalg.norm(wanted))
            if not error < 0.03:
                sys.exit(f"products: ggml's {name} is {error:.3g} off: it was called wrongly")
            times[f"{name} {rows}x{N}x{K}"] = (
                seconds(calls[1 % copies][0], 1) if slow else seconds(lambda: [call() for call, _ in calls], runs) / copies
            )
    return times


def our_times(program, rotate_mib, runs):
    command = [program, "bench", "matmul", "--backend", "cpu", "--json", "--filter", f"x{N}x{K}"]
    command += ["--rotate-mib", str(rotate_mib), "--runs", str(runs)]
    tables = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)["tables"]
    return {row["case"]: row["seconds"] for row in tables[0]["cases"]}, tables[0]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("microscale")
    parser.add_argument("--rotate-mib", type=int, default=256)
    parser.add_argument("--runs", type=int, default=7)
    options = parser.parse_args()
    theirs = ggml_times(options.rotate_mib, options.runs)
    ours, table = our_times(options.microscale, options.rotate_mib, options.runs)
    read = table["limits"]["read_bytes_per_second"] / 1e9
    print(f"{table['backend']}, {table['threads']} threads, reading {read:.1f} GB/s; {options.rotate_mib} MiB of weights")
    print(f"{'case':<24} {'microscale':>12} {'ggml':>12} {'times as fast':>14}")
    for case, their in theirs.items():
        own = ours[case]
        print(f"{case:<24} {own * 1e3:>9.3f} ms {their * 1e3:>9.3f} ms {their / own:>14.2f}")


if __name__ == "__main__":
    main()
