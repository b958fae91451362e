"""parallelize: models of transformers on two and four processes beside one."""

import os
import sys

import pytest
import torch
import transformers
from transformers import AutoConfig, AutoModelForCausalLM

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "tests_torch"))
import ranks  # noqa: E402

# Heads and sizes that two and four ranks share, keys of which four ranks outnumber.
SIZES = dict(
    hidden_size=128, intermediate_size=256, num_hidden_layers=2, num_attention_heads=4,
    num_key_value_heads=2, head_dim=32, vocab_size=259, pad_token_id=0, bos_token_id=1, eos_token_id=258,
)  # fmt: skip
EXPERTS = dict(num_experts=4, num_local_experts=4, num_experts_per_tok=2, moe_intermediate_size=128)
MODELS = {
    "llama": {}, "mistral": {"sliding_window": 16}, "qwen2": {}, "qwen3": {"tie_word_embeddings": True},
    "qwen3_moe": {**EXPERTS, "mlp_only_layers": [0]}, "mixtral": EXPERTS,
    "gpt_oss": {**EXPERTS, "sliding_window": 16},
}  # fmt: skip
PROMPT = torch.arange(3, 40)[None]


def made(name, accelerated, **words):
    import microscale.transformers as mstf

    transformers.logging.set_verbosity_error()
    torch.manual_seed(0)
    config = AutoConfig.for_model(name, **{**SIZES, **MODELS[name], **words})
    model = AutoModelForCausalLM.from_config(config, dtype=torch.float32).eval()
    for parameter in model.parameters():  # so that greedy tokens are far from a tie
        parameter.requires_grad_(False)
        if parameter.dim() > 1:
            parameter.mul_(3)
    if accelerated:
        mstf.accelerate(model, "nvfp4")
    return model


def answers(model, cache=None):
    logits = model(PROMPT).logits
    words = {"past_key_values": cache} if cache is not None else {}
    tokens = model.generate(
        PROMPT, max_new_tokens=8, min_new_tokens=8, do_sample=False, attention_mask=torch.ones_like(PROMPT),
        **words,
    )  # fmt: skip
    return logits, tokens


def on_a_rank(names):
    import microscale.torch.parallel as mstp
    import microscale.transformers as mstf

    found = {}
    for name in names:
        for accelerated in (False, True):
            model = made(name, accelerated)
            done = mstp.parallelize(model)
            logits, tokens = answers(model)
            cached = answers(model, mstf.Cache(64, page_size=16))[1] if accelerated else tokens
            found[name, accelerated] = [t.numpy() for t in (logits, tokens, cached)], str(done)
    few = made("llama", True, num_attention_heads=1, num_key_value_heads=1)
    with pytest.raises(ValueError, match=r"layers.0.self_attn: 1 query heads cannot be shared by"):
        mstp.parallelize(few)
    return found


@pytest.mark.parametrize("size", [2, 4])
def test_models_equal_those_of_one_process(size):
    found = ranks.run(size, on_a_rank, list(MODELS))
    for name in MODELS:
        for accelerated in (False, True):
            logits, tokens = answers(made(name, accelerated))
            every = [one[name, accelerated][0] for one in found]
            for other in every[1:]:  # bit for bit
                assert all((a == b).all() for a, b in zip(every[0], other, strict=True)), name
            got, got_tokens, cached = map(torch.from_numpy, every[0])
            error = (got - logits).norm() / logits.norm()
            assert error < 1e-4, (name, accelerated, error)
            assert torch.equal(got_tokens, tokens), (name, accelerated)
            assert cached.shape == tokens.shape
            assert f"shared by {size} ranks" in found[0][name, accelerated][1]
