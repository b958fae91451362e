"""Trains nothing: makes adapters with peft on small models, gives them random numbers, and compares what
`microscale quantize --lora` adds to the weights with what peft's own merge_and_unload makes of them, in FP32. Weights
that are kept are written as they are after adding, so all layers but one are kept.

usage: check_adapters.py MICROSCALE WORK
"""
import subprocess
import sys
from pathlib import Path

import torch
import transformers
from safetensors.torch import load_file

try:
    import peft
except ImportError as missing:
    print(f"  peft: NOT RUN: {missing}")
    sys.exit(0)


def llama():
    return transformers.LlamaForCausalLM(transformers.LlamaConfig(
        vocab_size=128, hidden_size=64, intermediate_size=96, num_hidden_layers=2, num_attention_heads=4,
        num_key_value_heads=2))


def add(model, name, config):
    if isinstance(model, peft.PeftModel):
        model.add_adapter(name, config)
    else:
        model = peft.get_peft_model(model, config, adapter_name=name)
    for parameter, values in model.named_parameters():
        if f".{name}." in parameter and "lora_" in parameter:
            torch.nn.init.normal_(values, std=0.2)
    return model


def check(program, work, title, make, uses, quantized):
    """`uses`: (name, weight, options of LoraConfig)."""
    base = make()
    base.save_pretrained(work / "base")
    wrapped = base
    for name, _, options in uses:
        wrapped = add(wrapped, name, peft.LoraConfig(**options))
    wrapped.save_pretrained(work / "adapters")  # a folder for each name
    command = [program, "quantize", work / "base", "-o", work / "out", "--format", "nvfp4", "--include", quantized]
    for name, weight, _ in uses:
        command += ["--lora", f"{work / 'adapters' / name}:{weight}"]
        for module in wrapped.modules():
            if isinstance(module, peft.tuners.lora.LoraLayer) and name in module.scaling:
                module.scaling[name] *= weight
    subprocess.run(command, check=True, capture_output=True, text=True)
    merged = wrapped.merge_and_unload(adapter_names=[name for name, _, _ in uses])
    merged.save_pretrained(work / "merged")
    wanted, found = load_file(work / "merged" / "model.safetensors"), load_file(work / "out" / "model.safetensors")
    original = load_file(work / "base" / "model.safetensors")
    changed = 0
    for name, tensor in wanted.items():
        if name not in found:
            assert name.removesuffix(".weight").startswith(quantized.removesuffix("*").removesuffix(".")), name
            continue
        assert found[name].dtype == tensor.dtype and found[name].shape == tensor.shape, name
        assert torch.allclose(found[name], tensor, rtol=1e-6, atol=1e-6), (
            f"{title}: {name} differs by {(found[name] - tensor).abs().max()}")
        changed += not torch.equal(tensor, original[name])
    assert changed > 0
    print(f"  peft, {peft.__version__}: {title}: {changed} weights are those of merge_and_unload")


if __name__ == "__main__":
    torch.manual_seed(0)
    program, place = Path(sys.argv[1]).resolve(), Path(sys.argv[2]) / "adapters"
    linear = ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj"]
    down = "model.layers.1.mlp.down_proj"
    check(program, place / "plain", "alpha / r", llama,
          [("one", 1, dict(r=8, lora_alpha=16, target_modules=linear))], down)
    check(program, place / "two", "two adapters, one of them halved and rank-stabilized", llama,
          [("one", 1, dict(r=4, lora_alpha=12, target_modules=linear)),
           ("two", 0.5, dict(r=9, lora_alpha=6, use_rslora=True, target_modules=["up_proj", "o_proj"]))], down)
    check(program, place / "patterns", "patterns of ranks and alphas", llama,
          [("one", -1.5, dict(r=4, lora_alpha=8, target_modules=linear, rank_pattern={"layers.1.self_attn.q_proj": 16,
                                                                                     "k_proj": 2},
                              alpha_pattern={"k_proj": 3, r"model\.layers\.0\..*gate_proj": 5}))], down)
