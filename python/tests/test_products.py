"""matmul, gated_matmul, grouped_matmul, packed weights: against FP64 on the dequantized operands."""

import pickle

import numpy as np
import pytest

import microscale as ms

RNG = np.random.default_rng(7)


def normal(*shape):
    return RNG.standard_normal(shape).astype(np.float32)


def exact(a, b):
    a, b = (t.dequantize() if isinstance(t, ms.BlockTensor) else t for t in (a, b))
    return a.astype(np.float64) @ np.swapaxes(b.astype(np.float64), -1, -2)


def close(found, wanted, k, factor=1.0):
    """Within the rounding of k sums of FP32 and, of narrow results, of the result."""
    bound = factor * k * 2.0**-23 * np.abs(wanted).max() + np.abs(wanted) * 2.0**-8 * (
        found.dtype != np.float32
    )
    assert np.all(np.abs(found.astype(np.float64) - wanted) <= bound)


@pytest.mark.parametrize("format", ["nvfp4", "mxfp4", "mxfp8"])
@pytest.mark.parametrize("packed", [False, True])
def test_products_of_dense_rows(format, packed):
    x, w = normal(5, 96), ms.quantize(normal(40, 96), format)
    weights = ms.pack_weights(w) if packed else w
    y = ms.matmul(x, weights)
    assert y.shape == (5, 40) and y.dtype == np.float32
    close(y, exact(x, w), 96)
    assert np.array_equal(y, ms.matmul(x, w))


def test_bias_alpha_out_and_leading_axes():
    x, w, bias = normal(2, 3, 64), ms.quantize(normal(32, 64)), normal(32)
    out = np.empty((2, 3, 32), np.float32)
    assert ms.matmul(x, w, bias=bias, alpha=0.5, out=out) is out
    close(out, 0.5 * exact(x, w) + bias, 64)
    assert ms.matmul(x, w, out_dtype=np.float16).dtype == np.float16


def test_both_operands_in_blocks_and_a_batch():
    a, b = ms.quantize(normal(3, 4, 64), "mxfp4"), ms.quantize(normal(3, 32, 64), "mxfp4")
    y = ms.matmul(a, b, out_dtype="f32")
    assert y.shape == (3, 4, 32)
    close(y, exact(a, b), 64)
    assert np.array_equal(y, ms.matmul(a, ms.pack_weights(b), out_dtype="f32"))


def test_a_result_in_blocks():
    x, w = normal(4, 64), ms.quantize(normal(32, 64))
    t = ms.matmul(x, w, out_format="mxfp8")
    assert isinstance(t, ms.BlockTensor) and t.shape == (4, 32)
    assert np.array_equal(t.dequantize(), ms.quantize(ms.matmul(x, w), "mxfp8").dequantize())
    again = ms.matmul(2 * x, w, out=t)
    assert again is t and np.array_equal(
        t.dequantize(), ms.quantize(ms.matmul(2 * x, w), "mxfp8").dequantize()
    )
    with pytest.raises(ValueError, match="global scale"):
        ms.matmul(x, w, out_format="nvfp4")
    assert ms.matmul(x, w, out_format="nvfp4", out_global_scale=0.25).global_scale == 0.25


@pytest.mark.parametrize("activation", ["silu", "gelu_tanh"])
def test_gated_products(activation):
    x, gate, up = normal(4, 64), ms.quantize(normal(32, 64)), ms.quantize(normal(32, 64))
    g, u = exact(x, gate), exact(x, up)
    act = g / (1 + np.exp(-g))
    if activation == "gelu_tanh":
        act = 0.5 * g * (1 + np.tanh(np.sqrt(2 / np.pi) * (g + 0.044715 * g**3)))
    y = ms.gated_matmul(x, gate, up, activation=activation)
    close(y, act * u, 64, factor=20)
    assert np.array_equal(y, ms.gated_matmul(x, ms.pack_gated_weights(gate, up), activation=activation))


def test_grouped_products_by_offsets_and_counts():
    experts, x = ms.quantize(normal(3, 32, 64)), normal(12, 64)
    weights = normal(12)
    offsets = np.array([0, 5, 5, 12], np.int64)
    y = ms.grouped_matmul(x, experts, offsets=offsets, row_weights=weights)
    dense = experts.dequantize()
    for e, rows in enumerate((slice(0, 5), slice(5, 5), slice(5, 12))):
        (
            close(y[rows], weights[rows, None] * exact(x[rows], dense[e]), 64)
            if rows.start < rows.stop
            else None
        )
    counts = np.array([2, 0, 4], np.int32)
    out = np.zeros((12, 32), np.float32)
    ms.grouped_matmul(x, ms.pack_weights(experts), counts=counts, capacity=4, out=out)
    close(out[8:12], exact(x[8:12], dense[2]), 64)
    assert not out[2:8].any()


def dirty(make):
    """What a call returns where memory that numpy hands out again is full of NaN."""
    for _ in range(20):
        full = [np.full((64, 64), np.nan, np.float32) for _ in range(4)]
        del full
        yield make()


def test_rows_of_no_expert_are_zeros_in_new_results():
    experts, x = ms.quantize(normal(2, 64, 64)), normal(64, 64)
    offsets = np.array([3, 10, 60], np.int32)
    for y in dirty(lambda: ms.grouped_matmul(x, experts, offsets=offsets)):
        assert not y[:3].any() and not y[60:].any() and y[3:60].any(-1).all()
    for t in dirty(lambda: ms.grouped_matmul(x, experts, offsets=offsets, out_format="mxfp4")):
        assert not t.codes[:3].any() and not t.scales[60:].any()
    for layout in ("row_major", "tiled_128x4"):
        for t in dirty(lambda: ms.grouped_quantize(x, offsets=offsets, format="mxfp8", layout=layout)):
            assert not t.codes[:3].any() and not t.codes[60:].any()
            assert layout != "row_major" or not t.scales[60:].any()
    out = np.full((64, 64), 7, np.float32)
    ms.grouped_matmul(x, experts, offsets=offsets, out=out)
    assert (out[:3] == 7).all() and (out[60:] == 7).all()


def test_grouped_quantize_feeds_grouped_products():
    experts, x = ms.quantize(normal(2, 32, 64), "mxfp4"), normal(9, 64)
    offsets = np.array([0, 4, 9], np.int32)
    a = ms.grouped_quantize(x, offsets=offsets, format="mxfp4")
    assert np.array_equal(a.codes, ms.quantize(x, "mxfp4").codes)
    y = ms.grouped_matmul(a, experts, offsets=offsets, out_dtype="f32")
    close(y[:4], exact(a.dequantize()[:4], experts.dequantize()[0]), 64)


def test_producers_quantize_what_they_compute():
    gate, up = normal(4, 64), normal(4, 64)
    silu = gate.astype(np.float64) / (1 + np.exp(-gate.astype(np.float64))) * up
    t = ms.silu_mul_quantize(gate, up, format="mxfp8")
    assert np.abs(t.dequantize() - silu).max() <= np.abs(silu).max() / 16
    weight, residual = normal(64), normal(4, 64)
    t, total = ms.rms_norm_quantize(gate, weight, residual=residual, format="mxfp8", eps=1e-5)
    assert np.array_equal(total, gate + residual)
    normed = total / np.sqrt((total.astype(np.float64) ** 2).mean(-1, keepdims=True) + 1e-5) * weight
    assert np.abs(t.dequantize() - normed).max() <= np.abs(normed).max() / 16
    assert ms.rms_norm_quantize(gate, format="mxfp8").shape == (4, 64)
    signs = np.ones(16)
    signs[3] = -1
    matrix = np.array([[(-1.0) ** bin(i & j).count("1") for j in range(16)] for i in range(16)]) / 4
    turned = (gate.reshape(-1, 16) * signs @ matrix).reshape(4, 64)
    t = ms.hadamard_quantize(gate, order=16, negated=1 << 3, format="mxfp8")
    assert np.abs(t.dequantize() - turned).max() <= np.abs(turned).max() / 16
    with pytest.raises(ValueError, match="global_scale: NVFP4 needs one"):
        ms.silu_mul_quantize(gate, up)


@pytest.mark.parametrize("kind", ["blocks", "packed", "gated"])
def test_weights_survive_pickling(kind):
    x, w = normal(3, 64), ms.quantize(normal(32, 64))
    weights = {
        "blocks": lambda: w,
        "packed": lambda: ms.pack_weights(w),
        "gated": lambda: ms.pack_gated_weights(w, w),
    }
    before = weights[kind]()
    after = pickle.loads(pickle.dumps(before))
    assert repr(after) == repr(before) and after.nbytes == before.nbytes
    product = ms.gated_matmul if kind == "gated" else ms.matmul
    assert np.array_equal(product(x, after), product(x, before))
