"""The method "microscale": a dense model is quantized while it loads, saved, verified and loaded back."""

import pytest
import torch
from transformers import AutoModelForCausalLM

import microscale as ms
import microscale.transformers as mstf
from test_accelerate import relative, tokens


def quantized(models, name, format="nvfp4", **words):
    return AutoModelForCausalLM.from_pretrained(
        models.path(name, "dense"), dtype=torch.bfloat16,
        quantization_config=mstf.MicroscaleConfig(format, **words),
    )  # fmt: skip


@pytest.mark.parametrize("name", ["llama", "qwen2", "phi3", "gemma2", "qwen3_moe", "mixtral", "gpt_oss"])
def test_loaded_saved_and_loaded_back(models, name, tmp_path):
    model = quantized(models, name)
    done = model.hf_quantizer.done
    assert done.packed == (6 + 8 if name in ("llama", "qwen2", "gemma2") else 8), done
    assert done.experts == (8 if name in ("qwen3_moe", "mixtral", "gpt_oss") else 0), done
    assert list(done.left) == ["lm_head"] and not done.unfused, done
    logits = model(tokens()).logits
    packed = models.load(name, "packed")
    mstf.accelerate(packed)
    assert relative(logits, packed(tokens()).logits) < 0.02  # what quantize_model makes
    model.save_pretrained(tmp_path / "saved")
    assert ms.verify_model(tmp_path / "saved") == []
    back = AutoModelForCausalLM.from_pretrained(tmp_path / "saved", dtype=torch.bfloat16)
    again = mstf.accelerate(back)
    assert (again.packed, again.experts, again.fused) == (done.packed, done.experts, done.fused), again
    assert torch.equal(back(tokens()).logits, logits)


@pytest.mark.parametrize("format", ["mxfp4", "mxfp8"])
def test_other_formats(models, format, tmp_path):
    model = quantized(models, "llama", format)
    model.save_pretrained(tmp_path / "saved")
    assert ms.verify_model(tmp_path / "saved") == []
    assert relative(model(tokens()).logits, models.load("llama", "plain", format)(tokens()).logits) < 0.02


def test_layers_that_are_kept(models, tmp_path):
    model = quantized(models, "llama", modules_to_not_convert=["o_proj"])
    left = model.hf_quantizer.done.left
    assert [name for name in left if name.endswith("o_proj")] and model.hf_quantizer.done.packed == 12
    model.save_pretrained(tmp_path / "saved")
    assert ms.verify_model(tmp_path / "saved") == []
    back = AutoModelForCausalLM.from_pretrained(tmp_path / "saved", dtype=torch.bfloat16)
    mstf.accelerate(back)
    assert torch.equal(back(tokens()).logits, model(tokens()).logits)


def test_options_are_those_of_quantize(models):
    one, other = (
        quantized(models, "llama"),
        quantized(models, "llama", scale_rule=ms.scale_rules("nvfp4")[-1]),
    )
    assert not torch.equal(one(tokens()).logits, other(tokens()).logits)


def test_refusals(models, tmp_path):
    with pytest.raises(ValueError, match="no weights in 'int4'"):
        mstf.MicroscaleConfig("int4")
    with pytest.raises(ValueError, match="scale_rule"):
        mstf.MicroscaleConfig("nvfp4", scale_rule="none such")
    with pytest.raises(ValueError, match="on one device"):
        AutoModelForCausalLM.from_pretrained(
            models.path("llama", "dense"), quantization_config=mstf.MicroscaleConfig(),
            device_map={"model.embed_tokens": "cpu", "model.layers": "disk", "model.norm": "cpu",
                        "model.rotary_emb": "cpu", "lm_head": "cpu"}, offload_folder=tmp_path / "offloaded",
        )  # fmt: skip
