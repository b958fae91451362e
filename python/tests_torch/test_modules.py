"""Linear, GatedMlp, Experts and quantize_: values, gradients, state dicts, copies, devices,
torch.compile."""

import copy
import pickle

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import microscale as ms
import microscale.torch as mst

FORMATS = ["nvfp4", "mxfp4", "mxfp8_e4m3", "mxfp8_e5m2"]


@pytest.fixture(autouse=True)
def seeded():
    torch.manual_seed(0)


def relative(found, wanted):
    return ((found.double() - wanted.double()).norm() / wanted.double().norm()).item()


def made_mlp(format="nvfp4", bias=True, activation="silu"):
    linears = [nn.Linear(64, 96, bias), nn.Linear(64, 96, bias), nn.Linear(96, 64, bias)]
    return mst.GatedMlp.from_linears(*linears, format, activation), linears


def made_experts(format="nvfp4"):
    return mst.Experts.from_weights(
        torch.randn(4, 96, 64) / 8, torch.randn(4, 96, 64) / 8, torch.randn(4, 64, 96) / 8, format
    )


def every_module(format="nvfp4"):
    linear = mst.Linear.from_linear(nn.Linear(128, 48), format)
    indices = torch.tensor([[0, 2], [2, 3], [0, 3], [3, 2], [2, 0]])
    return [
        (linear, (torch.randn(5, 128),)),
        (made_mlp(format)[0], (torch.randn(5, 64),)),
        (made_experts(format), (torch.randn(5, 64), indices, torch.rand(5, 2))),
    ]


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("format", FORMATS)
def test_linear_multiplies_by_its_weights(format, dtype):
    dense = nn.Linear(128, 48).to(dtype)
    q = mst.Linear.from_linear(dense, format)
    assert relative(q.weight, dense.weight) < (0.15 if "4" in format[:5] else 0.08)
    t, wanted = q.block_tensor(), ms.quantize(dense.weight.detach(), format)
    assert torch.equal(t.codes, wanted.codes) and torch.equal(t.scales, wanted.scales.view(torch.uint8))
    x = torch.randn(2, 3, 128).to(dtype)
    wanted = F.linear(x.double(), t.dequantize().double(), dense.bias.double())
    assert q(x).dtype == dtype and relative(q(x), wanted) < 4e-3
    assert q(x[:0]).shape == (0, 3, 48) and q(x[0, 0]).shape == (48,)


@pytest.mark.parametrize("format", FORMATS)
def test_gradients_of_linear_are_those_of_the_dense_one(format):
    q = mst.Linear.from_linear(nn.Linear(128, 48), format)
    assert all(not p.requires_grad for name, p in q.named_parameters() if name != "bias")
    x, twin = (
        torch.randn(6, 128, generator=torch.Generator().manual_seed(3)).requires_grad_() for _ in range(2)
    )
    grad = torch.randn(6, 48)
    q(x).backward(grad)
    F.linear(twin, q._dense(q._sets[0])[0], q.bias.detach()).backward(grad)
    torch.testing.assert_close(x.grad, twin.grad, rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(q.bias.grad, grad.sum(0))
    with torch.no_grad():
        assert not q(x).requires_grad


@pytest.mark.parametrize("activation", ["silu", "gelu_tanh"])
def test_gated_mlp_and_its_gradient(activation):
    mlp, _ = made_mlp(activation=activation)
    gate, up, down = (
        mlp._dense(mlp._sets[0])[0],
        mlp._dense(mlp._sets[0], 1)[0],
        mlp._dense(mlp._sets[1])[0],
    )
    x, twin = (
        torch.randn(6, 64, generator=torch.Generator().manual_seed(3)).requires_grad_() for _ in range(2)
    )
    g = F.linear(twin, gate, mlp.gate_bias)
    g = F.silu(g) if activation == "silu" else F.gelu(g, approximate="tanh")
    wanted = F.linear(g * F.linear(twin, up, mlp.up_bias), down, mlp.down_bias)
    y = mlp(x)
    torch.testing.assert_close(y, wanted, rtol=1e-4, atol=1e-4)
    y.square().sum().backward()
    wanted.square().sum().backward()
    torch.testing.assert_close(x.grad, twin.grad, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("format", ["nvfp4", "mxfp4", "mxfp8_e4m3"])
def test_experts_are_their_mlps_one_by_one(format):
    experts = made_experts(format)
    gate, up, down = (experts._dense(of) for of in experts._sets)
    x, twin = (
        torch.randn(7, 64, generator=torch.Generator().manual_seed(3)).requires_grad_() for _ in range(2)
    )
    indices = torch.tensor([[0, 2], [2, 3], [0, 3], [3, 2], [2, 0], [0, 1], [3, 0]])
    weights, weights_twin = (torch.full((7, 2), 0.3).requires_grad_() for _ in range(2))
    wanted = torch.stack([
        sum(weights_twin[t, c] * (down[e] @ (F.silu(gate[e] @ twin[t]) * (up[e] @ twin[t])))
            for c, e in enumerate(indices[t].tolist())) for t in range(7)
    ])  # fmt: skip
    y = experts(x, indices, weights)
    torch.testing.assert_close(y, wanted, rtol=1e-3, atol=1e-3)
    y.square().sum().backward()
    wanted.square().sum().backward()
    torch.testing.assert_close(x.grad, twin.grad, rtol=1e-3, atol=1e-3)
    torch.testing.assert_close(weights.grad, weights_twin.grad, rtol=1e-3, atol=1e-3)
    with torch.no_grad():
        assert torch.equal(experts(x, indices, weights), y) and experts(
            x[:0], indices[:0], weights[:0]
        ).shape == (0, 64)


def blank(module):
    """A new one of the same sizes, with weights of zeros."""
    if isinstance(module, mst.Linear):
        return mst.Linear(module.in_features, module.out_features, module.format)
    if isinstance(module, mst.GatedMlp):
        return mst.GatedMlp(module.hidden_size, module.intermediate_size, module.format, bias=True)
    return mst.Experts(module.num_experts, module.hidden_size, module.intermediate_size, module.format)


@pytest.mark.parametrize("format", FORMATS)
def test_state_dicts_have_a_checkpoints_names_and_come_back(format):
    for module, x in every_module(format):
        state = module.state_dict()
        words = {
            "nvfp4": ["weight_packed", "weight_scale", "weight_global_scale"],
            "mxfp4": ["weight_packed", "weight_scale"],
        }
        kinds = {key.rpartition(".")[2] for key in state} - {"bias"}
        assert kinds == set(words.get(format, ["weight", "weight_scale"]))
        fresh = blank(module)
        assert not torch.equal(fresh(*x), module(*x))
        fresh.load_state_dict(state)
        assert torch.equal(fresh(*x), module(*x))
        for key, value in fresh.state_dict().items():
            assert value.dtype == state[key].dtype and torch.equal(
                value.view(torch.uint8), state[key].view(torch.uint8)
            ), key


def test_state_dicts_name_what_is_missing_or_wrong():
    q = mst.Linear.from_linear(nn.Linear(128, 48))
    state = q.state_dict()
    for key in state:
        with pytest.raises(RuntimeError, match=f'Missing key.*"{key}"'):
            q.load_state_dict({name: value for name, value in state.items() if name != key})
    with pytest.raises(RuntimeError, match='Unexpected key.*"weight_shape"'):
        q.load_state_dict({**state, "weight_shape": torch.zeros(2)})
    with pytest.raises(
        RuntimeError, match=r"weight_packed: torch.uint8 of shape \(48, 32\), not bytes of \(48, 64\)"
    ):
        q.load_state_dict({**state, "weight_packed": state["weight_packed"][:, :32]})
    q.load_state_dict({"bias": torch.ones(48)}, strict=False)
    assert torch.equal(q.bias.detach(), torch.ones(48)) and torch.equal(
        q.state_dict()["weight_packed"], state["weight_packed"]
    )


def test_a_dense_state_dict_is_quantized_as_it_is_loaded():
    dense = nn.Sequential(nn.Linear(128, 48), nn.ReLU())
    wanted = copy.deepcopy(dense)
    mst.quantize_(wanted)
    skeleton = nn.Sequential(mst.Linear(128, 48), nn.ReLU())
    skeleton.load_state_dict(dense.state_dict())
    x = torch.randn(3, 128)
    assert torch.equal(skeleton(x), wanted(x))


def test_a_meta_model_is_filled_by_its_state_dict():
    for module, x in every_module():
        empty = blank(module).to("meta")
        assert all(tensor.is_meta for tensor in [*empty.parameters(), *empty.buffers()])
        assert all(tensor.is_meta for tensor in empty.state_dict().values())
        loaded = copy.deepcopy(empty)
        loaded.load_state_dict(module.state_dict(), assign=True)
        assert torch.equal(loaded(*x), module(*x))
        empty.to_empty(device="cpu").load_state_dict(module.state_dict())
        assert torch.equal(empty(*x), module(*x))


def test_copies_pickles_and_types():
    for module, x in every_module():
        wanted = module(*x)
        for twin in (copy.deepcopy(module), pickle.loads(pickle.dumps(module)), module.to("cpu")):
            assert torch.equal(twin(*x), wanted)
        module.to(torch.bfloat16)
        assert all(p.dtype == torch.bfloat16 for p in module.parameters())
        scales = [b for name, b in module.named_buffers() if "scale" in name or "divisor" in name]
        assert scales and all(b.dtype == torch.float32 for b in scales)
        half = module(x[0].bfloat16(), *x[1:])
        assert half.dtype == torch.bfloat16 and relative(half, wanted) < 2e-2


def test_a_loaded_state_dict_stays_at_its_address():
    q, other = (mst.Linear.from_linear(nn.Linear(128, 48)) for _ in range(2))
    before = q.packed.data_ptr(), q.global_scale.data_ptr(), q.bias.data_ptr()
    q.load_state_dict(other.state_dict())
    assert before == (q.packed.data_ptr(), q.global_scale.data_ptr(), q.bias.data_ptr())


def test_memory_is_that_of_the_format():
    q = mst.Linear.from_linear(nn.Linear(1024, 512, bias=False))
    held = sum(b.numel() * b.element_size() for b in q.buffers())
    assert held <= 512 * 1024 * 9 / 16 + 200
    assert (
        q.state_dict()["weight_packed"].untyped_storage().data_ptr()
        == q.packed.untyped_storage().data_ptr()
    )


@pytest.mark.parametrize("which", range(3))
def test_compiled_is_eager_with_gradients(which):
    module, x = every_module()[which]
    module.requires_grad_(False)
    compiled = torch.compile(module, fullgraph=True, dynamic=True, backend="aot_eager")
    for rows in (5, 4, 3):
        assert torch.equal(compiled(*(a[:rows] for a in x)), module(*(a[:rows] for a in x)))
    if which == 2:
        return  # the gradient of Experts reads its offsets
    wanted, found = (x[0].clone().requires_grad_() for _ in range(2))
    module(wanted, *x[1:]).square().sum().backward()
    compiled(found, *x[1:]).square().sum().backward()
    torch.testing.assert_close(found.grad, wanted.grad)


def test_exported():
    for module, x in every_module():
        program = torch.export.export(module.requires_grad_(False), x)
        assert torch.equal(program.module()(*x), module(*x))


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(10, 64)
        self.layers = nn.ModuleList([nn.Linear(64, 64) for _ in range(2)])
        self.odd = nn.Linear(40, 64)
        self.attention = nn.MultiheadAttention(64, 2)
        self.tied = nn.Linear(64, 10, bias=False)
        self.tied.weight = self.embed.weight
        self.lm_head = nn.Linear(64, 10)
        self.again = self.layers[0]


def test_quantize_replaces_what_it_should():
    model = Model()
    left = mst.quantize_(model, "mxfp4")
    assert left == {
        "odd": "in_features: 40 is no multiple of the block of mxfp4, 32",
        "attention.out_proj": "it is a NonDynamicallyQuantizableLinear, not a torch.nn.Linear",
        "tied": "another module shares its weight",
        "lm_head": "it is the model's head",
    }
    assert all(isinstance(layer, mst.Linear) for layer in model.layers) and model.again is model.layers[0]
    left = mst.quantize_(model, "mxfp4", filter_fn=lambda module, name: name == "lm_head")
    assert isinstance(model.lm_head, mst.Linear) and left["tied"] == "filter_fn says so"


def test_modules_of_compressed_tensors_are_taken():
    for format in FORMATS[:3]:
        q = mst.Linear.from_linear(nn.Linear(128, 48), format)
        module = nn.Module()
        for name, tensor in q.state_dict().items():
            setattr(module, name, nn.Parameter(tensor, requires_grad=False))
        x = torch.randn(3, 128)
        assert torch.equal(mst.Linear.from_compressed_tensors(module)(x), q(x))
    with pytest.raises(ValueError, match="module: Linear has no weight_packed"):
        mst.Linear.from_compressed_tensors(nn.Linear(8, 8))


def test_block_tensors_of_numpy_and_torch_are_taken():
    weight = torch.randn(48, 128)
    x = torch.randn(3, 128)
    wanted = mst.Linear.from_block_tensor(ms.quantize(weight))
    for t in (ms.quantize(weight.numpy()), ms.quantize(weight, layout="tiled_128x4")):
        assert torch.equal(mst.Linear.from_block_tensor(t)(x), wanted(x))
    with pytest.raises(ValueError, match="weight: .*axis=-2"):
        mst.Linear.from_block_tensor(ms.quantize(torch.randn(64, 32), "mxfp4", axis=-2))


def test_wrong_sizes_name_the_argument():
    with pytest.raises(ValueError, match="in_features: 100 is no multiple of the block of nvfp4, 16"):
        mst.Linear(100, 48)
    with pytest.raises(ValueError, match="format: no weights in 'int4'"):
        mst.Linear(128, 48, "int4")
    with pytest.raises(ValueError, match="intermediate_size: 40"):
        mst.GatedMlp(64, 40, "mxfp4")
    with pytest.raises(ValueError, match="x: of shape"):
        mst.Linear(128, 48)(torch.zeros(3, 64))


def test_weights_without_values_are_refused():
    with pytest.raises(ValueError, match="x: on cpu, but the packed weights are on meta"):
        mst.Linear(128, 64, device="meta")(torch.zeros(3, 128))


def test_quantize_takes_no_option_that_places_codes():
    for option in ({"axis": 0}, {"layout": "tiled_128x4"}, {"out": None}):
        with pytest.raises(TypeError, match="leave out"):
            mst.quantize_(nn.Sequential(nn.Linear(64, 64)), **option)


def test_quantize_of_a_module_with_two_names_and_of_computed_weights():
    twice = nn.Linear(64, 64)
    model = nn.Sequential(twice, nn.ReLU(), twice, nn.utils.parametrizations.weight_norm(nn.Linear(64, 64)))
    left = mst.quantize_(model)
    assert model[0] is model[2] and isinstance(model[0], mst.Linear)
    assert list(left) == ["3"]
    with pytest.raises(TypeError, match="from_linear"):
        mst.quantize_(nn.Linear(64, 64))


def test_transformer_layers_of_torch_run():
    layer = nn.TransformerEncoderLayer(64, 2, 128, batch_first=True, dropout=0).eval()
    x = torch.randn(2, 5, 64)
    with torch.no_grad():
        wanted = layer(x)
        mst.quantize_(layer)
        assert relative(layer(x), wanted) < 0.2
