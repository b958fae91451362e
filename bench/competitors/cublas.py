"""Times cuBLAS through PyTorch on the shapes of `microscale bench matmul`, beside ours in the same run.

usage: cublas.py MICROSCALE       needs an NVIDIA GPU, and PyTorch in this Python (pip install torch)

Dense products in BF16, and one in FP8 with one scale a tensor; operands are random normals. Weights rotate through
256 MiB before one comes round again, calls are replayed in a graph, and the median of its replays counts: as in
`microscale bench matmul` (docs/bench.md).
"""

import json
import statistics
import subprocess
import sys

import torch

WEIGHTS = [(8192, 8192), (28672, 8192), (7168, 16384)]  # n, k
ROWS = [1, 4, 16, 64]
ROTATE_BYTES = 256 << 20


def seconds(call, variants, least=16):
    """Median time of one call; call(i) is for variant i. A graph holds at least `least` calls."""
    calls = max(least, variants)
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        for i in range(variants):
            call(i)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, stream=stream):
            for i in range(calls):
                call(i % variants)
        times = []
        for _ in range(12):
            begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
            begin.record()
            graph.replay()
            end.record()
            end.synchronize()
            times.append(begin.elapsed_time(end) / 1e3 / calls)
    return statistics.median(times[2:])


def bf16(m, n, k):
    variants = max(1, -(-ROTATE_BYTES // (2 * n * k)))
    weights = [torch.randn(n, k, device="cuda", dtype=torch.bfloat16) for _ in range(variants)]
    a = torch.randn(m, k, device="cuda", dtype=torch.bfloat16)
    d = torch.empty(m, n, device="cuda", dtype=torch.bfloat16)
    return seconds(lambda i: torch.matmul(a, weights[i].T, out=d), variants)


def fp8(m, n, k):
    a = torch.randn(m, k, device="cuda").to(torch.float8_e4m3fn)
    b = torch.randn(n, k, device="cuda").to(torch.float8_e4m3fn)
    one = torch.ones((), device="cuda")
    return seconds(lambda i: torch._scaled_mm(a, b.T, one, one, out_dtype=torch.bfloat16), 1)


def ours(operation, program, name):
    """Seconds of the cases whose name has that in it, by name."""
    command = [program, "bench", operation, "--backend", "cuda", "--filter", name]
    done = subprocess.run([*command, "--json"], capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"{' '.join(command)} ended with {done.returncode}; run it by itself: {done.stderr.strip()}")
    return {case["case"]: case["seconds"] for case in json.loads(done.stdout)["tables"][0]["cases"]}


def main():
    program = sys.argv[1]
    print(f"{torch.cuda.get_device_name()}, PyTorch {torch.__version__}, CUDA {torch.version.cuda}")
    print(f"{'m x n x k':<20}{'cuBLAS BF16':>14}{'NVFP4 by BF16':>16}{'times':>8}")
    mine = ours("matmul", program, "nvfp4 ")
    for n, k in WEIGHTS:
        for m in ROWS:
            shape = f"{m}x{n}x{k}"
            theirs, own = bf16(m, n, k), mine.get(f"nvfp4 {shape}")
            print(f"{shape:<20}{theirs * 1e6:>11.1f} us{own * 1e6:>13.1f} us{theirs / own:>8.2f}")
    size = 8192
    operations = 2 * size**3
    for kind, time in (("BF16", bf16(size, size, size)), ("FP8", fp8(size, size, size))):
        print(f"cuBLAS {kind} {size}^3: {operations / time / 1e12:.0f} TFLOPS")
    for name, own in ours("matmul", program, f"{size}x{size}x{size}").items():
        print(f"{name}: {operations / own / 1e12:.0f} TFLOPS")


if __name__ == "__main__":
    main()
