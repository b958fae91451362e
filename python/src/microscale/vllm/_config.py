"""The quantization config "compressed-tensors", with packed weights for the formats that we have."""

from __future__ import annotations

from typing import Any

from vllm.model_executor.layers.fused_moe import RoutedExperts
from vllm.model_executor.layers.quantization import register_quantization_config
from vllm.model_executor.layers.quantization.compressed_tensors.compressed_tensors import (
    CompressedTensorsConfig,
)
from vllm.platforms import current_platform

from ._experts import ExpertsMethod, reason_against
from ._linear import Scheme

_HOPPER = (9, 0)


def install() -> str:
    """Puts `Config` in the place of vLLM's own. "" if it is there; why not otherwise."""
    reason = _reason_against_platform()
    if not reason:
        register_quantization_config("compressed-tensors")(Config)
        if current_platform.is_cuda():
            from ._attention import install_attention

            install_attention()
    return reason


def _reason_against_platform() -> str:
    if current_platform.is_cpu():
        return ""
    if not current_platform.is_cuda():
        return f"it serves CPUs and Hopper GPUs, and this is {current_platform.device_name}"
    capability = current_platform.get_device_capability()
    if capability is None or (capability.major, capability.minor) != _HOPPER:
        found = "none" if capability is None else f"{capability.major}.{capability.minor}"
        return f"it serves GPUs of compute capability 9.0 (Hopper), and this one has {found}"
    return ""


class Config(CompressedTensorsConfig):  # type: ignore[misc]
    """As vLLM's, but layers whose weights are NVFP4, MXFP4 or MXFP8 are multiplied packed. Activations are
    not quantized, also where the checkpoint's description says so: that is more accurate, and no faster
    here."""

    def format_of(self, weights: Any) -> str:
        """Of the description of weights; "" for formats that stay vLLM's."""
        if weights is None:
            return ""
        if self._is_nvfp4_format(weights):
            return "nvfp4"
        if self._is_mxfp4(weights):
            return "mxfp4"
        return "mxfp8_e4m3" if self._is_mxfp8(weights) else ""

    def _get_scheme_from_parts(
        self,
        weight_quant: Any,
        input_quant: Any,
        output_quant: Any = None,
        format: str | None = None,
        layer_name: str | None = None,
    ) -> Any:
        ours = self.format_of(weight_quant)
        if not ours:
            return super()._get_scheme_from_parts(
                weight_quant, input_quant, output_quant, format, layer_name
            )
        return Scheme(ours, input_quant is not None, layer_name or "")

    def get_quant_method(self, layer: Any, prefix: str) -> Any:
        if isinstance(layer, RoutedExperts):
            scheme = self._of_experts(layer, prefix)
            ours = self.format_of(scheme["weights"]) if scheme else ""
            if ours:
                reason = reason_against(layer, ours)
                if reason:
                    raise ValueError(f"microscale: {prefix}: {reason}")
                return ExpertsMethod(layer.moe_config, ours, scheme["input_activations"] is not None)
        return super().get_quant_method(layer, prefix)

    def _of_experts(self, layer: Any, prefix: str) -> Any:
        """The description that all projections share; None where they differ, which vLLM refuses in its own
        words, or where they are dense."""
        self._add_fused_moe_to_target_scheme_map()
        names = (layer.ckpt_gate_proj_name, layer.ckpt_up_proj_name, layer.ckpt_down_proj_name)
        every = [self.get_scheme_dict(layer, f"{prefix}.0.{name}") for name in names]
        return every[0] if all(one == every[0] for one in every) else None
