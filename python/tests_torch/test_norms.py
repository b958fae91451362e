"""rms_norm and add_rms_norm beside torch's, in each type, with strides, traced."""

import pytest
import torch
import torch.nn.functional as F

import microscale.torch  # noqa: F401  registers the operators

ops = torch.ops.microscale


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_beside_torch(dtype):
    x, residual, weight = (torch.randn(shape).to(dtype) for shape in ((3, 5, 80), (3, 5, 80), (80,)))
    within = {torch.float32: 1e-5, torch.bfloat16: 2**-8, torch.float16: 2**-10}[dtype]

    def norm(x):
        return F.rms_norm(x.double(), (80,), weight.double(), 1e-5)

    torch.testing.assert_close(ops.rms_norm(x, weight, 1e-5).double(), norm(x), rtol=within, atol=1e-6)
    normed, total = ops.add_rms_norm(x, residual, weight, 1e-5)
    assert torch.equal(total, x + residual)
    torch.testing.assert_close(normed.double(), norm(total), rtol=within, atol=1e-6)


def test_any_strides():
    x, weight = torch.randn(4, 6, 64), torch.ones(32)
    some = x[:, 1::2, :32].transpose(0, 1)
    assert torch.equal(ops.rms_norm(some, weight, 1e-6), ops.rms_norm(some.contiguous(), weight, 1e-6))
    found = ops.add_rms_norm(some, some, weight, 1e-6)
    assert torch.equal(found[1], some + some)
    assert ops.rms_norm(x[:0, :, :32], weight, 1e-6).shape == (0, 6, 32)


def test_what_is_refused():
    with pytest.raises(ValueError, match="24 columns; they must be a multiple of 16"):
        ops.rms_norm(torch.zeros(2, 24), torch.zeros(24), 1e-6)
    with pytest.raises(ValueError, match="weight"):
        ops.rms_norm(torch.zeros(2, 32), torch.zeros(32).bfloat16(), 1e-6)
    with pytest.raises(ValueError, match="residual"):
        ops.add_rms_norm(torch.zeros(2, 32), torch.zeros(3, 32), torch.zeros(32), 1e-6)


def test_traced():
    torch.library.opcheck(ops.rms_norm.default, (torch.randn(2, 32), torch.ones(32), 1e-6))
    torch.library.opcheck(
        ops.add_rms_norm.default, (torch.randn(2, 32), torch.randn(2, 32), torch.ones(32), 1e-6)
    )
