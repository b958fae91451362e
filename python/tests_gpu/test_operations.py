"""Every operation on a GPU, by DeviceArray; in CI on the emulated one (MICROSCALE_BACKEND=emulator-sm90).

The bytes of the CPU where bytes are promised, and products and attention within a bound."""

import os

import numpy as np
import pytest

import microscale as ms

RNG = np.random.default_rng(5)


def normal(*shape, dtype=np.float16):
    return RNG.standard_normal(shape).astype(dtype)


def put(array):
    return ms.DeviceArray.from_host(array)


def same(found, wanted):
    assert found.device == "cuda:0" and found.shape == wanted.shape
    np.testing.assert_array_equal(found.codes.numpy(), wanted.codes)
    np.testing.assert_array_equal(found.scales.numpy(), wanted.scales)
    if wanted.global_scale is not None:
        assert found.global_scale.numpy()[0] == np.float32(wanted.global_scale)


def test_arrays_go_there_and_back():
    x = normal(3, 5)
    g = put(x)
    assert (g.shape, g.dtype, g.device, g.nbytes) == ((3, 5), "float16", "cuda:0", 30)
    np.testing.assert_array_equal(g.numpy(), x)
    assert ms.DeviceArray.empty((2, 3), "float32").numpy().shape == (2, 3)
    if os.environ.get("MICROSCALE_BACKEND", "").startswith("emulator-"):
        with pytest.raises(NotImplementedError, match="emulated GPU"):
            g.__dlpack__()
    assert g.__dlpack_device__() == (2, 0)


@pytest.mark.parametrize(
    "dtype",
    "bool int8 uint8 int16 uint16 int32 uint32 int64 uint64 float16 float32 float64 complex64".split(),
)
def test_arrays_of_every_type_come_back(dtype):
    x = np.arange(1, 7).astype(dtype).reshape(2, 3)
    back = put(x).numpy()
    assert back.dtype == x.dtype
    np.testing.assert_array_equal(back, x)


def test_arrays_are_written_from_the_host():
    g = put(np.zeros((2, 3), np.int32))
    g.copy_from(np.arange(6, dtype=np.int32).reshape(2, 3))
    np.testing.assert_array_equal(g.numpy(), [[0, 1, 2], [3, 4, 5]])
    for wrong in (np.zeros((3, 2), np.int32), np.zeros((2, 3), np.float32), np.zeros((3, 2), np.int32).T):
        with pytest.raises(ValueError, match="^array: "):
            g.copy_from(wrong)
    with pytest.raises(TypeError, match=r"numpy\(\) copies it"):
        np.asarray(g)


def test_global_scales_go_there_and_back():
    t = ms.quantize(normal(16, 64))
    for scale in (1, np.float32(0.5), np.array([0.5], np.float32)):
        there = ms.BlockTensor.from_parts(t.codes, t.scales, scale, format="nvfp4").to("cuda")
        assert there.global_scale.numpy().tolist() == [float(np.reshape(scale, -1)[0])]
    with pytest.raises(ValueError, match="^tensor_amax: .* global_scale"):
        ms.quantize(put(normal(16, 64)), tensor_amax=4.0)
    with pytest.raises(TypeError, match="^stream: "):
        ms.quantize(put(normal(16, 64)), stream=-1)


@pytest.mark.parametrize("format", ["nvfp4", "mxfp4", "mxfp8_e4m3"])
def test_quantizers_give_the_cpus_bytes(format):
    x = normal(8, 128)
    same(ms.quantize(put(x), format), ms.quantize(x, format))
    same(ms.quantize(put(x), format, layout="tiled_128x4"), ms.quantize(x, format, layout="tiled_128x4"))
    square = normal(64, 64)
    for found, wanted in zip(ms.quantize_both(put(square), format), ms.quantize_both(square, format)):
        same(found, wanted)
    t = ms.quantize(x, format)
    np.testing.assert_array_equal(t.to("cuda:0").dequantize("f32").numpy(), t.dequantize())
    same(ms.repack_scales(t.to("cuda:0"), "tiled_128x4"), ms.repack_scales(t, "tiled_128x4"))


def test_producers_give_the_cpus_bytes():
    gate, up, weight = normal(4, 64), normal(4, 64), normal(64)
    scale = np.array([0.01], np.float32)
    same(
        ms.silu_mul_quantize(put(gate), put(up), global_scale=put(scale)),
        ms.silu_mul_quantize(gate, up, global_scale=0.01),
    )
    found, total = ms.rms_norm_quantize(put(gate), put(weight), residual=put(up), format="mxfp4")
    wanted, wanted_total = ms.rms_norm_quantize(gate, weight, residual=up, format="mxfp4")
    same(found, wanted)
    np.testing.assert_array_equal(total.numpy(), wanted_total)
    same(
        ms.hadamard_quantize(put(gate), order=16, format="mxfp4"),
        ms.hadamard_quantize(gate, order=16, format="mxfp4"),
    )
    with pytest.raises(ValueError, match="global_scale: a Python number cannot be read by a GPU"):
        ms.silu_mul_quantize(put(gate), put(up), global_scale=0.01)


@pytest.mark.parametrize("rows", [1, 5])
def test_products(rows):
    x, w = normal(rows, 128), ms.quantize(normal(64, 128, dtype=np.float32))
    wanted = x.astype(np.float64) @ w.dequantize().T.astype(np.float64)
    bound = np.abs(wanted).max() * 2.0**-10
    there = w.to("cuda:0")
    for weights in (there, ms.pack_weights(there)):
        y = ms.matmul(put(x), weights)
        assert y.dtype == "float16" and np.abs(y.numpy() - wanted).max() <= bound
    out = put(np.zeros((rows, 64), np.float16))
    assert ms.matmul(put(x), there, out=out, bias=put(np.ones(64, np.float16))) is out
    assert np.abs(out.numpy() - wanted - 1).max() <= 2 * bound


def test_rows_of_no_expert_are_zeros_in_new_results():
    x, w = normal(16, 128), ms.quantize(normal(2, 64, 128, dtype=np.float32), "mxfp4").to("cuda:0")
    offsets = put(np.array([2, 5, 9], np.int32))
    y = ms.grouped_matmul(put(x), w, offsets=offsets).numpy()
    assert not y[:2].any() and not y[9:].any() and y[2:9].any(-1).all()
    t = ms.grouped_quantize(put(x), offsets=offsets, format="mxfp8")
    assert not t.codes.numpy()[9:].any() and not t.scales.numpy()[:2].any()


def test_arrays_without_elements():
    none, w = np.zeros((0, 128), np.float16), ms.quantize(normal(64, 128)).to("cuda:0")
    for format in ms.formats():
        assert ms.quantize(put(none), format).dequantize("f32").shape == (0, 128)
    one = put(np.ones(1, np.float32))
    for y in (ms.matmul(put(none), w), ms.matmul(put(none), ms.pack_weights(w))):
        assert y.shape == (0, 64)
    assert ms.gated_matmul(put(none), ms.pack_gated_weights(w, w)).shape == (0, 64)
    assert ms.silu_mul_quantize(put(none), put(none), global_scale=one).shape == (0, 128)
    assert ms.rms_norm_quantize(put(none), format="mxfp4").shape == (0, 128)
    experts = ms.quantize(normal(2, 64, 128), "mxfp4").to("cuda:0")
    offsets = put(np.zeros(3, np.int32))
    assert ms.grouped_matmul(put(none), experts, offsets=offsets).shape == (0, 64)
    q, k = normal(2, 3, 2, 64), normal(2, 5, 1, 64)
    for queries, keys in ((q[:, :0], k), (q[:0], k[:0])):
        queries, keys = (put(np.ascontiguousarray(x)) for x in (queries, keys))
        assert ms.attention(queries, keys, keys).shape == queries.shape
    nothing = ms.attention(put(q), *(put(np.ascontiguousarray(k[:, :0])) for _ in range(2)))
    assert not nothing.numpy().any()


def test_a_cache_and_attention():
    k, v, q = normal(2, 20, 1, 64), normal(2, 20, 1, 64), normal(2, 1, 2, 64)
    there = ms.KvCache.allocate(2, 1, 64, 32, page_size=16, device="cuda:0")
    with pytest.raises(ValueError, match="advance=False"):
        there.append(put(k), put(v))
    lengths = np.full(2, 20, np.int32)
    there = ms.KvCache.from_memory(
        there.memory,
        format="nvfp4",
        kv_heads=1,
        head_dim=64,
        page_size=16,
        lengths=put(lengths),
        page_table=there.page_table,
        global_scales=there.global_scales,
    )
    there.append(put(k), put(v), advance=False)
    here = ms.KvCache.allocate(2, 1, 64, 32, page_size=16)
    here.append(k, v)
    np.testing.assert_array_equal(there.memory.numpy(), here.memory)
    np.testing.assert_allclose(
        ms.attention(put(q), cache=there).numpy(), ms.attention(q, cache=here), atol=5e-3
    )


@pytest.mark.parametrize(("tokens", "keys"), [(1, 4), (3, 70), (16, 16)])
def test_attention_of_dense_arrays(tokens, keys):
    q, k, v = (normal(2, count, heads, 64) for count, heads in ((tokens, 4), (keys, 2), (keys, 2)))
    found = ms.attention(put(q), put(k), put(v), causal=True).numpy().astype(np.float32)
    wanted = ms.attention(*(array.astype(np.float32) for array in (q, k, v)), causal=True)
    np.testing.assert_allclose(found, wanted, atol=4e-3)


def test_arguments_of_two_memories_are_refused():
    x, w = normal(2, 64), ms.quantize(normal(16, 64))
    with pytest.raises(ValueError, match="b: the array is on the CPU, a is on GPU 0"):
        ms.matmul(put(x), w)
    with pytest.raises(ValueError, match="out: the array is on the CPU"):
        ms.matmul(put(x), w.to("cuda:0"), out=np.zeros((2, 16), np.float16))


def test_the_gpus_facts():
    assert ms.cuda.device_count() >= 1 and ms.cuda.current_device() == 0
    assert "(sm_" in ms.cuda.device_name() and ms.cuda.is_capturing() is False
    ms.cuda.synchronize()
