"""torch.ops.microscale: against torch's own arithmetic, opcheck, torch.compile, torch.export."""

import pytest
import torch

import microscale as ms
import microscale.torch  # noqa: F401  registers the operators

ops = torch.ops.microscale
WEIGHTS = ["nvfp4", "mxfp4", "mxfp8_e4m3", "mxfp8_e5m2"]


def randn(*shape, dtype=torch.bfloat16, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed)).to(dtype)


def weights(n=48, k=128, format="nvfp4", seed=1):
    """Packed weights, their global scale, and what they are, dense."""
    codes, scales, scale = ops.quantize(randn(n, k, seed=seed), format)
    scale = scale if format == "nvfp4" else None
    return (
        ops.pack_weights(codes, scales, format),
        scale,
        ops.dequantize(codes, scales, scale, format).double(),
    )


def gate_and_up(n=48, k=128, format="nvfp4"):
    parts = [ops.quantize(randn(n, k, seed=seed), format) for seed in (1, 2)]
    scales = [scale if format == "nvfp4" else None for _, _, scale in parts]
    dense = [ops.dequantize(c, s, g, format).double() for (c, s, _), g in zip(parts, scales)]
    return ops.pack_weights(*parts[0][:2], format, *parts[1][:2]), scales, dense


@pytest.mark.parametrize("format", ms.formats())
def test_quantize_is_the_packages(format):
    x = randn(4, 6, 96)
    codes, scales, scale = ops.quantize(x, format)
    t = ms.quantize(x, format)
    assert torch.equal(codes, t.codes) and torch.equal(scales.view(torch.uint8), t.scales.view(torch.uint8))
    assert scale.tolist() == ([t.global_scale] if format == "nvfp4" else [])
    given = scale if format == "nvfp4" else None
    assert torch.equal(ops.dequantize(codes, scales, given, format), t.dequantize())
    out = torch.empty_like(x)
    ops.dequantize_out(codes, scales, given, format, -1, "row_major", out)
    assert torch.equal(out, t.dequantize("bf16"))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("format", WEIGHTS)
def test_linear_is_the_product_with_what_weights_are(format, dtype):
    packed, scale, dense = weights(format=format)
    x, bias = randn(2, 3, 128, dtype=dtype), randn(48, dtype=dtype)
    y = ops.linear(x, packed, scale, bias, 48, 128, format)
    assert y.dtype == dtype and y.shape == (2, 3, 48)
    torch.testing.assert_close(y.double(), x.double() @ dense.T + bias.double(), rtol=1e-2, atol=2e-2)
    wide = ops.linear(x, packed, scale, bias, 48, 128, format, torch.float32)
    torch.testing.assert_close(wide.double(), x.double() @ dense.T + bias.double(), rtol=1e-5, atol=1e-4)
    out = torch.empty(2, 3, 48, dtype=dtype)
    assert ops.linear_out(x, packed, scale, bias, 48, 128, format, out) is None
    assert torch.equal(out, y)


def test_dense_weights_are_what_was_packed():
    for format in WEIGHTS:
        packed, scale, dense = weights(format=format)
        assert torch.equal(
            ops.dense_weights(packed, scale, 1, 48, 128, format, torch.float32)[0].double(), dense
        )
        packed, scales, dense = gate_and_up(format=format)
        for part in range(2):
            found = ops.dense_weights(
                packed, scales[part], 1, 48, 128, format, torch.float32, part == 1, True
            )
            assert torch.equal(found[0].double(), dense[part])


@pytest.mark.parametrize("activation", ["silu", "gelu_tanh"])
def test_gated_linear(activation):
    packed, (scale, up_scale), (gate, up) = gate_and_up()
    x = randn(5, 128)
    y = ops.gated_linear(x, packed, scale, up_scale, None, None, 48, 128, "nvfp4", activation)
    g = x.double() @ gate.T
    g = (
        torch.nn.functional.silu(g)
        if activation == "silu"
        else torch.nn.functional.gelu(g, approximate="tanh")
    )
    torch.testing.assert_close(y.double(), g * (x.double() @ up.T), rtol=1e-2, atol=1e-1)
    out = torch.empty_like(y)
    ops.gated_linear_out(x, packed, scale, up_scale, None, None, 48, 128, "nvfp4", activation, out)
    assert torch.equal(out, y)


def experts(format="nvfp4"):
    parts = [ops.quantize(randn(32, 64, seed=seed), format) for seed in range(3)]
    packed = ops.pack_weights(
        torch.stack([p[0] for p in parts]), torch.stack([p[1] for p in parts]), format
    )
    scale = torch.cat([p[2] for p in parts]) if format == "nvfp4" else None
    return (
        packed,
        scale,
        [ops.dequantize(c, s, g if format == "nvfp4" else None, format).double() for c, s, g in parts],
    )


@pytest.mark.parametrize("format", ["nvfp4", "mxfp4"])
def test_grouped_linear_by_offsets_and_by_counts(format):
    packed, scale, dense = experts(format)
    x, row_weights = randn(8, 64), torch.rand(8)
    y = ops.grouped_linear(
        x, packed, scale, None, torch.tensor([0, 2, 2, 7]), None, 0, row_weights, 3, 32, 64, format
    )
    wanted = torch.zeros(8, 32, dtype=torch.float64)  # the eighth row has no expert
    for e, rows in ((0, slice(0, 2)), (2, slice(2, 7))):
        wanted[rows] = x[rows].double() @ dense[e].T * row_weights[rows, None].double()
    torch.testing.assert_close(y.double(), wanted, rtol=1e-2, atol=2e-2)
    counts = torch.tensor([1, 0, 2], dtype=torch.int32)
    y = ops.grouped_linear(x[:6], packed, scale, None, None, counts, 2, None, 3, 32, 64, format)
    wanted = torch.zeros(6, 32, dtype=torch.float64)
    wanted[0], wanted[4:] = x[0].double() @ dense[0].T, x[4:6].double() @ dense[2].T
    torch.testing.assert_close(y.double(), wanted, rtol=1e-2, atol=2e-2)


def test_strides_and_addresses_of_any_kind():
    packed, scale, _ = weights()
    call = (packed, scale, None, 48, 128, "nvfp4")
    wide = randn(4, 6, 256)
    views = [wide[..., ::2], wide[..., 1:129], wide.transpose(0, 1)[..., :128], wide[1:3, 2:4, 64:192]]
    views += [wide[:, :1, :128].expand(4, 6, 128), wide[0, 0, :128], wide[:0, :, :128]]
    for x in views:
        assert torch.equal(ops.linear(x, *call), ops.linear(x.contiguous(), *call))


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32, torch.float16])
def test_norms_round_once(dtype):
    x, residual, weight = (
        randn(*shape, seed=i).to(dtype) for i, shape in enumerate([(2, 3, 128), (2, 3, 128), (128,)])
    )
    exact = torch.nn.functional.rms_norm(x.double(), (128,), weight.double(), 1e-6)
    ulp = 2 * torch.finfo(dtype).eps
    torch.testing.assert_close(ops.rms_norm(x, weight, 1e-6).double(), exact, rtol=ulp, atol=0)
    normed, total = ops.add_rms_norm(x, residual, weight, 1e-6)
    assert torch.equal(total, x + residual)
    exact = torch.nn.functional.rms_norm(total.double(), (128,), weight.double(), 1e-6)
    torch.testing.assert_close(normed.double(), exact, rtol=ulp, atol=0)


def every_call():
    """Each operator with arguments that it takes."""
    x = randn(3, 128)
    packed, scale, _ = weights()
    both, (g, u), _ = gate_and_up()
    grouped, per_expert, _ = experts()
    codes, scales, one = ops.quantize(x)
    rows = torch.tensor([0, 2, 2, 3])
    many = (grouped, per_expert, None, rows, None, 0, None, 3, 32, 64, "nvfp4")
    yield ops.quantize, (x,)
    yield ops.quantize, (x, "mxfp4", -1, "tiled_128x4")
    yield ops.quantize, (randn(32, 16), "mxfp6_e2m3", -2)
    yield ops.quantize, (x, "nvfp4", -1, "row_major", None, None, None, 0, torch.ones(1))
    yield ops.dequantize, (codes, scales, one)
    yield ops.dequantize_out, (codes, scales, one, "nvfp4", -1, "row_major", torch.empty(3, 128))
    yield ops.pack_weights, (codes, scales, "nvfp4")
    yield ops.pack_weights, (codes, scales, "nvfp4", codes, scales)
    yield ops.dense_weights, (packed, scale, 1, 48, 128, "nvfp4", torch.bfloat16)
    yield ops.linear, (x, packed, scale, randn(48), 48, 128, "nvfp4")
    yield ops.linear, (x, packed, scale, None, 48, 128, "nvfp4", torch.float32)
    yield ops.linear_out, (x, packed, scale, None, 48, 128, "nvfp4", x.new_empty(3, 48))
    yield ops.gated_linear, (x, both, g, u, None, None, 48, 128, "nvfp4")
    yield ops.gated_linear_out, (x, both, g, u, None, None, 48, 128, "nvfp4", "silu", x.new_empty(3, 48))
    yield ops.grouped_linear, (randn(3, 64), *many)
    yield ops.grouped_linear_out, (randn(3, 64), *many, torch.zeros(3, 32, dtype=torch.bfloat16))
    yield ops.rms_norm, (x, randn(128), 1e-6)
    yield ops.add_rms_norm, (x, randn(3, 128), randn(128), 1e-6)


def test_every_operator_passes_opcheck():
    checked = set()
    for op, arguments in every_call():
        torch.library.opcheck(op.default, arguments)
        checked.add(op.default._schema.name)
    every = {name for name in torch._C._dispatch_get_all_op_names() if name.startswith("microscale::")}
    assert checked == {name for name in every if "attention" not in name and "append" not in name}


def test_compiled_with_dynamic_shapes_and_exported():
    packed, scale, _ = weights()

    class Net(torch.nn.Module):
        def forward(self, x):
            h = ops.linear(x, packed, scale, None, 48, 128, "nvfp4")
            codes, scales, one = ops.quantize(torch.relu(h))
            return ops.dequantize(codes, scales, one, "nvfp4", torch.bfloat16) + 1

    net = Net()
    compiled = torch.compile(net, fullgraph=True, dynamic=True, backend="aot_eager")
    for rows in (1, 3, 17):
        assert torch.equal(compiled(randn(rows, 128)), net(randn(rows, 128)))
    rows = torch.export.Dim("rows", min=1, max=64)
    program = torch.export.export(net, (randn(3, 128),), dynamic_shapes=({0: rows},))
    assert torch.equal(program.module()(randn(5, 128)), net(randn(5, 128)))


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"x": torch.zeros(3, 64, dtype=torch.bfloat16)}, "x: of shape .3, 64."),
        ({"x": torch.zeros(3, 128, dtype=torch.int32)}, "x: .*int32"),
        ({"packed": torch.zeros(64, dtype=torch.uint8)}, "packed weights has 64 bytes"),
        ({"format": "nvfp5"}, "format: .*nvfp5"),
        ({"bias": torch.zeros(47)}, "bias: "),
        ({"global_scale": torch.ones(2)}, "packed: "),
    ],
)
def test_refusals_name_the_argument(change, words):
    packed, scale, _ = weights()
    arguments = {"x": randn(3, 128), "packed": packed, "global_scale": scale, "bias": None, "n": 48,
                 "k": 128, "format": "nvfp4", **change}  # fmt: skip
    with pytest.raises(ValueError, match=words):
        ops.linear(**arguments)


def test_results_are_made_in_inference_mode_too():
    packed, scale, _ = weights()
    with torch.inference_mode():
        x = randn(3, 128)
        y = torch.relu(ops.linear(x, packed, scale, None, 48, 128, "nvfp4")) * 2
        y += 1
    assert y.shape == (3, 48)


def test_operators_that_write_raise_the_version():
    packed, scale, _ = weights()
    both, (g, u), _ = gate_and_up()
    grouped, per_expert, _ = experts()
    rows = torch.tensor([0, 2, 2, 3])
    x, out = randn(3, 128), torch.empty(3, 48, dtype=torch.bfloat16)
    narrow = torch.zeros(3, 32, dtype=torch.bfloat16)
    ops.linear_out(x, packed, scale, None, 48, 128, "nvfp4", out)
    ops.gated_linear_out(x, both, g, u, None, None, 48, 128, "nvfp4", "silu", out)
    ops.grouped_linear_out(
        randn(3, 64), grouped, per_expert, None, rows, None, 0, None, 3, 32, 64, "nvfp4", narrow
    )
    dense = torch.empty(3, 128)
    ops.dequantize_out(*ops.quantize(x), "nvfp4", -1, "row_major", dense)
    assert out._version >= 2 and narrow._version >= 1 and dense._version >= 1


def test_types_are_refused_while_a_graph_is_made():
    packed, scale, _ = weights()
    wide = randn(3, 128).double()
    for call in (
        lambda x: ops.linear(x, packed, scale, None, 48, 128, "nvfp4"),
        lambda x: ops.quantize(x)[0],
        lambda x: ops.attention(x.view(1, 3, 2, 64), x.view(1, 3, 2, 64), x.view(1, 3, 2, 64)),
    ):
        with pytest.raises(ValueError, match="float64; pass float32, bfloat16 or float16"):
            call(wide)
        with pytest.raises(Exception, match="float64; pass float32, bfloat16 or float16"):
            torch.compile(call, fullgraph=True, backend="aot_eager")(wide)
