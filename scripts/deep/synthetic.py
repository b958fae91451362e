"""Synthetic sharded BF16 checkpoints of any size, made without numpy: Llama-like names and a valid index."""
import hashlib
import json
import os
import random
import struct


def _random_bf16(count, seed):
    """`count` finite BF16 values as bytes, magnitudes 2^-12 ... 2^-4 (random sign and mantissa)."""
    source = random.Random(seed)
    raw = bytearray(source.randbytes(2 * count))
    high = bytes((b & 0x80) | 0x3A + (b & 3) for b in range(256))  # exponent in the high byte
    raw[1::2] = bytes(raw[1::2]).translate(high)
    return bytes(raw)


def _layer(index, hidden, inner):
    prefix = f"model.layers.{index}."
    attention = {f"self_attn.{n}_proj": (hidden, hidden) for n in "qkvo"}
    mlp = {"mlp.gate_proj": (inner, hidden), "mlp.up_proj": (inner, hidden), "mlp.down_proj": (hidden, inner)}
    tensors = {f"{prefix}{n}.weight": s for n, s in {**attention, **mlp}.items()}
    tensors[f"{prefix}input_layernorm.weight"] = tensors[f"{prefix}post_attention_layernorm.weight"] = (hidden,)
    return tensors


def write_model(folder, layers, hidden, inner, layers_per_shard=1, seed=1):
    """Writes the folder; returns its bytes of tensors. The data repeats a 16 MiB random pattern, shifted."""
    os.makedirs(folder, exist_ok=True)
    pattern = _random_bf16(8 << 20, seed)
    shards = [range(i, min(i + layers_per_shard, layers)) for i in range(0, layers, layers_per_shard)]
    weight_map, total = {}, 0
    for number, group in enumerate(shards, 1):
        name = f"model-{number:05d}-of-{len(shards):05d}.safetensors"
        tensors = {}
        for layer in group:
            tensors.update(_layer(layer, hidden, inner))
        if number == 1:
            tensors["model.embed_tokens.weight"] = (1024, hidden)
            tensors["model.norm.weight"] = (hidden,)
        header, offset = {"__metadata__": {"format": "pt"}}, 0
        for tensor, shape in tensors.items():
            size = 2
            for extent in shape:
                size *= extent
            header[tensor] = {"dtype": "BF16", "shape": list(shape), "data_offsets": [offset, offset + size]}
            offset += size
            weight_map[tensor] = name
        text = json.dumps(header).encode()
        text += b" " * (-len(text) % 8)
        with open(os.path.join(folder, name), "wb") as file:
            file.write(struct.pack("<Q", len(text)) + text)
            written, shift = 0, 2 * (number * 4099 % (4 << 20))
            while written < offset:
                piece = pattern[shift:shift + offset - written]
                file.write(piece)
                written, shift = written + len(piece), 0
        total += offset
    index = {"metadata": {"total_size": total}, "weight_map": weight_map}
    config = {"architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": hidden,
              "intermediate_size": inner, "num_hidden_layers": layers, "torch_dtype": "bfloat16"}
    for name, value in (("model.safetensors.index.json", index), ("config.json", config)):
        with open(os.path.join(folder, name), "w") as file:
            json.dump(value, file, indent=2)
    return total


def tree_hash(folder):
    """SHA-256 over the names and bytes of every file."""
    digest = hashlib.sha256()
    for root, folders, files in os.walk(folder):
        folders.sort()
        for name in sorted(files):
            path = os.path.join(root, name)
            digest.update(os.path.relpath(path, folder).encode() + b"\0")
            with open(path, "rb") as file:
                while piece := file.read(1 << 20):
                    digest.update(piece)
    return digest.hexdigest()
