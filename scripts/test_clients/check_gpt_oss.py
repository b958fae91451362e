"""gpt-oss in every layout: a small random model of transformers in the published blocks and scales goes through `microscale
convert` to compressed-tensors, where each expert lies by itself, and back, and comes out of a GGUF file that the gguf
package wrote; each time the blocks are the same bytes, and transformers' logits the same numbers. What `microscale
dequantize` makes of experts that lie one by one transformers loads without a tensor missing.

usage: check_gpt_oss.py MICROSCALE WORK
"""
import json
import subprocess
import sys
from pathlib import Path

import gguf
import numpy
import torch
import transformers
from safetensors.torch import load_file

LAYERS, EXPERTS, HIDDEN, INNER = 2, 4, 64, 96


def run(microscale, *words):
    done = subprocess.run([microscale, *words], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


def make_source(microscale, work):
    config = transformers.GptOssConfig(
        vocab_size=64, hidden_size=HIDDEN, intermediate_size=INNER, num_hidden_layers=LAYERS, num_local_experts=EXPERTS,
        num_experts_per_tok=2, num_attention_heads=4, num_key_value_heads=2, head_dim=16, sliding_window=32,
        layer_types=["sliding_attention", "full_attention"], max_position_embeddings=131072)
    model = transformers.AutoModelForCausalLM.from_config(config, dtype=torch.bfloat16)
    for name, parameter in model.named_parameters():
        if "bias" in name or "sinks" in name:
            torch.nn.init.normal_(parameter, std=0.3)
    model.save_pretrained(work / "dense")
    run(microscale, "quantize", work / "dense", "-o", work / "source", "--format", "mxfp4", "--container", "gpt-oss")


def logits_of(folder):
    model, said = transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=torch.bfloat16, output_loading_info=True)
    assert not said["missing_keys"] and not said["unexpected_keys"], said
    with torch.no_grad():
        return model(torch.arange(24).reshape(1, -1)).logits


def check_same(work, name, wanted):
    source, found = load_file(work / "source/model.safetensors"), load_file(work / name / "model.safetensors")
    assert source.keys() == found.keys(), source.keys() ^ found.keys()
    for tensor in source:
        assert torch.equal(source[tensor].float(), found[tensor].float()), f"{name}: {tensor}"
        if tensor.endswith(("_blocks", "_scales")):
            assert source[tensor].shape == found[tensor].shape and found[tensor].dtype == torch.uint8, tensor
    assert torch.equal(logits_of(work / name), wanted), f"{name}: other logits than those of the source"


def check_round_trip(microscale, work, wanted):
    there = json.loads(run(microscale, "convert", work / "source", "-o", work / "apart", "--to", "compressed-tensors",
                           "--exact", "--json"))
    run(microscale, "verify", work / "apart")
    back = json.loads(run(microscale, "convert", work / "apart", "-o", work / "back", "--to", "gpt-oss", "--exact", "--json"))
    run(microscale, "verify", work / "back")
    assert there["hash_before"] == there["hash_after"] == back["hash_before"] == back["hash_after"], (there, back)
    assert sum(".experts.3." in name for name in load_file(work / "apart/model.safetensors")) > 0
    check_same(work, "back", wanted)
    print(f"  transformers, {transformers.__version__}: gpt-oss through compressed-tensors and back, the same logits")
    run(microscale, "dequantize", work / "apart", "-o", work / "apart-dense")
    assert torch.equal(logits_of(work / "apart-dense"), wanted), "dequantized single experts have other logits"
    print(f"  transformers, {transformers.__version__}: experts one by one, dequantized, have the logits of the source")


def gguf_blocks(blocks, scales):
    """[N, K / 32, 16] with neighbours in a byte as llama.cpp has it: the scale, then elements j and j + 16."""
    nibbles = numpy.stack((blocks & 15, blocks >> 4), -1).reshape(*blocks.shape[:-1], 32)
    codes = nibbles[..., :16] | nibbles[..., 16:] << 4
    return numpy.concatenate((scales[..., None], codes), -1).reshape(*blocks.shape[:-2], -1)


def write_gguf(work):
    source = load_file(work / "source/model.safetensors")
    writer = gguf.GGUFWriter(work / "gpt-oss.gguf", "gpt-oss")
    writer.add_block_count(LAYERS)
    writer.add_context_length(131072)
    writer.add_embedding_length(HIDDEN)
    writer.add_feed_forward_length(INNER)
    writer.add_expert_feed_forward_length(INNER)
    writer.add_head_count(4)
    writer.add_head_count_kv(2)
    writer.add_key_length(16)
    writer.add_value_length(16)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_rope_freq_base(150000.0)
    writer.add_rope_scaling_type(gguf.RopeScalingType.YARN)
    writer.add_rope_scaling_factor(32.0)
    writer.add_rope_scaling_orig_ctx_len(4096)
    writer.add_sliding_window(32)
    writer.add_expert_count(EXPERTS)
    writer.add_expert_used_count(2)
    names = gguf.get_tensor_name_map(gguf.MODEL_ARCH.GPT_OSS, LAYERS)
    kinds = gguf.GGMLQuantizationType

    def add(name, tensor, kind=kinds.BF16):
        if kind == kinds.BF16 and tensor.ndim == 1:
            kind = kinds.F32
        data = tensor.float().numpy() if kind == kinds.F32 else tensor.contiguous().view(torch.int16).numpy()
        writer.add_tensor(name, data if kind == kinds.F32 else data.view(numpy.uint8), raw_dtype=kind)

    for name, tensor in source.items():
        if ".experts." not in name:
            stem, ending = (name, ".weight") if name.endswith("sinks") else name.rsplit(".", 1)
            add(names.get_name(stem) + "." + ending.strip("."), tensor)
            continue
        layer = f"blk.{name.split('.')[2]}.ffn_"
        parts = {"gate": (slice(0, None, 2),), "up": (slice(1, None, 2),)} if "gate_up" in name else {"down": (slice(None),)}
        for part, (rows,) in parts.items():
            if name.endswith("_bias"):
                add(f"{layer}{part}_exps.bias", tensor[:, rows], kinds.F32)
            elif name.endswith("_blocks"):
                scales = source[name.removesuffix("blocks") + "scales"][:, rows]
                writer.add_tensor(f"{layer}{part}_exps.weight", gguf_blocks(tensor[:, rows].numpy(), scales.numpy()),
                                  raw_dtype=kinds.MXFP4)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def check_gguf(microscale, work, wanted):
    write_gguf(work)
    made = json.loads(run(microscale, "convert", work / "gpt-oss.gguf", "-o", work / "from-gguf", "--to", "gpt-oss", "--exact",
                          "--json"))
    assert made["same_values"], made
    run(microscale, "verify", work / "from-gguf")
    check_same(work, "from-gguf", wanted)
    run(microscale, "dequantize", work / "gpt-oss.gguf", "-o", work / "gguf-dense")
    assert torch.equal(logits_of(work / "gguf-dense"), wanted), "the dequantized GGUF file has other logits"
    print("  gguf: an MXFP4 file of gpt-oss becomes the published layout, and dense, with the logits of the source")


if __name__ == "__main__":
    torch.manual_seed(0)
    torch.set_num_threads(2)
    program, place = sys.argv[1], Path(sys.argv[2])
    place.mkdir(parents=True, exist_ok=True)
    make_source(program, place)
    right = logits_of(place / "source")
    check_round_trip(program, place, right)
    check_gguf(program, place, right)
