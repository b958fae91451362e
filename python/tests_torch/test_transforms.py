"""torch.func: forward mode, vmap and what is made of them."""

import warnings

import pytest
import torch
from torch import nn
from torch.autograd import forward_ad

import microscale.torch as mst

X, V = torch.randn(2, 4, 64)


def dense_of(layer):
    dense = nn.Linear(layer.in_features, layer.out_features)
    dense.load_state_dict({"weight": layer.block_tensor().dequantize("f32"), "bias": layer.bias})
    return dense.requires_grad_(False)


@pytest.fixture
def layer():
    return mst.Linear.from_linear(nn.Linear(64, 32))


@pytest.fixture(params=["silu", "gelu_tanh"])
def mlp(request):
    linears = nn.Linear(64, 96), nn.Linear(64, 96), nn.Linear(96, 64)
    return mst.GatedMlp.from_linears(*linears, activation=request.param)


def near(one, other):
    torch.testing.assert_close(one, other, rtol=1e-3, atol=1e-4)


def test_forward_mode_of_linear(layer):
    weight = dense_of(layer).weight
    near(torch.func.jvp(layer, (X,), (V,))[1], V @ weight.T)
    with forward_ad.dual_level():
        near(forward_ad.unpack_dual(layer(forward_ad.make_dual(X, V))).tangent, V @ weight.T)
        assert forward_ad.unpack_dual(layer(X)).tangent is None
    near(torch.func.jacfwd(layer)(X[0]), weight)

    def of_bias(bias):
        return torch.func.functional_call(layer, {"bias": bias}, (X,))

    change = torch.arange(32.0)
    near(torch.func.jvp(of_bias, (layer.bias.detach(),), (change,))[1], change.expand(4, 32))


def test_second_derivatives_of_linear(layer):
    def cubes(module):
        return lambda x: module(x).pow(3).sum()

    near(torch.func.hessian(cubes(layer))(X[0]), torch.func.hessian(cubes(dense_of(layer)))(X[0]))


def test_forward_mode_of_a_gated_mlp(mlp):
    jacobian = torch.func.jacrev(mlp)(X[0])
    near(torch.func.jvp(mlp, (X[0],), (V[0],))[1], jacobian @ V[0])
    near(torch.func.jacfwd(mlp)(X[0]), jacobian)


def test_forward_mode_of_experts():
    experts = mst.Experts.from_weights(*torch.randn(2, 3, 32, 64), torch.randn(3, 64, 32))
    indices, weights = torch.tensor([[0, 1], [2, 0], [1, 2], [0, 2]]), torch.rand(4, 2)
    x = X.clone().requires_grad_()
    (gradient,) = torch.autograd.grad(experts(x, indices, weights).sum(), x)
    tangent = torch.func.jvp(lambda x: experts(x, indices, weights), (X,), (V,))[1]
    torch.testing.assert_close(tangent.sum(), (gradient * V).sum(), rtol=1e-3, atol=1e-2)


def test_vmap_is_one_call(layer, mlp):
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # of a loop in torch
        for module in (layer, mlp):
            assert torch.equal(torch.vmap(module)(X), module(X))
            assert torch.equal(torch.vmap(module, in_dims=1, out_dims=1)(X.T.contiguous()), module(X).T)
            gradient = torch.func.grad(lambda x, m=module: m(x).sum())
            near(torch.vmap(gradient)(X), gradient(X))


def test_vmap_over_layers():
    layers = [mst.Linear.from_linear(nn.Linear(64, 32)) for _ in range(3)]
    state = torch.func.stack_module_state(layers)
    every = torch.vmap(lambda p, b, x: torch.func.functional_call(layers[0], (p, b), (x,)), (0, 0, None))
    assert torch.equal(every(*state, X), torch.stack([one(X) for one in layers]))
