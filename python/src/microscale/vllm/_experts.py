"""Experts of a mixture: loaded as vLLM loads them, cut by rank or shared out; multiplied in grouped
products."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from vllm.model_executor.layers.fused_moe import FusedMoEMethodBase, FusedMoeWeightScaleSupported
from vllm.model_executor.layers.fused_moe.activation import MoEActivation
from vllm.model_executor.utils import set_weight_attrs

from ..torch._experts import rows_by_expert, sums_by_token
from ..torch._module import ops
from ..torch._packing import BITS, block_of
from ._linear import code_parts, require_whole_blocks
from ._threads import use_all_cores

_ACTIVATIONS: dict[MoEActivation, Callable[[Tensor], Tensor]] = {
    MoEActivation.SILU: F.silu,
    MoEActivation.GELU: F.gelu,
    MoEActivation.GELU_TANH: lambda x: F.gelu(x, approximate="tanh"),
}


def reason_against(layer: Any, format: str) -> str:
    """Why experts cannot be multiplied packed; "" if they can."""
    if layer.activation not in _ACTIVATIONS:
        known = ", ".join(one.value for one in _ACTIVATIONS)
        return f"its experts' activation is {layer.activation.value}; packed experts have {known}"
    if any(getattr(layer, f"swiglu_{word}", None) is not None for word in ("limit", "alpha", "beta")):
        return "its experts clamp or scale inside their activation, which packed experts do not"
    if not layer.moe_config.is_act_and_mul:
        return "its experts have no gate, and packed ones do"
    if layer.moe_config.moe_parallel_config.enable_eplb:
        return f"expert load balancing moves experts of {format} that are packed; leave out --enable-eplb"
    return ""


class ExpertsMethod(FusedMoEMethodBase):  # type: ignore[misc]
    """down(activation(gate(x)) * up(x)) of each row by its experts. Each expert keeps the global scales of
    its three matrices."""

    def __init__(self, moe: Any, format: str, quantized_inputs: bool) -> None:
        super().__init__(moe)
        self.format = format
        self.input_scales = quantized_inputs and format == "nvfp4"

    def create_weights(
        self,
        layer: Any,
        num_experts: int,
        hidden_size: int,
        intermediate_size_per_partition: int,
        params_dtype: torch.dtype,
        **extra_weight_attrs: Any,
    ) -> None:
        inner, whole = intermediate_size_per_partition, self.moe.intermediate_size
        name, of_codes, of_scales = code_parts(self.format)
        require_whole_blocks(inner, whole, self.format, f"{layer.layer_name}: down projections")
        require_whole_blocks(hidden_size, hidden_size, self.format, layer.layer_name)
        layer.num_experts, layer.params_dtype = num_experts, params_dtype
        layer.microscale_sizes = (hidden_size, inner)

        def add(name: str, kind: str | None, data: Tensor) -> None:
            parameter = torch.nn.Parameter(data, requires_grad=False)
            layer.register_parameter(name, parameter)
            attributes = dict(extra_weight_attrs)
            if kind is not None:
                attributes["quant_method"] = kind
            set_weight_attrs(parameter, attributes)

        group, tensor = (
            FusedMoeWeightScaleSupported.GROUP.value,
            FusedMoeWeightScaleSupported.TENSOR.value,
        )
        for word, n, k, many in (("w13", 2 * inner, hidden_size, 2), ("w2", hidden_size, inner, 1)):
            codes = torch.empty(num_experts, n, k * BITS[self.format] // 8, dtype=of_codes)
            add(f"{word}_{name}", None, codes)
            scales = torch.empty(num_experts, n, k // block_of(self.format), dtype=of_scales)
            add(f"{word}_weight_scale", group, scales)
            if self.format == "nvfp4":
                shape = (num_experts, many) if many > 1 else (num_experts,)
                add(f"{word}_weight_global_scale", tensor, torch.ones(shape, dtype=torch.float32))
                if self.input_scales:
                    add(f"{word}_input_global_scale", tensor, torch.ones(shape, dtype=torch.float32))
            if self.moe.has_bias:
                add(f"{word}_bias", None, torch.zeros(num_experts, n, dtype=params_dtype))

    def process_weights_after_loading(self, layer: Any) -> None:
        use_all_cores()
        name, *_ = code_parts(self.format)
        _, inner = layer.microscale_sizes
        for word in ("w13", "w2"):
            codes = getattr(layer, f"{word}_{name}").data.view(torch.uint8)
            scales = getattr(layer, f"{word}_weight_scale").data.view(torch.uint8)
            divisors = getattr(layer, f"{word}_weight_global_scale", None)
            parts = [("", slice(None), divisors)]
            if word == "w13":  # gate and up are two products: each has its experts' global scales
                parts = [
                    (part, slice(i * inner, (i + 1) * inner), None if divisors is None else divisors[:, i])
                    for i, part in enumerate(("gate_", "up_"))
                ]
            for part, rows, own in parts:
                packed = ops.pack_weights(
                    codes[:, rows].contiguous(), scales[:, rows].contiguous(), self.format
                )
                scale = None if own is None else (1.0 / own.data).contiguous()
                layer.register_buffer(f"{word}_{part}packed", packed, persistent=False)
                layer.register_buffer(f"{word}_{part}multiplier", scale, persistent=False)
            for old in (name, "weight_scale", "weight_global_scale", "input_global_scale"):
                if f"{word}_{old}" in layer._parameters:
                    delattr(layer, f"{word}_{old}")

    def get_fused_moe_quant_config(self, layer: Any) -> None:
        """None: vLLM's own kernels for experts are not used."""

    def apply(
        self,
        layer: Any,
        x: Tensor,
        topk_weights: Tensor,
        topk_ids: Tensor,
        shared_experts: Any = None,
        shared_experts_input: Tensor | None = None,
    ) -> Tensor:
        hidden, inner = layer.microscale_sizes
        if layer.expert_map is not None:  # experts shared out among ranks: -1 is another rank's
            topk_ids = layer.expert_map[topk_ids.long()]
        if layer.apply_router_weight_on_input:
            x, topk_weights = x * topk_weights.to(x.dtype), torch.ones_like(topk_weights)
        experts = layer.local_num_experts
        rows, order, offsets = rows_by_expert(x, topk_ids, experts)

        def product(of: Tensor, word: str, n: int, k: int, bias: Tensor | None) -> Tensor:
            packed, scale = getattr(layer, f"{word}packed"), getattr(layer, f"{word}multiplier")
            return ops.grouped_linear(
                of, packed, scale, bias, offsets, None, 0, None, experts, n, k, self.format
            )

        of_gate = of_up = of_down = None
        if self.moe.has_bias:
            of_gate, of_up = (
                layer.w13_bias[:, :inner].contiguous(),
                layer.w13_bias[:, inner:].contiguous(),
            )
            of_down = layer.w2_bias
        gate = product(rows, "w13_gate_", inner, hidden, of_gate)
        up = product(rows, "w13_up_", inner, hidden, of_up)
        down = product(_ACTIVATIONS[layer.activation](gate) * up, "w2_", hidden, inner, of_down)
        return sums_by_token(down, order, topk_weights)
