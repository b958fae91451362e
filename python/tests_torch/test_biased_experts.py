"""Experts with biases and gpt-oss's activation: against dense arithmetic, gradients, state dicts, shared."""

import pytest
import torch

import microscale.torch as mst
from microscale.torch.parallel._cut import cut_experts

E, HIDDEN, INNER = 3, 64, 96


@pytest.fixture
def experts():
    generator = torch.Generator().manual_seed(0)
    weights = [torch.randn(E, *shape, generator=generator) / 4 for shape in ((INNER, HIDDEN),) * 2]
    weights.append(torch.randn(E, HIDDEN, INNER, generator=generator) / 4)
    made = mst.Experts.from_weights(*weights, "mxfp8", "clamped_swiglu")
    for name, size in (("gate_bias", INNER), ("up_bias", INNER), ("down_bias", HIDDEN)):
        made.set_bias(name, torch.randn(E, size, generator=generator))
    return made


def call(generator=5, tokens=7, chosen=2):
    generator = torch.Generator().manual_seed(generator)
    x = 3 * torch.randn(tokens, HIDDEN, generator=generator)
    indices = torch.stack([torch.randperm(E, generator=generator)[:chosen] for _ in range(tokens)])
    return x, indices, torch.rand(tokens, chosen, generator=generator)


def dense(experts, x, indices, weights):
    gate, up, down = (experts._dense(of) for of in experts._sets)
    result = torch.zeros_like(x)
    for token in range(len(x)):
        for e, share in zip(indices[token].tolist(), weights[token], strict=True):
            g = (gate[e] @ x[token] + experts.gate_bias[e]).clamp(max=7)
            u = (up[e] @ x[token] + experts.up_bias[e]).clamp(-7, 7)
            h = (u + 1) * g * torch.sigmoid(1.702 * g)
            result[token] += share * (down[e] @ h + experts.down_bias[e])
    return result


def test_against_dense_arithmetic(experts):
    x, indices, weights = call()
    wanted = dense(experts, x, indices, weights)
    torch.testing.assert_close(experts(x, indices, weights), wanted, rtol=1e-4, atol=1e-3)
    assert "clamped_swiglu" in repr(experts) and "bias=True" in repr(experts)


def test_gradients(experts):
    x, indices, weights = call()
    grads = []
    for function in (experts, lambda *arguments: dense(experts, *arguments)):
        own = x.clone().requires_grad_()
        function(own, indices, weights).square().sum().backward()
        grads.append(own.grad)
    torch.testing.assert_close(*grads, rtol=1e-3, atol=1e-2 * grads[1].abs().max().item())


def test_state_dicts(experts):
    x, indices, weights = call()
    state = experts.state_dict()
    assert state["1.gate_proj.bias"].shape == (INNER,) and state["2.down_proj.bias"].shape == (HIDDEN,)
    other = mst.Experts(E, HIDDEN, INNER, "mxfp8", "clamped_swiglu", bias=True)
    other.load_state_dict(state)
    assert torch.equal(other(x, indices, weights), experts(x, indices, weights))
    del state["0.up_proj.bias"]
    state["1.up_proj.bias"] = torch.zeros(3)
    wrong = r"(?s)0.up_proj.bias.*1.up_proj.bias: of shape \(3,\), not \(96,\)"
    with pytest.raises(RuntimeError, match=wrong):
        other.load_state_dict(state)


def test_parts_of_experts_add_up(experts):
    """As ranks have them: what is added after the sum is added once."""
    x, indices, weights = call()
    wanted = experts(x, indices, weights)
    parts = [cut_experts(experts, None, span, "e")(x, indices, weights) for span in ((0, 32), (32, INNER))]
    torch.testing.assert_close(sum(parts), wanted, rtol=1e-4, atol=1e-3)
    total = torch.zeros_like(wanted)
    for start, end in ((0, 1), (1, E)):
        own = (indices >= start) & (indices < end)
        part = cut_experts(experts, (start, end), None, "e")
        total += part(x, torch.where(own, indices - start, -1), torch.where(own, weights, 0))
    torch.testing.assert_close(total, wanted, rtol=1e-4, atol=1e-3)
