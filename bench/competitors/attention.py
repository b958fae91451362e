"""Times PyTorch's attention in BF16, fused and unfused, on the GPU's cases of `microscale bench attention`.

usage: attention.py [MICROSCALE]      needs an NVIDIA GPU, and PyTorch 2.5 or newer in this Python

Fused: scaled_dot_product_attention with cuDNN and with flash; a decode's query heads also folded into the rows of
their kv head, so that each key is read once. Unfused: q k^T writes the score matrix, softmax rewrites it, and it is
multiplied by v. Each result is compared with the unfused one. Inputs are random normals that rotate through 256 MiB
before one comes round again, calls are replayed in a graph, and the median of the replays counts (cublas.py). With
MICROSCALE, our own 4-bit cases of the same name in the same run.
"""

import functools
import sys

import torch
from cublas import ROTATE_BYTES, ours, seconds
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.functional import scaled_dot_product_attention

D = 128
K = 1024
# our case of a format, batch, queries, keys, kv heads; 32 query heads, prefill causal
CASES = [
    ("decode {} 64 x 8k", 64, 1, 8 * K, 8),
    ("decode {} 16 x 32k", 16, 1, 32 * K, 8),
    ("decode {} 1 x 32k", 1, 1, 32 * K, 8),
    ("decode {} 1 x 128k", 1, 1, 128 * K, 8),
    ("prefill {} 4k", 1, 4 * K, 4 * K, 32),
    ("prefill {} 16k", 1, 16 * K, 16 * K, 32),
]
Q_HEADS = 32
BACKENDS = {"cuDNN": SDPBackend.CUDNN_ATTENTION, "flash": SDPBackend.FLASH_ATTENTION}


def fused(backend, folded):
    """softmax(q k^T / sqrt(D)) v by one backend; folded: [batch, 32, 1, D] as [batch, kv heads, group, D]."""

    def call(q, k, v):
        rows = q.view(q.shape[0], k.shape[1], -1, D) if folded else q
        with sdpa_kernel(backend):
            output = scaled_dot_product_attention(
                rows, k, v, is_causal=q.shape[2] > 1, enable_gqa=rows.shape[1] != k.shape[1]
            )
        return output.reshape(q.shape)

    return call


@functools.cache
def future(queries):
    return torch.ones(queries, queries, dtype=torch.bool, device="cuda").triu(1)


def unfused(q, k, v):
    """The same in three kernels and, for a mask, a fourth; the scores are BF16 in memory."""
    queries = q.shape[2]
    rows = q.view(q.shape[0], k.shape[1], -1, D)
    scores = torch.matmul(rows * D**-0.5, k.transpose(2, 3))
    if queries > 1:
        scores.masked_fill_(future(queries), float("-inf"))
    return torch.matmul(torch.softmax(scores, dim=-1), v).view(q.shape)


def operands(batch, queries, keys, kv_heads):
    """As many sets of q, k, v as it takes to leave the caches."""
    kv_bytes = 2 * 2 * batch * kv_heads * keys * D
    sets = []
    for _ in range(max(1, -(-ROTATE_BYTES // kv_bytes))):
        shapes = [(batch, Q_HEADS, queries, D)] + 2 * [(batch, kv_heads, keys, D)]
        sets.append([torch.randn(s, device="cuda", dtype=torch.bfloat16) for s in shapes])
    return sets


def measured(batch, queries, keys, kv_heads):
    """({way: seconds}, why the others were not run), the unfused way first."""
    sets = operands(batch, queries, keys, kv_heads)
    want = unfused(*sets[0]).float()
    ways = {"unfused": unfused}
    for name, backend in BACKENDS.items():
        ways[name] = fused(backend, False)
        if kv_heads < Q_HEADS:
            ways[f"{name}, folded"] = fused(backend, True)
    times, refused = {}, []
    for name, way in ways.items():
        try:
            off = ((way(*sets[0]).float() - want).norm() / want.norm()).item()
            if not off < 0.02:
                sys.exit(f"attention.py: {name} is off by {off:.3g} of the unfused result: it was called wrongly")
            torch.cuda.empty_cache()
            times[name] = seconds(lambda i, way=way: way(*sets[i]), len(sets), 2 if queries > 1 else 16)
        except RuntimeError as error:
            refused.append(f"{name}: {str(error).splitlines()[0]}")
    return times, refused


def main():
    mine = ours("attention", sys.argv[1], "fp4 ") if len(sys.argv) > 1 else {}
    print(f"{torch.cuda.get_device_name()}, PyTorch {torch.__version__}, CUDA {torch.version.cuda}")
    for name, batch, queries, keys, kv_heads in CASES:
        times, refused = measured(batch, queries, keys, kv_heads)
        torch.cuda.empty_cache()
        pairs = queries * (queries + 1) / 2 if queries > 1 else keys
        operations = 4 * batch * Q_HEADS * pairs * D
        read = 2 * 2 * batch * kv_heads * keys * D
        best = min((way for way in times if way != "unfused"), key=times.get, default="unfused")
        scores = 2 * batch * Q_HEADS * queries * keys
        print(f"{name.format('bf16')}: score matrix {scores / 1e6:.1f} MB, k and v {read / 1e6:.1f} MB")
        for way, time in times.items():
            rate = f"{operations / time / 1e12:7.0f} TFLOPS" if queries > 1 else f"{read / time / 1e12:7.2f} TB/s"
            print(f"  {way:<16}{time * 1e6:>11.1f} us{rate}{'  best fused' if way == best else ''}")
        for own in filter(mine.get, (name.format(kind) for kind in ("nvfp4", "mxfp4"))):
            faster = ", ".join(f"{time / mine[own]:.2f} x {way}" for way, time in times.items())
            print(f"  {'ours, ' + own.split()[1]:<16}{mine[own] * 1e6:>11.1f} us  {faster}")
        for reason in refused:
            print(f"  not run, {reason}")


if __name__ == "__main__":
    main()
