"""quantize_with_hessian and output_error: against their definition, and a model folder with statistics."""

import numpy as np
import pytest
from models import weights_of_small_model, write_safetensors

import microscale as ms

RANDOM = np.random.default_rng(5)


def hessian_of(cols, tokens=400):
    x = RANDOM.standard_normal((tokens, 8)) @ RANDOM.standard_normal((8, cols))
    x += 0.5 * RANDOM.standard_normal((tokens, cols))
    return (x.T @ x / tokens).astype(np.float32)


def error_of(x, t, hessian):
    difference = t.dequantize().astype(np.float64) - x
    return np.trace(difference @ hessian @ difference.T) / np.trace(x @ hessian @ x.T)


@pytest.mark.parametrize("format", ["nvfp4", "mxfp4"])
def test_the_output_changes_less_than_by_plain_quantizing(format):
    x, hessian = RANDOM.standard_normal((24, 96)).astype(np.float32), hessian_of(96)
    plain = ms.quantize(x, format)
    blocks = ms.quantize_with_hessian(x, hessian, format, method="block-hessian")
    gptq = ms.quantize_with_hessian(x, hessian, format)
    assert gptq.format == format and gptq.shape == x.shape
    assert error_of(x, gptq, hessian) < 0.7 * error_of(x, blocks, hessian)
    assert error_of(x, blocks, hessian) < error_of(x, plain, hessian)
    for t in (plain, blocks, gptq):
        error, power = ms.output_error(x, t, hessian)
        assert error / power == pytest.approx(error_of(x, t, hessian), rel=1e-4)


def test_without_damping_the_identity_is_plain_quantizing():
    x = RANDOM.standard_normal((8, 64)).astype(np.float32)
    plain = ms.quantize(x)
    t = ms.quantize_with_hessian(x, np.eye(64, dtype=np.float32), damping=0)
    assert (t.codes == plain.codes).all() and (t.scales == plain.scales).all()
    assert t.global_scale == plain.global_scale


def test_few_tokens_shrink_more_and_threads_change_nothing():
    x, hessian = RANDOM.standard_normal((40, 64)).astype(np.float32), hessian_of(64)
    few = ms.quantize_with_hessian(x, hessian, tokens=100)
    assert (few.codes == ms.quantize_with_hessian(x, hessian, shrink=0.3, threads=1).codes).all()
    assert (few.codes != ms.quantize_with_hessian(x, hessian, tokens=64 * 64).codes).any()


def test_what_does_not_fit_is_refused():
    x, hessian = np.ones((4, 64), np.float32), np.eye(64, dtype=np.float32)
    for call, words in [
        (lambda: ms.quantize_with_hessian(x, hessian[:, :32]), "hessian"),
        (lambda: ms.quantize_with_hessian(x, hessian, method="best"), "method: 'best' is unknown"),
        (lambda: ms.quantize_with_hessian(x, hessian, "mxfp8_e4m3"), "mxfp8_e4m3"),
        (lambda: ms.quantize_with_hessian(x, -hessian), "on its diagonal"),
        (lambda: ms.quantize_with_hessian(x, hessian, shrink=2), "shrink 2"),
    ]:
        with pytest.raises(ValueError, match=words):
            call()


def test_a_model_is_quantized_with_the_hessians_of_its_statistics(tmp_path):
    (tmp_path / "in").mkdir()
    weights = weights_of_small_model()
    write_safetensors(tmp_path / "in/model.safetensors", weights)
    (tmp_path / "in/config.json").write_text('{"model_type": "llama", "hidden_size": 64}')
    name, hessian = "model.layers.0.self_attn.o_proj", hessian_of(64)
    means = np.ascontiguousarray(np.diag(hessian))
    write_safetensors(tmp_path / "s", {name: means, name + ".hessian": hessian})
    codes = {}
    for method in ("auto", "block-hessian", "search"):
        ms.quantize_model(tmp_path / "in", tmp_path / method, importance=tmp_path / "s", method=method)
        codes[method] = ms.open_checkpoint(tmp_path / method)[name].codes
    wanted = ms.quantize_with_hessian(weights[name + ".weight"], hessian, shrink=0.3)
    assert (codes["auto"] == wanted.codes).all()
    assert (codes["block-hessian"] != wanted.codes).any() and (codes["search"] != codes["auto"]).any()
    with pytest.raises(ValueError, match="method: 'best' is unknown"):
        ms.plan_quantize_model(tmp_path / "in", tmp_path / "x", importance=tmp_path / "s", method="best")
