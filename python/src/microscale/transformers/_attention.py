"""The attention implementation "microscale": by a Cache of 4 or 8 bits where there is one, else sdpa."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from transformers.masking_utils import (
    ALL_MASK_ATTENTION_FUNCTIONS,
    causal_mask_function,
    flash_attention_mask,
    sdpa_mask,
)
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

from ._cache import CacheLayer

NAME = "microscale"


def register() -> None:
    """Makes the name known to transformers. A second time changes nothing."""
    ALL_ATTENTION_FUNCTIONS.register(NAME, attention)
    ALL_MASK_ATTENTION_FUNCTIONS.register(NAME, mask)


def takes_attention(model: nn.Module) -> bool:
    """Whether the model's attention is a function that can be chosen."""
    return hasattr(model, "set_attn_implementation") and bool(
        getattr(model, "_supports_attention_backend", False) or getattr(model, "_supports_sdpa", False)
    )


def mask(*args: Any, **kwargs: Any) -> Tensor | None:
    """None where nothing is padded, (batch, tokens) where something is; where the mask is neither causal nor
    a window, or a cache has room behind its tokens, the one of sdpa, (batch, 1, tokens, keys)."""
    if _has_room_behind(kwargs):
        return sdpa_mask(*args, **{**kwargs, "allow_is_causal_skip": False})
    if not _is_causal(kwargs.get("mask_function", causal_mask_function)):
        return sdpa_mask(*args, **kwargs)
    return flash_attention_mask(*args, **kwargs)


def _has_room_behind(words: dict[str, Any]) -> bool:
    """Whether keys come with room for later tokens, as those of transformers' StaticCache."""
    end = words.get("kv_offset", 0) + words["kv_length"]
    padding, offset = words.get("attention_mask"), words.get("q_offset", 0)
    if padding is not None:
        return bool(padding.shape[-1] < end)
    return not isinstance(offset, int) or offset + words["q_length"] < end


def _is_causal(function: Callable[..., Any]) -> bool:
    """causal_mask_function, or that together with a sliding window."""
    if function is causal_mask_function:
        return True
    parts = [cell.cell_contents for cell in function.__closure__ or ()]
    if len(parts) != 1 or not isinstance(parts[0], tuple):
        return False
    return all(
        part is causal_mask_function or part.__qualname__.startswith("sliding_window_overlay")
        for part in parts[0]
    )


def attention(
    module: nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    dropout: float = 0.0,
    scaling: float | None = None,
    sliding_window: int | None = None,
    softcap: float | None = None,
    is_causal: bool | None = None,
    s_aux: Tensor | None = None,
    **kwargs: Any,
) -> tuple[Tensor, None]:
    """As transformers calls it: query (batch, heads, tokens, head_dim), key and value (batch, kv_heads, ..).
    Returns (batch, tokens, heads, head_dim)."""
    layer = kwargs.pop(CacheLayer.KEY, None) or getattr(key, CacheLayer.KEY, None)
    causal = getattr(module, "is_causal", True) if is_causal is None else is_causal
    if layer is None:
        if _is_one_query(query, key, value, attention_mask, dropout, causal):
            sinks = None if s_aux is None else s_aux.float().contiguous()
            words = (scaling, True, sliding_window or 0, softcap or 0.0, sinks)
            q, k, v = (t.transpose(1, 2) for t in (query, key, value))
            return torch.ops.microscale.attention(q, k, v, *words), None
        if softcap or s_aux is not None:
            return _eager(
                module, query, key, value, attention_mask, scaling, sliding_window, causal, softcap, s_aux
            )
        own = _dense_mask(attention_mask, query, key, sliding_window, causal)
        simple = own is None and causal and query.shape[2] > 1
        kwargs = {k: v for k, v in kwargs.items() if k in ("position_ids",)}
        return ALL_ATTENTION_FUNCTIONS["sdpa"](
            module, query, key, value, own, dropout=dropout, scaling=scaling, is_causal=simple, **kwargs
        )
    if attention_mask is not None and attention_mask.dim() != 2:
        raise NotImplementedError(
            "microscale.transformers.Cache: this model masks more than later tokens, windows and padding "
            "(images that see themselves, packed sequences); generate without past_key_values"
        )
    if dropout:
        raise NotImplementedError(
            "microscale.transformers.Cache: attention has no dropout; call model.eval()"
        )
    result = layer.attend(
        query.transpose(1, 2),
        key.transpose(1, 2),
        value.transpose(1, 2),
        attention_mask,
        scale=scaling,
        causal=bool(causal),
        window=sliding_window or 0,
        softcap=softcap or 0.0,
        sinks=None if s_aux is None else s_aux.float().contiguous(),
    )
    return result, None


def _is_one_query(
    query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, dropout: float, causal: bool
) -> bool:
    """Whether attention is of one token to all before it on a CPU, where our kernel takes a fourth to a
    fifteenth of the time of sdpa's: that repeats keys and values for each head of a group."""
    return (
        query.shape[2] == 1
        and mask is None
        and causal
        and query.device.type == "cpu"
        and not dropout
        and query.dtype == key.dtype
        and value.shape == key.shape
        and query.shape[-1] % 32 == 0
        and query.shape[-1] <= 256
        and not torch.compiler.is_compiling()
        and not (torch.is_grad_enabled() and (query.requires_grad or key.requires_grad))
    )


def _dense_mask(
    attention_mask: Tensor | None, query: Tensor, key: Tensor, window: int | None, causal: bool
) -> Tensor | None:
    """What sdpa needs: None where it is causal or everything, else what each query sees."""
    if attention_mask is not None and attention_mask.dim() == 4:
        return attention_mask
    tokens, keys = query.shape[2], key.shape[2]
    windowed = window is not None and window < keys
    if attention_mask is None and not (windowed and causal) and (not causal or tokens in (1, keys)):
        return None
    last = torch.arange(keys - tokens, keys, device=query.device)[:, None]
    at = torch.arange(keys, device=query.device)
    seen = at <= last if causal else torch.ones_like(at <= last)
    if windowed and causal:
        seen = seen & (at > last - window)
    seen = seen[None, None]
    if attention_mask is not None:
        seen = seen & attention_mask[:, None, None, -keys:].bool()
        seen = seen | ~seen.any(-1, keepdim=True)  # padded queries see all, so that none has a NaN
    return seen


def _eager(
    module: nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    scaling: float | None,
    window: int | None,
    causal: bool,
    softcap: float | None,
    sinks: Tensor | None,
) -> tuple[Tensor, None]:
    """What sdpa cannot do: softcaps and sinks."""
    groups = query.shape[1] // key.shape[1]
    key, value = (t.repeat_interleave(groups, 1) for t in (key, value))
    scale = query.shape[-1] ** -0.5 if scaling is None else scaling
    scores = torch.matmul(query, key.transpose(2, 3)).float() * scale
    if softcap:
        scores = torch.tanh(scores / softcap) * softcap
    seen = _dense_mask(attention_mask, query, key, window, causal)
    if seen is None and causal and query.shape[2] > 1:
        seen = torch.ones(query.shape[2], key.shape[2], dtype=torch.bool, device=query.device).tril()
    if seen is not None:
        scores = scores.masked_fill(~seen, -torch.inf) if seen.dtype == torch.bool else scores + seen
    if sinks is not None:
        column = sinks.reshape(1, -1, 1, 1).expand(query.shape[0], -1, query.shape[2], 1).float()
        weights = torch.cat([scores, column], -1).softmax(-1)[..., :-1]
    else:
        weights = scores.softmax(-1)
    return torch.matmul(weights.to(value.dtype), value).transpose(1, 2), None
