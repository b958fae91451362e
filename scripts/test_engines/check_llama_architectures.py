"""llama.cpp runs the GGUF files that `microscale quantize FOLDER -o OUT.gguf` makes of each architecture: of a small random
model, NVFP4 and MXFP4, beside a file of the same values in which all layers but one are BF16. A graph that forgets a scale, a
permutation of rows or a norm has other logits. The tokenizer is that of MODEL.gguf.

usage: check_llama_architectures.py MICROSCALE MODEL.gguf WORK
"""
import json
import shutil
import struct
import subprocess
import sys
from pathlib import Path

import llama_cpp
import numpy as np

WORDS, HIDDEN, INNER, LAYERS, HEADS, KV_HEADS, HEAD = 49152, 256, 512, 2, 4, 2, 64
TOKENS = list(range(1000, 1064))
# What llama.cpp rounds inputs of FP4 layers to, 8 bits, is worth a few percent of the logits in random models.
MOST = 0.08
MODELS = {
    "llama": ("LlamaForCausalLM", {"tie_word_embeddings": False}),
    "qwen2": ("Qwen2ForCausalLM", {"tie_word_embeddings": False, "use_sliding_window": False}),
    "qwen3": ("Qwen3ForCausalLM", {"tie_word_embeddings": False, "head_dim": HEAD, "use_sliding_window": False,
                                   "attention_bias": False}),
    "qwen3_moe": ("Qwen3MoeForCausalLM", {"tie_word_embeddings": False, "head_dim": HEAD, "num_experts": 4,
                                          "num_experts_per_tok": 2, "moe_intermediate_size": INNER,
                                          "norm_topk_prob": True, "decoder_sparse_step": 1, "mlp_only_layers": [],
                                          "attention_bias": False, "use_sliding_window": False}),
    "gemma3_text": ("Gemma3ForCausalLM", {"tie_word_embeddings": True, "head_dim": HEAD, "sliding_window": 512,
                                          "query_pre_attn_scalar": HEAD, "rope_local_base_freq": 10000.0,
                                          "hidden_activation": "gelu_pytorch_tanh", "attention_bias": False}),
}


def bf16(values):
    """Cut off, which is near enough for random numbers."""
    return (np.ascontiguousarray(values, np.float32).view(np.uint32) >> 16).astype(np.uint16)


def tensors_of(kind, random):
    def matrix(rows, cols):
        return random.standard_normal((rows, cols), np.float32) / cols ** 0.5

    def norm(size):
        return random.standard_normal(size).astype(np.float32) * 0.1 + (0 if kind == "gemma3_text" else 1)

    yield "model.embed_tokens.weight", random.standard_normal((WORDS, HIDDEN), np.float32) * 0.5
    yield "model.norm.weight", norm(HIDDEN)
    if kind != "gemma3_text":
        yield "lm_head.weight", matrix(WORDS, HIDDEN)
    for layer in range(LAYERS):
        at = f"model.layers.{layer}."
        norms = ["input_layernorm", "post_attention_layernorm"]
        if kind == "gemma3_text":
            norms += ["pre_feedforward_layernorm", "post_feedforward_layernorm"]
        for name in norms:
            yield f"{at}{name}.weight", norm(HIDDEN)
        for name, heads in (("q", HEADS), ("k", KV_HEADS), ("v", KV_HEADS)):
            yield f"{at}self_attn.{name}_proj.weight", matrix(heads * HEAD, HIDDEN)
            if kind == "qwen2":
                yield f"{at}self_attn.{name}_proj.bias", random.standard_normal(heads * HEAD).astype(np.float32) * 0.1
            if name != "v" and kind in ("qwen3", "qwen3_moe", "gemma3_text"):
                yield f"{at}self_attn.{name}_norm.weight", norm(HEAD)
        yield f"{at}self_attn.o_proj.weight", matrix(HIDDEN, HEADS * HEAD)
        if kind == "qwen3_moe":
            yield f"{at}mlp.gate.weight", matrix(4, HIDDEN)
        for place in [f"mlp.experts.{i}." for i in range(4)] if kind == "qwen3_moe" else ["mlp."]:
            yield f"{at}{place}gate_proj.weight", matrix(INNER, HIDDEN)
            yield f"{at}{place}up_proj.weight", matrix(INNER, HIDDEN)
            yield f"{at}{place}down_proj.weight", matrix(HIDDEN, INNER)


def make_model(folder, kind, tokenizer):
    folder.mkdir(parents=True)
    header, data = {}, []
    for name, values in tensors_of(kind, np.random.default_rng(len(kind))):
        data.append(bf16(values).tobytes())
        start = header[list(header)[-1]]["data_offsets"][1] if header else 0
        header[name] = {"dtype": "BF16", "shape": list(values.shape), "data_offsets": [start, start + len(data[-1])]}
    text = json.dumps(header).encode()
    (folder / "model.safetensors").write_bytes(struct.pack("<Q", len(text)) + text + b"".join(data))
    architecture, more = MODELS[kind]
    (folder / "config.json").write_text(json.dumps(dict(
        model_type=kind, architectures=[architecture], vocab_size=WORDS, hidden_size=HIDDEN, intermediate_size=INNER,
        num_hidden_layers=LAYERS, num_attention_heads=HEADS, num_key_value_heads=KV_HEADS, hidden_act="silu",
        max_position_embeddings=512, rms_norm_eps=1e-5, rope_theta=10000.0, torch_dtype="bfloat16", **more)))
    for name in ("tokenizer.json", "tokenizer_config.json"):
        shutil.copy(tokenizer / name, folder / name)


def run(microscale, *words):
    done = subprocess.run([microscale, *words], capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"microscale {' '.join(map(str, words))} ended with {done.returncode}: {done.stderr}")


def logits_of(path):
    model = llama_cpp.Llama(str(path), n_ctx=128, n_batch=128, logits_all=True, verbose=False, seed=1)
    model.eval(TOKENS)
    logits = model.scores[:len(TOKENS)].astype(np.float64)
    model.close()
    return logits - logits.mean(-1, keepdims=True)


def main():
    microscale, model, work = sys.argv[1], sys.argv[2], Path(sys.argv[3]) / "architectures"
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir(parents=True)
    run(microscale, "dequantize", model, "-o", work / "tokenizer")
    problems = []
    for kind in MODELS:
        make_model(work / kind, kind, work / "tokenizer")
        found = []
        for form in ("nvfp4", "mxfp4"):
            coded, dense = work / f"{kind}-{form}.gguf", work / f"{kind}-{form}-bf16.gguf"
            run(microscale, "quantize", work / kind, "-o", coded, "--format", form)
            run(microscale, "dequantize", coded, "-o", work / f"{kind}-{form}")
            # One layer must be quantized: its values are those it has already.
            run(microscale, "quantize", work / f"{kind}-{form}", "-o", dense, "--format", form, "--include",
                "model.layers.1.self_attn.o_proj")
            wanted, got = logits_of(dense), logits_of(coded)
            error = float(((got - wanted) ** 2).mean() / (wanted ** 2).mean()) ** 0.5
            found.append(f"{form} {error:.1%}")
            if not error < MOST:
                problems.append(f"{kind}, {form}: the logits differ by {error:.1%} of their size")
            for path in (coded, dense):
                path.unlink()
            shutil.rmtree(work / f"{kind}-{form}")
        print(f"  llama.cpp, llama-cpp-python {llama_cpp.__version__}: {kind}: logits beside BF16 of the same values: "
              f"{', '.join(found)}", flush=True)
        shutil.rmtree(work / kind)
    print("\n".join(problems))
    return bool(problems)


if __name__ == "__main__":
    sys.exit(main())
