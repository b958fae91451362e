"""Products of many rows on CPUs whose BF16 instructions the packed kernels do not use (AVX-512, no AMX).

There torch multiplies dense BF16 twice as fast as the packed kernels do, which compute in FP32, and making a
layer's weights dense takes 2 to 4 % of that. Values of MXFP4 and MXFP8 are exact in BF16; those of NVFP4 are
rounded to it, as where transformers makes them dense. They are given back after the product.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from .._core import available_backends

LEAST = 32
"""Rows: with 9 to 11 both ways take as long."""


def _found() -> bool:
    if available_backends()[0] != "avx512":
        return False
    try:
        with open("/proc/cpuinfo", encoding="ascii", errors="replace") as file:
            flags = next((line for line in file if line.startswith("flags")), "").split()
    except OSError:
        return False
    return "avx512_bf16" in flags and "amx_bf16" not in flags


FASTER = _found()


def dense_is_faster(x: Tensor, k: int, dtype: torch.dtype | None, *biases: Tensor | None) -> bool:
    """Whether to multiply so. What is wrong with x is left to the packed kernels to say."""
    return (
        isinstance(x, Tensor)
        and x.numel() >= LEAST * k
        and x.dtype == torch.bfloat16
        and not x.is_cuda
        and dtype in (None, torch.bfloat16)
        and x.dim() > 0
        and x.shape[-1] == k
        and all(bias is None or bias.dtype == torch.bfloat16 for bias in biases)
    )


def dense_linear(
    x: Tensor, packed: Tensor, scale: Tensor | None, bias: Tensor | None, n: int, k: int, format: str
) -> Tensor:
    weight = torch.ops.microscale.dense_weights(packed, scale, 1, n, k, format, x.dtype)[0]
    return F.linear(x, weight, bias)


def dense_gated(
    x: Tensor,
    packed: Tensor,
    scales: tuple[Tensor | None, Tensor | None],
    biases: tuple[Tensor | None, Tensor | None],
    n: int,
    k: int,
    format: str,
    activation: str,
) -> Tensor:
    words: tuple[Any, ...] = (1, n, k, format, x.dtype)
    gate, up = (
        F.linear(x, torch.ops.microscale.dense_weights(packed, scale, *words, part, True)[0], bias)
        for part, scale, bias in zip((False, True), scales, biases, strict=True)
    )
    return (F.silu(gate) if activation == "silu" else F.gelu(gate, approximate="tanh")).mul_(up)
