"""Which tensors of a model a rotation of its hidden states changes, and how."""

from __future__ import annotations

import json
import os
import re
from typing import Any

import torch
from safetensors import safe_open
from torch import Tensor

BLOCK = 32
"""Numbers that are turned together: MXFP4's block."""

_KNOWN = ("llama", "mistral", "mixtral", "phi3", "qwen2", "qwen3", "qwen3_moe", "smollm3", "granite")
_WHY_NOT = {
    "gemma": "its norms multiply by 1 + w, and come after attention and MLP, too",
    "olmo": "its norms come after attention and MLP, so that each hidden column has a scale of its own",
    "gpt_oss": "its experts lie in MXFP4 already",
    "cohere": "its LayerNorm subtracts a mean that a rotation does not keep",
    "qwen3_5": "its linear attention has a convolution where the values are turned",
    "qwen3_next": "its linear attention has a convolution where the values are turned",
}
"""By the beginning of the type."""

_NAME = re.compile(r"model\.(?:layers\.(\d+)\.)?(.+)")
_READS_ATTENTION = re.compile(r"self_attn\.(q|k|v|qkv)_proj\.weight")
_READS_MLP = re.compile(
    r"(mlp|block_sparse_moe)\.(experts\.\d+\.)?(gate|up|gate_up|w1|w3)(_proj)?\.weight"
)
_WRITES = re.compile(r"(mlp|block_sparse_moe)\.(experts\.\d+\.)?(down_proj|w2)\.(weight|bias)")
_UNTOUCHED = re.compile(r"self_attn\.([qk]_proj\.bias|[qk]_norm\.weight|rotary_emb\.inv_freq)")
_NORMS = {"input_layernorm.weight", "post_attention_layernorm.weight", "norm.weight"}


def hadamard() -> Tensor:
    """(BLOCK, BLOCK), FP64, symmetric and orthogonal (Sylvester)."""
    made = torch.ones(1, 1, dtype=torch.float64)
    while len(made) < BLOCK:
        made = torch.cat([torch.cat([made, made], 1), torch.cat([made, -made], 1)])
    return made / BLOCK**0.5


def turn_columns(matrix: Tensor) -> Tensor:
    """Each block of BLOCK columns times the Hadamard matrix; of a vector, its numbers. FP64."""
    blocks = matrix.double().reshape(*matrix.shape[:-1], -1, BLOCK)
    return (blocks @ hadamard().to(matrix.device)).reshape(matrix.shape)


def turn_rows(matrix: Tensor) -> Tensor:
    """The same of rows; of a vector, its numbers."""
    return turn_columns(matrix.T).T if matrix.dim() == 2 else turn_columns(matrix)


class Plan:
    """Of a folder with dense weights."""

    embedding = "model.embed_tokens.weight"

    def __init__(
        self, folder: str, config: dict[str, Any], shards: dict[str, list[str]], indexed: bool
    ) -> None:
        self.folder, self.config, self.shards, self.indexed = folder, config, shards, indexed
        self.hidden = int(config["hidden_size"])
        self.head = int(config.get("head_dim") or self.hidden // int(config["num_attention_heads"]))
        heads = int(config["num_attention_heads"])
        self._values = int(config.get("num_key_value_heads") or heads) * self.head
        self.numbers = 0
        self.gammas: dict[str, Tensor] = {}
        """Weights of norms, FP64, by name."""
        for shard, names in shards.items():
            with safe_open(os.path.join(folder, shard), "pt") as file:
                for name in names:
                    shape = file.get_slice(name).get_shape()
                    self._check(name, shape, file.get_slice(name).get_dtype())
                    numbers = 1
                    for one in shape:
                        numbers *= one
                    self.numbers += numbers
                    if self._inside(name)[1] in _NORMS:
                        self.gammas[name] = file.get_tensor(name).double()
        self._shard_of = {name: shard for shard, names in shards.items() for name in names}
        self.is_tied = "lm_head.weight" not in self._shard_of

    def _check(self, name: str, shape: list[int], dtype: str) -> None:
        if dtype not in ("BF16", "F16", "F32"):
            raise ValueError(f"{self.folder}: {name} is {dtype}; dequantize the model first, then rotate it")
        layer, inside = self._inside(name)
        known = (
            inside in _NORMS
            or name in ("lm_head.weight", self.embedding)
            or layer is not None
            and any(one.fullmatch(inside) for one in (_READS_ATTENTION, _READS_MLP, _WRITES, _UNTOUCHED))
            or layer is not None
            and re.fullmatch(r"self_attn\.(v_proj\.bias|qkv_proj\.bias|o_proj\.(weight|bias))", inside)
        )
        if not known or len(shape) > 2:
            raise ValueError(
                f"{self.folder}: what {name} does with hidden states is not known here, so no rotation can "
                "be merged into it; quantize the model as it is"
            )

    @staticmethod
    def _inside(name: str) -> tuple[str | None, str]:
        found = _NAME.fullmatch(name)
        return (found[1], found[2]) if found else (None, name)

    def gamma_before(self, layer: str, inside: str) -> Tensor:
        """Of the norm that feeds a layer."""
        norm = "input_layernorm" if inside.startswith("self_attn.") else "post_attention_layernorm"
        return self.gammas[f"model.layers.{layer}.{norm}.weight"]

    def rotated(self, name: str, stored: Tensor) -> Tensor:
        """What a tensor becomes, in its type; itself where it stays."""
        made = self._wide(name, stored)
        return stored if made is stored else made.to(stored.dtype)

    def _wide(self, name: str, stored: Tensor) -> Tensor:
        layer, inside = self._inside(name)
        if inside in _NORMS:
            return torch.ones_like(stored)
        if name == "lm_head.weight":
            return turn_columns(stored.double() * self.gammas["model.norm.weight"])
        if name == self.embedding:
            return turn_columns(stored)
        assert layer is not None
        if _READS_ATTENTION.fullmatch(inside) or _READS_MLP.fullmatch(inside):
            made = turn_columns(stored.double() * self.gamma_before(layer, inside))
            return self._turned_values(made, inside)
        if inside in ("self_attn.v_proj.bias", "self_attn.qkv_proj.bias"):
            return self._turned_values(stored.double(), inside)
        if inside == "self_attn.o_proj.weight":
            return turn_rows(turn_columns(stored))
        if inside == "self_attn.o_proj.bias" or _WRITES.fullmatch(inside):
            return turn_rows(stored)
        return stored

    def _turned_values(self, made: Tensor, inside: str) -> Tensor:
        """Rows of the values are turned, which are the last ones of q, k and v in one tensor."""
        if "v_proj" not in inside:
            return made
        first = len(made) - self._values
        return torch.cat([made[:first], turn_rows(made[first:])])

    def untied_head(self) -> Tensor:
        """The output layer of a model whose embedding it was: the norm before it is merged into it alone."""
        with safe_open(os.path.join(self.folder, self._shard_of[self.embedding]), "pt") as file:
            return self.rotated("lm_head.weight", file.get_tensor(self.embedding))


def plan_of(folder: str) -> Plan:
    """ValueError, with the reason, for a model that cannot be rotated."""
    try:
        with open(os.path.join(folder, "config.json"), encoding="utf-8") as file:
            config = json.load(file)
    except (OSError, ValueError):
        raise ValueError(
            f"{folder}: no folder of a model with a config.json; of a GGUF file, microscale dequantize "
            "makes one"
        ) from None
    kind = str(config.get("model_type"))
    if kind not in _KNOWN:
        why = next((reason for one, reason in _WHY_NOT.items() if kind.startswith(one)), None)
        raise ValueError(
            f"{folder}: a model of the type '{kind}' is not rotated: "
            + (why or f"what its layers read is not known here; known are {', '.join(_KNOWN)}")
        )
    if "quantization_config" in config:
        raise ValueError(f"{folder}: it is quantized already; dequantize it first, then rotate it")
    index = os.path.join(folder, "model.safetensors.index.json")
    shards: dict[str, list[str]] = {}
    if os.path.exists(index):
        with open(index, encoding="utf-8") as file:
            for name, shard in json.load(file)["weight_map"].items():
                shards.setdefault(shard, []).append(name)
    elif os.path.exists(os.path.join(folder, "model.safetensors")):
        with safe_open(os.path.join(folder, "model.safetensors"), "pt") as weights:
            shards["model.safetensors"] = list(weights.keys())
    else:
        raise ValueError(f"{folder}: no safetensors in it")
    plan = Plan(folder, config, shards, os.path.exists(index))
    for what, size in (("hidden_size", plan.hidden), ("head_dim", plan.head)):
        if size % BLOCK:
            raise ValueError(f"{folder}: {what} {size} is no multiple of {BLOCK}, the block that is turned")
    return plan
