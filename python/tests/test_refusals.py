"""Wrong arguments are refused by a sentence that names the argument, and nothing is written."""

import numpy as np
import pytest

import microscale as ms

X = np.zeros((4, 64), np.float32)
T = ms.quantize(X + 1)


def refused(call, kind, *words):
    with pytest.raises(kind) as error:
        call()
    for word in words:
        assert word in str(error.value), str(error.value)
    return error.value


def read_only(array):
    array = array.copy()
    array.flags.writeable = False
    return array


@pytest.mark.parametrize("x", [None, [[1.0] * 64], "x", 3.0, object()], ids=lambda x: type(x).__name__)
def test_what_is_no_array(x):
    refused(lambda: ms.quantize(x), TypeError, "x: expected an array", type(x).__name__)
    refused(lambda: ms.matmul(x, T), TypeError, "a: expected an array")


@pytest.mark.parametrize("dtype", ["f8", "i4", "u1", ">f4", "c8", "S4", "O"])
def test_types_that_are_not_taken(dtype):
    refused(lambda: ms.quantize(np.zeros((4, 64), dtype)), ValueError, "x: ", "float32")


def test_strides_that_are_not_taken():
    refused(lambda: ms.quantize(np.zeros((4, 128), np.float32)[:, ::2]), ValueError, "x: ", "2 apart")
    refused(lambda: ms.quantize(np.zeros((4, 64), np.float32)[::-1]), ValueError, "x: ", "reversed")
    refused(lambda: ms.quantize(np.broadcast_to(X[0], (4, 64))), ValueError, "x: ", "expanded")
    refused(lambda: ms.quantize(np.zeros((4, 6, 64), np.float32)[:, 1:5]), ValueError, "x: ", "apart")
    refused(lambda: ms.quantize(np.float32(1)), (TypeError, ValueError), "x: ")


def test_shapes_that_do_not_fit():
    refused(lambda: ms.quantize(np.zeros((4, 50), np.float32)), ValueError, "50")
    refused(lambda: ms.matmul(np.zeros((4, 32), np.float32), T), ValueError, "a: ", "k = 64")
    refused(lambda: ms.matmul(X, T, bias=np.zeros(3, np.float32)), ValueError, "bias: ", "4 elements")
    refused(lambda: ms.matmul(X, T, out=np.zeros((4, 5), np.float32)), ValueError, "out: ", "(4, 4)")
    refused(lambda: T.dequantize(out=np.zeros((64, 4), np.float32)), ValueError, "out: ", "(4, 64)")
    refused(lambda: ms.quantize(X, out=ms.quantize(X, "mxfp4")), ValueError, "out: ", "mxfp4")
    refused(
        lambda: ms.quantize(np.zeros((2, 3, 64), np.float32), axis=-2), NotImplementedError, "axis: "
    )
    refused(lambda: ms.quantize(X, axis=5), ValueError, "axis: 5")
    refused(lambda: ms.quantize_both(X[0]), NotImplementedError, "axis: ")
    refused(lambda: ms.quantize(np.zeros((1,) * 9, np.float32)), NotImplementedError, "x: ", "9 axes")


def test_read_only_results():
    refused(lambda: T.dequantize(out=read_only(X)), ValueError, "out: the array is read-only")
    refused(lambda: ms.matmul(X, T, out=read_only(X[:, :4])), ValueError, "out: the array is read-only")
    refused(
        lambda: ms.to_containers(T.codes, out=read_only(T.codes)),
        ValueError,
        "out: the array is read-only",
    )
    assert ms.quantize(read_only(X)).shape == (4, 64)


@pytest.mark.parametrize("value", [None, 3, "x", X], ids=lambda v: type(v).__name__)
def test_block_tensors_are_wanted_by_name(value):
    kind = type(value).__name__
    for name, call in {
        "t": lambda: ms.dequantize(value),
        "b": lambda: ms.pack_weights(value),
        "gate": lambda: ms.pack_gated_weights(value, T),
        "up": lambda: ms.pack_gated_weights(T, value),
    }.items():
        refused(call, TypeError, f"{name}: expected a BlockTensor, got {kind}")
    got = f"got {kind}"
    refused(lambda: ms.repack_scales(value, "row_major"), TypeError, "t: expected a BlockTensor", got)
    refused(lambda: ms.matmul(X, value), TypeError, "b: expected a BlockTensor or PackedWeights", got)
    if value is not None:
        refused(lambda: ms.quantize(X, out=value), TypeError, f"out: expected a BlockTensor, got {kind}")


def test_block_tensors_are_no_arrays_of_numbers():
    for call in (lambda: np.asarray(T), lambda: np.array(T), lambda: np.concatenate([T, T])):
        refused(call, TypeError, "dequantize()")
    for call in (lambda: X @ T, lambda: X * T, lambda: np.add(X, T), lambda: np.sum(T)):
        refused(call, TypeError, "BlockTensor")


def test_words_and_numbers_of_another_kind():
    refused(lambda: ms.quantize(X, backend=3), TypeError, "backend: expected a string, got int")
    refused(lambda: ms.quantize(X, tensor_amax="x"), TypeError, "tensor_amax: expected a number, got str")
    refused(lambda: ms.matmul(X, T, out_format=3), TypeError, "out_format: expected a string, got int")
    q = np.zeros((1, 2, 1, 64), np.float32)
    refused(lambda: ms.attention(q, q, q, scale="x"), TypeError, "scale: expected a number, got str")
    refused(lambda: ms.attention(None), TypeError, "q: expected an array", "NoneType")
    refused(lambda: ms.quantize(X, global_scale="x"), TypeError, "global_scale: expected an array", "str")


def test_words_that_mean_nothing():
    refused(lambda: ms.quantize(X, "int4"), ValueError, "format: there is no 'int4'", "nvfp4")
    refused(
        lambda: ms.quantize(X, scale_rule="best"), ValueError, "scale_rule: there is no 'best'", "search"
    )
    refused(lambda: ms.quantize(X, scale_rule=3), TypeError, "scale_rule: expected a string")
    refused(lambda: ms.quantize(X, rounding="up"), ValueError, "rounding: ")
    refused(lambda: ms.quantize(X, compat="tensorflow"), ValueError, "compat: ", "torchao")
    refused(
        lambda: ms.quantize(X, nan="zero"),
        ValueError,
        "nan: there is no 'zero'; choose one of propagate, drop",
    )
    refused(lambda: ms.quantize(X, layout="tiled"), ValueError, "layout: ", "tiled_128x4")
    refused(lambda: ms.quantize(X, backend="gpu"), ValueError, "backend: there is no 'gpu'", "cuda")
    refused(lambda: T.dequantize("int8"), ValueError, "dtype: no dense type 'int8'")
    refused(lambda: ms.matmul(X, T, out_dtype=np.int32), ValueError, "out_dtype: ", "int32")
    refused(lambda: ms.gated_matmul(X, T, T, activation="relu"), ValueError, "activation: ")


def test_weights_of_another_kind():
    refused(
        lambda: ms.matmul(X, X), TypeError, "b: expected a BlockTensor or PackedWeights, got ndarray"
    )
    refused(lambda: ms.gated_matmul(X, T), ValueError, "up: missing")
    refused(lambda: ms.gated_matmul(X, ms.pack_weights(T)), ValueError, "gate: ")
    refused(lambda: ms.matmul(X, ms.pack_gated_weights(T, T)), ValueError, "b: ", "gated_matmul")
    refused(
        lambda: ms.matmul(X, ms.quantize(np.zeros((64, 64), np.float32), axis=-2)),
        ValueError,
        "b: blocks lie",
    )
    refused(lambda: ms.grouped_matmul(X, T), ValueError, "offsets, counts")
    refused(
        lambda: ms.grouped_matmul(X, T, offsets=np.array([0, 4], np.int16)),
        ValueError,
        "offsets: ",
        "int32",
    )
    refused(
        lambda: ms.grouped_matmul(X, T, offsets=np.array([0, 2, 4])),
        ValueError,
        "b: 1 matrices beside 2 experts",
    )


def test_parts_that_do_not_fit_together():
    make = ms.BlockTensor.from_parts
    refused(lambda: make(T.codes, T.scales, format="nvfp4"), ValueError, "global_scale: NVFP4 has one")
    refused(lambda: make(T.codes, T.scales, 1.0, format="mxfp4"), ValueError, "scales: ")
    refused(lambda: make(T.codes, T.scales[:, :2], 1.0, format="nvfp4"), ValueError, "strides")
    refused(
        lambda: make(T.codes, T.scales, 1.0, format="nvfp4", shape=(4, 32)), ValueError, "codes: ", "64"
    )
    refused(
        lambda: make(X, T.scales, 1.0, format="nvfp4"),
        ValueError,
        "codes: the array is float32; pass uint8",
    )
    scales = np.ascontiguousarray(T.scales[:, :2])
    refused(
        lambda: make(T.codes, scales, 1.0, format="mxfp4"), ValueError, "global_scale: mxfp4 has none"
    )


def test_not_finite_values_on_request():
    bad = X.copy()
    bad[2, 7] = np.inf
    error = refused(lambda: ms.quantize(bad, refuse_non_finite=True), ValueError, "row 2, column 7")
    assert error.code == "bad_input"


def test_a_gpu_that_is_not_there():
    if ms.cuda.device_count() > 0:
        pytest.skip("this machine has a GPU")
    error = refused(lambda: ms.DeviceArray.empty(4), NotImplementedError, "no GPU")
    assert isinstance(error, ms.Error) and error.code == "unsupported"
    refused(lambda: T.to("cuda:0"), NotImplementedError, "no GPU")
    refused(lambda: T.to("tpu"), ValueError, "device: ", "tpu")
    refused(lambda: ms.quantize(X, backend="cuda"), ValueError, "GPU")
    assert ms.cuda.unavailable_reason()


def test_weights_that_are_not_quantized():
    dense = np.zeros((64, 64), np.float32)
    with pytest.raises(TypeError, match="b: expected a BlockTensor, got .*ndarray"):
        ms.pack_weights(dense)
    with pytest.raises(TypeError, match="gate: expected a BlockTensor"):
        ms.pack_gated_weights(dense, ms.quantize(dense))


@pytest.mark.parametrize(
    ("threads", "kind"), [("2", TypeError), (1.5, TypeError), (10**12, ValueError), (-1, ValueError)]
)
def test_threads_that_are_no_number(threads, kind):
    with pytest.raises(kind, match="^threads: .*1 or more, or 0 for one per core"):
        ms.quantize(np.zeros((64, 64), np.float32), threads=threads)
    with pytest.raises(kind, match="^threads: "), ms.context(threads=threads):
        pass


def test_shapes_and_streams_that_are_none():
    t = ms.quantize(np.zeros((32, 64), np.float32))
    for shape in ("x", 2.5, (32, "a"), None):
        with pytest.raises((TypeError, ValueError), match="shape"):
            ms.PackedWeights.from_parts(ms.pack_weights(t).bytes, 1.0, shape=shape, format="nvfp4")
    with pytest.raises(TypeError, match="shape: expected whole numbers, got 'x'"):
        ms.BlockTensor.from_parts(t.codes, t.scales, 1.0, format="nvfp4", shape="x")
    with pytest.raises(ValueError, match="^global_scale: NVFP4 has one"):
        ms.PackedWeights.from_parts(ms.pack_weights(t).bytes, shape=t.shape, format="nvfp4")


@pytest.mark.parametrize("scale", [1, np.float32(1), np.float64(1)])
def test_a_global_scale_is_kept_as_a_float(scale):
    x = np.ones((16, 32), np.float32)
    t = ms.quantize(x, global_scale=scale)
    assert type(t.global_scale) is float
    again = ms.BlockTensor.from_parts(t.codes, t.scales, scale, format="nvfp4")
    assert type(again.global_scale) is float and type(again.to("cpu").global_scale) is float
    assert ms.KvCache.allocate(1, 1, 32, 16, k_global_scale=scale).global_scales[0] == 1


def test_a_type_where_a_device_is_wanted():
    with pytest.raises(TypeError, match=r"dequantize\(dtype\) makes numbers"):
        ms.quantize(np.ones((16, 32), np.float32)).to(np.dtype("float16"))
