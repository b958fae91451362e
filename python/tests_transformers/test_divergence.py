"""Perplexity and divergence of logits, against their definitions in plain loops."""

import math

import numpy as np
import pytest
import torch

from microscale.transformers._divergence import Divergence


def log_softmax(row):
    top = max(row)
    total = sum(math.exp(x - top) for x in row)
    return [x - top - math.log(total) for x in row]


@pytest.fixture(scope="module")
def logits():
    generator = torch.Generator().manual_seed(3)
    base = torch.randn(40, 30, generator=generator) * 6
    base[:, 0] -= 60  # a word below the limit of -16
    other = base + torch.randn(40, 30, generator=generator)
    return base, other, torch.randint(0, 30, (40,), generator=generator)


def test_definitions(logits):
    base, other, targets = logits
    sums = Divergence()
    for low in range(0, 40, 16):
        sums.add([base[low : low + 16], other[low : low + 16]], targets[low : low + 16])
    found = sums.figures()
    nll, other_nll, kl, same, dp = [], [], [], [], []
    for a, b, target in zip(base.double().tolist(), other.double().tolist(), targets.tolist(), strict=True):
        p, q = log_softmax(a), log_softmax(b)
        nll.append(-p[target])
        other_nll.append(-q[target])
        kl.append(sum(math.exp(x) * (x - y) for x, y in zip(p, q, strict=True) if x > -16))
        same.append(p.index(max(p)) == q.index(max(q)))
        dp.append(math.exp(q[target]) - math.exp(p[target]))
    assert found["perplexity"] == pytest.approx(math.exp(np.mean(nll)), rel=1e-5)
    error = math.sqrt((np.mean(np.square(nll)) - np.mean(nll) ** 2) / 39)
    assert found["perplexity_error"] == pytest.approx(found["perplexity"] * error, rel=1e-4)
    assert found["other_perplexity"] == pytest.approx(math.exp(np.mean(other_nll)), rel=1e-5)
    assert found["log_ratio"] == pytest.approx(np.mean(other_nll) - np.mean(nll), rel=1e-4)
    difference = np.subtract(other_nll, nll)  # the pairs': that of a sum less twice the covariance
    assert found["log_ratio_error"] == pytest.approx(np.std(difference) / math.sqrt(39), rel=1e-4)
    assert found["kl_mean"] == pytest.approx(np.mean(kl), rel=1e-4) and np.mean(kl) > 0.01
    assert found["kl_99"] == pytest.approx(np.percentile(kl, 99), rel=1e-4)
    assert found["kl_max"] == pytest.approx(max(kl), rel=1e-4)
    assert found["same_top"] == np.mean(same) and 0.3 < found["same_top"] < 1
    share = found["same_top"]
    assert found["same_top_error"] == pytest.approx(math.sqrt(share * (1 - share) / 39))
    assert found["p_change_mean"] == pytest.approx(np.mean(dp), abs=1e-6)
    assert found["p_change_rms"] == pytest.approx(math.sqrt(np.mean(np.square(dp))), rel=1e-4)


def test_one_model_has_a_perplexity_alone(logits):
    sums = Divergence()
    sums.add([logits[0]], logits[2])
    assert set(sums.figures()) == {"perplexity", "perplexity_error"}
    (curve,) = sums.running(10)
    assert len(curve) == 4 and curve[-1] == pytest.approx(sums.figures()["perplexity"])


def test_equal_logits_do_not_diverge(logits):
    sums = Divergence()
    sums.add([logits[0], logits[0].clone()], logits[2])
    found = sums.figures()
    assert found["kl_max"] == 0 and found["same_top"] == 1 and found["log_ratio"] == 0
