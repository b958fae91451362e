"""Cache: keys and values of a whole model in 4 or 8 bits, for generate."""

from __future__ import annotations

import warnings
from typing import Any

import torch
import transformers
from torch import Tensor
from transformers.cache_utils import DynamicLayer

from ..torch import KvCache


class CacheLayer(DynamicLayer):  # type: ignore[misc]
    """One layer's keys and values. Where the format cannot hold them (a head size, another type), a
    DynamicLayer of transformers, which it says once."""

    KEY = "_microscale_layer"
    """Under which it hands itself to the attention function: in kwargs, or on the keys."""
    is_croppable = False
    supports_early_init = False

    def __init__(self, max_tokens: int = 0, options: dict[str, Any] | None = None, **_: Any) -> None:
        super().__init__()
        self.max_tokens, self.options = max_tokens, options or {}
        self.cache: KvCache | None = None
        self.tokens = 0  # of each sequence, padding too: what transformers counts
        self.awaited = False  # keys and values came, and attend was not called yet

    def lazy_initialization(self, key_states: Tensor, value_states: Tensor) -> None:
        super().lazy_initialization(key_states, value_states)
        batch, kv_heads, _, head_dim = key_states.shape
        try:
            if value_states.shape[-1] != head_dim:
                raise ValueError(f"values of {value_states.shape[-1]} numbers beside keys of {head_dim}")
            self.cache = KvCache(
                batch, kv_heads, head_dim, self.max_tokens, device=key_states.device, **self.options
            )
        except ValueError as error:
            warnings.warn(
                f"microscale.transformers.Cache: {error}; keys and values stay {key_states.dtype}",
                stacklevel=2,
            )

    def update(
        self, key_states: Tensor, value_states: Tensor, *args: Any, **kwargs: Any
    ) -> tuple[Tensor, Tensor]:
        if not self.is_initialized:
            self.lazy_initialization(key_states, value_states)
        if self.cache is None:
            return super().update(key_states, value_states, *args, **kwargs)  # type: ignore[no-any-return]
        if self.awaited:
            raise ValueError(
                "microscale.transformers.Cache: the model's attention implementation does not use it; call "
                'model.set_attn_implementation("microscale")'
            )
        new = key_states.shape[2]
        if self.tokens + new > self.max_tokens:
            raise ValueError(
                f"microscale.transformers.Cache: {self.tokens + new} tokens, but it was made for "
                f"max_tokens={self.max_tokens}"
            )
        self.tokens += new
        self.awaited = True
        shared = kwargs.get("kwargs")  # of the attention function, from transformers 5.24 on
        if isinstance(shared, dict):
            shared[self.KEY] = self
        else:
            setattr(key_states, self.KEY, self)
        return key_states, value_states

    def attend(self, q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None, **words: Any) -> Tensor:
        """Appends k and v (batch, tokens, kv_heads, head_dim) and returns the attention of q (batch, tokens,
        heads, head_dim) to all there is. mask: (batch, all tokens), false where a token is padding: it is
        not stored, and the result is zero there."""
        assert self.cache is not None
        self.awaited = False
        tokens = q.shape[1]
        if mask is None or tokens == 1:
            self.cache.append(k, v)
            return self.cache.attend(q, **words)
        real = mask[:, -tokens:].bool()
        counts = real.sum(1, dtype=torch.int32)
        offsets = torch.nn.functional.pad(counts.cumsum(0, dtype=torch.int32), (1, 0))
        self.cache.append(k[real], v[real], offsets=offsets)
        out = torch.zeros_like(q)
        out[real] = self.cache.attend(q[real], q_offsets=offsets, max_q_len=tokens, **words)
        return out

    def get_mask_sizes(self, query_length: int) -> tuple[int, int]:
        return self.get_seq_length() + query_length, 0

    def get_seq_length(self) -> int:
        return self.tokens if self.cache is not None else int(super().get_seq_length())

    def get_max_length(self) -> int:
        return self.max_tokens if self.cache is not None else -1

    def reset(self) -> None:
        if self.cache is None:
            super().reset()
        else:
            self.cache.reset()
        self.tokens, self.awaited = 0, False

    def _beyond(self, what: str) -> NotImplementedError:
        return NotImplementedError(
            f"microscale.transformers.Cache: {what} is not supported; use transformers' own cache"
        )

    def reorder_cache(self, beam_idx: Tensor) -> None:
        raise self._beyond("beam search")

    def crop(self, tokens_to_remove: int) -> None:
        raise self._beyond("taking tokens back (assisted generation)")

    def batch_repeat_interleave(self, repeats: int) -> None:
        raise self._beyond("repeating sequences")

    def batch_select_indices(self, indices: Tensor) -> None:
        raise self._beyond("choosing sequences")


class Cache(transformers.Cache):  # type: ignore[misc]
    """Keys and values of every layer, quantized as they come: give it to generate or a model's call as
    past_key_values, after `accelerate(model)` or `model.set_attn_implementation("microscale")`.

    max_tokens: the longest sequence, prompt and new tokens. format: nvfp4, mxfp4, mxfp8 or fp8. options: of
    microscale.torch.KvCache: page_size, first and recent (tokens whose bfloat16 copies are read instead),
    hadamard, k_global_scale, v_global_scale. Memory is taken at the first call: for each layer batch *
    max_tokens * kv_heads * head_dim * 2 values of 4.5 bits (nvfp4). `reset()` forgets all tokens, and the
    memory stays. Padding, left or right, takes no room in it. Layers of a size that the format cannot hold
    keep their keys and values in the model's type, and say so.
    """

    def __init__(self, max_tokens: int, format: str = "nvfp4", **options: Any) -> None:
        if max_tokens < 1:
            raise ValueError(f"max_tokens: {max_tokens}; pass the longest sequence, prompt and new tokens")
        self.max_tokens = max_tokens
        self.options = {"format": format, **options}
        super().__init__(layer_class_to_replicate=self._layer)

    def _layer(self) -> CacheLayer:
        return CacheLayer(self.max_tokens, self.options)

    def memory_bytes(self) -> int:
        """What its layers take now, on their devices."""
        return sum(
            buffer.nbytes
            for layer in self.layers
            if isinstance(layer, CacheLayer) and layer.cache is not None
            for buffer in layer.cache.buffers()
        )
