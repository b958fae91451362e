"""What a call of the operators of microscale.torch costs the calling thread: the table of docs/python_torch.md.

usage: python bench/python/operator_cost.py     with the wheel and torch installed; on a GPU too where there is one
"""

import time

import torch

import microscale as ms
import microscale.torch as mst

ops = torch.ops.microscale


def microseconds(call, calls, rounds, clock, settle):
    best = float("inf")
    for _ in range(rounds):
        settle()
        begun = clock()
        for _ in range(calls):
            call()
        best = min(best, clock() - begun)
    settle()
    return best / calls * 1e6


def rows_of(device):
    """On the CPU products of no rows: arguments, dispatch and checks, and no arithmetic. On a GPU 64 calls of one row that
    the caller does not wait for."""
    gpu = device == "cuda"
    rows, n, k = (1, 1024, 1024) if gpu else (0, 16, 32)
    dense = torch.randn(n, k, device=device).bfloat16()
    layer = mst.Linear.from_linear(torch.nn.Linear(k, n, bias=False, device=device, dtype=torch.bfloat16))
    layer.requires_grad_(False)
    packed, scale = layer.packed, layer.global_scale
    parts = ms.PackedWeights.from_parts(packed, scale, shape=(n, k), format="nvfp4")
    x = torch.randn(rows, k, device=device).bfloat16()
    out = torch.empty(rows, n, device=device, dtype=torch.bfloat16)
    words = (packed, scale, None, n, k, "nvfp4")
    yield "microscale.matmul with out", lambda: ms.matmul(x, parts, out=out)
    yield "microscale.matmul", lambda: ms.matmul(x, parts)
    yield "torch.ops.microscale.linear_out", lambda: ops.linear_out(x, *words, out)
    yield "torch.ops.microscale.linear", lambda: ops.linear(x, *words)
    yield "microscale.torch.Linear", lambda: layer(x)
    yield "torch.matmul with out", lambda: torch.matmul(x, dense.T, out=out)
    yield "torch.matmul", lambda: torch.matmul(x, dense.T)
    yield "torch.nn.functional.linear", lambda: torch.nn.functional.linear(x, dense)
    yield "x.new_empty", lambda: x.new_empty((rows, n))


def main():
    torch.set_num_threads(1)
    torch.set_grad_enabled(False)
    devices = ["cpu", "cuda"] if torch.cuda.is_available() and ms.cuda.device_count() else ["cpu"]
    print(f"torch {torch.__version__}, microscale {ms.__version__}")
    for device in devices:
        print(f"{device}, microseconds of the calling thread")
        gpu = device == "cuda"
        for name, call in rows_of(device):
            with ms.context(threads=1):
                call()
                found = microseconds(
                    call,
                    64 if gpu else 10_000,
                    40 if gpu else 9,
                    time.perf_counter if gpu else time.thread_time,
                    torch.cuda.synchronize if gpu else lambda: None,
                )
            print(f"  {name:40} {found:7.2f}", flush=True)


if __name__ == "__main__":
    main()
