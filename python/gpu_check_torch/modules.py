"""Modules on a GPU: there and back, state dicts, gradients, torch.compile, graphs of a layer."""

import copy

import torch
import torch.nn.functional as F
from operators import near, randn
from torch import nn

import microscale.torch as mst

FORMATS = ["nvfp4", "mxfp4", "mxfp8_e4m3"]


def every_module(format):
    linear = nn.Linear(256, 128)
    experts = [torch.randn(4, 96, 64) / 8, torch.randn(4, 96, 64) / 8, torch.randn(4, 64, 96) / 8]
    mlp = mst.GatedMlp.from_linears(nn.Linear(64, 96), nn.Linear(64, 96), nn.Linear(96, 64), format)
    indices = torch.tensor([[0, 2], [2, 3], [0, 3], [3, 2], [2, 0]])
    yield mst.Linear.from_linear(linear, format), (torch.randn(5, 256),)
    yield mlp, (torch.randn(5, 64),)
    yield mst.Experts.from_weights(*experts, format), (torch.randn(5, 64), indices, torch.rand(5, 2))


def modules_go_to_the_gpu_and_back():
    for format in FORMATS:
        for module, x in every_module(format):
            before, wanted = copy.deepcopy(module.state_dict()), module(*x)
            module.to("cuda")
            near(module(*(t.cuda() for t in x)).cpu(), wanted.detach(), 1e-2)
            state = module.state_dict()
            for key, value in before.items():
                assert state[key].is_cuda and torch.equal(
                    state[key].cpu().view(torch.uint8), value.view(torch.uint8)
                ), key
            fresh = copy.deepcopy(module)
            fresh.load_state_dict(before)
            assert torch.equal(fresh(*(t.cuda() for t in x)), module(*(t.cuda() for t in x)))
            module.to("cpu")
            assert torch.equal(module(*x), wanted)


def layers_quantized_on_the_gpu_are_those_of_the_cpu():
    dense = nn.Linear(256, 128)
    for format in FORMATS:
        here = mst.Linear.from_linear(dense, format).state_dict()
        there = mst.Linear.from_linear(copy.deepcopy(dense).cuda(), format).state_dict()
        for key, value in here.items():
            if "weight" in key:
                assert torch.equal(value.view(torch.uint8), there[key].cpu().view(torch.uint8)), (
                    format,
                    key,
                )


def gradients_of_the_input():
    for format in FORMATS:
        layer = mst.Linear.from_linear(nn.Linear(256, 128).cuda().bfloat16(), format)
        x = randn(6, 256).requires_grad_()
        grad = randn(6, 128)
        layer(x).backward(grad)
        near(x.grad, grad.double() @ layer.weight.double())


class Block(nn.Module):
    def __init__(self, width=512, heads=8, kv_heads=2, d=64):
        super().__init__()
        self.heads, self.kv_heads, self.d = heads, kv_heads, d
        self.norm = nn.RMSNorm(width)
        self.qkv = nn.Linear(width, (heads + 2 * kv_heads) * d, bias=False)
        self.out = nn.Linear(heads * d, width, bias=False)
        self.cache = mst.KvCache(2, kv_heads, d, 64, page_size=16)
        self.mlp = mst.GatedMlp(width, 2 * width)

    def forward(self, x):
        heads = self.qkv(self.norm(x)).unflatten(-1, (-1, self.d))
        q, k, v = heads.split([self.heads, self.kv_heads, self.kv_heads], dim=2)
        self.cache.append(k, v)
        x = x + self.out(self.cache.attend(q, max_q_len=x.shape[1], max_kv_len=64).flatten(2))
        return x + self.mlp(F.relu(x))


def block():
    made = Block().cuda().bfloat16()
    mst.quantize_(made)
    return made.requires_grad_(False)


def a_compiled_block_decodes_as_an_eager_one():
    layer = block()
    tokens = [randn(2, n, 512) for n in (9, 1, 1)]
    wanted = [layer(x) for x in tokens]
    layer.cache.reset()
    compiled = torch.compile(layer, fullgraph=True, dynamic=True)
    for x, y in zip(tokens, wanted, strict=True):
        near(compiled(x), y, 2e-2)


def a_decoding_step_in_a_cuda_graph():
    layer = block()
    x = randn(2, 1, 512)
    wanted = [layer(x).clone() for _ in range(3)]
    layer.cache.reset()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        y = layer(x)
    layer.cache.reset()
    for step in wanted:
        graph.replay()
        assert torch.equal(y, step)
    assert layer.cache.lengths.tolist() == [3, 3]


def compiled_with_graphs_of_torchs_own():
    layer = mst.Linear.from_linear(nn.Linear(256, 128).cuda().bfloat16()).requires_grad_(False)
    compiled = torch.compile(lambda x: F.silu(layer(x)) * 2, mode="reduce-overhead", fullgraph=True)
    x = randn(4, 256)
    for _ in range(4):
        near(compiled(x), F.silu(layer(x)) * 2)


CHECKS = [
    modules_go_to_the_gpu_and_back,
    layers_quantized_on_the_gpu_are_those_of_the_cpu,
    gradients_of_the_input,
    a_compiled_block_decodes_as_an_eager_one,
    a_decoding_step_in_a_cuda_graph,
    compiled_with_graphs_of_torchs_own,
]
