"""The operators linear, gated_linear and grouped_linear: products by packed weights."""

from __future__ import annotations

from typing import Optional

import torch
from torch import Tensor

from .._core import packed_gated_matmul, packed_grouped_matmul, packed_matmul, packed_matmul_out
from ._many_rows import FASTER, dense_gated, dense_is_faster, dense_linear
from ._ops import define, for_gpu, map_rows, result_of, retried

Type = Optional[torch.dtype]  # what mypy takes for a type where torch is not installed


def _linear(
    x: Tensor,
    packed: Tensor,
    scale: Tensor | None,
    bias: Tensor | None,
    n: int,
    k: int,
    format: str,
    dtype: Type = None,
) -> Tensor:
    if FASTER and dense_is_faster(x, k, dtype, bias):
        return dense_linear(x, packed, scale, bias, n, k, format)
    try:
        return packed_matmul(x, packed, scale, bias, n, k, format, dtype)
    except ValueError:
        return retried(packed_matmul, x, packed, scale, bias, n, k, format, dtype)


def _linear_cuda(
    x: Tensor,
    packed: Tensor,
    scale: Tensor | None,
    bias: Tensor | None,
    n: int,
    k: int,
    format: str,
    dtype: Type = None,
) -> Tensor:
    x, dtype = for_gpu(x, dtype)
    return _linear(x, packed, scale, bias, n, k, format, dtype)


define(
    "linear(Tensor x, Tensor packed, Tensor? global_scale, Tensor? bias, SymInt n, SymInt k, str format, "
    "ScalarType? dtype=None) -> Tensor",
    _linear,
    lambda x, packed, scale, bias, n, k, format, dtype=None: result_of(x, packed, n, k, dtype),
    _linear_cuda,
    autocast=1,
)
map_rows("linear")
define(
    "linear_out(Tensor x, Tensor packed, Tensor? global_scale, Tensor? bias, SymInt n, SymInt k, "
    "str format, Tensor(a!) out) -> ()",
    packed_matmul_out,
    lambda *_: None,
)


def _gated(
    x: Tensor,
    packed: Tensor,
    scale: Tensor | None,
    up_scale: Tensor | None,
    gate_bias: Tensor | None,
    up_bias: Tensor | None,
    n: int,
    k: int,
    format: str,
    activation: str = "silu",
    dtype: Type = None,
) -> Tensor:
    if FASTER and dense_is_faster(x, k, dtype, gate_bias, up_bias):
        return dense_gated(x, packed, (scale, up_scale), (gate_bias, up_bias), n, k, format, activation)
    words = (packed, scale, up_scale, gate_bias, up_bias, n, k, format, activation, dtype)
    try:
        return packed_gated_matmul(x, *words)
    except ValueError:
        return retried(packed_gated_matmul, x, *words)


def _gated_cuda(
    x: Tensor,
    packed: Tensor,
    scale: Tensor | None,
    up_scale: Tensor | None,
    gate_bias: Tensor | None,
    up_bias: Tensor | None,
    n: int,
    k: int,
    format: str,
    activation: str = "silu",
    dtype: Type = None,
) -> Tensor:
    x, dtype = for_gpu(x, dtype)
    return _gated(x, packed, scale, up_scale, gate_bias, up_bias, n, k, format, activation, dtype)


def _gated_out(
    x: Tensor,
    packed: Tensor,
    scale: Tensor | None,
    up_scale: Tensor | None,
    gate_bias: Tensor | None,
    up_bias: Tensor | None,
    n: int,
    k: int,
    format: str,
    activation: str,
    out: Tensor,
) -> None:
    packed_gated_matmul(x, packed, scale, up_scale, gate_bias, up_bias, n, k, format, activation, None, out)


_GATED = (
    "Tensor x, Tensor packed, Tensor? global_scale, Tensor? up_global_scale, "
    "Tensor? gate_bias, Tensor? up_bias, SymInt n, SymInt k, str format, "
)
define(
    f'gated_linear({_GATED}str activation="silu", ScalarType? dtype=None) -> Tensor',
    _gated,
    lambda x, packed, scale, up_scale, gate_bias, up_bias, n, k, format, activation="silu", dtype=None: (
        result_of(x, packed, n, k, dtype)
    ),
    _gated_cuda,
    autocast=1,
)
map_rows("gated_linear")
define(f"gated_linear_out({_GATED}str activation, Tensor(a!) out) -> ()", _gated_out, lambda *_: None)


def _grouped(
    x: Tensor,
    packed: Tensor,
    scale: Tensor | None,
    bias: Tensor | None,
    offsets: Tensor | None,
    counts: Tensor | None,
    capacity: int,
    row_weights: Tensor | None,
    experts: int,
    n: int,
    k: int,
    format: str,
    dtype: Type = None,
) -> Tensor:
    if x.dtype == torch.float32 and x.is_cuda:
        x, dtype = x.to(torch.bfloat16), dtype or torch.float32
    rows = (offsets, counts, capacity, row_weights, experts)
    words = (packed, scale, bias, *rows, n, k, format, dtype)  # a new result has zeros in rows of no expert
    try:
        return packed_grouped_matmul(x, *words)
    except ValueError:
        return retried(packed_grouped_matmul, x, *words)


def _grouped_out(
    x: Tensor,
    packed: Tensor,
    scale: Tensor | None,
    bias: Tensor | None,
    offsets: Tensor | None,
    counts: Tensor | None,
    capacity: int,
    row_weights: Tensor | None,
    experts: int,
    n: int,
    k: int,
    format: str,
    out: Tensor,
) -> None:
    if x.dtype == torch.float32 and x.is_cuda:
        x = x.to(torch.bfloat16)
    rows = (offsets, counts, capacity, row_weights, experts)
    words = (packed, scale, bias, *rows, n, k, format, None, out)
    try:
        packed_grouped_matmul(x, *words)
    except ValueError:
        retried(packed_grouped_matmul, x, *words)


_GROUPED = (
    "Tensor x, Tensor packed, Tensor? global_scale, Tensor? bias, Tensor? offsets, "
    "Tensor? counts, SymInt capacity, Tensor? row_weights, SymInt experts, SymInt n, SymInt k, str format, "
)
define(
    f"grouped_linear({_GROUPED}ScalarType? dtype=None) -> Tensor",
    _grouped,
    lambda x, packed, scale, bias, offsets, counts, capacity, weights, experts, n, k, format, dtype=None: (
        result_of(x, packed, n, k, dtype)
    ),
    autocast=1,
)
define(f"grouped_linear_out({_GROUPED}Tensor(a!) out) -> ()", _grouped_out, lambda *_: None)
