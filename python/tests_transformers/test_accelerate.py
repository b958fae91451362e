"""accelerate: twelve architectures against their dequantized values, what is left, state dicts, copies."""

import copy

import pytest
import torch
from torch import nn
from transformers import AutoModelForCausalLM

import microscale as ms
import microscale.torch as mst
import microscale.transformers as mstf

ARCHITECTURES = (
    "llama", "mistral", "qwen2", "qwen3", "qwen3_moe", "gpt_oss", "mixtral", "gemma2", "gemma3_text",
    "phi3", "granite", "olmo2",
)  # fmt: skip
# products: q, k, v and the MLP in each of two layers
FUSED = {"qwen3_moe": 2, "gpt_oss": 2, "mixtral": 2, "phi3": 0}


def tokens(batch=2, length=40):
    return torch.randint(3, 256, (batch, length), generator=torch.Generator().manual_seed(1))


def relative(found, wanted):
    return ((found.float() - wanted.float()).norm() / wanted.float().norm()).item()


@pytest.mark.parametrize("name", ARCHITECTURES)
def test_gives_what_the_dequantized_model_gives(models, name):
    model = models.load(name, "packed")
    done = mstf.accelerate(model)
    assert not [left for left in done.left if "head" not in left], done
    assert not done.unfused and done.fused == FUSED.get(name, 4), done
    assert done.experts == (8 if name in ("qwen3_moe", "gpt_oss", "mixtral") else 0)
    assert not hasattr(model, "ct_decompress_hook")
    x = tokens()
    wanted = models.load(name, "plain")(x).logits
    # bfloat16 between layers: 2^-9 a rounding, a dozen of them a layer.
    assert relative(model(x).logits, wanted) < 0.02
    mask = torch.ones_like(x)
    mask[0, :7] = 0
    padded = models.load(name, "plain")(x, attention_mask=mask).logits
    assert relative(model(x, attention_mask=mask).logits[mask.bool()], padded[mask.bool()]) < 0.02


@pytest.mark.parametrize("name", ARCHITECTURES)
def test_loaded_without_transformers_decoding(models, name):
    model, done = mstf.from_pretrained(models.path(name, "packed"))
    usual = models.load(name, "packed")
    wanted = mstf.accelerate(usual)
    assert (done.packed, done.experts, done.fused) == (wanted.packed, wanted.experts, wanted.fused), done
    assert torch.equal(model(tokens()).logits, usual(tokens()).logits)
    assert model.generation_config.eos_token_id == usual.generation_config.eos_token_id


@pytest.mark.parametrize("format", ["mxfp4", "mxfp8"])
@pytest.mark.parametrize("name", ["llama", "qwen3_moe", "gpt_oss"])
def test_other_formats(models, name, format):
    if (name, format) == ("qwen3_moe", "mxfp8"):  # which transformers 5.23 fails to load
        model, done = mstf.from_pretrained(models.path(name, "packed", format))
    else:
        model = models.load(name, "packed", format)
        done = mstf.accelerate(model)
    assert list(done.formats) == [{"mxfp8": "mxfp8_e4m3"}.get(format, format)]
    assert (done.packed, done.experts) == ((14, 0) if name == "llama" else (8, 8)), done
    assert relative(model(tokens()).logits, models.load(name, "plain", format)(tokens()).logits) < 0.02


def test_greedy_text_is_one_of_the_dequantized_model(models):
    """Each token is the plain model's best, or as good as that within rounding."""
    plain, model = models.load("llama", "plain"), models.load("llama", "packed")
    mstf.accelerate(model)
    text = model.generate(tokens(1, 9), max_new_tokens=20, do_sample=False, attention_mask=torch.ones(1, 9))
    logits = plain(text).logits[0, 8:-1].float()
    chosen = logits.gather(1, text[0, 9:, None])[:, 0]
    assert len(chosen) > 5 and (chosen >= logits.amax(1) - 0.05 * logits.std(1)).all()


def test_a_dense_model_is_quantized_on_request(models):
    model = models.load("llama", "dense")
    before = model(tokens()).logits
    left = mstf.accelerate(model).left
    assert len(left) == 14 and "format=" in left["model.layers.0.self_attn.q_proj"]
    done = mstf.accelerate(model, "nvfp4")
    assert done.packed == 14 and done.fused == 4 and list(done.left) == ["lm_head"]
    scales = {float(part._whole[0].global_scale) for part in (model.model.layers[0].self_attn.q_proj,)}
    assert len(scales) == 1
    assert 0.01 < relative(model(tokens()).logits, before) < 0.3
    with pytest.raises(ValueError, match="no weights in 'int4'"):
        mstf.accelerate(models.load("llama", "dense"), "int4")
    with pytest.raises(TypeError, match="expected a model"):
        mstf.accelerate("llama")


@pytest.mark.parametrize("name", ["qwen3_moe", "mixtral", "gpt_oss"])
def test_dense_experts_are_quantized_on_request(models, name):
    model = models.load(name, "dense")
    done = mstf.accelerate(model, "nvfp4")
    assert done.experts == 8 and not [left for left in done.left if "experts" in left], done
    # The very weights that `microscale quantize` makes of the same folder.
    assert relative(model(tokens()).logits, models.load(name, "plain")(tokens()).logits) < 0.02


def test_dense_experts_of_another_formula_stay_as_they_were(models):
    model = models.load("mixtral", "dense")
    experts = model.model.layers[0].mlp.experts
    before = {key: value.clone() for key, value in experts.state_dict().items()}
    experts.forward = lambda x, indices, weights: torch.ones_like(x)
    done = mstf.accelerate(model, "nvfp4")
    assert "computes something else" in done.left["model.layers.0.mlp.experts"]
    assert all(torch.equal(experts.state_dict()[key], value) for key, value in before.items())


def test_a_state_dict_has_the_tensors_of_the_checkpoint(models):
    from safetensors.torch import load_file

    for name in ("llama", "qwen2", "qwen3_moe"):  # qwen2 has biases
        file = load_file(models.path(name, "packed") / "model.safetensors")
        model = models.load(name, "packed")
        mstf.accelerate(model)
        state = model.state_dict()
        assert set(file) <= set(state) and set(state) - set(file) <= {"lm_head.weight"}
        for key, tensor in file.items():
            assert torch.equal(state[key].view(torch.uint8), tensor.view(torch.uint8)), key
        before = model(tokens()).logits
        other = models.load(name, "packed")
        mstf.accelerate(other)
        for buffer_name, buffer in other.named_buffers():
            if buffer_name.endswith("global_scale"):
                buffer.mul_(2)
        assert not torch.equal(other(tokens()).logits, before)
        assert not other.load_state_dict(state).missing_keys
        assert torch.equal(other(tokens()).logits, before)
        assert torch.equal(copy.deepcopy(other)(tokens()).logits, before)


def test_loading_fused_layers_says_what_is_wrong(models):
    model = models.load("qwen2", "packed")
    mstf.accelerate(model)
    key = "model.layers.0.self_attn.{}_proj."
    state = model.state_dict()
    state[key.format("k") + "weight_global_scale"] = state[key.format("k") + "weight_global_scale"] * 2
    with pytest.raises(RuntimeError, match="global scales differ"):
        model.load_state_dict(state)
    state = model.state_dict()
    del state[key.format("v") + "weight_scale"]
    state[key.format("q") + "extra"] = torch.zeros(1)
    state[key.format("q") + "bias"] = torch.zeros(3)
    with pytest.raises(RuntimeError, match="(?s)v_proj.weight_scale.*q_proj.extra.*") as error:
        model.load_state_dict(state)
    assert "q_proj.bias: of shape (3,)" in str(error.value)


def test_layers_of_unequal_scales_stay_apart(models):
    model = models.load("llama", "packed")
    with torch.no_grad():
        model.model.layers[0].self_attn.k_proj.weight_global_scale.mul_(2)
    done = mstf.accelerate(model)
    assert list(done.unfused) == ["model.layers.0.self_attn"] and done.fused == 3
    assert "global scales differ" in done.unfused["model.layers.0.self_attn"]
    assert isinstance(model.model.layers[0].self_attn.k_proj, mst.Linear)
    assert "not fused: model.layers.0.self_attn" in str(done)


def test_nothing_is_fused_where_that_is_asked_for(models):
    model = models.load("llama", "packed")
    done = mstf.accelerate(model, fuse=False, attention=False)
    assert done.fused == 0 and not done.attention and model.config._attn_implementation != "microscale"
    assert relative(model(tokens()).logits, models.load("llama", "plain")(tokens()).logits) < 0.02


def test_an_mlp_of_another_formula_stays_as_it_is(models):
    class Squared(nn.Module):
        def __init__(self, mlp):
            super().__init__()
            self.gate_proj, self.up_proj, self.down_proj = mlp.gate_proj, mlp.up_proj, mlp.down_proj
            self.act_fn = mlp.act_fn

        def forward(self, x):
            return self.down_proj(self.act_fn(self.gate_proj(x)) * self.up_proj(x) ** 2)

    model = models.load("llama", "packed")
    for layer in model.model.layers:
        layer.mlp = Squared(layer.mlp)
    done = mstf.accelerate(model)
    assert done.fused == 2 and set(done.unfused.values()) == {"its own code computes something else"}


def test_layers_of_other_tools_stay_with_the_reason(models):
    model = models.load("llama", "packed")
    layers = model.model.layers
    layers[0].self_attn.q_proj.weight_packed = nn.Parameter(
        torch.zeros(256, 16, dtype=torch.int32), requires_grad=False
    )
    layers[1].self_attn.q_proj.weight_scale = nn.Parameter(torch.ones(256, 1), requires_grad=False)
    done = mstf.accelerate(model)
    assert "packed integers" in done.left["model.layers.0.self_attn.q_proj"]
    assert "neither NVFP4, MXFP4 nor MXFP8" in done.left["model.layers.1.self_attn.q_proj"]
    assert hasattr(model, "ct_decompress_hook")  # the two need it


def test_experts_of_another_layout_are_left_with_the_reason(models):
    model = models.load("gpt_oss", "packed")
    for layer in model.model.layers:
        layer.mlp.experts.register_parameter("more", nn.Parameter(torch.zeros(1)))
    done = mstf.accelerate(model)
    left = {name: why for name, why in done.left.items() if "experts" in name}
    assert len(left) == 2 and all("a layout of its own" in why for why in left.values())


def test_experts_of_gpt_oss_in_its_own_container(models, tmp_path):
    """*_blocks and *_scales: stacked, rows of gate and up in turn."""
    model = models.load("gpt_oss", "dense")
    for layer in model.model.layers:
        for name, bias in layer.mlp.experts.named_parameters():
            if name.endswith("bias"):
                bias.normal_(generator=torch.Generator().manual_seed(7))
        layer.mlp.experts.gate_up_proj.mul_(40)  # so that the clamp matters
    model.save_pretrained(tmp_path / "dense")
    ms.quantize_model(tmp_path / "dense", tmp_path / "packed", "mxfp4", container="gpt-oss")
    ms.dequantize_model(tmp_path / "packed", tmp_path / "plain")
    plain = AutoModelForCausalLM.from_pretrained(tmp_path / "plain", dtype=torch.bfloat16)
    packed = AutoModelForCausalLM.from_pretrained(tmp_path / "packed", dtype=torch.bfloat16)
    done = mstf.accelerate(packed)
    assert done.experts == 8 and not [name for name in done.left if "experts" in name], done
    assert isinstance(packed.model.layers[0].mlp.experts, mst.Experts)
    assert relative(packed(tokens()).logits, plain(tokens()).logits) < 0.02
    weights = packed.model.layers[0].mlp.experts
    assert weights.gate_bias.abs().sum() > 0 and weights.activation == "clamped_swiglu"


def test_the_head_on_request(models):
    for name in ("llama", "gemma2"):  # gemma2's is the embedding
        model = models.load(name, "packed")
        wanted = model.get_output_embeddings()
        before = models.load(name, "plain")(tokens()).logits
        done = mstf.accelerate(model, head="mxfp8")
        assert done.formats["mxfp8_e4m3"] == 1 and model.get_output_embeddings() is not wanted
        assert isinstance(model.get_input_embeddings(), nn.Embedding)
        assert relative(model(tokens()).logits, before) < 0.06


def test_a_processor_without_avx512_is_told(models, monkeypatch):
    monkeypatch.setattr(mstf._accelerate, "available_backends", lambda: ["avx2", "reference"])
    model = models.load("llama", "packed")
    assert "without AVX-512" in str(mstf.accelerate(model))
    assert mstf.accelerate(models.load("llama", "dense")).notes == []


def test_fused_products_are_right_in_threads(models):
    from concurrent.futures import ThreadPoolExecutor

    model = models.load("llama", "packed")
    mstf.accelerate(model)
    inputs = [tokens(1, length) for length in range(5, 21)]
    wanted = [model(x).logits for x in inputs]

    def call(x):
        with torch.no_grad():
            return model(x).logits

    with ThreadPoolExecutor(4) as pool:
        for found, right in zip(pool.map(call, inputs), wanted, strict=True):
            assert torch.equal(found, right)


def test_gradients_of_inputs(models):
    model = models.load("llama", "packed")
    mstf.accelerate(model)
    plain = models.load("llama", "plain")
    grads = []
    with torch.enable_grad():
        for one in (model, plain):
            embedded = one.get_input_embeddings()(tokens(1, 6)).detach().float().bfloat16().requires_grad_()
            one(inputs_embeds=embedded).logits.float().square().sum().backward()
            grads.append(embedded.grad)
    assert relative(*grads) < 0.05
