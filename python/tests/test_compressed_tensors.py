"""Layers by the names of compressed-tensors, from a file and into one."""

import numpy as np
import pytest

import microscale as ms

ml_dtypes = pytest.importorskip("ml_dtypes")
WEIGHTS = np.random.default_rng(0).standard_normal((32, 64), dtype=np.float32)


@pytest.mark.parametrize("format", ["nvfp4", "mxfp4", "mxfp8_e4m3"])
def test_there_and_back(format):
    tensor = ms.quantize(WEIGHTS, format)
    parts = tensor.to_compressed_tensors()
    assert np.shares_memory(parts.get("weight_packed", parts.get("weight")), tensor.codes)
    back = ms.BlockTensor.from_compressed_tensors(
        parts.get("weight_packed", parts.get("weight")),
        parts["weight_scale"],
        parts.get("weight_global_scale"),
    )
    assert back.format == format and np.array_equal(back.codes.view("u1"), tensor.codes)
    np.testing.assert_allclose(back.dequantize(), tensor.dequantize(), rtol=2e-7)


def test_names_and_types_are_those_of_a_checkpoint():
    def kinds(format):
        parts = ms.quantize(WEIGHTS, format).to_compressed_tensors()
        return {name: (str(array.dtype), array.shape) for name, array in parts.items()}

    assert kinds("nvfp4") == {
        "weight_packed": ("uint8", (32, 32)),
        "weight_scale": ("float8_e4m3fn", (32, 4)),
        "weight_global_scale": ("float32", (1,)),
    }
    assert kinds("mxfp4") == {"weight_packed": ("uint8", (32, 32)), "weight_scale": ("uint8", (32, 2))}
    assert kinds("mxfp8") == {"weight": ("float8_e4m3fn", (32, 64)), "weight_scale": ("uint8", (32, 2))}


def test_a_divisor_survives():
    for divisor in np.random.default_rng(1).uniform(1, 5000, 200).astype(np.float32):
        tensor = ms.quantize(WEIGHTS)
        parts = {**tensor.to_compressed_tensors(), "weight_global_scale": divisor.reshape(1)}
        scale = ms.BlockTensor.from_compressed_tensors(*parts.values()).global_scale
        assert scale == np.float32(1) / divisor
        again = ms.BlockTensor.from_parts(tensor.codes, tensor.scales, scale, format="nvfp4")
        written = again.to_compressed_tensors()["weight_global_scale"]
        assert np.float32(1) / written[0] == np.float32(scale)


def test_experts_have_a_divisor_each():
    tensor = ms.quantize(WEIGHTS.reshape(2, 16, 64))
    divisors = np.array([2, 4], np.float32)
    back = ms.BlockTensor.from_compressed_tensors(tensor.codes, tensor.scales, divisors)
    assert back.global_scale.tolist() == [0.5, 0.25]
    assert back.to_compressed_tensors()["weight_global_scale"].tolist() == [2, 4]


take = ms.BlockTensor.from_compressed_tensors


@pytest.mark.parametrize(
    ("call", "kind", "words"),
    [
        (lambda t: take([1], t.scales), TypeError, "weight_packed: expected"),
        (lambda t: take(t.codes, "s"), TypeError, "weight_scale: expected"),
        (lambda t: take(t.codes, t.scales, np.zeros(1, "f")), ValueError, "weight_global_scale: 0.0"),
        (lambda t: take(t.codes, t.scales, np.ones(2, "f")), ValueError, "2 numbers; pass one"),
        (lambda t: ms.repack_scales(t, "tiled_128x4").to_compressed_tensors(), ValueError, "row_major"),
        (lambda t: ms.quantize(WEIGHTS, "mxint8").to_compressed_tensors(), ValueError, "mxint8"),
    ],
)
def test_what_is_refused(call, kind, words):
    with pytest.raises(kind, match=words):
        call(ms.quantize(WEIGHTS))


@pytest.mark.parametrize(
    ("format", "part", "kind"),
    [
        ("nvfp4", "scales", "float8_e8m0fnu"),
        ("mxfp4", "scales", "float8_e4m3fn"),
        ("mxfp8_e4m3", "codes", "float8_e5m2"),
    ],
)
def test_types_that_mean_something_else_are_refused(format, part, kind):
    tensor = ms.quantize(WEIGHTS, format)
    parts = {"codes": tensor.codes, "scales": tensor.scales}
    parts[part] = parts[part].view(getattr(ml_dtypes, kind))
    with pytest.raises(ValueError, match=f"^{part}: the {kind} array .* is not what {format} has there"):
        ms.BlockTensor.from_parts(**parts, global_scale=tensor.global_scale, format=format)
