"""The operators rms_norm and add_rms_norm: what stands between the products of a decoder layer.

On a CPU one pass in FP32, rounded once; on a GPU torch's own operators.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from .. import _core
from ._ops import define, require_dense, retried


def _norm(x: Tensor, weight: Tensor, eps: float) -> Tensor:
    try:
        return _core.rms_norm(x, weight, eps)  # type: ignore[arg-type, no-any-return]
    except ValueError:
        return retried(_core.rms_norm, x, weight, eps)  # type: ignore[no-any-return]


def _add_norm(x: Tensor, residual: Tensor, weight: Tensor, eps: float) -> tuple[Tensor, Tensor]:
    try:
        return _core.rms_norm(x, weight, eps, residual)  # type: ignore[arg-type, no-any-return]
    except ValueError:
        residual = residual.clone(memory_format=torch.contiguous_format)
        return retried(_core.rms_norm, x, weight, eps, residual)  # type: ignore[no-any-return]


def _norm_cuda(x: Tensor, weight: Tensor, eps: float) -> Tensor:
    return F.rms_norm(x, weight.shape, weight, eps)


def _add_norm_cuda(x: Tensor, residual: Tensor, weight: Tensor, eps: float) -> tuple[Tensor, Tensor]:
    total = x + residual
    return F.rms_norm(total, weight.shape, weight, eps), total


def _result(x: Tensor, *_: object) -> Tensor:
    require_dense(x)
    return x.new_empty(x.shape)


define("rms_norm(Tensor x, Tensor weight, float eps) -> Tensor", _norm, _result, _norm_cuda)
define(
    "add_rms_norm(Tensor x, Tensor residual, Tensor weight, float eps) -> (Tensor normed, Tensor sum)",
    _add_norm,
    lambda x, *_: (_result(x), _result(x)),
    _add_norm_cuda,
)
