"""Tiny models of transformers: written, quantized, dequantized, in a folder of the session."""

import pytest
import torch
import transformers
from transformers import AutoConfig, AutoModelForCausalLM

import microscale as ms

transformers.logging.set_verbosity_error()
transformers.utils.logging.disable_progress_bar()

SIZES = dict(
    hidden_size=128, intermediate_size=256, num_hidden_layers=2, num_attention_heads=4,
    num_key_value_heads=2, head_dim=64,
    vocab_size=256, max_position_embeddings=512, pad_token_id=0, bos_token_id=1, eos_token_id=2,
)  # fmt: skip
EXPERTS = dict(num_experts=4, num_local_experts=4, num_experts_per_tok=2, moe_intermediate_size=64)
MORE = {
    "qwen3_moe": EXPERTS, "mixtral": EXPERTS, "mistral": {"sliding_window": 16},
    "gpt_oss": {**EXPERTS, "num_experts_per_tok": 4, "sliding_window": 16},
    "gemma2": {"sliding_window": 16}, "gemma3_text": {"sliding_window": 16},
}  # fmt: skip


class Models:
    """Of an architecture: `dense` as made, `packed` as quantized, `plain` those values dense again."""

    def __init__(self, folder):
        self.folder = folder

    def path(self, name, kind, format="nvfp4"):
        path = self.folder / f"{name}-{kind}-{format}"
        if not path.exists():
            if kind == "dense":
                torch.manual_seed(0)
                config = AutoConfig.for_model(name, **{**SIZES, **MORE.get(name, {})})
                AutoModelForCausalLM.from_config(config, dtype=torch.bfloat16).save_pretrained(path)
            elif kind == "packed":
                ms.quantize_model(self.path(name, "dense"), path, format=format)
            else:
                ms.dequantize_model(self.path(name, "packed", format), path, dtype="bf16")
        return path

    def load(self, name, kind, format="nvfp4"):
        path = self.path(name, kind, format if kind != "dense" else "nvfp4")
        return AutoModelForCausalLM.from_pretrained(path, dtype=torch.bfloat16).eval()


@pytest.fixture(scope="session")
def models(tmp_path_factory):
    return Models(tmp_path_factory.mktemp("models"))


@pytest.fixture(autouse=True)
def no_gradients():
    with torch.no_grad():
        yield
