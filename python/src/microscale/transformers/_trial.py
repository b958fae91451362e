"""Trying whether a packed module computes what the model's own code does."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor


def some_input(k: int, device: torch.device, dtype: torch.dtype) -> Tensor:
    """Two rows of k values between -1 and 1, the same each time."""
    values = torch.arange(2 * k, dtype=torch.float32).mul(0.7548777).remainder(1).mul(2).sub(1)
    return values.view(2, k).to(device, dtype)


def agree(got: Tensor, wanted: Any, within: float = 0.02) -> bool:
    """Within what rounding in between costs: a few parts in a thousand, more where large terms cancel.
    Another formula is off by a large part; weights of zeros agree with any."""
    if not isinstance(wanted, Tensor) or wanted.shape != got.shape:
        return False
    return bool((got.float() - wanted.float()).norm() <= within * wanted.float().norm())
