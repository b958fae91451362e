"""torch tensors of the CPU as arguments and results, by DLPack's exchange API and without it."""

import copy
import gc
import os
import pickle
import sys

import numpy as np
import pytest
import torch

import microscale as ms
import microscale.torch  # noqa: F401  registers the operators

X = torch.randn(4, 64, generator=torch.Generator().manual_seed(0))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_tensors_in_tensors_out(dtype):
    x = X.to(dtype)
    t = ms.quantize(x)
    assert t.codes.dtype == torch.uint8 and t.scales.dtype == torch.float8_e4m3fn and t.device == "cpu"
    reference = ms.quantize(x.float().numpy())
    np.testing.assert_array_equal(t.codes.numpy(), reference.codes)
    np.testing.assert_array_equal(t.scales.view(torch.uint8).numpy(), reference.scales)
    assert t.global_scale == reference.global_scale
    restored = t.dequantize(dtype)
    assert restored.dtype == dtype and torch.equal(
        restored, torch.from_numpy(reference.dequantize()).to(dtype)
    )
    assert ms.quantize(x, "mxfp4").scales.dtype == torch.float8_e8m0fnu


def test_products_write_to_tensors():
    w = ms.quantize(torch.randn(32, 64))
    for weights in (w, ms.pack_weights(w)):
        y = ms.matmul(X, weights)
        assert torch.allclose(y, X @ w.dequantize().T, atol=1e-4)
        out = torch.empty(4, 32)
        assert ms.matmul(X, weights, out=out) is out and torch.equal(out, y)
    assert ms.matmul(X.bfloat16(), w).dtype == torch.bfloat16
    assert ms.matmul(X, w, bias=torch.ones(32, dtype=torch.bfloat16)).shape == (4, 32)


def test_views_parameters_and_gradients():
    wide = torch.randn(8, 128)
    assert torch.equal(
        ms.quantize(wide[::2, 32:96]).codes, ms.quantize(wide[::2, 32:96].contiguous()).codes
    )
    assert torch.equal(ms.quantize(torch.nn.Parameter(X)).codes, ms.quantize(X).codes)
    with pytest.raises(ValueError, match="x: elements of the last axis .* are 64 apart"):
        ms.quantize(torch.randn(64, 64).T)
    with pytest.raises(ValueError, match="x: .* float64"):
        ms.quantize(X.double())
    with pytest.raises(NotImplementedError, match="x: the framework does not hand the array out"):
        ms.quantize(X.to("meta"))


def test_block_tensors_of_tensors():
    t = ms.quantize(X)
    four = t.as_torch_float4()
    assert four.dtype == torch.float4_e2m1fn_x2
    again = ms.BlockTensor.from_parts(four, t.scales, torch.tensor([t.global_scale]), format="nvfp4")
    assert torch.equal(again.dequantize(), t.dequantize())
    for same in (pickle.loads(pickle.dumps(t)), copy.deepcopy(t), t.to("cpu")):
        assert torch.equal(same.dequantize(), t.dequantize())
    divisor = torch.tensor([1 / t.global_scale])
    stored = ms.BlockTensor.from_compressed_tensors(t.codes, t.scales, divisor)
    assert torch.allclose(stored.dequantize(), t.dequantize(), rtol=1e-6)


def test_a_cache_of_tensors():
    cache = ms.KvCache.allocate(2, 1, 64, 32, page_size=16, recent=4, like=X)
    k = torch.randn(2, 20, 1, 64, dtype=torch.bfloat16)
    cache.append(k, k)
    assert cache.lengths.tolist() == [20, 20] and cache.recent_k.dtype == torch.bfloat16
    q = torch.randn(2, 1, 2, 64, dtype=torch.bfloat16)
    o, lse = ms.attention(q, cache=cache, return_lse=True)
    wanted = torch.nn.functional.scaled_dot_product_attention(
        q.transpose(1, 2).float(), k.transpose(1, 2).float(), k.transpose(1, 2).float(), enable_gqa=True
    ).transpose(1, 2)
    assert o.dtype == torch.bfloat16 and lse.shape == (2, 1, 2) and (o - wanted).abs().max() < 0.2
    cos, sin = ms.rope_tables(10000.0, 32, 64, like=X)
    assert isinstance(cos, torch.Tensor) and cos.shape == (32, 32)


def test_torch_is_not_imported_for_others():
    code = "import sys, numpy, microscale as ms; ms.quantize(numpy.ones((1, 64), 'f4')); "
    code += "assert 'torch' not in sys.modules"
    assert os.spawnv(os.P_WAIT, sys.executable, [sys.executable, "-c", code]) == 0


def test_autograd_sees_what_is_written():
    w, experts = ms.quantize(torch.randn(32, 64)), ms.quantize(torch.randn(1, 32, 64))
    for write in (
        lambda out: ms.matmul(X, w, out=out),
        lambda out: ms.gated_matmul(X, w, w, out=out),
        lambda out: ms.grouped_matmul(X, experts, offsets=torch.tensor([0, 4]), out=out),
    ):
        out = torch.ones(4, 32, requires_grad=True) * 1
        loss = (out * out).sum()  # keeps out for the way back
        write(out.detach())
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            loss.backward()
    t = ms.quantize(X)
    arrays = [t.codes, t.scales, torch.empty(4, 64), torch.empty(4, 64, dtype=torch.uint8)]
    before = [a._version for a in arrays]
    ms.quantize(X, out=t)
    t.dequantize(out=arrays[2])
    ms.to_containers(t.codes, out=arrays[3])
    q = torch.randn(1, 2, 2, 32)
    arrays.append(torch.empty_like(q))
    ms.attention(q, q, q, out=arrays[4])
    assert all(a._version > b for a, b in zip(arrays, [*before, 0]))
    cache = ms.KvCache.allocate(1, 2, 32, 16, recent=4, like=X)
    arrays = [cache.memory, cache.lengths, cache.recent_k, cache.recent_v]
    before = [a._version for a in arrays]
    cache.append(q, q)
    assert all(a._version > b for a, b in zip(arrays, before))
    with torch.inference_mode():  # whose tensors have no counter
        ms.matmul(X, w, out=torch.empty(4, 32))
    assert X._version == 0


def test_the_negative_bit_is_refused_and_the_operators_resolve_it():
    negated = torch._neg_view(X.clone())
    w = ms.quantize(torch.randn(32, 64))
    for call in (
        lambda: ms.quantize(negated),
        lambda: ms.matmul(negated, w),
        lambda: ms.matmul(X, w, bias=torch._neg_view(torch.ones(32))),
        lambda: w.dequantize(out=torch._neg_view(torch.empty(32, 64))),
        lambda: ms.quantize((torch.ones(2, 64) * 1j).conj().imag),
    ):
        with pytest.raises(ValueError, match="resolve_neg"):
            call()
    assert torch.equal(ms.quantize(negated.resolve_neg()).codes, ms.quantize(-X).codes)
    assert torch.equal(torch.ops.microscale.quantize(negated)[0], ms.quantize(-X).codes)
    with pytest.raises(ValueError, match="x: .* complex64"):
        ms.quantize((X * 1j).conj())


class Old(torch.Tensor):
    """A tensor as torch before 2.10 has it."""

    __dlpack_c_exchange_api__ = None


def test_torch_without_the_exchange_api():
    old = X.as_subclass(Old)
    t = ms.quantize(old)
    assert torch.equal(t.codes, ms.quantize(X).codes) and t.scales.dtype == torch.float8_e4m3fn
    out = torch.empty(4, 64).as_subclass(Old)
    assert torch.equal(t.dequantize(out=out), t.dequantize())


def test_caches_of_tensors_are_pickled_and_copied():
    cache = ms.KvCache.allocate(1, 2, 32, 16, recent=4, like=X)
    q = torch.randn(1, 2, 2, 32)
    cache.append(q, q)
    wanted = ms.attention(q, cache=cache)
    keys, values = (torch.zeros(1, 16, 2, 32, dtype=torch.float8_e4m3fn) for _ in range(2))
    lengths = torch.zeros(1, dtype=torch.int32)
    parts = ms.KvCache.from_parts(
        keys, None, values, None, format="fp8", lengths=lengths, global_scales=torch.ones(2)
    )
    parts.append(q, q)
    for one, result in ((cache, wanted), (parts, ms.attention(q, cache=parts))):
        for same in (pickle.loads(pickle.dumps(one)), copy.deepcopy(one)):
            assert torch.equal(ms.attention(q, cache=same), result)
            assert isinstance(same.lengths, torch.Tensor) and same.lengths is not one.lengths


def test_ten_thousand_products_leak_nothing():
    def resident():
        with open("/proc/self/statm") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGESIZE")

    x, packed = X[:1].bfloat16(), ms.pack_weights(ms.quantize(torch.randn(32, 64)))
    with ms.context(threads=1):
        for _ in range(500):
            ms.matmul(x, packed)
        gc.collect()
        references, memory = sys.getrefcount(x), resident()
        for _ in range(10_000):
            ms.matmul(x, packed)
        gc.collect()
    assert abs(sys.getrefcount(x) - references) < 10 and resident() - memory < 2_000_000
