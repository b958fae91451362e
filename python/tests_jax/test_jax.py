"""microscale.jax on the CPU: against the package and XLA itself; jit, vmap, gradients, refusals."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import microscale as ms
import microscale.jax as msj


def normal(*shape, dtype=jnp.float32, seed=0):
    return jax.random.normal(jax.random.key(seed), shape).astype(dtype)


@pytest.mark.parametrize("format", ms.formats())
@pytest.mark.parametrize("dtype", [jnp.float32, jnp.bfloat16, jnp.float16])
def test_quantize_gives_the_packages_bytes(format, dtype):
    x = normal(3, 5, 96, dtype=dtype)
    t, wanted = msj.quantize(x, format), ms.quantize(np.asarray(x), format)
    assert t.shape == (3, 5, 96)
    np.testing.assert_array_equal(t.codes, wanted.codes)
    np.testing.assert_array_equal(t.scales, np.asarray(wanted.scales).view(np.uint8))
    assert (None if t.global_scale is None else float(t.global_scale[0])) == wanted.global_scale
    np.testing.assert_array_equal(t.dequantize(), wanted.dequantize())
    again = jax.jit(msj.quantize, static_argnums=1)(x, format)
    np.testing.assert_array_equal(again.codes, t.codes)


def test_scale_rules_and_global_scales_are_taken():
    x = normal(4, 64)
    t = msj.quantize(x, scale_rule="search", global_scale=0.01)
    wanted = ms.quantize(np.asarray(x), scale_rule="search", global_scale=0.01)
    np.testing.assert_array_equal(t.codes, wanted.codes)
    assert float(t.global_scale[0]) == np.float32(0.01)
    assert msj.BlockArray.of(wanted).dequantize().tolist() == t.dequantize().tolist()


@pytest.mark.parametrize("format", ["nvfp4", "mxfp4", "mxfp8_e4m3"])
@pytest.mark.parametrize("dtype", [jnp.float32, jnp.bfloat16])
def test_matmul_and_its_gradient(format, dtype):
    x, w = normal(2, 3, 128, dtype=dtype), msj.quantize(normal(48, 128, seed=1), format)
    dense = np.asarray(w.dequantize(), np.float64)
    y = jax.jit(msj.matmul)(x, w)
    assert y.dtype == dtype and y.shape == (2, 3, 48)
    np.testing.assert_allclose(
        np.asarray(y, np.float64), np.asarray(x, np.float64) @ dense.T, rtol=1e-2, atol=0.1
    )
    assert msj.matmul(x, w, out_dtype=jnp.float32).dtype == jnp.float32
    weight = normal(2, 3, 48, seed=2)
    found = jax.jit(jax.grad(lambda x: (msj.matmul(x, w, out_dtype=jnp.float32) * weight).sum()))(x)
    assert found.dtype == dtype
    wanted = np.asarray(weight, np.float64) @ dense
    np.testing.assert_allclose(np.asarray(found, np.float64), wanted, rtol=2e-2, atol=0.05)
    assert msj.matmul(x[:0], w).shape == (0, 3, 48)


def test_vmap_is_call_by_call():
    x, w = normal(4, 3, 64), msj.quantize(normal(32, 64, seed=1))
    mapped = jax.vmap(msj.matmul, in_axes=(0, None))(x, w)
    np.testing.assert_array_equal(mapped, jnp.stack([msj.matmul(row, w) for row in x]))
    several = jax.vmap(msj.quantize)(x)  # each with a global scale of its own
    for i in range(4):
        np.testing.assert_array_equal(several.codes[i], msj.quantize(x[i]).codes)
        assert several.global_scale[i] == msj.quantize(x[i]).global_scale
    every = jax.vmap(msj.matmul)(x[:, None], several)
    np.testing.assert_array_equal(every[2], msj.matmul(x[2][None], msj.quantize(x[2])))


@pytest.mark.parametrize("causal", [False, True])
def test_attention_is_xlas(causal):
    q, k, v = normal(2, 5, 4, 64), normal(2, 5, 2, 64, seed=1), normal(2, 5, 2, 64, seed=2)
    wanted = jax.nn.dot_product_attention(q, k, v, is_causal=causal)
    found = jax.jit(lambda q, k, v: msj.attention(q, k, v, causal=causal))(q, k, v)
    np.testing.assert_allclose(found, wanted, rtol=2e-2, atol=2e-2)


def test_refusals_name_the_argument():
    w = msj.quantize(normal(32, 64))
    for call, words in (
        (lambda: msj.quantize(jnp.zeros((3, 40))), "x: .* 40, is no multiple"),
        (lambda: msj.quantize(jnp.zeros((3, 32), jnp.int32)), "x: int32"),
        (lambda: msj.quantize(jnp.zeros((3, 32)), "nvfp5"), "format: there is no 'nvfp5'"),
        (lambda: msj.quantize(jnp.zeros((3, 32)), scale_rule="best"), "scale_rule: nvfp4 has"),
        (
            lambda: msj.quantize(jnp.zeros((3, 32)), "mxfp4", global_scale=1.0),
            "global_scale: mxfp4 has none",
        ),
        (lambda: msj.matmul(jnp.zeros((3, 32)), w), r"a: of shape \(3, 32\)"),
        (lambda: msj.matmul(jnp.zeros((3, 64)), msj.quantize(normal(2, 32, 64))), "b: of shape"),
        (lambda: msj.matmul(jnp.zeros((3, 64)), w, out_dtype=jnp.int8), "out_dtype: int8"),
        (lambda: msj.dequantize(w, jnp.int8), "dtype: "),
        (lambda: msj.attention(*(jnp.zeros((1, 2, 3, 64)),) * 2, jnp.zeros((1, 2, 3, 32))), "v: of shape"),
    ):
        with pytest.raises(ValueError, match=words):
            call()
    with pytest.raises(jax.errors.JaxRuntimeError, match="multiple of 32"):
        msj.attention(*(jnp.zeros((1, 2, 3, 40)),) * 3)


def test_what_is_no_array_is_named_with_its_type():
    x, w = normal(3, 64), msj.quantize(normal(32, 64))
    tensor = ms.quantize(np.asarray(normal(32, 64)))
    for call, words in (
        (lambda: msj.quantize("x"), "x: expected an array, got str"),
        (lambda: msj.matmul(None, w), "a: expected an array, got NoneType"),
        (lambda: msj.matmul(tensor, w), "a: expected an array, got BlockTensor"),
        (lambda: msj.matmul(x, x), "b: expected a BlockArray, got ArrayImpl"),
        (lambda: msj.matmul(x, tensor), "b: expected a BlockArray, got BlockTensor; .* BlockArray.of"),
        (lambda: msj.dequantize(tensor), "t: expected a BlockArray, got BlockTensor"),
        (lambda: msj.attention(None, x, x), "q: expected an array, got NoneType"),
        (lambda: msj.BlockArray.of(x), "tensor: expected a microscale.BlockTensor, got ArrayImpl"),
    ):
        with pytest.raises(TypeError, match=words):
            call()


def test_arrays_without_elements():
    w, none = msj.quantize(normal(32, 64)), jnp.zeros((0, 64))
    for format in ms.formats():
        t = jax.jit(msj.quantize, static_argnums=1)(none, format)
        assert t.shape == (0, 64) and t.dequantize().shape == (0, 64)
    assert jax.jit(msj.matmul)(none, w).shape == (0, 32)
    assert jax.grad(lambda x: msj.matmul(x, w).sum())(none).shape == (0, 64)
    q, k = normal(2, 3, 4, 64), normal(2, 5, 2, 64)
    for queries, keys in ((q[:, :0], k), (q[:0], k[:0])):
        assert msj.attention(queries, keys, keys).shape == queries.shape
    assert not msj.attention(q, k[:, :0], k[:, :0]).any()


def test_a_block_array_is_a_tree():
    w = msj.quantize(normal(32, 64), "mxfp8")
    assert w.format == "mxfp8_e4m3"
    shapes = jax.tree.map(lambda leaf: leaf.shape, w)
    assert repr(shapes) == "BlockArray((32, 64), (32, 2), None, format='mxfp8_e4m3')"
    assert jax.eval_shape(msj.quantize, normal(32, 64)).shape == (32, 64)


def test_the_packages_functions_name_what_is_traced():
    with pytest.raises(TypeError, match="x: a traced array of JAX has no values; .* microscale.jax"):
        jax.jit(lambda x: ms.quantize(x).codes)(normal(4, 64))


def test_block_arrays_to_and_from_the_package():
    x = normal(4, 64)
    t = msj.quantize(x)
    assert (t.ndim, t.nbytes) == (2, 4 * 32 + 4 * 4 + 4)
    back = t.block_tensor()
    np.testing.assert_array_equal(back.dequantize(), t.dequantize())
    ml_dtypes = pytest.importorskip("ml_dtypes")
    typed = ms.BlockTensor.from_parts(
        back.codes,
        back.scales.view(ml_dtypes.float8_e4m3fn),
        np.array([back.global_scale], np.float32),
        format="nvfp4",
    )
    again = msj.BlockArray.of(typed)
    assert again.scales.dtype == jnp.uint8 and again.global_scale.shape == (1,)
    np.testing.assert_array_equal(jax.jit(msj.matmul)(x, again), jax.jit(msj.matmul)(x, t))


def test_leaves_have_names():
    leaves = jax.tree_util.tree_flatten_with_path({"layer": msj.quantize(normal(4, 64))})[0]
    names = [jax.tree_util.keystr(path) for path, _ in leaves]
    assert names == ["['layer'].codes", "['layer'].scales", "['layer'].global_scale"]


def test_a_block_array_is_no_array_of_numbers():
    for make in (np.asarray, jnp.asarray):
        with pytest.raises(TypeError, match=r"dequantize\(\) makes one"):
            make(msj.quantize(normal(4, 64)))


@pytest.mark.parametrize("dtype", ["bfloat16", "bf16", jnp.bfloat16, jnp.dtype("bfloat16")])
def test_names_of_types(dtype):
    t = msj.quantize(normal(4, 64))
    assert t.dequantize(dtype).dtype == jnp.bfloat16
    assert msj.matmul(normal(2, 64), t, out_dtype=dtype).dtype == jnp.bfloat16
    for wrong in ("f64", float, None):
        with pytest.raises(ValueError, match="^dtype: "):
            t.dequantize(wrong)
