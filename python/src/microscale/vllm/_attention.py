"""Attention on Hopper over vLLM's pages of NVFP4 keys and values: --attention-backend CUSTOM
--kv-cache-dtype nvfp4.

A page holds K's codes, K's scales, V's codes and V's scales, each of all heads, as vLLM lays out NVFP4 for
its own backends. Keys and values of new tokens are quantized by append_kv, which reads the page table
itself.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar

import torch
from torch import Tensor
from vllm.platforms import current_platform
from vllm.utils.torch_utils import get_dtype_size
from vllm.v1.attention.backend import (
    AttentionBackend,
    AttentionCGSupport,
    AttentionImpl,
    AttentionMetadata,
    AttentionMetadataBuilder,
    AttentionType,
)
from vllm.v1.attention.backends.registry import AttentionBackendEnum, register_backend

from .. import _core

_SIZES = [64, 128, 256]


def install_attention() -> None:
    """Gives the backend to vLLM's name CUSTOM; it serves only who asks for that."""
    register_backend(AttentionBackendEnum.CUSTOM, f"{Backend.__module__}.{Backend.__qualname__}")


def page_bytes_of_head(head_size: int) -> int:
    """Of a token's keys, or values, of one head: codes and scales."""
    return head_size // 2 + head_size // 16


def parts_of(kv_cache: Tensor, kv_heads: int) -> list[Tensor]:
    """K's codes, K's scales, V's codes and V's scales as views (page, token, head, byte) of vLLM's tensor
    (pages, 2 * kv_heads, tokens of a page, bytes), whichever of heads and tokens comes first in its
    memory."""
    pages, slots, tokens, width = kv_cache.shape
    if slots != 2 * kv_heads or kv_cache.dtype != torch.uint8:
        raise ValueError(
            f"microscale: a cache of {kv_cache.dtype} of shape {tuple(kv_cache.shape)} is no NVFP4 cache of "
            f"{kv_heads} heads"
        )
    by_head = kv_cache.stride()[1:] == (tokens * width, width, 1)
    if not by_head and kv_cache.stride()[1:] != (width, slots * width, 1):
        raise ValueError(f"microscale: pages of strides {kv_cache.stride()} have gaps")
    head_size = width * 16 // 9
    views, start = [], kv_cache.storage_offset()
    for size in (head_size // 2, head_size // 16) * 2:
        inner = (size, tokens * size) if by_head else (kv_heads * size, size)  # of a token, of a head
        views.append(
            kv_cache.as_strided((pages, tokens, kv_heads, size), (kv_cache.stride(0), *inner, 1), start)
        )
        start += kv_heads * tokens * size
    return views


@dataclass
class Metadata(AttentionMetadata):  # type: ignore[misc]
    """Of a batch: where each request's queries begin, how long it is with them, its pages."""

    query_start_loc: Tensor
    seq_lens: Tensor
    block_table: Tensor
    num_actual_tokens: int
    max_query_len: int
    max_seq_len: int
    causal: bool


class Builder(AttentionMetadataBuilder[Metadata]):  # type: ignore[misc]
    _cudagraph_support: ClassVar[AttentionCGSupport] = AttentionCGSupport.ALWAYS

    def __init__(self, kv_cache_spec: Any, layer_names: list[str], vllm_config: Any, device: Any) -> None:
        super().__init__(kv_cache_spec, layer_names, vllm_config, device)

    def build(
        self, common_prefix_len: int, common_attn_metadata: Any, fast_build: bool = False
    ) -> Metadata:
        common = common_attn_metadata
        if not isinstance(common.causal, bool):
            raise NotImplementedError(
                "microscale: a batch in which only some requests are causal; leave out --attention-backend"
            )
        return Metadata(
            common.query_start_loc,
            common.seq_lens,
            common.block_table_tensor,
            common.num_actual_tokens,
            common.max_query_len,
            common.max_seq_len,
            common.causal,
        )


class Impl(AttentionImpl[Metadata]):  # type: ignore[misc]
    def __init__(
        self,
        num_heads: int,
        head_size: int,
        scale: float,
        num_kv_heads: int | None = None,
        alibi_slopes: list[float] | None = None,
        sliding_window: int | None = None,
        kv_cache_dtype: str = "auto",
        logits_soft_cap: float | None = None,
        attn_type: str = AttentionType.DECODER,
        kv_sharing_target_layer_name: str | None = None,
        sinks: Tensor | None = None,
    ) -> None:
        if alibi_slopes is not None:
            raise NotImplementedError("microscale: attention has no ALiBi; leave out --attention-backend")
        if kv_cache_dtype != "nvfp4":
            raise NotImplementedError(
                f"microscale: attention reads NVFP4 pages, not {kv_cache_dtype}; pass --kv-cache-dtype nvfp4"
            )
        self.num_heads, self.head_size, self.scale = num_heads, head_size, float(scale)
        self.num_kv_heads = num_kv_heads or num_heads
        self.kv_cache_dtype, self.attn_type = kv_cache_dtype, attn_type
        self.window, self.softcap = sliding_window or 0, logits_soft_cap or 0.0
        self.shares_cache = kv_sharing_target_layer_name is not None
        self.sinks = None if sinks is None else sinks.float().contiguous()
        self._scales: Tensor | None = None

    def forward(
        self,
        layer: Any,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        kv_cache: Tensor,
        attn_metadata: Metadata,
        output: Tensor,
        output_scale: Tensor | None = None,
        output_block_scale: Tensor | None = None,
    ) -> Tensor:
        if attn_metadata is None:  # a run that only measures memory
            return output.fill_(0)
        if output_scale is not None or output_block_scale is not None:
            raise NotImplementedError("microscale: attention writes 16-bit results only")
        if self._scales is None:
            self._scales = torch.stack(
                [layer._k_scale.reshape(-1)[0], layer._v_scale.reshape(-1)[0]]
            ).float()
        count, known = attn_metadata.num_actual_tokens, attn_metadata
        k_codes, k_scales, v_codes, v_scales = parts_of(kv_cache, self.num_kv_heads)
        cache = _core.KvCache.from_parts(
            k_codes,
            k_scales,
            v_codes,
            v_scales,
            format="nvfp4",
            lengths=known.seq_lens,
            page_table=known.block_table,
            global_scales=self._scales,
        )
        if key is not None and value is not None and not self.shares_cache:
            sizes = (-1, self.num_kv_heads, self.head_size)
            new = (key.view(sizes)[:count], value.view(sizes)[:count])
            cache.append(*new, offsets=known.query_start_loc, advance=False)
        _core.attention(
            query.view(-1, self.num_heads, self.head_size)[:count],
            cache=cache,
            scale=self.scale,
            causal=known.causal,
            window=self.window,
            softcap=self.softcap,
            sinks=self.sinks,
            q_offsets=known.query_start_loc,
            max_q_len=known.max_query_len,
            max_kv_len=known.max_seq_len,
            out=output.view(-1, self.num_heads, self.head_size)[:count],
        )
        return output


class Backend(AttentionBackend):  # type: ignore[misc]
    supported_dtypes: ClassVar[list[torch.dtype]] = [torch.float16, torch.bfloat16]
    supported_kv_cache_dtypes: ClassVar[list[Any]] = ["nvfp4"]
    forward_includes_kv_cache_update: bool = True

    @staticmethod
    def get_supported_kernel_block_sizes(kv_cache_spec: Any = None) -> list[Any]:
        return [16, 32, 64]

    @staticmethod
    def get_name() -> str:
        return "CUSTOM"

    @staticmethod
    def get_impl_cls() -> type[Impl]:
        return Impl

    @staticmethod
    def get_builder_cls() -> type[Builder]:
        return Builder

    @classmethod
    def get_supported_head_sizes(cls) -> list[int]:
        return _SIZES

    @classmethod
    def supports_sink(cls) -> bool:
        return True

    @classmethod
    def supports_sliding_window(cls) -> bool:
        return True

    @classmethod
    def supports_compute_capability(cls, capability: Any) -> bool:
        return bool(capability.major == 9)

    @classmethod
    def supports_combination(
        cls,
        head_size: int,
        dtype: torch.dtype,
        kv_cache_dtype: Any,
        block_size: int | None,
        use_mla: bool,
        has_sink: bool,
        use_sparse: bool,
        use_mm_prefix: bool,
        device_capability: Any,
    ) -> str | None:
        if kv_cache_dtype != "nvfp4":
            return (
                f"microscale's attention reads NVFP4 pages, not {kv_cache_dtype}: pass --kv-cache-dtype "
                "nvfp4"
            )
        if not current_platform.is_cuda():
            return "microscale's attention over vLLM's pages is for Hopper GPUs"
        return None

    @classmethod
    def customize_spec(cls, spec: Any) -> Any:
        """The layout of vLLM's own backends for NVFP4: K's and V's heads are slots of their own."""
        if spec.state_content_bytes is not None or not spec.kv_quant_mode.is_nvfp4:
            return spec
        if spec.head_size != spec.head_size_v:
            raise NotImplementedError(
                f"microscale: values of {spec.head_size_v} numbers beside keys of {spec.head_size}"
            )
        content = page_bytes_of_head(spec.head_size) * get_dtype_size(spec.dtype)
        return replace(spec, num_head_slots=2 * spec.num_kv_heads, state_content_bytes=content)
