"""GGUF files as the gguf package and transformers read them. Every type: random blocks, written with that package,
are dequantized and compared with its own values bit for bit. Every architecture: a small model with random weights, of
transformers, written as llama.cpp would with the gguf package's table of names, becomes that model again. A real one: what `microscale dequantize --dtype f32`
wrote has the weights that transformers gets from the GGUF file, its tokens, and its greedy continuations.

usage: check_gguf.py MICROSCALE WORK [MODEL.gguf]
"""
import importlib.metadata
import subprocess
import sys
from pathlib import Path

import gguf
import numpy as np
import torch
import transformers
from safetensors.torch import load_file
from transformers import AutoModelForCausalLM, AutoTokenizer

TYPES = "F16 BF16 Q4_0 Q4_1 Q5_0 Q5_1 Q8_0 Q2_K Q3_K Q4_K Q5_K Q6_K IQ4_NL IQ4_XS MXFP4 NVFP4".split()
ROWS, BLOCKS, SEED = 64, 8, 35
SCALE = np.float32(0.1)  # of the NVFP4 tensor
TEXTS = [
    "The capital of France is", "def f(x):\n    return x + 1  # ", "It's 12345.678 o'clock!  Two  spaces\n\n\ttab",
    "Ünïcödé ☃ 你好 мир", "<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n",
]


def run(microscale, *words):
    subprocess.run([microscale, *words], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def check_types(microscale, work):
    rng = np.random.default_rng(SEED)
    writer = gguf.GGUFWriter(work / "types.gguf", "random")
    wanted = {}
    for name in TYPES:
        kind = gguf.GGMLQuantizationType[name]
        block, size = gguf.GGML_QUANT_SIZES[kind]
        blocks = rng.integers(0, 256, (ROWS, BLOCKS * size), dtype=np.uint8)
        data = blocks.view(np.float16) if name == "F16" else blocks
        with np.errstate(all="ignore"):
            wanted[name + ".weight"] = gguf.dequantize(data, kind).reshape(ROWS, BLOCKS * block)
        writer.add_tensor(name + ".weight", data, raw_dtype=kind)
    writer.add_tensor("NVFP4.scale", np.array([SCALE]))
    wanted["NVFP4.weight"] = wanted["NVFP4.weight"] * SCALE
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    run(microscale, "dequantize", work / "types.gguf", "-o", work / "types", "--dtype", "f32", "--allow-nan")
    written = {name: tensor.float().numpy() for name, tensor in load_file(work / "types/model.safetensors").items()}
    problems, compared = [], 0
    for name, theirs in wanted.items():
        ours = written[name]
        different = (ours.view(np.uint32) != theirs.view(np.uint32)) & ~(np.isnan(ours) & np.isnan(theirs))
        compared += ours.size
        if ours.shape != theirs.shape or different.any():
            problems.append(f"{name}: {different.sum()} of {ours.size} values differ")
    print(f"  gguf {importlib.metadata.version('gguf')}: {len(wanted)} types, {compared} values compared bit for bit")
    return problems


def small_models():
    """(architecture, config) of each that becomes a folder; what they share is in `sizes`."""
    sizes = dict(vocab_size=96, hidden_size=64, intermediate_size=96, num_hidden_layers=2, num_attention_heads=4,
                 num_key_value_heads=2, head_dim=16, max_position_embeddings=128, rms_norm_eps=1e-6)
    bias = dict(attention_bias=True)
    llama3 = dict(rope_type="llama3", factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0,
                  original_max_position_embeddings=8192, rope_theta=500000.0)
    yield "llama", transformers.LlamaConfig(**sizes, **bias, tie_word_embeddings=False)
    yield "llama", transformers.LlamaConfig(**sizes, rope_parameters=llama3, tie_word_embeddings=True)
    yield "qwen2", transformers.Qwen2Config(**sizes, tie_word_embeddings=True)
    yield "qwen3", transformers.Qwen3Config(**{**sizes, "head_dim": 32}, tie_word_embeddings=False)
    yield "qwen3moe", transformers.Qwen3MoeConfig(**{**sizes, "head_dim": 32}, num_experts=4, num_experts_per_tok=2,
                                                  moe_intermediate_size=32, norm_topk_prob=True)
    yield "gemma3", transformers.Gemma3TextConfig(**sizes, sliding_window=32, query_pre_attn_scalar=16)


def as_llama_cpp(architecture, config, name, values):
    """Names and values in the file of one tensor of the model: what llama.cpp's converter does to it."""
    if ".mlp.experts.gate_up_proj" in name:
        gate, up = values[:, :values.shape[1] // 2], values[:, values.shape[1] // 2:]
        stem = name.replace("gate_up_proj", "")
        return [(stem + "gate_proj.weight", gate), (stem + "up_proj.weight", up)]
    if ".mlp.experts.down_proj" in name:
        return [(name + ".weight", values)]
    if architecture == "gemma3" and name.endswith("norm.weight"):
        return [(name, values + 1)]
    for part, heads in (("q_proj", config.num_attention_heads), ("k_proj", config.num_key_value_heads)):
        if architecture == "llama" and f".{part}." in name:
            halves = values.reshape(heads, 2, values.shape[0] // heads // 2, *values.shape[1:])
            return [(name, halves.swapaxes(1, 2).reshape(values.shape))]
    return [(name, values)]


def write_gguf(path, architecture, config, model):
    writer = gguf.GGUFWriter(path, architecture)
    writer.add_block_count(config.num_hidden_layers)
    writer.add_context_length(config.max_position_embeddings)
    writer.add_embedding_length(config.hidden_size)
    writer.add_feed_forward_length(config.intermediate_size)
    writer.add_head_count(config.num_attention_heads)
    writer.add_head_count_kv(config.num_key_value_heads)
    writer.add_layer_norm_rms_eps(config.rms_norm_eps)
    writer.add_key_length(config.head_dim if getattr(config, "head_dim", None) else 16)
    rope = config.rope_parameters.get("full_attention", config.rope_parameters)
    writer.add_rope_freq_base(rope["rope_theta"])
    if architecture == "qwen3moe":
        writer.add_expert_count(config.num_experts)
        writer.add_expert_used_count(config.num_experts_per_tok)
        writer.add_expert_feed_forward_length(config.moe_intermediate_size)
    if architecture == "gemma3":
        writer.add_sliding_window(config.sliding_window)
    if rope["rope_type"] == "llama3":
        half = config.head_dim // 2
        plain = 1 / rope["rope_theta"] ** (np.arange(half) / half)
        scaled = model.model.rotary_emb.inv_freq.numpy()
        writer.add_tensor("rope_freqs.weight", (plain / scaled).astype(np.float32))
    names = gguf.get_tensor_name_map(gguf.MODEL_ARCH[architecture.upper()], config.num_hidden_layers)
    for name, tensor in model.state_dict().items():
        if name == "lm_head.weight" and config.tie_word_embeddings:
            continue
        for part, values in as_llama_cpp(architecture, config, name, tensor.numpy()):
            writer.add_tensor(names.get_name(part, try_suffixes=(".weight", ".bias")), np.ascontiguousarray(values))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def check_architectures(microscale, work):
    problems = []
    tokens = torch.arange(90).reshape(1, -1)
    for number, (architecture, config) in enumerate(small_models()):
        torch.manual_seed(SEED + number)
        model = AutoModelForCausalLM.from_config(config).float().eval()
        for parameter in model.parameters():  # norms, too, and biases
            parameter.data += 0.1 * torch.randn_like(parameter)
        path, folder = work / f"{number}.gguf", work / f"folder{number}"
        write_gguf(path, architecture, config, model)
        run(microscale, "dequantize", path, "-o", folder, "--dtype", "f32")
        again = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()
        ours, theirs = again.state_dict(), model.state_dict()
        close = 1e-6 if architecture == "gemma3" else 0  # 1 + w - 1 rounds
        wrong = [name for name in theirs
                 if name not in ours or not torch.allclose(ours[name], theirs[name], rtol=0, atol=close)]
        with torch.no_grad():
            difference = (again(tokens).logits - model(tokens).logits).abs().max().item()
        if wrong or len(ours) != len(theirs) or difference > 1e-4:
            problems.append(f"{architecture} ({number}): weights {wrong[:3]} differ, logits by {difference}")
    if not problems:
        print(f"  transformers {transformers.__version__}: {number + 1} models of random weights become themselves again")
    return problems


def check_model(microscale, work, path):
    run(microscale, "dequantize", path, "-o", work / "model", "--dtype", "f32")
    theirs, ours = ({"pretrained_model_name_or_path": path.parent, "gguf_file": path.name},
                    {"pretrained_model_name_or_path": work / "model"})
    problems = []

    reader = gguf.GGUFReader(path)
    values = load_file(work / "model/model.safetensors")
    if len(values) != len(reader.tensors):
        problems.append(f"{len(values)} tensors written, {len(reader.tensors)} in the file")
    embedding = next(t for t in reader.tensors if t.name == "token_embd.weight")
    if not np.array_equal(gguf.dequantize(embedding.data, embedding.tensor_type),
                          values["model.embed_tokens.weight"].numpy()):
        problems.append("model.embed_tokens.weight is not what the gguf package reads")

    tokenizers = [AutoTokenizer.from_pretrained(**place) for place in (theirs, ours)]
    for text in TEXTS:
        tokens = [tokenizer(text)["input_ids"] for tokenizer in tokenizers]
        if tokens[0] != tokens[1]:
            problems.append(f"tokens of {text!r}: {tokens[0]} there, {tokens[1]} here")
    models = [AutoModelForCausalLM.from_pretrained(**place, dtype=torch.float32).eval() for place in (theirs, ours)]
    states = [model.state_dict() for model in models]
    unequal = [name for name in states[0] if name not in states[1] or not torch.equal(states[0][name], states[1][name])]
    if unequal or len(states[0]) != len(states[1]):
        problems.append(f"weights differ: {unequal[:3]} of {len(unequal)}")
    for text in TEXTS:
        inputs = tokenizers[1](text, return_tensors="pt")
        with torch.no_grad():
            texts = [model.generate(**inputs, max_new_tokens=24, do_sample=False) for model in models]
        if not torch.equal(*texts):
            problems.append(f"greedy continuations of {text!r} differ: {texts[0][0].tolist()} {texts[1][0].tolist()}")
    if not problems:
        print(f"  transformers, {path.name}: {len(states[0])} weights, tokens and greedy continuations of {len(TEXTS)} "
              "texts equal")
    return problems


def main():
    microscale, work = sys.argv[1], Path(sys.argv[2])
    work.mkdir(parents=True)
    problems = check_types(microscale, work) + check_architectures(microscale, work)
    for path in sys.argv[3:]:
        problems += check_model(microscale, work, Path(path))
    print("\n".join(problems), end="")
    return bool(problems)


if __name__ == "__main__":
    sys.exit(main())
