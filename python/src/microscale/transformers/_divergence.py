"""Perplexity and KL divergence by llama.cpp's definitions, of the logits of one model or two."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

LOG_P_MIN = -16.0
"""Words that the first model gives a log probability below this do not count in the divergence."""


class Divergence:
    """Sums of every scored token: a row of logits of each model, and the token that followed."""

    def __init__(self) -> None:
        self._columns: dict[str, list[Any]] = {}

    def add(self, logits: Sequence[Tensor], targets: Tensor) -> None:
        """logits: (rows, words) of the model, and of the other if there are two; targets: (rows,)."""
        logs = [one.float().log_softmax(-1) for one in logits]
        nll = [-one.gather(1, targets[:, None])[:, 0].double() for one in logs]
        self._keep("nll", nll[0])
        if len(logs) == 1:
            return
        base, other = logs
        self._keep("other_nll", nll[1])
        self._keep("same", base.argmax(-1) == other.argmax(-1))
        self._keep("dp", (-nll[1]).exp() - (-nll[0]).exp())
        weight = base.exp().masked_fill_(base <= LOG_P_MIN, 0)
        self._keep("kl", base.sub_(other).mul_(weight).sum(-1, dtype=torch.float64))

    def _keep(self, name: str, values: Tensor) -> None:
        self._columns.setdefault(name, []).append(values.cpu().numpy())

    def figures(self) -> dict[str, float]:
        """What evaluate returns, by its names there."""
        column = {name: np.concatenate(parts) for name, parts in self._columns.items()}
        found = dict(zip(("perplexity", "perplexity_error"), _perplexity(column["nll"]), strict=True))
        if "kl" not in column:
            return found
        names = ("other_perplexity", "other_perplexity_error")
        found.update(zip(names, _perplexity(column["other_nll"]), strict=True))
        found["log_ratio"], found["log_ratio_error"] = _mean(column["other_nll"] - column["nll"])
        found["kl_mean"], found["kl_error"] = _mean(column["kl"])
        for name, share in (
            ("kl_median", 50),
            ("kl_95", 95),
            ("kl_99", 99),
            ("kl_999", 99.9),
            ("kl_max", 100),
        ):
            found[name] = float(np.percentile(column["kl"], share))
        found["same_top"], found["same_top_error"] = _mean(column["same"].astype(np.float64))
        found["p_change_mean"], found["p_change_error"] = _mean(column["dp"])
        found["p_change_rms"] = float(np.sqrt(np.mean(column["dp"] ** 2)))
        return found

    def running(self, each: int) -> list[list[float]]:
        """Perplexities of the first chunk, the first two, ...: a chunk has `each` scored tokens."""
        curves = []
        for name in ("nll", "other_nll"):
            if name in self._columns:
                sums = np.concatenate(self._columns[name]).reshape(-1, each).sum(1).cumsum()
                curves.append(np.exp(sums / (each * np.arange(1, len(sums) + 1))).tolist())
        return curves


def _mean(values: Any) -> tuple[float, float]:
    """And its standard error."""
    mean = float(values.mean())
    return mean, float(np.sqrt(max(float((values**2).mean()) - mean**2, 0) / max(len(values) - 1, 1)))


def _perplexity(nll: Any) -> tuple[float, float]:
    mean, error = _mean(nll)
    perplexity = float(np.exp(mean))
    return perplexity, perplexity * error
