"""Decoding with a Llama of 70 billion parameters (synthetic NVFP4 weights and NVFP4 keys and values) shared by 1, 2 and 4
GPUs of one host: microscale.torch.parallel, one step in a CUDA graph, tokens a second over those of one GPU.

    python bench/python/parallel.py [--ranks 1,2,4] [--layers 80] [--cases 1x512,32x512] [--reduce auto|nccl] [--json FILE]
    scripts/gpu_check_python WHEEL python3 bench/python/parallel.py      with a wheel that is not installed

Needs 50 GB on one GPU, torch and triton. Prints a table; figures are medians of 20 replays on rank 0. Weights are made packed,
each rank's part by itself, so nothing of the dense model ever exists. Greedy tokens are compared over ranks.
"""

import argparse
import json
import os
import socket
import statistics
import sys
import time

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch import nn

import microscale
import microscale.torch as mst
import microscale.torch.parallel as mstp

HIDDEN, INNER, HEADS, KV_HEADS, SIZE, VOCABULARY = 8192, 28672, 64, 8, 128, 128256
WANTED = {2: 1.65, 4: 2.8}
EPSILON = 1e-5


def packed(n, k):
    """Random NVFP4 weights of (n, k), of standard deviation about 1 / sqrt(k)."""
    codes = torch.randint(0, 256, (n, k // 2), dtype=torch.uint8, device="cuda")
    scales = torch.randint(40, 56, (n, k // 16), dtype=torch.uint8, device="cuda")  # 0.25 to 0.47
    multiplier = torch.full((1,), 1 / (2.9 * 0.35 * k**0.5), device="cuda")
    return microscale.BlockTensor.from_parts(codes, scales, multiplier, format="nvfp4")


def linear(n, k):
    return mst.Linear.from_block_tensor(packed(n, k))


def mlp_of(hidden, inner):
    made = mst.GatedMlp(hidden, inner, device="meta")
    from microscale.torch._module import Parts

    made._set_weights(made._sets[0], [Parts.of(packed(inner, hidden)) for _ in range(2)])
    made._set_weights(made._sets[1], [Parts.of(packed(hidden, inner))])
    return made


@torch.compile(dynamic=False)
def add_and_norm(x, delta, weight):
    total = x + delta
    wide = total.float()
    scaled = wide * torch.rsqrt(wide.square().mean(-1, keepdim=True) + EPSILON)
    return total, scaled.to(x.dtype) * weight


@torch.compile(dynamic=False)
def rotated(qkv, cos, sin, heads, kv_heads):
    """q and k of a step, turned by their position, and v, each (batch, 1, heads, size)."""
    q, k, v = qkv.view(qkv.shape[0], 1, -1, SIZE).split([heads, kv_heads, kv_heads], 2)
    c, s = cos[:, None, None], sin[:, None, None]

    def turned(x):
        first, second = x.float().chunk(2, -1)
        return torch.cat([first * c - second * s, second * c + first * s], -1).to(x.dtype)

    return turned(q), turned(k), v.contiguous()


class Layer(nn.Module):
    def __init__(self, ranks):
        super().__init__()
        heads, kv_heads = mstp._shares.heads_of(HEADS, KV_HEADS, ranks.size, ranks.rank, "attention")
        self.heads, self.kv_heads = len(heads), len(kv_heads)
        self.qkv = linear((self.heads + 2 * self.kv_heads) * SIZE, HIDDEN)
        self.out = mstp.RowParallelLinear(HEADS * SIZE, HIDDEN, bias=False, mesh=ranks, device="meta")
        self.out.local = linear(HIDDEN, self.heads * SIZE)
        self.mlp = mstp.ParallelGatedMlp(HIDDEN, INNER, mesh=ranks, device="meta")
        self.mlp.local = mlp_of(HIDDEN, self.mlp.span[1] - self.mlp.span[0])
        ones = torch.ones(HIDDEN, dtype=torch.bfloat16, device="cuda")
        self.before, self.after = (nn.Parameter(ones.clone(), requires_grad=False) for _ in range(2))

    def forward(self, x, delta, cos, sin, cache):
        x, h = add_and_norm(x, delta, self.before)
        q, k, v = rotated(self.qkv(h), cos, sin, self.heads, self.kv_heads)
        cache.append(k, v)
        x, h = add_and_norm(x, self.out(cache.attend(q).flatten(1)), self.after)
        return x, self.mlp(h)


class Model(nn.Module):
    def __init__(self, layers, ranks):
        super().__init__()
        self.layers = nn.ModuleList(Layer(ranks) for _ in range(layers))
        generator = torch.Generator(f"cuda:{torch.cuda.current_device()}").manual_seed(7)  # the same on all
        embedding = torch.randn(VOCABULARY, HIDDEN, generator=generator, dtype=torch.bfloat16, device="cuda")
        self.embedding = nn.Parameter(embedding, requires_grad=False)
        self.norm = nn.Parameter(torch.ones_like(embedding[0]), requires_grad=False)
        head = nn.Linear(HIDDEN, VOCABULARY, bias=False, device="meta")
        head.weight = nn.Parameter(torch.randn_like(embedding), requires_grad=False)
        self.head = mstp.ColumnParallelLinear.from_linear(head, ranks, gather=True)
        angles = torch.arange(8192, device="cuda")[:, None] * 5e5 ** (
            -torch.arange(0, SIZE, 2, device="cuda") / SIZE
        )
        self.cos, self.sin = angles.cos(), angles.sin()

    def forward(self, tokens, caches):
        x = self.embedding[tokens]
        delta = torch.zeros_like(x)
        at = caches[0].lengths.long()
        cos, sin = self.cos[at], self.sin[at]
        for layer, cache in zip(self.layers, caches, strict=True):
            x, delta = layer(x, delta, cos, sin, cache)
        return self.head(add_and_norm(x, delta, self.norm)[1]).argmax(-1)

    def read_bytes(self):
        """Of a step: everything but the embedding."""
        every = {t.data_ptr(): t.nbytes for t in [*self.parameters(), *self.buffers()]}
        return sum(every.values()) - self.embedding.nbytes


def filled_caches(model, batch, context):
    caches = []
    for layer in model.layers:
        cache = mst.KvCache(batch, layer.kv_heads, SIZE, context + 64, page_size=64, device="cuda")
        k = torch.randn(batch, context, layer.kv_heads, SIZE, dtype=torch.bfloat16, device="cuda")
        cache.append(k, k)
        caches.append(cache)
    return caches


def median_ms(call, replays=20):
    times = []
    for _ in range(replays):
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        start.record()
        call()
        end.record()
        end.synchronize()
        times.append(start.elapsed_time(end))
    return statistics.median(times)


def sums_are_right(ranks):
    """Of the way in which a step sums, beside NCCL in FP32."""
    for rows in (1, 32):
        x = torch.randn(rows, HIDDEN, device="cuda").bfloat16()
        got, wanted = ranks.sum(x.clone()), x.float()
        dist.all_reduce(wanted)
        assert (got.float() - wanted).abs().max() <= 2**-6 * wanted.abs().max(), "a sum over ranks is wrong"


def work(rank, size, port, options, results):
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))
    torch.cuda.set_device(rank)
    device = torch.device("cuda", rank)
    dist.init_process_group("nccl", rank=rank, world_size=size, device_id=device)
    ranks = mstp.Ranks(reduce=options.reduce)
    torch.manual_seed(100 + rank)
    with torch.no_grad():
        sums_are_right(ranks)
        started = time.perf_counter()
        model = Model(options.layers, ranks)
        torch.cuda.synchronize()
        if rank == 0:
            how = "symmetric memory" if ranks._buffers else "NCCL"
            made = time.perf_counter() - started
            print(f"{size} GPUs: weights made in {made:.1f} s, {model.read_bytes() / 1e9:.1f} GB read a step by each, "
                  f"sums by {how if size > 1 else 'none'}", flush=True)  # fmt: skip
        rows = {}
        for batch, context in options.cases:
            caches = filled_caches(model, batch, context)
            tokens = torch.full((batch,), 7, device="cuda")
            for _ in range(2):
                tokens.copy_(model(tokens, caches))
            torch.cuda.synchronize()
            dist.barrier()
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph, capture_error_mode="thread_local"):
                tokens.copy_(model(tokens, caches))
            greedy = []
            for _ in range(8):
                graph.replay()
                greedy.append(tokens.clone())
            mine = torch.stack(greedy)
            every = [torch.empty_like(mine) for _ in range(size)]
            dist.all_gather(every, mine)
            assert all(torch.equal(one, mine) for one in every), "ranks chose different tokens"
            dist.barrier()
            milliseconds = median_ms(graph.replay)
            cache_bytes = sum(t.nbytes for cache in caches for t in cache.buffers())
            rows[f"{batch}x{context}"] = (milliseconds, model.read_bytes() + cache_bytes)
            del graph, caches
            torch.cuda.empty_cache()
        data = torch.empty(1 << 30, dtype=torch.float32, device="cuda").uniform_()
        data.sum()
        bandwidth = data.nbytes / median_ms(data.sum) * 1e3
    if rank == 0:
        results.put((bandwidth, rows))
    dist.barrier()
    dist.destroy_process_group()


def run(size, options):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    results = mp.get_context("spawn").SimpleQueue()
    mp.spawn(work, (size, port, options, results), nprocs=size)
    return results.get()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--ranks", default="1,2,4")
    parser.add_argument("--layers", type=int, default=80)
    parser.add_argument("--cases", default="1x512,32x512", help="batch x tokens in the cache")
    parser.add_argument("--reduce", default="auto")
    parser.add_argument("--json")
    options = parser.parse_args()
    options.cases = [tuple(map(int, case.split("x"))) for case in options.cases.split(",")]
    sizes = [size for size in map(int, options.ranks.split(",")) if size <= torch.cuda.device_count()]
    print(f"{torch.cuda.device_count()} x {torch.cuda.get_device_name()}, microscale {microscale.__version__}, torch "
          f"{torch.__version__}, {options.layers} layers", flush=True)  # fmt: skip
    found = {}
    for size in sizes:
        found[size] = run(size, options)
    print("batch x tokens  GPUs  ms a step     floor  over it  tokens/s  over 1 GPU  wanted")
    for case in (f"{b}x{c}" for b, c in options.cases):
        for size in sizes:
            bandwidth, rows = found[size]
            milliseconds, read = rows[case]
            floor = read / bandwidth * 1e3
            tokens = int(case.split("x")[0]) / milliseconds * 1e3
            gain = found[sizes[0]][1][case][0] / milliseconds if sizes[0] == 1 else float("nan")
            print(f"{case:>14}  {size:4}  {milliseconds:9.2f}  {floor:8.2f}  {milliseconds / floor:7.2f}  {tokens:8.1f}  "
                  f"{gain:10.2f}  {WANTED.get(size, '')}")  # fmt: skip
    if options.json:
        with open(options.json, "w") as file:
            json.dump({size: {"bandwidth": b, "cases": rows} for size, (b, rows) in found.items()}, file, indent=1)
    return 0


if __name__ == "__main__":
    sys.exit(main())
