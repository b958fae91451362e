"""What quantize_ and the modules do with layers and arguments that are not as they expect."""

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn.utils import prune

import microscale as ms
import microscale.torch as mst

X = torch.randn(3, 64, generator=torch.Generator().manual_seed(0))


def test_hooks_go_over_to_the_new_layer():
    model = nn.Sequential(nn.Linear(64, 32), nn.Linear(32, 32))
    seen = []
    layer = model[0]
    handles = [
        layer.register_forward_hook(lambda module, args, out: seen.append("forward") or out + 1),
        layer.register_forward_pre_hook(lambda module, args: seen.append("pre")),
        layer.register_forward_pre_hook(
            lambda module, args, kwargs: seen.append("kwargs"), with_kwargs=True
        ),
        layer.register_full_backward_hook(lambda module, grad_in, grad_out: seen.append("backward")),
    ]
    assert mst.quantize_(model) == {} and isinstance(model[0], mst.Linear)
    y = model[0](X.clone().requires_grad_())
    y.sum().backward()
    assert seen == ["pre", "kwargs", "forward", "backward"]
    for handle in handles:  # of the old layer, and still good
        handle.remove()
    torch.testing.assert_close(model[0](X) + 1, y.detach())
    assert len(seen) == 4


def test_layers_that_are_more_than_a_linear_stay_with_the_reason():
    model = nn.ModuleDict({name: nn.Linear(64, 32) for name in "abcdefg"})
    nn.utils.parametrizations.weight_norm(model["a"])
    nn.utils.parametrize.register_parametrization(model["b"], "weight", nn.Identity())
    model["c"].forward = lambda x: x
    model["d"].register_state_dict_pre_hook(lambda *_: None)
    model["e"].register_buffer("mask", torch.ones(32))
    model["f"].adapter = nn.Linear(4, 4)
    model["g"].double()
    left = mst.quantize_(model, filter_fn=lambda module, name: "." not in name)
    for name, words in {
        "a": "Linear", "b": "Linear", "c": "forward was replaced", "d": "_state_dict_pre_hooks", "e": "mask",
        "f": "adapter", "g": "float64",
    }.items():  # fmt: skip
        assert words in left[name], (name, left)
    with torch.no_grad():
        pruned = nn.Sequential(nn.Linear(64, 32))
        prune.identity(pruned[0], "weight")
    assert "computed" in mst.quantize_(pruned)["0"]


def experts():
    return mst.Experts.from_weights(*(torch.randn(4, 64, 64) for _ in range(3)))


@pytest.mark.parametrize("value", [np.zeros((3, 64), "f4"), [1.0], None], ids=lambda v: type(v).__name__)
def test_what_is_no_tensor_is_named(value):
    kind = type(value).__name__
    layer = mst.Linear.from_linear(nn.Linear(64, 32))
    for grad in (True, False):
        with torch.set_grad_enabled(grad), pytest.raises((TypeError, RuntimeError), match="'?x'?.*" + kind):
            layer(value)
    with pytest.raises(TypeError, match="x: expected a torch.Tensor, got " + kind):
        mst.GatedMlp(64, 64)(value)
    with pytest.raises(TypeError, match="indices: expected a torch.Tensor, got " + kind):
        experts()(X, value, torch.ones(3, 1))
    with pytest.raises(TypeError, match="linear: expected a torch.nn.Linear, got " + kind):
        mst.Linear.from_linear(value)
    with pytest.raises(TypeError, match="model: expected a torch.nn.Module, got " + kind):
        mst.quantize_(value)
    with pytest.raises(TypeError, match="weight: expected a microscale.BlockTensor, got " + kind):
        mst.Linear.from_block_tensor(value)


def test_float64_is_refused_at_the_first_call():
    with pytest.raises(ValueError, match="linear: its weights are float64"):
        mst.Linear.from_linear(nn.Linear(64, 32).double())
    linears = [nn.Linear(64, 64) for _ in range(3)]
    with pytest.raises(ValueError, match="down: its weights are float64"):
        mst.GatedMlp.from_linears(*linears[:2], linears[2].double())
    for module in (mst.Linear(64, 32), mst.GatedMlp(64, 64)):
        with pytest.raises(ValueError, match="x: the array is float64; pass float32"):
            module(X.double())
    with pytest.raises(ValueError, match="x: the array is float64; pass float32"):
        experts()(X.double(), torch.zeros(3, 1, dtype=torch.long), torch.ones(3, 1))


@pytest.mark.parametrize("bad", [4, -1, 1 << 40])
def test_indices_of_no_expert_are_refused_on_the_cpu(bad):
    layer = experts()
    indices = torch.tensor([[0], [bad], [3]])
    with pytest.raises(ValueError, match="indices: experts are numbered from 0 to 3"):
        layer(X, indices, torch.ones(3, 1))
    compiled = torch.compile(layer, fullgraph=True, backend="aot_eager")
    with pytest.raises(RuntimeError, match="indices: experts are numbered from 0 to 3"):
        compiled(X, indices, torch.ones(3, 1))
    right = torch.tensor([[0], [1], [3]])
    assert torch.equal(compiled(X, right, torch.ones(3, 1)), layer(X, right, torch.ones(3, 1)))
    assert layer(X[:0], right[:0], torch.ones(0, 1)).shape == (0, 64)


def test_shapes_that_do_not_go_with_experts():
    layer, right = experts(), torch.zeros(3, 2, dtype=torch.long)
    for arguments, words in (
        ((X[None], right, torch.ones(3, 2)), "x: of shape .1, 3, 64."),
        ((X, right[:2], torch.ones(2, 2)), "indices: .*.3, chosen."),
        ((X, right.float(), torch.ones(3, 2)), "indices: torch.float32"),
        ((X, right, torch.ones(3, 1)), "weights: of shape .3, 1."),
    ):
        with pytest.raises(ValueError, match=words):
            layer(*arguments)


def test_caches_of_sizes_that_are_refused():
    for change, words in (
        ({"page_size": 0}, "page_size: 0; pass 16, 32 or 64"),
        ({"page_size": -16}, "page_size: -16"),
        ({"head_dim": 63}, "head_dim: 63"),
        ({"recent": -1}, "recent: -1"),
        ({"max_tokens": 1 << 61, "batch": 1000}, "max_tokens: .* fits in memory"),
    ):
        with pytest.raises(ms.Error, match=words):
            mst.KvCache(**{"batch": 1, "kv_heads": 2, "head_dim": 64, "max_tokens": 32, **change})


def test_an_error_names_the_layer():
    model = nn.Sequential(nn.Linear(32, 32), nn.Sequential(nn.Linear(32, 32)))
    with torch.no_grad():
        model[1][0].weight[0, 0] = float("nan")
    with pytest.raises(ValueError, match="^1.0: quantize: the input holds NaN"):
        mst.quantize_(model, refuse_non_finite=True)
