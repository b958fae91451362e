"""The scheme of a linear layer: loaded as vLLM loads, cut among its ranks; multiplied packed."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from torch import Tensor
from vllm.model_executor.layers.quantization.compressed_tensors.schemes import CompressedTensorsScheme
from vllm.model_executor.parameter import (
    GroupQuantScaleParameter,
    ModelWeightParameter,
    PerTensorScaleParameter,
)

from ..torch._module import ops
from ..torch._packing import BITS, block_of
from ._threads import use_all_cores

_log = logging.getLogger("vllm.plugins.microscale")


def code_parts(format: str) -> tuple[str, torch.dtype, torch.dtype]:
    """A checkpoint's name of the codes, and the types of codes and scales."""
    if BITS[format] == 8:
        return "weight", torch.float8_e4m3fn, torch.uint8
    return "weight_packed", torch.uint8, torch.float8_e4m3fn if format == "nvfp4" else torch.uint8


def require_whole_blocks(k: int, whole: int, format: str, name: str) -> None:
    """That a rank's share of the inputs ends where a block does."""
    block = block_of(format)
    if k % block:
        raise ValueError(
            f"microscale: {name}: a rank's {k} of {whole} inputs cut a block of {block} ({format}); choose "
            f"a tensor-parallel size that divides {whole // block}"
        )


def runs_of_equal(sizes: Sequence[int], divisors: Sequence[float]) -> Iterator[tuple[int, int, float]]:
    """First row, last row + 1 and divisor of neighbouring parts that have the same one."""
    start = end = 0
    for i, size in enumerate(sizes):
        end += size
        if i + 1 == len(sizes) or divisors[i + 1] != divisors[i]:
            yield start, end, divisors[i]
            start = end


class Scheme(CompressedTensorsScheme):  # type: ignore[misc]
    """Layers that vLLM fuses (q, k, v; gate, up) are one product where their global scales are equal, and
    otherwise one each, so that every value is the checkpoint's. vLLM's own takes the largest for all."""

    def __init__(self, format: str, quantized_inputs: bool, name: str) -> None:
        self.format, self.name = format, name
        self.input_scales = quantized_inputs and format == "nvfp4"  # the checkpoint has a tensor of them

    @classmethod
    def get_min_capability(cls) -> int:
        return 90

    def create_weights(
        self,
        layer: Any,
        output_partition_sizes: list[int],
        input_size_per_partition: int,
        params_dtype: torch.dtype,
        weight_loader: Callable[..., Any],
        input_size: int = 0,
        **_: Any,
    ) -> None:
        n, k = sum(output_partition_sizes), input_size_per_partition
        require_whole_blocks(k, input_size or k, self.format, self.name)
        layer.logical_widths = output_partition_sizes
        layer.input_size_per_partition, layer.output_size_per_partition = k, n
        layer.params_dtype = params_dtype
        name, of_codes, of_scales = code_parts(self.format)

        def cut(kind: Any, columns: int, dtype: torch.dtype) -> Any:
            data = torch.empty(n, columns, dtype=dtype)
            return kind(data=data, input_dim=1, output_dim=0, weight_loader=weight_loader)

        codes = cut(ModelWeightParameter, k * BITS[self.format] // 8, of_codes)
        layer.register_parameter(name, codes)
        scales = cut(GroupQuantScaleParameter, k // block_of(self.format), of_scales)
        layer.register_parameter("weight_scale", scales)
        if self.format == "nvfp4":
            for scale in ("weight_global_scale", *(["input_global_scale"] if self.input_scales else [])):
                values = torch.ones(len(output_partition_sizes), dtype=torch.float32)
                parameter = PerTensorScaleParameter(data=values, weight_loader=weight_loader)
                layer.register_parameter(scale, parameter)

    def process_weights_after_loading(self, layer: Any) -> None:
        use_all_cores()
        name, *_ = code_parts(self.format)
        codes = getattr(layer, name).data.view(torch.uint8)
        scales = layer.weight_scale.data.view(torch.uint8)
        sizes = list(layer.logical_widths)
        divisors = [1.0] * len(sizes)
        if self.format == "nvfp4":
            divisors = layer.weight_global_scale.data.tolist()
        for old in (name, "weight_scale", "weight_global_scale", "input_global_scale"):
            if old in layer._parameters:
                delattr(layer, old)
        pieces = []
        for i, (start, end, divisor) in enumerate(runs_of_equal(sizes, divisors)):
            packed = ops.pack_weights(
                codes[start:end].contiguous(), scales[start:end].contiguous(), self.format
            )
            # The first has the name by which vLLM finds a layer's device, and its weights for MLA.
            names = ("weight_packed" if i == 0 else f"weight_packed_{i}", f"weight_multiplier_{i}")
            layer.register_buffer(names[0], packed, persistent=False)
            scale = None
            if self.format == "nvfp4":
                scale = torch.tensor([1 / divisor], dtype=torch.float32, device=codes.device)
            layer.register_buffer(names[1], scale, persistent=False)
            pieces.append((*names, start, end))
        layer.microscale_pieces = tuple(pieces)
        if len(pieces) > 1:
            _log.info("%s: %d products, as its parts' global scales differ", self.name, len(pieces))

    def apply_weights(self, layer: Any, x: Tensor, bias: Tensor | None = None) -> Tensor:
        k, results = layer.input_size_per_partition, []
        for packed, scale, start, end in layer.microscale_pieces:
            own = bias if bias is None or len(layer.microscale_pieces) == 1 else bias[start:end]
            words = (getattr(layer, packed), getattr(layer, scale), own, end - start, k, self.format)
            results.append(ops.linear(x, *words))
        return results[0] if len(results) == 1 else torch.cat(results, -1)
