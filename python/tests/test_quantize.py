"""quantize, quantize_both, dequantize: against the definition of a block tensor, every format and layout."""

import numpy as np
import pytest

import microscale as ms

FORMATS = ms.formats()
BLOCK = {name: 16 if name == "nvfp4" else 32 for name in FORMATS}
# Half of the largest step between neighbours of each element type, beside the block's largest magnitude.
HALF_STEP = {
    "nvfp4": 1 / 6,
    "mxfp4": 1 / 4,
    "mxfp8_e4m3": 1 / 16,
    "mxfp8_e5m2": 1 / 8,
    "mxfp6_e2m3": 1 / 8,
    "mxfp6_e3m2": 1 / 8,
    "mxint8": 1 / 64,
}


def matrix(rows=5, cols=96, dtype=np.float32, seed=0):
    return np.random.default_rng(seed).standard_normal((rows, cols)).astype(dtype)


@pytest.mark.parametrize("dtype", [np.float32, np.float16])
@pytest.mark.parametrize("format", FORMATS)
def test_values_come_back_within_half_a_step(format, dtype):
    x = matrix(dtype=dtype)
    t = ms.quantize(x, format)
    assert (t.format, t.shape, t.axis, t.layout, t.device) == (format, x.shape, -1, "row_major", "cpu")
    restored = ms.dequantize(t)
    assert restored.dtype == np.float32 and restored.shape == x.shape
    largest = (
        np.abs(x.astype(np.float32)).reshape(5, -1, BLOCK[format]).max(-1).repeat(BLOCK[format], -1)
    )
    error = np.abs(restored - x.astype(np.float32)) / largest
    assert 0 < error.max() <= HALF_STEP[format]


def test_fp4_values_are_those_of_codes_and_scales():
    values = np.array(
        [0, 0.5, 1, 1.5, 2, 3, 4, 6] + [-v for v in (0, 0.5, 1, 1.5, 2, 3, 4, 6)], np.float32
    )
    t = ms.quantize(matrix(4, 64), "mxfp4")
    codes = np.stack([t.codes & 15, t.codes >> 4], -1).reshape(4, 64)
    scales = np.exp2(t.scales.astype(np.float32) - 127).repeat(32, -1)
    np.testing.assert_array_equal(values[codes] * scales, t.dequantize())


@pytest.mark.parametrize("format", FORMATS)
def test_blocks_down_the_columns_are_those_of_the_transposed(format):
    x = matrix(64, 40)
    down = ms.quantize(x, format, axis=-2)
    turned = ms.quantize(np.ascontiguousarray(x.T), format)
    assert down.axis == -2 and down.shape == x.shape
    np.testing.assert_array_equal(down.codes, turned.codes)
    np.testing.assert_array_equal(down.scales, turned.scales)
    np.testing.assert_array_equal(down.dequantize(), turned.dequantize().T)


def test_quantize_both_is_two_calls_with_one_global_scale():
    x = matrix(64, 96)
    along, down = ms.quantize_both(x)
    assert along.global_scale == down.global_scale == ms.quantize(x).global_scale
    np.testing.assert_array_equal(along.codes, ms.quantize(x).codes)
    np.testing.assert_array_equal(down.codes, ms.quantize(x, axis=-2).codes)


@pytest.mark.parametrize("rows", [5, 128, 130])
def test_layouts_hold_the_same_scales(rows):
    x = matrix(rows, 96)
    plain, tiled = ms.quantize(x), ms.quantize(x, layout="tiled_128x4")
    np.testing.assert_array_equal(plain.codes, tiled.codes)
    np.testing.assert_array_equal(plain.dequantize(), tiled.dequantize())
    again = ms.repack_scales(plain, "tiled_128x4")
    np.testing.assert_array_equal(again.scales, tiled.scales)
    np.testing.assert_array_equal(ms.repack_scales(again, "row_major").scales, plain.scales)


def test_leading_axes_are_rows():
    x = matrix(6, 64).reshape(2, 3, 64)
    t = ms.quantize(x)
    assert t.shape == (2, 3, 64) and t.codes.shape == (2, 3, 32) and t.scales.shape == (2, 3, 4)
    np.testing.assert_array_equal(
        t.dequantize().reshape(6, 64), ms.quantize(x.reshape(6, 64)).dequantize()
    )


def test_rows_at_a_distance_are_read_where_they_are():
    wide = matrix(8, 128)
    np.testing.assert_array_equal(
        ms.quantize(wide[::2, 32:96]).codes, ms.quantize(np.ascontiguousarray(wide[::2, 32:96])).codes
    )


def test_out_is_written_and_returned():
    x = matrix()
    t = ms.quantize(matrix(seed=1))
    codes = t.codes
    assert ms.quantize(x, out=t) is t and t.codes is codes
    np.testing.assert_array_equal(codes, ms.quantize(x).codes)
    assert t.global_scale == ms.quantize(x).global_scale
    out = np.empty_like(x)
    assert t.dequantize(out=out) is out


def test_padding_fills_up_with_zeros():
    x = matrix(3, 50)
    with pytest.raises(ValueError, match="multiple"):
        ms.quantize(x, "mxfp4")
    assert ms.quantize(x, "mxfp4", pad=True).dequantize().shape == (3, 50)


def test_ml_dtypes_bfloat16_comes_in_and_goes_out():
    bfloat16 = pytest.importorskip("ml_dtypes").bfloat16
    x = matrix().astype(bfloat16)
    t = ms.quantize(x)
    np.testing.assert_array_equal(t.codes, ms.quantize(x.astype(np.float32)).codes)
    restored = t.dequantize("bf16")
    assert restored.dtype == bfloat16
    np.testing.assert_array_equal(restored, t.dequantize().astype(bfloat16))


def test_threads_do_not_change_bytes():
    x = matrix(257, 1024)
    one = ms.quantize(x, threads=1)
    with ms.context(threads=3):
        np.testing.assert_array_equal(ms.quantize(x).codes, one.codes)


@pytest.mark.parametrize("backend", ms.available_backends())
def test_backends_agree(backend):
    x = matrix(16, 256)
    np.testing.assert_array_equal(ms.quantize(x, backend=backend).codes, ms.quantize(x).codes)


def test_containers_hold_one_code_a_byte():
    codes = ms.quantize(matrix(4, 64), "mxfp4").codes
    wide = ms.to_containers(codes)
    np.testing.assert_array_equal(
        wide, np.stack([(codes & 15) << 2, codes >> 4 << 2], -1).reshape(4, 64)
    )
    np.testing.assert_array_equal(ms.from_containers(wide), codes)


def test_global_scale_follows_from_the_largest_magnitude():
    x = matrix()
    assert (
        ms.quantize(x).global_scale
        == ms.nvfp4_global_scale(ms.abs_max(x))
        == ms.quantize(x, tensor_amax=ms.abs_max(x)).global_scale
    )
    assert ms.abs_max(x) == np.abs(x).max()
