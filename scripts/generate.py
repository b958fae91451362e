#!/usr/bin/env python3
"""Has two folders of one llama model answer a question, the second beside the first: the text of each, and how many
tokens of the first one's text the second would have written in its place. Needs numpy and tokenizers, no torch: it
decodes BF16, F32 and compressed-tensors' NVFP4 itself. --transformers loads the folders with that instead.

usage: scripts/generate.py [--transformers] ORIGINAL QUANTIZED [QUESTION [TOKENS]]
Exit code 1 if the second agrees with less than half of the first one's tokens.
"""
import json
import sys
from pathlib import Path

import numpy as np

E2M1 = np.array([0, .5, 1, 1.5, 2, 3, 4, 6, -0., -.5, -1, -1.5, -2, -3, -4, -6], np.float32)
BYTE = np.arange(128)
E4M3 = np.where(BYTE < 8, BYTE * 2.0 ** -9, (8 + BYTE % 8) * 2.0 ** (BYTE // 8 - 10)).astype(np.float32)


def stored_tensors(folder):
    path = Path(folder, "model.safetensors")
    data = np.memmap(path, np.uint8, "r")
    start = 8 + int.from_bytes(data[:8].tobytes(), "little")
    header = json.loads(data[8:start].tobytes())
    header.pop("__metadata__", None)
    for name, tensor in header.items():
        begin, end = tensor["data_offsets"]
        raw = data[start + begin:start + end]
        if tensor["dtype"] == "BF16":
            values = (raw.view(np.uint16).astype(np.uint32) << 16).view(np.float32)
        elif tensor["dtype"] == "F32":
            values = np.array(raw.view(np.float32))
        elif tensor["dtype"] in ("U8", "F8_E4M3"):
            values = raw
        else:
            sys.exit(f"generate: {path}: {name} is {tensor['dtype']}; BF16, F32 and NVFP4 are read here")
        yield name, values.reshape(tensor["shape"])


def weights(folder):
    """Every tensor in FP32. NVFP4: low nibble first, blocks of 16, divided by the global scale."""
    tensors = dict(stored_tensors(folder))
    for name in [name for name in tensors if name.endswith(".weight_packed")]:
        stem = name.removesuffix("_packed")
        packed = tensors.pop(name)
        scales = E4M3[tensors.pop(stem + "_scale")] / tensors.pop(stem + "_global_scale")
        values = np.stack([E2M1[packed & 15], E2M1[packed >> 4]], -1).reshape(*scales.shape, 16)
        tensors[stem] = (values * scales[..., None]).reshape(len(packed), -1)
    return tensors


class Llama:
    def __init__(self, folder):
        self.config = json.loads(Path(folder, "config.json").read_text())
        self.weights = weights(folder)
        self.head_dim = self.config["head_dim"]
        self.frequencies = self.config["rope_theta"] ** (-np.arange(0, self.head_dim, 2) / self.head_dim)
        self.forget()

    def forget(self):
        self.past, self.length = {}, 0

    def norm(self, x, name):
        return x / np.sqrt((x * x).mean(-1, keepdims=True) + self.config["rms_norm_eps"]) * self.weights[name + ".weight"]

    def heads(self, x, name, count):
        return (x @ self.weights[name + ".weight"].T).reshape(len(x), count, self.head_dim).swapaxes(0, 1)

    def rotated(self, x):
        angles = (self.length + np.arange(x.shape[1])[:, None]) * self.frequencies
        cos, sin = np.cos(angles).astype(np.float32), np.sin(angles).astype(np.float32)
        a, b = np.split(x, 2, -1)
        return np.concatenate([a * cos - b * sin, b * cos + a * sin], -1)

    def attention(self, x, name):
        query_heads, heads = self.config["num_attention_heads"], self.config["num_key_value_heads"]
        q = self.rotated(self.heads(x, name + "q_proj", query_heads))
        both = np.stack([self.rotated(self.heads(x, name + "k_proj", heads)), self.heads(x, name + "v_proj", heads)])
        if name in self.past:
            both = np.concatenate([self.past[name], both], 2)
        self.past[name] = both
        k, v = both.repeat(query_heads // heads, 1)
        scores = q @ k.swapaxes(1, 2) * self.head_dim ** -0.5
        scores += np.triu(np.full(scores.shape[1:], -np.inf, np.float32), 1 + self.length)
        shares = np.exp(scores - scores.max(-1, keepdims=True))
        mixed = shares / shares.sum(-1, keepdims=True) @ v
        return mixed.swapaxes(0, 1).reshape(len(x), -1) @ self.weights[name + "o_proj.weight"].T

    def choices(self, tokens):
        """The most likely next token after each of `tokens`, which follow those of the calls before."""
        embedding = self.weights["model.embed_tokens.weight"]
        x = embedding[tokens]
        for layer in range(self.config["num_hidden_layers"]):
            name = f"model.layers.{layer}."
            x = x + self.attention(self.norm(x, name + "input_layernorm"), name + "self_attn.")
            y = self.norm(x, name + "post_attention_layernorm")
            gate, up = (y @ self.weights[f"{name}mlp.{part}_proj.weight"].T for part in ("gate", "up"))
            x = x + (gate / (1 + np.exp(-gate)) * up) @ self.weights[name + "mlp.down_proj.weight"].T
        self.length += len(tokens)
        head = self.weights.get("lm_head.weight", embedding)
        return (self.norm(x, "model.norm") @ head.T).argmax(-1).tolist()


class Transformers:
    def __init__(self, folder):
        import torch
        from transformers import AutoModelForCausalLM
        self.model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.bfloat16).eval()
        self.tensor, self.no_grad = torch.tensor, torch.no_grad
        self.forget()

    def forget(self):
        self.past = None

    def choices(self, tokens):
        with self.no_grad():
            result = self.model(self.tensor([tokens]), past_key_values=self.past, use_cache=True)
        self.past = result.past_key_values
        return result.logits[0].argmax(-1).tolist()


def main():
    arguments = [word for word in sys.argv[1:] if word != "--transformers"]
    kind = Transformers if "--transformers" in sys.argv else Llama
    question = arguments[2] if len(arguments) > 2 else "What is the capital of France?"
    most = int(arguments[3]) if len(arguments) > 3 else 40
    from tokenizers import Tokenizer
    tokenizer = Tokenizer.from_file(str(Path(arguments[0], "tokenizer.json")))
    prompt = tokenizer.encode(f"<|im_start|>user\n{question}<|im_end|>\n<|im_start|>assistant\n").ids
    end = tokenizer.token_to_id("<|im_end|>")
    answers = []
    for folder in arguments[:2]:
        model = kind(folder)
        answer = model.choices(prompt)[-1:]
        while len(answer) < most and answer[-1] != end:
            answer += model.choices(answer[-1:])
        answers.append(answer)
    first = answers[0]
    model.forget()
    agreed = sum(a == b for a, b in zip(model.choices(prompt + first)[len(prompt) - 1:], first))
    width = max(len(folder) for folder in arguments[:2])
    print(f"asked: {question}")
    for folder, answer in zip(arguments, answers):
        print(f"{folder:{width}}: {tokenizer.decode(answer).strip()}")
    print(f"the same choice for {agreed} of {len(first)} tokens of the first answer, "
          f"as {'transformers' if kind is Transformers else 'numpy'} computes it")
    return int(2 * agreed < len(first))


if __name__ == "__main__":
    sys.exit(main())
