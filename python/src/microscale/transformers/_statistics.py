"""Statistics of the inputs of layers: sums over tokens, and what is made of them."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Iterator

import torch
from torch import Tensor

PRIOR = 2
"""An expert's means hold those of its layer with the weight of this many tokens for each column: of fewer
tokens of its own neither a mean square nor, even less, a Hessian could be trusted."""


class Sums:
    """Of the rows that one layer, or several that read the same, took in."""

    def __init__(self, columns: int, device: torch.device) -> None:
        self.columns, self.device, self.rows = columns, device, 0
        self.total = torch.zeros(columns, dtype=torch.float64, device=device)
        self.squares = torch.zeros(columns, dtype=torch.float64, device=device)
        self.largest = torch.zeros(columns, dtype=torch.float32, device=device)
        self.products: Tensor | None = None
        """Sum of x x^T, where it is wanted and there is room."""
        self.complete = False
        """Whether the Hessian needs no more rows."""

    def add(self, x: Tensor, weights: Tensor | None = None) -> None:
        """x: (rows, columns); weights: (rows,), of the squares."""
        if len(x) == 0:
            return
        wide = x.float()
        self.rows += len(x)
        self.total += wide.sum(0, dtype=torch.float64)
        self.largest = torch.maximum(self.largest, wide.abs().amax(0))
        self.squares += _weighted(wide, weights).square().sum(0, dtype=torch.float64)

    def hold_products(self) -> None:
        self.products = torch.zeros(self.columns, self.columns, dtype=torch.float32, device=self.device)

    def add_products(self, x: Tensor, weights: Tensor | None = None) -> None:
        assert self.products is not None
        wide = _weighted(x.float(), weights)
        if weights is not None or x.dtype != torch.bfloat16 or x.device.type != "cpu":
            self.products.addmm_(wide.T, wide)
            return
        with _bf16_products():
            self.products += wide.T @ wide

    def product_bytes(self) -> int:
        return 4 * self.columns**2

    def prior(self) -> int:
        """Tokens that these sums are worth as an expert's prior."""
        return PRIOR * self.columns

    def finite(self) -> bool:
        return bool(self.squares.isfinite().all() and self.largest.isfinite().all())

    def dead(self) -> int:
        """Columns in which every token had 0."""
        return int((self.largest == 0).sum())


@dataclasses.dataclass
class Means:
    """What the file has of a layer."""

    square: Tensor
    mean: Tensor
    largest: Tensor

    def tensors(self, module: str) -> dict[str, Tensor]:
        return {module: self.square, module + ".mean": self.mean, module + ".amax": self.largest}


def means(own: Sums | None, pool: Sums | None) -> Means:
    """Means over tokens; with a pool, of an expert that may have seen none."""
    some = own if own is not None else pool
    assert some is not None
    own_share, pool_share = _shares(own, pool)
    square, mean = torch.zeros_like(some.squares), torch.zeros_like(some.total)
    for sums, share in ((own, own_share), (pool, pool_share)):
        if sums is not None and share > 0:
            square += sums.squares * share
            mean += sums.total * share
    seen = own if own is not None and own.rows > 0 else some if pool is None else pool
    return Means(square.float().cpu(), mean.float().cpu(), seen.largest.cpu().clone())


def hessian(own: Sums | None, pool: Sums | None) -> Tensor:
    """Mean of x x^T, symmetric to the bit. The sums of `own` are used up."""
    own_share, pool_share = _shares(own, pool)
    if own is not None and own.products is not None:
        made = own.products.mul_(own_share)
        own.products = None
        if pool is not None and pool_share > 0:
            assert pool.products is not None
            made.add_(pool.products, alpha=pool_share)
    else:
        assert pool is not None and pool.products is not None
        made = pool.products * pool_share
    return _symmetric(made).cpu()


@contextlib.contextmanager
def _bf16_products() -> Iterator[None]:
    """Products of FP32 numbers that are BF16 ones, which a processor may have faster, exact in FP32 sums."""
    settings = torch.backends.mkldnn.matmul
    before, settings.fp32_precision = settings.fp32_precision, "bf16"
    try:
        yield
    finally:
        settings.fp32_precision = before


def _weighted(x: Tensor, weights: Tensor | None) -> Tensor:
    """What has the weighted squares and products."""
    return x if weights is None else x * weights.sqrt()[:, None]


def _shares(own: Sums | None, pool: Sums | None) -> tuple[float, float]:
    """What the sums of each are multiplied by."""
    rows = 0 if own is None else own.rows
    if pool is None or pool.rows == 0:
        return (1 / rows if rows else 0.0), 0.0
    weight = pool.prior()
    return 1 / (rows + weight), weight / (pool.rows * (rows + weight))


def _symmetric(matrix: Tensor, step: int = 2048) -> Tensor:
    """In place, by tiles: the mean of both halves, which a product may have rounded differently."""
    for top in range(0, len(matrix), step):
        for left in range(0, top + 1, step):
            tile = matrix[top : top + step, left : left + step]
            other = matrix[left : left + step, top : top + step]
            both = (tile + other.T) / 2
            tile.copy_(both)
            other.copy_(both.T)
    return matrix
