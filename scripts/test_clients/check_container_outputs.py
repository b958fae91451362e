"""What `microscale quantize` writes for ComfyUI, in gpt-oss's layout and in FP8, as the tools that load it read it. ComfyUI:
comfy-kitchen decodes every layer of a small Flux-like file to the values that `microscale dequantize` writes, and each is
at least as near to the original as what comfy-kitchen's own quantizer makes of it; it decodes what `convert` made of the
same codes by way of compressed-tensors to the same values. FP8: transformers loads the folder, with the logits of the
dequantized one, and of quantized inputs near them. gpt-oss: a small random model of
transformers is written with blocks and scales, transformers unpacks them to our values, and loads the folder: the logits
are those of the folder that `microscale dequantize` makes of it.

usage: check_container_outputs.py MICROSCALE WORK
"""
import importlib.metadata
import subprocess
import sys
from pathlib import Path

import torch
import transformers
from safetensors.torch import load_file, save_file

FLUX = {"img_attn.qkv": (384, 128), "img_attn.proj": (128, 128), "img_mlp.0": (640, 128), "img_mlp.2": (128, 640),
        "txt_attn.qkv": (384, 128), "img_mod.lin": (768, 128)}
PREFIX = "model.diffusion_model."


def run(microscale, *words):
    subprocess.run([microscale, *words], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def relative_mse(values, original):
    return ((values - original).square().sum() / original.double().square().sum()).item()


def check_comfyui(microscale, work):
    try:
        from comfy_kitchen.backends.eager.quantization import (dequantize_mxfp8, dequantize_nvfp4, quantize_mxfp8,
                                                               quantize_nvfp4)
    except ImportError as missing:
        print(f"  comfy-kitchen: NOT RUN: {missing}")
        return
    source = {f"{PREFIX}img_in.weight": torch.randn(128, 64).bfloat16(),
              f"{PREFIX}final_layer.linear.weight": torch.randn(64, 128).bfloat16()}
    for block in range(2):
        for name, shape in FLUX.items():
            source[f"{PREFIX}double_blocks.{block}.{name}.weight"] = (torch.randn(shape) * 0.02).bfloat16()
            source[f"{PREFIX}double_blocks.{block}.{name}.bias"] = torch.randn(shape[0]).bfloat16()
    save_file(source, work / "flux.safetensors")
    for form in ("nvfp4", "mxfp8"):
        target = work / f"flux-{form}.safetensors"
        run(microscale, "quantize", work / "flux.safetensors", "-o", target, "--format", form)
        run(microscale, "verify", target)
        run(microscale, "dequantize", target, "-o", work / f"flux-{form}-dense", "--dtype", "f32")
        written, ours = load_file(target), load_file(work / f"flux-{form}-dense" / target.name)
        layers = [name.removesuffix(".comfy_quant") for name in written if name.endswith(".comfy_quant")]
        assert len(layers) == 2 * (len(FLUX) - 1), layers
        for layer in layers:
            codes, scale = written[layer + ".weight"], written[layer + ".weight_scale"]
            original = source[layer + ".weight"]
            if form == "nvfp4":
                multiplier = written[layer + ".weight_scale_2"]
                theirs = dequantize_nvfp4(codes, multiplier, scale, torch.float32)
                own_scale = original.float().abs().amax() / 2688
                own = dequantize_nvfp4(*(lambda q, s: (q, own_scale, s))(*quantize_nvfp4(original, own_scale)),
                                       torch.float32)
            else:
                theirs = dequantize_mxfp8(codes, scale.view(torch.float8_e8m0fnu), torch.float32)
                own = dequantize_mxfp8(*quantize_mxfp8(original), torch.float32)
            assert torch.equal(theirs, ours[layer + ".weight"]), f"{form} {layer}: other values than ours"
            error, its = relative_mse(theirs, original.float()), relative_mse(own, original.float())
            assert error <= its * 1.0001, f"{form} {layer}: error {error:.4%}, of comfy-kitchen {its:.4%}"
            text = bytes(written[layer + ".comfy_quant"].tolist()).decode()
            assert text == '{"format": "%s"}' % form, text
        kept = [name for name in source if name.removesuffix(".weight") not in layers]
        assert all(torch.equal(written[name], source[name]) for name in kept), "a kept tensor differs"
        run(microscale, "convert", target, "-o", work / f"flux-{form}-folder", "--to", "compressed-tensors", "--exact")
        back = work / f"flux-{form}-back.safetensors"
        run(microscale, "convert", work / f"flux-{form}-folder", "-o", back, "--to", "comfyui", "--exact")
        converted = load_file(back)
        for layer in layers:
            codes, scale = converted[layer + ".weight"], converted[layer + ".weight_scale"]
            theirs = dequantize_nvfp4(codes, converted[layer + ".weight_scale_2"], scale, torch.float32) \
                if form == "nvfp4" else dequantize_mxfp8(codes, scale.view(torch.float8_e8m0fnu), torch.float32)
            assert torch.equal(theirs, ours[layer + ".weight"]), f"{form} {layer}: converted, other values than ours"
        print(f"  comfy-kitchen, {importlib.metadata.version('comfy-kitchen')}: our {form} has our values, by convert too; "
              f"relative MSE {error:.3%}, by comfy-kitchen itself {its:.3%}; {len(kept)} tensors kept")


def check_gpt_oss(microscale, work):
    from transformers.integrations.mxfp4 import convert_moe_packed_tensors
    config = transformers.GptOssConfig(
        vocab_size=64, hidden_size=64, intermediate_size=96, num_hidden_layers=2, num_local_experts=4,
        num_experts_per_tok=2, num_attention_heads=4, num_key_value_heads=2, head_dim=16, sliding_window=32,
        layer_types=["sliding_attention", "full_attention"], max_position_embeddings=128)
    transformers.AutoModelForCausalLM.from_config(config, dtype=torch.bfloat16).save_pretrained(work / "gpt-oss")
    run(microscale, "quantize", work / "gpt-oss", "-o", work / "gpt-oss-mxfp4", "--format", "mxfp4", "--container",
        "gpt-oss")
    run(microscale, "verify", work / "gpt-oss-mxfp4")
    run(microscale, "dequantize", work / "gpt-oss-mxfp4", "-o", work / "gpt-oss-dense")
    written = load_file(work / "gpt-oss-mxfp4/model.safetensors")
    ours = load_file(work / "gpt-oss-dense/model.safetensors")
    original = load_file(work / "gpt-oss/model.safetensors")
    names = [name.removesuffix("_blocks") for name in written if name.endswith("_blocks")]
    assert len(names) == 4, names
    for name in names:
        theirs = convert_moe_packed_tensors(written[name + "_blocks"], written[name + "_scales"])
        assert torch.equal(theirs, ours[name]), f"{name}: other values than ours"
        error = relative_mse(theirs.float(), original[name].float())
        assert error < 0.014, f"{name}: error {error:.3%}"
    tokens = torch.arange(24).reshape(1, -1)
    logits = []
    for folder in ("gpt-oss-mxfp4", "gpt-oss-dense"):
        model = transformers.AutoModelForCausalLM.from_pretrained(work / folder, dtype=torch.bfloat16)
        with torch.no_grad():
            logits.append(model(tokens).logits)
    assert torch.equal(*logits), "the logits of the packed and of the dense folder differ"
    print(f"  transformers, {transformers.__version__}: our gpt-oss experts have our values (relative MSE {error:.3%}), "
          "and the folder's logits are those of the dense one")


def check_fp8(microscale, work):
    config = transformers.LlamaConfig(
        vocab_size=96, hidden_size=128, intermediate_size=256, num_hidden_layers=2, num_attention_heads=4,
        num_key_value_heads=2, max_position_embeddings=128)
    transformers.AutoModelForCausalLM.from_config(config, dtype=torch.bfloat16).save_pretrained(work / "llama")
    run(microscale, "quantize", work / "llama", "-o", work / "fp8", "--format", "fp8")
    run(microscale, "quantize", work / "llama", "-o", work / "fp8-inputs", "--format", "fp8", "--activations", "dynamic")
    run(microscale, "dequantize", work / "fp8", "-o", work / "fp8-dense")
    logits = []
    for folder in ("fp8-dense", "fp8", "fp8-inputs"):
        model, said = transformers.AutoModelForCausalLM.from_pretrained(work / folder, dtype=torch.bfloat16,
                                                                        output_loading_info=True)
        assert not said["missing_keys"] and not said["unexpected_keys"], said
        with torch.no_grad():
            logits.append(model(torch.arange(24).reshape(1, -1)).logits)
    assert torch.equal(logits[0], logits[1]), "the logits of the FP8 and of the dense folder differ"
    error = relative_mse(logits[2].float(), logits[0].float())
    assert 0 < error < 0.01, f"with quantized inputs the logits differ by {error:.3%}"
    print(f"  transformers, {transformers.__version__}: our FP8 folder's logits are those of the dense one; with inputs in "
          f"FP8 they differ by {error:.3%}")


if __name__ == "__main__":
    torch.manual_seed(0)
    program, place = sys.argv[1], Path(sys.argv[2])
    place.mkdir(parents=True, exist_ok=True)
    check_comfyui(program, place)
    check_gpt_oss(program, place)
    check_fp8(program, place)
