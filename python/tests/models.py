"""Small model folders for tests."""

import json
import struct

import numpy as np


def write_safetensors(path, tensors):
    """`tensors`: by name, a numpy array of float32, or of uint16 that are bfloat16."""
    header, data = {"__metadata__": {"format": "pt"}}, bytearray()
    for name, array in tensors.items():
        start = len(data)
        data += array.tobytes()
        header[name] = {
            "dtype": "BF16" if array.dtype == np.uint16 else "F32",
            "shape": list(array.shape),
            "data_offsets": [start, len(data)],
        }
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    path.write_bytes(struct.pack("<Q", len(text)) + text + data)


def weights_of_small_model(layers=1, hidden=64):
    draw = np.random.default_rng(1)
    tensors = {"model.embed_tokens.weight": (draw.standard_normal((50, hidden)) / 10).astype(np.float32)}
    for layer in range(layers):
        for name in (
            "self_attn.q_proj",
            "self_attn.k_proj",
            "self_attn.v_proj",
            "self_attn.o_proj",
            "mlp.up_proj",
        ):
            tensors[f"model.layers.{layer}.{name}.weight"] = (
                draw.standard_normal((hidden, hidden)) / 10
            ).astype(np.float32)
    tensors["model.norm.weight"] = np.ones(hidden, np.float32)
    return tensors


def write_model(folder, layers=1, hidden=64):
    folder.mkdir()
    tensors = weights_of_small_model(layers, hidden)
    write_safetensors(folder / "model.safetensors", tensors)
    config = {"architectures": ["LlamaForCausalLM"], "model_type": "small_llama", "hidden_size": hidden}
    (folder / "config.json").write_text(json.dumps(config))
    return tensors
