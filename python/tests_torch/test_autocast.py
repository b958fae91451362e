"""Within torch.autocast modules and operators compute as torch.nn.Linear does there: in 16 bits."""

import pytest
import torch
from torch import nn

import microscale.torch as mst

ops = torch.ops.microscale
X = torch.randn(3, 64, generator=torch.Generator().manual_seed(0))


def modules():
    experts = mst.Experts.from_weights(*(torch.randn(2, 64, 64) for _ in range(3)))
    chosen = torch.tensor([[0], [1], [0]])
    yield mst.Linear.from_linear(nn.Linear(64, 32))
    yield mst.GatedMlp.from_linears(*(nn.Linear(64, 64, bias=False) for _ in range(3)))
    yield lambda x: experts(x, chosen, torch.ones(3, 1))


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("grad", [False, True])
def test_modules_give_the_types_of_torchs_linear(dtype, grad):
    for module in modules():
        x = X.clone().requires_grad_(grad)
        with torch.autocast("cpu", dtype):
            y = module(x)
            assert y.dtype == nn.Linear(64, 32)(x).dtype == dtype
        assert torch.equal(y, module(x.to(dtype)))
        assert module(x).dtype == torch.float32  # outside as before
        if grad:
            y.float().sum().backward()
            assert x.grad.dtype == torch.float32 and x.grad.any()


def test_disabled_and_float64_are_left_alone():
    layer = mst.Linear.from_linear(nn.Linear(64, 32))
    with torch.autocast("cpu", torch.bfloat16), torch.autocast("cpu", enabled=False):
        assert layer(X).dtype == torch.float32
    with torch.autocast("cpu", torch.bfloat16), pytest.raises(ValueError, match="x: .* float64"):
        layer(X.double())


def test_attention_and_caches():
    q = torch.randn(1, 3, 2, 64)
    cache = mst.KvCache(1, 2, 64, 16)
    with torch.autocast("cpu", torch.bfloat16):
        cache.append(q, q)
        assert ops.attention(q, q, q).dtype == cache.attend(q).dtype == torch.bfloat16
    assert cache.attend(q).dtype == torch.float32


def test_compiled():
    layer = mst.Linear.from_linear(nn.Linear(64, 32)).requires_grad_(False)

    def step(x):
        with torch.autocast("cpu", torch.bfloat16):
            return torch.relu(layer(x))

    compiled = torch.compile(step, fullgraph=True, dynamic=True, backend="aot_eager")
    assert compiled(X).dtype == torch.bfloat16 and torch.equal(compiled(X), step(X))
    outside = torch.compile(layer, fullgraph=True, backend="aot_eager")
    with torch.autocast("cpu", torch.bfloat16):
        assert torch.equal(outside(X), layer(X))
