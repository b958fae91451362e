"""Decoder layers of the llama family as a few operators on a CPU, where a step of one token costs more in
Python and small operations than in products.

A layer keeps its modules, their names and its class's name; only its forward is another, in a subclass of
its class. It is the model's own forward wherever that does more: gradients, training, hooks on what would be
skipped, torch.compile, another attention implementation, a GPU.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

import torch
from torch import Tensor, nn
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

from ..torch._module import ops
from ._attention import NAME, attention
from ._fused import FusedLinear, FusedPart
from ._trial import agree, some_input

_TRIAL = "microscale_trial"
_CHILDREN = {"self_attn", "mlp", "input_layernorm", "post_attention_layernorm"}
_OF_ATTENTION = {"q_proj", "k_proj", "v_proj", "q_k_v_proj", "o_proj", "q_norm", "k_norm"}
_PARTS = ("q_proj", "k_proj", "v_proj")
_TENSORS = ("position_ids", "cache_position", "past_key_values", "use_cache", "position_embeddings")


class Rotation:
    """The factors of a step's rotary embedding, which all layers share."""

    def __init__(self) -> None:
        self._last: tuple[Tensor, Tensor, Tensor] | None = None

    def of(self, embeddings: tuple[Tensor, Tensor]) -> tuple[Tensor, Tensor]:
        """cos, and sin with the signs of the rotated halves, (batch, tokens, 1, head_dim)."""
        cos, sin = embeddings
        last = self._last
        if last is None or last[0] is not cos:
            half = sin.shape[-1] // 2
            signed = torch.cat((-sin[..., :half], sin[..., half:]), -1)
            self._last = last = (cos, cos.unsqueeze(2), signed.unsqueeze(2))
        return last[1], last[2]

    def __deepcopy__(self, _: Any) -> Rotation:
        return Rotation()

    def __reduce__(self) -> tuple[Any, ...]:
        return Rotation, ()


@dataclass
class Plan:
    """What a layer's own code was seen to do."""

    heads: int
    kv_heads: int
    head_dim: int
    eps: tuple[float, float]
    multiplier: float
    """Of what attention and the MLP add."""
    words: dict[str, Any]
    """What it hands over to the attention function besides tensors."""
    rotation: Rotation
    sizes: tuple[int, ...]
    """Of the product of q, k and v."""
    head_eps: tuple[float, float] | None = None
    """Of norms of the heads of q and k."""


class FewOperators:
    """The forward of a decoder layer whose `microscale_plan` says how."""

    microscale_plan: Plan

    def forward(
        self,
        hidden_states: Tensor,
        attention_mask: Tensor | None = None,
        position_ids: Tensor | None = None,
        past_key_values: Any = None,
        use_cache: bool | None = False,
        position_embeddings: tuple[Tensor, Tensor] | None = None,
        **kwargs: Any,
    ) -> Any:
        if position_embeddings is None or not self._serves(hidden_states, position_embeddings[0], kwargs):
            return super().forward(  # type: ignore[misc]
                hidden_states,
                attention_mask=attention_mask,
                position_ids=position_ids,
                past_key_values=past_key_values,
                use_cache=use_cache,
                position_embeddings=position_embeddings,
                **kwargs,
            )
        return in_few_operators(
            self, self.microscale_plan, hidden_states, attention_mask, past_key_values, position_embeddings
        )

    def _serves(self, x: Tensor, cos: Tensor, kwargs: dict[str, Any]) -> bool:
        modules = self.__dict__["_modules"]
        own = modules["self_attn"]
        parts = own._modules
        norm = modules["input_layernorm"]
        if (
            torch.compiler.is_compiling()
            or torch.is_grad_enabled()
            or x.device.type != "cpu"
            or own.training
            or x.dtype != norm.weight.dtype
            or cos.dtype != x.dtype
            or torch.is_autocast_enabled("cpu")
            or own.config._attn_implementation != NAME
            or kwargs.get("output_attentions")
        ):
            return False
        skipped = [own, norm, modules["post_attention_layernorm"], *(parts[name] for name in _PARTS)]
        if any(one._forward_hooks or one._forward_pre_hooks for one in skipped):
            return False
        if getattr(parts.get("q_k_v_proj"), "sizes", None) != self.microscale_plan.sizes:
            return False  # shared among processes since
        return all(type(parts[name]) is FusedPart for name in _PARTS)

    def __reduce_ex__(self, _: Any) -> tuple[Any, ...]:
        return _restored, (type(self).__mro__[2],), self.__dict__


@cache
def _class_of(base: type) -> type:
    """A subclass of the name of its base, by which transformers and accelerate know layers."""
    return type(base.__name__, (FewOperators, base), {"__module__": __name__, "__doc__": base.__doc__})


def _restored(base: type) -> Any:
    made: Any = _class_of(base)
    return made.__new__(made)


def in_few_operators(
    layer: Any,
    plan: Plan,
    x: Tensor,
    mask: Tensor | None,
    cache: Any,
    embeddings: tuple[Tensor, Tensor],
    attend: Callable[..., tuple[Tensor, Any]] = attention,
) -> Tensor:
    modules = layer._modules
    own, heads = modules["self_attn"], plan.heads + plan.kv_heads
    parts, size = own._modules, plan.head_dim
    normed = ops.rms_norm(x, modules["input_layernorm"].weight, plan.eps[0])
    qkv = parts["q_k_v_proj"](normed).view(*x.shape[:2], -1, size)
    qk, v = qkv.split_with_sizes((heads, plan.kv_heads), 2)
    if plan.head_eps is not None:
        q, k = (t.contiguous() for t in qk.split((plan.heads, plan.kv_heads), 2))
        qk = torch.cat(
            (
                ops.rms_norm(q, parts["q_norm"].weight, plan.head_eps[0]),
                ops.rms_norm(k, parts["k_norm"].weight, plan.head_eps[1]),
            ),
            2,
        )
    cos, sin = plan.rotation.of(embeddings)
    qk = torch.addcmul(qk * cos, qk.roll(size // 2, -1), sin).transpose(1, 2)
    q, k = qk.split_with_sizes((plan.heads, plan.kv_heads), 1)
    v = v.transpose(1, 2)
    if cache is not None:
        k, v = cache.update(k, v, own.layer_idx)
    result, _ = attend(own, q, k, v, mask, **plan.words)
    added = parts["o_proj"](result.flatten(2))
    if plan.multiplier != 1.0:
        added = added * plan.multiplier
    normed, x = ops.add_rms_norm(added, x, modules["post_attention_layernorm"].weight, plan.eps[1])
    added = modules["mlp"](normed)
    return x + added if plan.multiplier == 1.0 else x + added * plan.multiplier


# Which layers


def simplify_layers(model: nn.Module) -> tuple[int, dict[str, str]]:
    """Gives layers that forward where it computes what their own does. How many, and why others do not."""
    count, reasons = 0, {}
    rotation = Rotation()
    for parent_name, parent in list(model.named_modules()):
        if not isinstance(getattr(parent, "layers", None), nn.ModuleList):
            continue
        for i, layer in enumerate(parent.layers):  # type: ignore[union-attr,arg-type]
            if isinstance(layer, FewOperators):
                count += 1
                continue
            if "self_attn" not in layer._modules:
                continue
            plan, reason = _plan_of(layer, getattr(parent, "rotary_emb", None), rotation)
            if plan is None:
                reasons[f"{parent_name}.layers.{i}"] = reason
                continue
            layer.microscale_plan = plan  # type: ignore[assignment]
            layer.__class__ = _class_of(type(layer))  # type: ignore[arg-type]
            count += 1
    return count, reasons


def _plan_of(layer: Any, rotary: Any, rotation: Rotation) -> tuple[Plan | None, str]:
    own = layer._modules["self_attn"]
    if set(layer._modules) != _CHILDREN:
        return None, "its layers are not attention and MLP with a norm in front of each"
    if rotary is None or set(own._modules) - _OF_ATTENTION:
        return None, "its attention is more than q, k, v, an output projection and a rotary embedding"
    whole = own._modules.get("q_k_v_proj")
    if type(whole) is not FusedLinear or any(type(own._modules[name]) is not FusedPart for name in _PARTS):
        return None, "q, k and v are not one product"
    norms = [layer.input_layernorm, layer.post_attention_layernorm]
    per_head = [own._modules[name] for name in ("q_norm", "k_norm") if name in own._modules]
    every: list[Any] = [*norms, *per_head]
    eps: list[Any] = [getattr(norm, "variance_epsilon", getattr(norm, "eps", None)) for norm in every]
    if None in eps or any(norm.weight is None or norm.weight.numel() % 16 for norm in every):
        return None, "its norms are not RMSNorm of a multiple of 16 values"
    size = getattr(own, "head_dim", 0)
    if not size or any(rows % size for rows in whole.sizes):
        return None, "its heads are not of one size"
    if whole.packed.is_meta:
        return None, "its weights are on the meta device, without values"
    plan = Plan(
        heads=whole.sizes[0] // size,
        kv_heads=whole.sizes[1] // size,
        head_dim=size,
        eps=(eps[0], eps[1]),
        multiplier=float(getattr(layer, "residual_multiplier", 1.0)),
        words={},
        rotation=rotation,
        sizes=whole.sizes,
        head_eps=(eps[2], eps[3]) if len(eps) == 4 else None,
    )
    return _tried(layer, plan, rotary)


def _tried(layer: Any, plan: Plan, rotary: Any) -> tuple[Plan | None, str]:
    """Both on the same two tokens: what reaches the attention function, and what comes out."""
    own, seen = layer.self_attn, []

    def watch(
        module: Any, q: Tensor, k: Tensor, v: Tensor, mask: Any, **words: Any
    ) -> tuple[Tensor, None]:
        seen.append((q, k, v, words))
        words = {key: value for key, value in words.items() if key not in _TENSORS}
        return attention(module, q, k, v, mask, **words)

    config = own.config
    before, weight = config._attn_implementation, layer.input_layernorm.weight
    x = some_input(weight.shape[0], weight.device, weight.dtype)[None]
    training = layer.training
    ALL_ATTENTION_FUNCTIONS.register(_TRIAL, watch)
    try:
        with torch.no_grad():
            layer.eval()
            config._attn_implementation = _TRIAL
            places = torch.tensor([[3, 40]], device=weight.device)
            embeddings = rotary(x, position_ids=places)
            if embeddings[0].shape[-1] != plan.head_dim:
                return None, "its rotary embedding is of a part of each head"
            wanted = layer(x, position_ids=places, position_embeddings=embeddings)
            if len(seen) != 1:
                return None, "it does not call the attention function once"
            plan.words = {
                key: value for key, value in seen[0][3].items() if key not in _TENSORS and value is not None
            }
            got = in_few_operators(layer, plan, x, None, None, embeddings, watch)
    except Exception as error:
        return None, f"its own code does not take such a call ({type(error).__name__})"
    finally:
        config._attn_implementation = before
        layer.train(training)
    same = agree(got, wanted, within=0.05) and all(
        agree(a, b) for a, b in zip(seen[1][:3], seen[0][:3], strict=True)
    )
    return (plan, "") if same else (None, "its own code computes something else")
