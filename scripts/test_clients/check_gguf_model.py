"""GGUF files that `microscale quantize FOLDER -o OUT.gguf` makes of model folders, as the gguf package and transformers read
them. A small random model of transformers of each architecture, with a real tokenizer where there is one: transformers loads
the file by itself and computes the logits of the folder that `microscale dequantize` makes of the same codes; keys and types
are those of llama.cpp; NVFP4 and MXFP4 go into the file and back by `microscale convert` with the same bytes.

usage: check_gguf_model.py MICROSCALE WORK [FOLDER]      FOLDER: has a tokenizer.json
"""
import importlib.metadata
import json
import shutil
import subprocess
import sys
from pathlib import Path

import gguf
import torch
import transformers
from safetensors.torch import load_file

SIZES = dict(hidden_size=128, intermediate_size=192, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2,
             head_dim=32, max_position_embeddings=256)
MODELS = {"llama": transformers.LlamaConfig, "qwen2": transformers.Qwen2Config, "qwen3": transformers.Qwen3Config,
          "qwen3moe": transformers.Qwen3MoeConfig, "gemma3": transformers.Gemma3TextConfig}
# Of experts, transformers' reader of GGUF takes the size of a published model: 768.
MORE = {"qwen3moe": dict(num_experts=4, num_experts_per_tok=2, moe_intermediate_size=768, norm_topk_prob=True),
        "gemma3": dict(sliding_window=64, query_pre_attn_scalar=32)}


def run(microscale, *words):
    done = subprocess.run([microscale, *words], capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"microscale {' '.join(map(str, words))} ended with {done.returncode}: {done.stderr}")
    return done.stdout


def make(folder, architecture, words, tokenizer):
    """A model whose norms are not all alike, as trained ones are."""
    torch.manual_seed(len(architecture))
    sizes = dict(SIZES)
    if architecture == "qwen2":
        sizes.pop("head_dim")
    if architecture.startswith("qwen3"):
        sizes["head_dim"] = 128  # what transformers' reader of GGUF takes it to be
    config = MODELS[architecture](vocab_size=words, tie_word_embeddings=architecture == "gemma3", **sizes,
                                  **MORE.get(architecture, {}))
    model = transformers.AutoModelForCausalLM.from_config(config, dtype=torch.bfloat16)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if parameter.ndim == 1:
                parameter.add_(torch.randn_like(parameter) * 0.1)
    model.save_pretrained(folder)
    for name in ("tokenizer.json", "tokenizer_config.json"):
        if tokenizer and (tokenizer / name).exists():
            shutil.copy(tokenizer / name, folder / name)


def logits_of(model, words):
    with torch.no_grad():
        return model(torch.arange(48).reshape(2, 24) % words).logits


def check_file(path, architecture):
    reader = gguf.GGUFReader(path)
    types = {tensor.name: tensor.tensor_type.name for tensor in reader.tensors}
    assert reader.get_field("general.architecture").contents() == architecture
    assert types["token_embd.weight"] == "BF16" and types["blk.0.attn_norm.weight"] == "F32", types
    assert types["blk.1.attn_v.weight"] == "MXFP4" and "rope_freqs.weight" not in types, types
    if architecture == "qwen3moe":
        assert types["blk.0.ffn_up_exps.weight"] == "MXFP4" and types["blk.0.ffn_gate_inp.weight"] == "F32", types
    return len(types), len(reader.fields)


def check(microscale, work, architecture, words, tokenizer):
    source = work / architecture
    make(source, architecture, words, tokenizer)
    file = work / f"{architecture}.gguf"
    run(microscale, "quantize", source, "-o", file, "--format", "mxfp4")
    run(microscale, "verify", file)
    run(microscale, "quantize", source, "-o", work / f"{architecture}-mxfp4", "--format", "mxfp4")
    run(microscale, "dequantize", work / f"{architecture}-mxfp4", "-o", work / f"{architecture}-dense")
    dense = transformers.AutoModelForCausalLM.from_pretrained(work / f"{architecture}-dense", dtype=torch.float32)
    try:
        theirs = transformers.AutoModelForCausalLM.from_pretrained(work, gguf_file=file.name, dtype=torch.float32)
        if architecture == "gemma3":  # no key of GGUF has what scores are divided by: transformers takes its default
            for layer, own in zip(theirs.model.layers, dense.model.layers, strict=True):
                layer.self_attn.scaling = own.self_attn.scaling
        difference = (logits_of(theirs, words) - logits_of(dense, words)).abs().max().item()
        said = f"logits differ by {difference:.1e} from the dense folder's"
        assert difference < 1e-3, said
    except (NotImplementedError, ValueError) as reason:  # a type, or an architecture, that it does not read
        said = f"logits: NOT RUN: {str(reason).splitlines()[0][:100]}"
    for form in ("nvfp4", "mxfp4"):
        folder = work / f"{architecture}-{form}"
        if not folder.exists():
            run(microscale, "quantize", source, "-o", folder, "--format", form)
        there = json.loads(run(microscale, "convert", folder, "-o", work / f"{architecture}-{form}-there.gguf", "--to",
                               "gguf", "--json"))
        back = json.loads(run(microscale, "convert", work / f"{architecture}-{form}-there.gguf", "-o",
                              work / f"{architecture}-{form}-back", "--to", "compressed-tensors", "--json"))
        assert there["same_values"] and back["hash_after"] == there["hash_before"], (there, back)
        before, after = (load_file(each / "model.safetensors")
                         for each in (folder, work / f"{architecture}-{form}-back"))
        packed = [name for name in after if name.endswith("_packed")]
        assert packed and all(torch.equal(before[name], after[name]) for name in packed), form
    tensors, fields = check_file(file, architecture)
    print(f"  gguf {importlib.metadata.version('gguf')}, transformers {transformers.__version__}: {architecture}: "
          f"{tensors} tensors, {fields} values; {said}; codes go there and back")


def main():
    microscale, work = Path(sys.argv[1]).resolve(), Path(sys.argv[2]).resolve()
    tokenizer = Path(sys.argv[3]) if len(sys.argv) > 3 else None
    work.mkdir(parents=True, exist_ok=True)
    words = 512
    if tokenizer:
        read = json.loads((tokenizer / "tokenizer.json").read_text())
        words = 1 + max([*read["model"]["vocab"].values(), *(token["id"] for token in read["added_tokens"])])
    for architecture in MODELS:
        check(microscale, work, architecture, words, tokenizer)


if __name__ == "__main__":
    main()
