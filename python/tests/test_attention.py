"""attention and KvCache: against a softmax in FP64 over what the cache's codes stand for."""

import copy
import pickle

import numpy as np
import pytest

import microscale as ms

RNG = np.random.default_rng(3)


def normal(*shape):
    return RNG.standard_normal(shape).astype(np.float32)


def softmax_attention(q, k, v, causal=False, window=0, sinks=None):
    """One sequence: q (tokens, heads, d), k and v (tokens, kv_heads, d)."""
    group = q.shape[1] // k.shape[1]
    out = np.empty_like(q, np.float64)
    places = np.arange(k.shape[0])[None] - (np.arange(q.shape[0]) + k.shape[0] - q.shape[0])[:, None]
    seen = np.ones_like(places, bool) if not causal else places <= 0
    seen &= (places > -window) if window else True
    for h in range(q.shape[1]):
        s = q[:, h].astype(np.float64) @ k[:, h // group].T.astype(np.float64) / np.sqrt(q.shape[2])
        p = np.where(seen, np.exp(s), 0)
        total = p.sum(-1, keepdims=True) + (0 if sinks is None else np.exp(sinks[h]))
        out[:, h] = p / total @ v[:, h // group]
    return out


def through(rows, format):
    """The values that a cache's codes stand for."""
    return ms.dequantize(ms.quantize(rows, format, global_scale=1.0 if format == "nvfp4" else None))


def test_dense_attention():
    q, k, v = normal(2, 3, 4, 64), normal(2, 7, 2, 64), normal(2, 7, 2, 64)
    o, lse = ms.attention(q, k, v, causal=True, return_lse=True)
    assert o.shape == q.shape and lse.shape == (2, 3, 4)
    for b in range(2):
        np.testing.assert_allclose(o[b], softmax_attention(q[b], k[b], v[b], causal=True), atol=2e-3)


def test_options_reach_the_library():
    q, k, v, sinks = normal(1, 4, 2, 32), normal(1, 9, 2, 32), normal(1, 9, 2, 32), normal(2)
    found = ms.attention(q, k, v, causal=True, window=3, sinks=sinks)[0]
    np.testing.assert_allclose(found, softmax_attention(q[0], k[0], v[0], True, 3, sinks), atol=2e-3)
    turned = ms.attention(
        q.transpose(0, 2, 1, 3).copy().transpose(0, 2, 1, 3), k, v, causal=True, window=3, sinks=sinks
    )
    np.testing.assert_array_equal(turned[0], found)


@pytest.mark.parametrize("page_size", [None, 16])
@pytest.mark.parametrize("format", ["nvfp4", "mxfp4", "mxfp8"])
def test_a_cache_holds_what_was_appended(format, page_size):
    cache = ms.KvCache.allocate(2, 2, 64, 40, format=format, page_size=page_size)
    k, v = normal(2, 25, 2, 64), normal(2, 25, 2, 64)
    cache.append(k[:, :20], v[:, :20])
    cache.append(k[:, 20:], v[:, 20:])
    assert cache.lengths.tolist() == [25, 25] and cache.batch == 2
    q = normal(2, 1, 4, 64)
    o = ms.attention(q, cache=cache)
    kept = "mxfp8_e4m3" if format == "mxfp8" else format
    for b in range(2):
        wanted = softmax_attention(q[b], through(k[b], kept), through(v[b], kept))
        np.testing.assert_allclose(o[b], wanted, atol=5e-3)


def test_recent_tokens_stay_in_bfloat16():
    pytest.importorskip("ml_dtypes")
    exact = ms.KvCache.allocate(1, 1, 64, 16, recent=16)
    rough = ms.KvCache.allocate(1, 1, 64, 16)
    k, v, q = normal(1, 9, 1, 64), normal(1, 9, 1, 64), normal(1, 1, 1, 64)
    wanted = softmax_attention(q[0], k[0], v[0])
    error = []
    for cache in (exact, rough):
        cache.append(k, v)
        error.append(np.abs(ms.attention(q, cache=cache)[0] - wanted).max())
    assert error[0] < 0.01 < error[1]


def test_sequences_of_different_lengths():
    cache = ms.KvCache.allocate(2, 1, 32, 16, format="mxfp8")
    k, v = normal(7, 1, 32), normal(7, 1, 32)
    cache.append(k, v, offsets=np.array([0, 5, 7], np.int32))
    assert cache.lengths.tolist() == [5, 2]
    q = normal(2, 1, 1, 32)
    o = ms.attention(q, cache=cache)
    np.testing.assert_allclose(
        o[1], softmax_attention(q[1], through(k[5:], "mxfp8"), through(v[5:], "mxfp8")), atol=5e-3
    )


def test_rope_turns_keys():
    cos, sin = ms.rope_tables(10000.0, 16, 64)
    angle = np.arange(16)[:, None] * 10000.0 ** (-2 * np.arange(32) / 64)
    np.testing.assert_allclose(cos, np.cos(angle), atol=1e-6)
    np.testing.assert_allclose(sin, np.sin(angle), atol=1e-6)
    k, v = normal(1, 6, 1, 64), normal(1, 6, 1, 64)
    turned, plain = (ms.KvCache.allocate(1, 1, 64, 16, format="mxfp8") for _ in range(2))
    turned.append(k, v, rope=(cos, sin))
    low, high = k[..., :32], k[..., 32:]
    c, s = cos[:6, None], sin[:6, None]
    plain.append(np.concatenate([low * c - high * s, high * c + low * s], -1).astype(np.float32), v)
    q = normal(1, 1, 1, 64)
    np.testing.assert_allclose(ms.attention(q, cache=turned), ms.attention(q, cache=plain), atol=0.02)


def test_parts_at_strides_are_a_cache():
    records = ms.KvCache.allocate(2, 2, 64, 16, format="mxfp4")
    k, v, q = normal(2, 5, 2, 64), normal(2, 5, 2, 64), normal(2, 1, 2, 64)
    records.append(k, v)
    codes, scales = np.zeros((2, 2, 2, 16, 32), np.uint8), np.zeros(
        (2, 2, 2, 16, 2), np.uint8
    )  # k or v, page, head
    parts = [a.transpose(0, 1, 3, 2, 4)[i] for i in range(2) for a in (codes, scales)]
    cache = ms.KvCache.from_parts(*parts, format="mxfp4", lengths=np.zeros(2, np.int32))
    cache.append(k, v)
    np.testing.assert_array_equal(ms.attention(q, cache=cache), ms.attention(q, cache=records))
    assert cache.memory is None and records.memory.nbytes == 2 * ms.kv_page_bytes(
        "mxfp4", kv_heads=2, head_dim=64, page_size=16
    )


def test_block_tensors_as_keys_and_values():
    q, k, v = normal(1, 2, 2, 64), normal(1, 8, 2, 64), normal(1, 8, 2, 64)
    kq, vq = ms.quantize(k), ms.quantize(v)
    o = ms.attention(q, kq, vq)
    np.testing.assert_allclose(
        o[0], softmax_attention(q[0], kq.dequantize()[0], vq.dequantize()[0]), atol=5e-3
    )


def test_wrong_combinations_are_refused():
    q, k = normal(1, 1, 1, 32), normal(1, 4, 1, 32)
    cache = ms.KvCache.allocate(1, 1, 32, 16)
    with pytest.raises(ValueError, match="k, v, cache"):
        ms.attention(q, k, k, cache=cache)
    with pytest.raises(ValueError, match="k, v, cache"):
        ms.attention(q, k)
    with pytest.raises(TypeError, match="cache: expected a KvCache"):
        ms.attention(q, cache=k)
    with pytest.raises(ValueError, match="accuracy"):
        ms.attention(q, k, k, accuracy="best")
    with pytest.raises(ValueError, match="format: there is no 'int4'"):
        ms.KvCache.allocate(1, 1, 32, 16, format="int4")
    with pytest.raises(ValueError, match="lengths"):
        cache.append(np.zeros((1, 17, 1, 32), np.float32), np.zeros((1, 17, 1, 32), np.float32))


def test_queries_of_no_sequence_are_zeros():
    q, k = normal(64, 2, 32), normal(9, 2, 32)
    words = {"q_offsets": np.array([2, 5], np.int32), "kv_offsets": np.array([0, 9], np.int32)}
    for _ in range(20):
        full = [np.full((64, 2, 32), np.nan, np.float32) for _ in range(4)]
        del full
        o, lse = ms.attention(q, k, k, return_lse=True, **words)
        assert not o[:2].any() and not o[5:].any() and not lse[5:].any() and o[2:5].any()


@pytest.mark.parametrize("page_size", [None, 16])
@pytest.mark.parametrize("format", ["nvfp4", "mxfp8", "fp8"])
def test_caches_are_pickled_and_copied(format, page_size):
    cache = ms.KvCache.allocate(2, 1, 64, 40, format=format, page_size=page_size, recent=4, hadamard=16)
    k, q = normal(2, 20, 1, 64), normal(2, 1, 2, 64)
    cache.append(k, k)
    wanted = ms.attention(q, cache=cache)
    for made in (pickle.loads(pickle.dumps(cache)), copy.deepcopy(cache)):
        np.testing.assert_array_equal(ms.attention(q, cache=made), wanted)
        made.append(k[:, :3], k[:, :3])  # has memory of its own
        assert made.lengths.tolist() == [23, 23] and made.page_size == cache.page_size
        assert (made.hadamard, made.format, repr(made)) == (16, format, repr(cache))
    assert copy.copy(cache).lengths is cache.lengths
    np.testing.assert_array_equal(ms.attention(q, cache=cache), wanted)


def test_caches_of_parts_are_pickled():
    codes, scales = np.zeros((2, 16, 1, 32), np.uint8), np.zeros((2, 16, 1, 4), np.uint8)
    lengths = np.zeros(2, np.int32)
    cache = ms.KvCache.from_parts(
        codes, scales, codes.copy(), scales.copy(), format="nvfp4", lengths=lengths,
        global_scales=np.ones(2, np.float32), k_mean=np.full((1, 64), 0.5, np.float32),
    )  # fmt: skip
    cache.append(normal(2, 3, 1, 64), normal(2, 3, 1, 64))
    q = normal(2, 1, 1, 64)
    made = pickle.loads(pickle.dumps(cache))
    np.testing.assert_array_equal(ms.attention(q, cache=made), ms.attention(q, cache=cache))


@pytest.mark.parametrize(
    ("change", "words"),
    [
        *(({name: -1}, f"{name}: -1; pass 1") for name in ("batch", "kv_heads", "head_dim", "max_tokens")),
        *(({name: 0}, f"{name}: 0; pass 1") for name in ("batch", "kv_heads", "head_dim", "max_tokens")),
        *(({"page_size": value}, "page_size: .*16, 32 or 64") for value in (0, 7, 128)),
        *(({name: 10**30}, name) for name in ("batch", "kv_heads", "max_tokens", "page_size", "first")),
        ({"max_tokens": 2**61, "batch": 1000}, "max_tokens: .* fits in memory"),
        ({"recent": 2**60}, "recent: .* fits in memory"),
        ({"first": -1}, "first: -1"),
        ({"head_dim": 48}, "head_dim: 48; pass a multiple of 32"),
        ({"hadamard": 7}, "hadamard: 7"),
        ({"pages": 3}, "pages: only a paged cache"),
        ({"page_size": 16, "pages": 3}, "pages: 3; .* have 4"),
        ({"k_global_scale": -1.0}, "k_global_scale: -1.0"),
        ({"v_global_scale": float("nan")}, "v_global_scale: nan"),
        ({"format": "int4"}, "format: there is no 'int4'"),
    ],
)
def test_sizes_of_a_cache_that_are_refused(change, words):
    sizes = {"batch": 2, "kv_heads": 1, "head_dim": 64, "max_tokens": 32, **change}
    with pytest.raises(ValueError, match=words):
        ms.KvCache.allocate(**sizes)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"max_tokens": 1.5}, "max_tokens: expected a whole number, got float"),
        ({"page_size": "16"}, "page_size: expected a whole number, got str"),
        ({"like": [1]}, "like: expected an array .* got list"),
    ],
)
def test_what_is_no_size_of_a_cache(change, words):
    with pytest.raises(TypeError, match=words):
        ms.KvCache.allocate(**{"batch": 2, "kv_heads": 1, "head_dim": 64, "max_tokens": 32, **change})


def test_max_tokens_are_rounded_up_to_pages():
    assert ms.KvCache.allocate(1, 1, 64, 20).page_size == 32
    paged = ms.KvCache.allocate(2, 1, 64, 20, page_size=16, pages=9)
    assert paged.page_table.tolist() == [[0, 1], [2, 3]]
    page = ms.kv_page_bytes("nvfp4", kv_heads=1, head_dim=64, page_size=16)
    assert paged.memory.size == 9 * page
