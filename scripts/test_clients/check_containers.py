"""Makes small files with the tools that write them, expands them with `microscale dequantize` and compares, bit for
bit, with what these tools read in them: gpt-oss's blocks (transformers), FP8 with a scale for each row and for each
block, ComfyUI's NVFP4 and MXFP8 (comfy-kitchen, where it is installed), and a model of NVFP4 and FP8 (compressed-tensors).

usage: check_containers.py MICROSCALE WORK
"""
import subprocess
import sys
from pathlib import Path

import compressed_tensors
import torch
import transformers
from compressed_tensors.compressors import ModelCompressor
from compressed_tensors.quantization import QuantizationConfig, apply_quantization_config, preset_name_to_scheme
from compressed_tensors.quantization.utils import calculate_qparams, generate_gparam
from safetensors.torch import load_file, save_file
from transformers import AutoModelForCausalLM, LlamaConfig
from transformers.integrations.mxfp4 import convert_moe_packed_tensors


def expanded(microscale, folder, tensors, dtype):
    folder.mkdir(parents=True)
    save_file({name: tensor.contiguous() for name, tensor in tensors.items()}, folder / "model.safetensors")
    output = folder.with_name(folder.name + "-dense")
    subprocess.run([microscale, "dequantize", folder, "-o", output, "--dtype", dtype], check=True)
    return load_file(output / "model.safetensors")


def check_gpt_oss(microscale, work):
    name = "model.layers.0.mlp.experts.gate_up_proj"
    blocks = torch.randint(0, 256, (3, 192, 2, 16), dtype=torch.uint8)
    scales = torch.randint(118, 125, (3, 192, 2), dtype=torch.uint8)
    dense = expanded(microscale, work / "gpt-oss", {name + "_blocks": blocks, name + "_scales": scales}, "bf16")
    assert torch.equal(dense[name], convert_moe_packed_tensors(blocks, scales)), name
    print(f"  transformers, {transformers.__version__}: its gpt-oss experts have our values")


def check_fp8(microscale, work):
    codes = (torch.randn(192, 320) * 100).to(torch.float8_e4m3fn)
    rows, blocks = torch.rand(192, 1).bfloat16() + 0.001, torch.rand(2, 3) + 0.001
    dense = expanded(microscale, work / "fp8",
                     {"layers.0.a.weight": codes, "layers.0.a.weight_scale": rows,
                      "layers.0.b.weight": codes.clone(), "layers.0.b.weight_scale_inv": blocks}, "f32")
    wide = blocks.repeat_interleave(128, 0)[:192].repeat_interleave(128, 1)[:, :320]
    assert torch.equal(dense["layers.0.a.weight"], codes.float() * rows.float())
    assert torch.equal(dense["layers.0.b.weight"], codes.float() * wide)
    print("  torch: FP8 with scales of rows and of cropped blocks has our values")


def check_comfyui(microscale, work):
    try:
        from comfy_kitchen.backends.eager.quantization import dequantize_nvfp4
        from comfy_kitchen.tensor.mxfp8 import TensorCoreMXFP8Layout
        from comfy_kitchen.tensor.nvfp4 import TensorCoreNVFP4Layout
    except ImportError as missing:
        print(f"  comfy-kitchen: NOT RUN: {missing}")
        return
    weight = (torch.randn(300, 320) * 0.02).bfloat16()
    nvfp4, facts = TensorCoreNVFP4Layout.quantize(weight)
    mxfp8, facts8 = TensorCoreMXFP8Layout.quantize(weight)
    tensors = {"blocks.0.a.bias": torch.zeros(300), "blocks.0.b.bias": torch.zeros(300)}
    for module, layout, codes, its in (("a", TensorCoreNVFP4Layout, nvfp4, facts),
                                       ("b", TensorCoreMXFP8Layout, mxfp8, facts8)):
        for ending, tensor in layout.state_dict_tensors(codes, its).items():
            as_bytes = tensor.dtype == getattr(torch, "float8_e8m0fnu", None)
            tensors[f"blocks.0.{module}.weight{ending}"] = tensor.view(torch.uint8) if as_bytes else tensor
        text = '{"format": "%s"}' % ("nvfp4" if module == "a" else "mxfp8")
        tensors[f"blocks.0.{module}.comfy_quant"] = torch.tensor(list(text.encode()), dtype=torch.uint8)
    dense = expanded(microscale, work / "comfyui", tensors, "f32")
    wanted = dequantize_nvfp4(nvfp4, facts.scale, facts.block_scale, torch.float32)
    assert torch.equal(dense["blocks.0.a.weight"], wanted[:300])
    assert torch.equal(dense["blocks.0.b.weight"], TensorCoreMXFP8Layout.dequantize(mxfp8, facts8).float()[:300])
    print("  comfy-kitchen: its NVFP4 and MXFP8 have our values")


def check_compressed_tensors(microscale, work):
    """A model with a group of NVFP4 and one of FP8, compressed and described by compressed-tensors itself."""
    model = AutoModelForCausalLM.from_config(LlamaConfig(
        vocab_size=96, hidden_size=128, intermediate_size=256, num_hidden_layers=2, num_attention_heads=4,
        num_key_value_heads=2)).bfloat16()
    config = QuantizationConfig(ignore=["lm_head"], format="mixed-precision", config_groups={
        "group_0": preset_name_to_scheme("NVFP4A16", [r"re:.*self_attn\..*_proj$"]),
        "group_1": preset_name_to_scheme("FP8_DYNAMIC", [r"re:.*mlp\..*_proj$"])})
    apply_quantization_config(model, config)
    modules = {name: module for name, module in model.named_modules() if hasattr(module, "quantization_scheme")}
    largest = max(module.weight.abs().max() for module in modules.values()).reshape(1)
    for module in modules.values():
        how, weight, shared = module.quantization_scheme.weights, module.weight.data, None
        if how.group_size:
            weight = weight.unflatten(1, (-1, how.group_size))
            shared = generate_gparam(-largest, largest)  # one for all: q, k and v are one layer in an engine
            module.weight_global_scale.data.copy_(shared)
        scales, _ = calculate_qparams(weight.amin(-1), weight.amax(-1), how, global_scale=shared)
        module.weight_scale.data.copy_(scales.reshape(module.weight_scale.shape))
    compressor = ModelCompressor.from_pretrained_model(model)
    compressor.compress_model(model)
    folder = work / "compressed-tensors"
    folder.mkdir()
    save_file({name: tensor.contiguous() for name, tensor in model.state_dict().items()}, folder / "model.safetensors")
    model.config.architectures = ["LlamaForCausalLM"]
    model.config.save_pretrained(folder)
    compressor.update_config(folder)
    compressor.decompress_model(model)
    output = folder.with_name("compressed-tensors-dense")
    subprocess.run([microscale, "dequantize", folder, "-o", output, "--dtype", "bf16"], check=True)
    subprocess.run([microscale, "verify", folder], check=True)
    dense = load_file(output / "model.safetensors")
    for name, module in modules.items():
        assert torch.equal(dense[name + ".weight"], module.weight), name
    print(f"  compressed-tensors, {compressed_tensors.__version__}: its groups of NVFP4 and FP8 in one model have our values")


if __name__ == "__main__":
    torch.manual_seed(0)
    program, place = sys.argv[1], Path(sys.argv[2]) / "containers"
    check_gpt_oss(program, place)
    check_fp8(program, place)
    check_comfyui(program, place)
    check_compressed_tensors(program, place)
