"""Families whose experts transformers reads from one tensor for each layer and nothing else: a small random model of each
is quantized, which puts its experts one by one, and `microscale dequantize` makes of that what transformers loads without a
tensor missing or left over: the original's tensors, in its shapes, near its values.

usage: check_experts.py MICROSCALE WORK
"""
import subprocess
import sys
from pathlib import Path

import torch
import transformers

SIZES = dict(vocab_size=64, hidden_size=64, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2,
             max_position_embeddings=128, pad_token_id=0, bos_token_id=1, eos_token_id=2)
EXPERTS = 4
FAMILIES = {
    "llama4_text": dict(intermediate_size=96, intermediate_size_mlp=128, head_dim=16, num_local_experts=EXPERTS,
                        interleave_moe_layer_step=1),
    "gemma4_text": dict(intermediate_size=96, head_dim=16, global_head_dim=16, enable_moe_block=True, num_experts=EXPERTS,
                        top_k_experts=2, moe_intermediate_size=32, vocab_size_per_layer_input=64,
                        hidden_size_per_layer_input=0, num_kv_shared_layers=0,
                        layer_types=["sliding_attention", "full_attention"]),
}


def run(microscale, *words):
    done = subprocess.run([microscale, *map(str, words)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


def check(microscale, work, family, sizes):
    config = transformers.AutoConfig.for_model(family, **SIZES | sizes)
    model = transformers.AutoModelForCausalLM.from_config(config, dtype=torch.bfloat16).eval()
    original, quantized, dense = (work / f"{family}{ending}" for ending in ("", "-mxfp8", "-dense"))
    model.save_pretrained(original)
    run(microscale, "quantize", original, "-o", quantized, "--format", "mxfp8")
    run(microscale, "dequantize", quantized, "-o", dense)
    found, said = transformers.AutoModelForCausalLM.from_pretrained(dense, dtype=torch.bfloat16, output_loading_info=True)
    assert not said["missing_keys"] and not said["unexpected_keys"] and not said["mismatched_keys"], (family, said)
    fused, worst = 0, 0.0
    wanted, got = model.state_dict(), found.state_dict()
    assert wanted.keys() == got.keys(), (family, wanted.keys() ^ got.keys())
    for tensor, values in wanted.items():
        assert values.shape == got[tensor].shape, (family, tensor, values.shape, got[tensor].shape)
        fused += tensor.endswith(("experts.gate_up_proj", "experts.down_proj"))
        error = (got[tensor].float() - values.float()).square().mean() / values.float().square().mean().clamp_min(1e-30)
        worst = max(worst, error.item())
    assert fused == 2 * SIZES["num_hidden_layers"] and 0 < worst < 0.002, (family, fused, worst)
    print(f"  transformers, {transformers.__version__}: experts of {family} from MXFP8, nothing missing, values differ by "
          f"at most {worst:.2%}")


if __name__ == "__main__":
    torch.manual_seed(0)
    torch.set_num_threads(2)
    program, place = sys.argv[1], Path(sys.argv[2])
    place.mkdir(parents=True, exist_ok=True)
    for name, numbers in FAMILIES.items():
        check(program, place, name, numbers)
