"""Products of many rows by dense BF16, where that is faster: as the packed kernels within rounding."""

import pytest
import torch

import microscale.torch as mst
from microscale.torch import _many_rows, _products


@pytest.fixture
def ways(monkeypatch):
    """Calls a function as the packed kernels do it, and dense."""

    def both(function):
        found = []
        for faster in (False, True):
            monkeypatch.setattr(_products, "FASTER", faster)
            with torch.no_grad():
                found.append(function())
        return found

    return both


@pytest.mark.parametrize("format", ["nvfp4", "mxfp4", "mxfp8"])
@pytest.mark.parametrize("bias", [False, True])
def test_linear(ways, format, bias):
    torch.manual_seed(0)
    layer = mst.Linear.from_linear(torch.nn.Linear(96, 80, bias=bias).bfloat16(), format)
    for shape in ((40, 96), (2, 20, 96)):
        x = torch.randn(shape).bfloat16()
        packed, dense = ways(lambda x=x: layer(x))
        assert dense.dtype == torch.bfloat16 and dense.shape == packed.shape
        assert (dense - packed).float().norm() < 0.01 * packed.float().norm()


@pytest.mark.parametrize("activation", ["silu", "gelu_tanh"])
def test_gated(ways, activation):
    torch.manual_seed(0)
    linears = [torch.nn.Linear(*size).bfloat16() for size in ((64, 96), (64, 96), (96, 64))]
    mlp = mst.GatedMlp.from_linears(*linears, "nvfp4", activation)
    packed, dense = ways(lambda: mlp(torch.ones(50, 64).bfloat16() / 3))
    assert (dense - packed).float().norm() < 0.02 * packed.float().norm()


def test_what_it_leaves_to_the_packed_kernels():
    x = torch.zeros(_many_rows.LEAST, 64, dtype=torch.bfloat16)
    assert _many_rows.dense_is_faster(x, 64, None) and _many_rows.dense_is_faster(x, 64, None, None, x[0])
    assert not _many_rows.dense_is_faster(x[1:], 64, None)
    assert not _many_rows.dense_is_faster(x.float(), 64, None)
    assert not _many_rows.dense_is_faster(x, 64, torch.float32)
    assert not _many_rows.dense_is_faster(x, 64, None, x[0].float())
    assert not _many_rows.dense_is_faster(x, 32, None) and not _many_rows.dense_is_faster(None, 64, None)
