"""A decoding step of a transformer layer in a function that torch.compile takes whole: 4-bit weights, a 4-bit cache of keys
and values, and on a GPU a CUDA graph of it.

usage: python kernels_in_compile.py     on a GPU where there is one
"""

import torch
from torch import nn

import microscale.torch as mst

HEADS, KV_HEADS, D = 8, 2, 64
WIDTH = HEADS * D


class Layer(nn.Module):
    def __init__(self, batch, max_tokens):
        super().__init__()
        self.norm = nn.RMSNorm(WIDTH)
        self.qkv = nn.Linear(WIDTH, (HEADS + 2 * KV_HEADS) * D, bias=False)
        self.out = nn.Linear(WIDTH, WIDTH, bias=False)
        self.cache = mst.KvCache(batch, KV_HEADS, D, max_tokens, format="nvfp4", page_size=16)
        self.mlp_norm = nn.RMSNorm(WIDTH)
        self.mlp = mst.GatedMlp.from_linears(
            nn.Linear(WIDTH, 2 * WIDTH, bias=False),
            nn.Linear(WIDTH, 2 * WIDTH, bias=False),
            nn.Linear(2 * WIDTH, WIDTH, bias=False),
        )

    def forward(self, x):
        heads = self.qkv(self.norm(x)).unflatten(-1, (-1, D))
        q, k, v = heads.split([HEADS, KV_HEADS, KV_HEADS], dim=2)
        self.cache.append(k, v)
        x = x + self.out(self.cache.attend(q).flatten(2))
        return x + self.mlp(self.mlp_norm(x))


def main():
    torch.manual_seed(0)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    layer = Layer(batch=2, max_tokens=256).to(device).bfloat16()
    mst.quantize_(layer)
    layer.requires_grad_(False)
    prompt = torch.randn(2, 12, WIDTH, device=device).bfloat16()
    token = torch.randn(2, 1, WIDTH, device=device).bfloat16()

    layer(prompt)
    wanted = layer(token)  # eager
    layer.cache.reset()

    # On a GPU inductor fuses what lies between the kernels; the CPU's backend here needs no compiler.
    backend = "inductor" if device == "cuda" else "aot_eager"
    step = torch.compile(layer, fullgraph=True, dynamic=True, backend=backend)
    step(prompt)
    found = step(token)
    error = ((found - wanted).norm() / wanted.norm()).item()
    print(f"{layer.cache.lengths.tolist()} tokens; compiled beside eager: relative difference {error:.1e}")
    assert error < 2e-2

    if device == "cuda":
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            captured = layer(token)
        for _ in range(10):
            graph.replay()
        print(f"{layer.cache.lengths.tolist()} tokens after ten replays of one CUDA graph", captured.shape)


if __name__ == "__main__":
    main()
