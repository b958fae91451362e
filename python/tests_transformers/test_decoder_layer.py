"""Decoder layers as a few operators: the model's own results, where they are used and where not, copies."""

import copy
import pickle

import pytest
import torch
from test_accelerate import relative, tokens
from torch import nn
from transformers import AutoModelForCausalLM, StaticCache

import microscale as ms
import microscale.transformers as mstf
from microscale.transformers import _decoder_layer
from microscale.transformers._decoder_layer import FewOperators

SERVED = ("llama", "mistral", "qwen2", "qwen3", "granite", "qwen3_moe", "mixtral")


@pytest.fixture
def calls(monkeypatch):
    """How many layers went the short way."""
    own, seen = _decoder_layer.in_few_operators, []

    def counted(*arguments, **words):
        seen.append(1)
        return own(*arguments, **words)

    monkeypatch.setattr(_decoder_layer, "in_few_operators", counted)
    return seen


def fast(models, name):
    model = models.load(name, "packed")
    return model, mstf.accelerate(model)


@pytest.mark.parametrize("name", SERVED)
def test_steps_of_one_token_are_those_of_the_dequantized_model(models, calls, name):
    model, done = fast(models, name)
    assert done.layers == 2 and done.not_simplified == {}, done
    plain, text = models.load(name, "plain"), tokens(2, 24)  # longer than mistral's window
    calls.clear()
    for cache in (lambda: None, lambda: mstf.Cache(64, "mxfp8")):
        found, wanted = model(text[:, :20], past_key_values=cache()), plain(text[:, :20])
        for i in range(20, 24):
            found = model(text[:, i : i + 1], past_key_values=found.past_key_values)
            wanted = plain(text[:, i : i + 1], past_key_values=wanted.past_key_values)
            assert relative(found.logits, wanted.logits) < (0.02 if cache() is None else 0.1)
    assert len(calls) == 2 * 2 * 5


@pytest.mark.parametrize("name", ["gemma2", "gemma3_text", "phi3", "olmo2", "gpt_oss"])
def test_other_layers_stay_with_the_reason(models, calls, name):
    model, done = fast(models, name)
    assert done.layers == 0 and len(done.not_simplified) == 2
    assert "their own code on a CPU: model.layers.0 and 1 more: " in str(done)
    calls.clear()
    model(tokens(1, 5))
    assert not calls


def test_a_layer_of_another_formula_stays(models):
    model = models.load("llama", "packed")
    base = type(model.model.layers[0])

    class Scaled(base):
        def forward(self, hidden_states, **words):
            return 1.5 * super().forward(hidden_states, **words)

    model.model.layers[1].__class__ = Scaled
    done = mstf.accelerate(model)
    assert done.not_simplified == {"model.layers.1": "its own code computes something else"}
    assert type(model.model.layers[1]) is Scaled and done.layers == 1


def test_the_models_own_code_runs_where_it_does_more(models, calls):
    model, _ = fast(models, "llama")
    x, layer = tokens(1, 6), model.model.layers[0]
    wanted = model(x).logits
    calls.clear()
    with torch.enable_grad():
        embedded = model.get_input_embeddings()(x).detach().requires_grad_()
        model(inputs_embeds=embedded).logits.float().sum().backward()
    assert embedded.grad is not None and not calls
    with torch.autocast("cpu", torch.bfloat16):
        model(x)
    model.train()(x)
    assert not calls and model.eval()(x) and len(calls) == 2
    calls.clear()
    seen = []
    for hooked in (layer.self_attn, layer.input_layernorm, layer.self_attn.k_proj):
        handle = hooked.register_forward_hook(lambda *_: seen.append(1))
        assert relative(model(x).logits, wanted) < 0.02
        handle.remove()
    assert len(seen) == 3 and len(calls) == 3  # the other layer
    assert len(model(x, output_hidden_states=True).hidden_states) == 3
    model.set_attn_implementation("eager")
    calls.clear()
    assert model(x, output_attentions=True).attentions[0].shape == (1, 4, 6, 6) and not calls


def test_a_module_in_place_of_a_projection_is_called(models, calls):
    model, _ = fast(models, "llama")

    class Added(nn.Module):
        def __init__(self, inner):
            super().__init__()
            self.inner = inner

        def forward(self, x):
            return self.inner(x) + 1

    before = model(tokens(1, 4)).logits
    own = model.model.layers[0].self_attn
    own.v_proj = Added(own.v_proj)
    calls.clear()
    assert relative(model(tokens(1, 4)).logits, before) > 0.01 and len(calls) == 1


def test_copies_and_pickles(models, calls):
    model, _ = fast(models, "qwen3")
    wanted = model(tokens(1, 5)).logits
    for other in (copy.deepcopy(model), pickle.loads(pickle.dumps(model))):
        calls.clear()
        assert isinstance(other.model.layers[0], FewOperators)
        assert type(other.model.layers[0]).__name__ == "Qwen3DecoderLayer"
        assert torch.equal(other(tokens(1, 5)).logits, wanted) and len(calls) == 2


def test_models_of_another_type(models, calls):
    model, _ = fast(models, "llama")
    wanted = model(tokens(1, 5)).logits
    for dtype in (torch.float32, torch.float16):
        calls.clear()
        assert relative(model.to(dtype)(tokens(1, 5)).logits, wanted) < 0.02 and len(calls) == 2


@pytest.mark.parametrize("name", ["llama", "mistral"])
def test_a_cache_with_room_for_later_tokens(models, name):
    """transformers' StaticCache: keys of tokens to come are masked, padded or not."""
    model, _ = fast(models, name)
    x, plain = tokens(2, 20), models.load(name, "plain")
    padding = torch.ones_like(x)
    padding[0, :5] = 0
    for mask in (None, padding):
        wanted = plain(x, attention_mask=mask).logits
        cache, found = StaticCache(model.config, max_cache_len=30), []
        for start, end in ((0, 12), (12, 19), (19, 20)):
            words = {} if mask is None else {"attention_mask": mask[:, :end]}
            found.append(model(x[:, start:end], past_key_values=cache, **words).logits)
        real = padding.bool() if mask is not None else slice(None)
        assert relative(torch.cat(found, 1)[real], wanted[real]) < 0.02


def test_saved_and_loaded_again(models, tmp_path):
    model, _ = fast(models, "qwen2")
    model.save_pretrained(tmp_path)
    assert ms.verify_model(tmp_path) == []
    again = AutoModelForCausalLM.from_pretrained(tmp_path, dtype=torch.bfloat16).eval()
    mstf.accelerate(again)
    assert torch.equal(again(tokens(1, 5)).logits, model(tokens(1, 5)).logits)


def test_accelerated_twice(models):
    model, done = fast(models, "llama")
    assert mstf.accelerate(model).layers == done.layers == 2
