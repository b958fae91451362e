"""The Cache: against the model without one, with padding, windows, sinks, softcaps; its refusals."""

import pytest
import torch

import microscale.transformers as mstf

from test_accelerate import relative, tokens


def accelerated(models, name):
    model = models.load(name, "packed")
    mstf.accelerate(model)
    return model


def in_steps(model, x, cache, mask=None, first=30):
    """Logits of a prompt of `first` tokens, then one token at a time."""
    every = [
        model(x[:, :first], attention_mask=None if mask is None else mask[:, :first], past_key_values=cache)
    ]
    for i in range(first, x.shape[1]):
        part = None if mask is None else mask[:, : i + 1]
        every.append(model(x[:, i : i + 1], attention_mask=part, past_key_values=cache))
    return torch.cat([one.logits for one in every], 1)


# Windows: mistral, gemma; softcap: gemma2; norms of q and k: qwen3, olmo2; experts: mixtral.
@pytest.mark.parametrize("name", ["llama", "mistral", "qwen3", "gemma2", "gemma3_text", "olmo2", "mixtral"])
def test_decoding_gives_what_the_whole_gives(models, name):
    model, x = accelerated(models, name), tokens()
    mask = torch.ones_like(x)
    mask[0, :7] = 0
    wanted = model(x, attention_mask=mask).logits
    found = in_steps(model, x, mstf.Cache(40, "mxfp8"), mask)
    # Keys and values in eight bits, 2^-4 a value: some hundredths after two layers.
    assert relative(found[mask.bool()], wanted[mask.bool()]) < 0.1


def test_sinks(models):
    model, x = models.load("gpt_oss", "dense"), tokens()
    for layer in model.model.layers:
        layer.self_attn.sinks.normal_(generator=torch.Generator().manual_seed(2))
    wanted = model(x).logits  # transformers' own attention
    mstf.accelerate(model)
    assert relative(model(x).logits, wanted) < 0.02
    assert relative(in_steps(model, x, mstf.Cache(40, "mxfp8")), wanted) < 0.1


def test_a_padded_sequence_is_what_it_is_alone(models):
    model = accelerated(models, "llama")
    x = tokens(1, 20)
    alone = in_steps(model, x, mstf.Cache(20), first=12)
    padded = torch.cat([torch.zeros(1, 5, dtype=x.dtype), x], 1)
    both = torch.cat([padded, tokens(1, 25)])
    mask = torch.ones_like(both)
    mask[0, :5] = 0
    positions = (mask.cumsum(1) - 1).clamp(min=0)
    cache = mstf.Cache(25)
    first = model(
        both[:, :17], attention_mask=mask[:, :17], position_ids=positions[:, :17], past_key_values=cache
    )
    found = [first.logits]
    for i in range(17, 25):
        step = model(both[:, i : i + 1], attention_mask=mask[:, : i + 1],
                     position_ids=positions[:, i : i + 1], past_key_values=cache)  # fmt: skip
        found.append(step.logits)
    assert cache.layers[0].cache.lengths.tolist() == [20, 25]
    # Of other rows a product differs in the order of a sum, so a code of the cache may, too.
    assert relative(torch.cat(found, 1)[:1, 5:], alone) < 0.05


def test_generate(models):
    model = accelerated(models, "llama")
    words = dict(max_new_tokens=12, do_sample=False, attention_mask=torch.ones(2, 9))
    wanted = model.generate(tokens(2, 9), **words)
    cache = mstf.Cache(64, "mxfp8", page_size=16)
    found = model.generate(tokens(2, 9), past_key_values=cache, **words)
    assert found.shape == wanted.shape and cache.get_seq_length() == 20
    assert cache.memory_bytes() < 2 * 2 * 64 * 2 * 64 * 2 * 2 * 0.6  # of bfloat16
    first = cache.layers[0].cache.memory.data_ptr()
    cache.reset()
    assert cache.get_seq_length() == 0
    assert torch.equal(model.generate(tokens(2, 9), past_key_values=cache, **words), found)
    assert cache.layers[0].cache.memory.data_ptr() == first


def test_refusals(models):
    model = accelerated(models, "llama")
    with pytest.raises(ValueError, match="max_tokens: 0"):
        mstf.Cache(0)
    with pytest.raises(ValueError, match="9 tokens, but it was made for max_tokens=8"):
        model(tokens(1, 9), past_key_values=mstf.Cache(8))
    with pytest.raises(NotImplementedError, match="beam search"):
        model.generate(tokens(1, 4), num_beams=2, max_new_tokens=2, past_key_values=mstf.Cache(64))
    model.set_attn_implementation("sdpa")
    with pytest.raises(ValueError, match="attention implementation"):
        in_steps(model, tokens(1, 8), mstf.Cache(8), first=6)


def test_a_size_that_no_format_holds_stays_as_it_was(models):
    from transformers import LlamaConfig, LlamaForCausalLM

    torch.manual_seed(0)
    config = LlamaConfig(hidden_size=80, intermediate_size=64, num_hidden_layers=1, num_attention_heads=2,
                         num_key_value_heads=1, head_dim=40, vocab_size=256)  # fmt: skip
    model = LlamaForCausalLM(config).bfloat16().eval()
    mstf.accelerate(model)
    with pytest.warns(UserWarning, match="keys and values stay"):
        found = in_steps(model, tokens(2, 12), mstf.Cache(12), first=9)
    assert relative(found, model(tokens(2, 12)).logits) < 0.02


def test_compiled_layers(models):
    x, token = tokens(2, 20), tokens(2, 1)
    position = torch.full((2, 1), 20)
    results = []
    for compiled in (False, True):
        model, cache = accelerated(models, "llama"), mstf.Cache(32)
        model(x, past_key_values=cache)
        for layer in model.model.layers if compiled else ():
            layer.compile(fullgraph=True, backend="aot_eager")
        results.append(model(token, position_ids=position, past_key_values=cache).logits)
        assert cache.layers[1].cache.lengths.tolist() == [21, 21]
    assert relative(*results) < 0.02  # the compiled layer's own code, and a few operators
