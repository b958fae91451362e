"""Arrays without elements: every operation takes them and returns what has no elements, as numpy does."""

import numpy as np
import pytest

import microscale as ms

ROWS = np.zeros((0, 64), np.float32)  # no rows
LINES = np.zeros((4, 0), np.float32)  # rows of nothing
W = ms.quantize(np.ones((32, 64), np.float32))


@pytest.mark.parametrize("format", ms.formats())
@pytest.mark.parametrize("layout", ["row_major", "tiled_128x4"])
@pytest.mark.parametrize("x", [ROWS, LINES, np.zeros((2, 0, 64), np.float32)], ids=lambda x: str(x.shape))
def test_quantizers(format, layout, x):
    t = ms.quantize(x, format, layout=layout)
    assert t.shape == x.shape and t.dequantize().shape == x.shape
    assert ms.repack_scales(t, "row_major").shape == x.shape
    assert ms.to_containers(t.codes).size == 0


def test_producers():
    for made in (
        ms.silu_mul_quantize(ROWS, ROWS, global_scale=1.0),
        ms.rms_norm_quantize(ROWS, global_scale=1.0),
        ms.hadamard_quantize(ROWS, global_scale=1.0),
        ms.rms_norm_quantize(ROWS, residual=ROWS, global_scale=1.0)[0],
        ms.grouped_quantize(ROWS, offsets=np.array([0, 0]), global_scale=1.0),
        *ms.quantize_both(ROWS),
    ):
        assert made.shape == (0, 64)
    assert ms.abs_max(ROWS) == 0


def test_products():
    packed, gated = ms.pack_weights(W), ms.pack_gated_weights(W, W)
    for y in (ms.matmul(ROWS, W), ms.matmul(ROWS, packed), ms.matmul(ms.quantize(ROWS), W)):
        assert y.shape == (0, 32)
    assert ms.gated_matmul(ROWS, gated).shape == ms.gated_matmul(ROWS, W, W).shape == (0, 32)
    assert ms.matmul(ROWS, W, out_format="mxfp8").shape == (0, 32)
    x, none = np.ones((4, 64), np.float32), ms.quantize(ROWS)
    assert ms.matmul(x, none).shape == ms.matmul(x, ms.pack_weights(none)).shape == (4, 0)
    of_nothing = ms.matmul(LINES, ms.quantize(np.zeros((8, 0), np.float32)), bias=np.arange(8, dtype="f4"))
    assert of_nothing.tolist() == [list(range(8))] * 4  # a sum of nothing, and the bias
    experts = ms.quantize(np.ones((3, 32, 64), np.float32))
    assert ms.grouped_matmul(ROWS, experts, offsets=np.zeros(4, np.int32)).shape == (0, 32)
    batch = ms.quantize(np.ones((0, 32, 64), np.float32))
    assert ms.matmul(np.ones((0, 2, 64), np.float32), batch).shape == (0, 2, 32)


def test_attention():
    q, kv = np.ones((2, 3, 4, 64), np.float32), np.ones((2, 5, 2, 64), np.float32)
    for queries, keys in ((q[:, :0], kv), (q[:0], kv[:0]), (q[:0, :0], kv[:0, :0])):
        o, lse = ms.attention(queries, keys, keys, return_lse=True, causal=True)
        assert o.shape == queries.shape and lse.shape == queries.shape[:3]
        out = np.empty_like(queries)
        assert ms.attention(queries, keys, keys, out=out) is out
    assert not ms.attention(q, kv[:, :0], kv[:, :0]).any()  # of no keys: zeros
    cache = ms.KvCache.allocate(2, 2, 64, 32)
    cache.append(kv[:, :0], kv[:, :0])
    assert not ms.attention(q, cache=cache).any() and ms.attention(q[:, :0], cache=cache).size == 0
    zeros = np.zeros(1, np.int32)
    assert ms.attention(q[0][:0], kv[0][:0], kv[0][:0], q_offsets=zeros, kv_offsets=zeros).size == 0
