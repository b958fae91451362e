"""Operators on a GPU: values, streams, captured graphs, no synchronization, several devices, memory."""

import gc

import torch

import microscale as ms
import microscale.torch  # noqa: F401  registers the operators

ops = torch.ops.microscale
FORMATS = ["nvfp4", "mxfp4", "mxfp8_e4m3", "mxfp8_e5m2"]


def randn(*shape, dtype=torch.bfloat16, device="cuda"):
    return torch.randn(*shape, device=device).to(dtype)


def weights(n, k, format, device="cuda"):
    codes, scales, scale = ops.quantize(randn(n, k, device=device), format)
    scale = scale if format == "nvfp4" else None
    dense = ops.dequantize(codes, scales, scale, format)
    return ops.pack_weights(codes, scales, format), scale, dense


def near(found, wanted, bound=8e-3):
    error = ((found.double() - wanted.double()).norm() / wanted.double().norm()).item()
    assert error <= bound, f"relative error {error:.2e}, more than {bound}"


def quantizers_give_the_bytes_of_the_cpu():
    for dtype in (torch.float32, torch.bfloat16, torch.float16):
        x = randn(70, 256, dtype=dtype)
        for format in FORMATS:
            for layout in ("row_major", "tiled_128x4"):
                found, wanted = (
                    ops.quantize(x, format, -1, layout),
                    ops.quantize(x.cpu(), format, -1, layout),
                )
                for a, b in zip(found, wanted, strict=True):
                    assert a.is_cuda and torch.equal(a.cpu(), b), (dtype, format, layout)


def formats_of_the_cpu_alone_are_refused_by_name():
    x = randn(70, 256)
    others = sorted(set(ms.formats()) - set(FORMATS))
    for format in others:
        try:
            ops.quantize(x, format)
        except NotImplementedError as refused:
            assert "backend cuda has no kernel" in str(refused) and format in str(refused), refused
        else:
            raise AssertionError(f"{format} was quantized on the GPU: compare its bytes above")
    return ", ".join(others)


def products_are_those_of_the_dense_weights():
    for format in FORMATS:
        packed, scale, dense = weights(192, 512, format)
        for dtype in (torch.bfloat16, torch.float16, torch.float32):
            for rows in (0, 1, 7, 40, 300):
                x, bias = randn(rows, 512, dtype=dtype), randn(192, dtype=dtype)
                y = ops.linear(x, packed, scale, bias, 192, 512, format)
                assert y.shape == (rows, 192) and y.dtype == dtype
                if rows:
                    near(y, x.double() @ dense.double().T + bias.double())
                out = torch.empty_like(y)
                ops.linear_out(
                    x if dtype != torch.float32 else x.bfloat16(),
                    packed,
                    scale,
                    bias,
                    192,
                    512,
                    format,
                    out,
                )
                assert torch.equal(out, y)


def views_of_any_kind_are_taken():
    packed, scale, _ = weights(64, 128, "nvfp4")
    wide = randn(4, 6, 256)
    for x in (
        wide[..., ::2],
        wide[..., 1:129],
        wide.transpose(0, 1)[..., :128],
        wide[:, :1, :128].expand(4, 6, 128),
    ):
        call = (packed, scale, None, 64, 128, "nvfp4")
        assert torch.equal(ops.linear(x, *call), ops.linear(x.contiguous(), *call))


def packed_weights_come_back():
    for format in FORMATS:
        for n, k in ((192, 512), (50, 96)):
            packed, scale, dense = weights(n, k, format)
            again = ops.dense_weights(packed, scale, 1, n, k, format, torch.float32)[0]
            assert torch.equal(again, dense), (format, n, k)


def attention_is_that_of_torch():
    q, k, v = randn(2, 33, 8, 128), randn(2, 33, 2, 128), randn(2, 33, 2, 128)
    heads = [t.transpose(1, 2) for t in (q, k, v)]
    wanted = torch.nn.functional.scaled_dot_product_attention(*heads, is_causal=True, enable_gqa=True)
    near(ops.attention(q, k, v, None, True), wanted.transpose(1, 2), 2e-2)


def every_call():
    """(name, function of nothing that returns tensors): each with its operands on the GPU."""
    x = randn(8, 512)
    packed, scale, _ = weights(256, 512, "nvfp4")
    parts = [ops.quantize(randn(256, 512)) for _ in range(2)]
    gated = ops.pack_weights(*parts[0][:2], "nvfp4", *parts[1][:2])
    experts = [ops.quantize(randn(64, 512)) for _ in range(4)]
    grouped = ops.pack_weights(
        torch.stack([e[0] for e in experts]), torch.stack([e[1] for e in experts]), "nvfp4"
    )
    scales = torch.cat([e[2] for e in experts])
    offsets = torch.tensor([0, 2, 2, 7, 8], device="cuda", dtype=torch.int32)
    codes, block_scales, one = ops.quantize(x)
    q, k, v = randn(2, 4, 8, 128), randn(2, 4, 2, 128), randn(2, 4, 2, 128)
    cache = microscale.torch.KvCache(2, 2, 128, 64, page_size=16, device="cuda")
    cache.append(k, v)
    before = cache.lengths.clone()

    def decode():
        cache.lengths.copy_(before)
        cache.append(k[:, :1], v[:, :1])
        return cache.attend(q[:, :1], max_q_len=1, max_kv_len=64)

    yield "quantize", lambda: ops.quantize(x)[0]
    yield "dequantize", lambda: ops.dequantize(codes, block_scales, one, "nvfp4", torch.bfloat16)
    yield "pack_weights", lambda: ops.pack_weights(codes, block_scales, "nvfp4")
    yield "linear", lambda: ops.linear(x, packed, scale, None, 256, 512, "nvfp4")
    yield "linear, one row", lambda: ops.linear(x[:1], packed, scale, None, 256, 512, "nvfp4")
    yield (
        "gated_linear",
        lambda: ops.gated_linear(x, gated, parts[0][2], parts[1][2], None, None, 256, 512, "nvfp4"),
    )
    yield (
        "grouped_linear",
        lambda: ops.grouped_linear(x, grouped, scales, None, offsets, None, 0, None, 4, 64, 512, "nvfp4"),
    )
    yield "attention", lambda: ops.attention(q, k, v, None, True)
    yield "append_kv, cached_attention", decode


def nothing_synchronizes():
    calls = list(every_call())
    for _, call in calls:
        call()
    torch.cuda.synchronize()
    torch.cuda.set_sync_debug_mode("error")
    try:
        for _, call in calls:
            call()
    finally:
        torch.cuda.set_sync_debug_mode("default")
    # And no call of its own waits: a long kernel is still running when the call comes back.
    name, call = calls[3]
    done = torch.cuda.Event()
    torch.cuda._sleep(400_000_000)
    call()
    done.record()
    assert not done.query(), f"{name} has waited for the GPU"
    torch.cuda.synchronize()


def side_streams_order_the_work():
    packed, scale, _ = weights(1024, 1024, "nvfp4")
    source = randn(64, 1024)
    wanted = ops.linear(source, packed, scale, None, 1024, 1024, "nvfp4")
    torch.cuda.synchronize()
    stream = torch.cuda.Stream()
    x = torch.zeros_like(source)
    with torch.cuda.stream(stream):
        torch.cuda._sleep(100_000_000)
        x.copy_(source)  # late: a product on another stream would read zeros
        y = ops.linear(x, packed, scale, None, 1024, 1024, "nvfp4")
        z = y * 1
    stream.synchronize()
    assert torch.equal(y, wanted) and torch.equal(z, wanted)
    with ms.context(stream=stream):
        again = ms.matmul(
            source, ms.PackedWeights.from_parts(packed, scale, shape=(1024, 1024), format="nvfp4")
        )
    stream.synchronize()
    assert torch.equal(again, wanted)


def what_is_written_raises_the_version():
    packed, scale, _ = weights(192, 512, "nvfp4")
    x, out = randn(5, 512), torch.empty(5, 192, device="cuda", dtype=torch.bfloat16)
    ops.linear_out(x, packed, scale, None, 192, 512, "nvfp4", out)
    assert out._version == 1 and x._version == packed._version == 0


def autocast_rounds_inputs_as_linear_does():
    packed, scale, _ = weights(192, 512, "nvfp4")
    for dtype in (torch.bfloat16, torch.float16):
        x = randn(5, 512, dtype=torch.float32)
        with torch.autocast("cuda", dtype):
            y = ops.linear(x, packed, scale, None, 192, 512, "nvfp4")
        assert torch.equal(y, ops.linear(x.to(dtype), packed, scale, None, 192, 512, "nvfp4"))


def graphs_capture_and_replay():
    for name, call in every_call():
        wanted = call()
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            found = call()
        found.zero_()
        for _ in range(3):
            graph.replay()
        torch.cuda.synchronize()
        assert torch.equal(found, wanted), name


def the_same_call_gives_the_same_bytes():
    for name, call in every_call():
        assert torch.equal(call(), call()), name


def another_device_than_the_current_one():
    if torch.cuda.device_count() < 2:
        return "NOT RUN: one GPU"
    packed, scale, dense = weights(192, 512, "nvfp4", device="cuda:1")
    x = randn(5, 512, device="cuda:1")
    with torch.cuda.device(0):
        y = ops.linear(x, packed, scale, None, 192, 512, "nvfp4")
        assert y.device.index == 1 and torch.cuda.current_device() == 0 == ms.cuda.current_device()
        near(y, x.double() @ dense.double().T)
        try:
            ops.linear(x.to("cuda:0"), packed, scale, None, 192, 512, "nvfp4")
        except ValueError as error:
            assert "GPU 1" in str(error) and "GPU 0" in str(error), error
        else:
            raise AssertionError("operands on two GPUs were taken")


def a_tensor_of_the_cpu_is_refused_by_name():
    packed, scale, _ = weights(192, 512, "nvfp4")
    for x, bias, word in (
        (randn(5, 512, device="cpu"), None, "b"),
        (randn(5, 512), torch.zeros(192), "bias"),
    ):
        try:
            ms.matmul(
                x, ms.PackedWeights.from_parts(packed, scale, shape=(192, 512), format="nvfp4"), bias=bias
            )
        except ValueError as error:
            assert str(error).startswith(word + ":") and "move" in str(error), error
        else:
            raise AssertionError("operands on CPU and GPU were taken")


def ten_thousand_calls_leave_nothing_behind():
    packed, scale, _ = weights(64, 128, "nvfp4")
    x = randn(1, 128)

    def call():
        ops.linear(x, packed, scale, None, 64, 128, "nvfp4")

    for _ in range(100):
        call()
    torch.cuda.synchronize()
    gc.collect()
    before, objects = torch.cuda.memory_allocated(), len(gc.get_objects())
    for _ in range(10_000):
        call()
    torch.cuda.synchronize()
    gc.collect()
    assert torch.cuda.memory_allocated() == before
    assert len(gc.get_objects()) < objects + 100


CHECKS = [
    quantizers_give_the_bytes_of_the_cpu,
    formats_of_the_cpu_alone_are_refused_by_name,
    products_are_those_of_the_dense_weights,
    views_of_any_kind_are_taken,
    packed_weights_come_back,
    attention_is_that_of_torch,
    nothing_synchronizes,
    side_streams_order_the_work,
    what_is_written_raises_the_version,
    autocast_rounds_inputs_as_linear_does,
    graphs_capture_and_replay,
    the_same_call_gives_the_same_bytes,
    another_device_than_the_current_one,
    a_tensor_of_the_cpu_is_refused_by_name,
    ten_thousand_calls_leave_nothing_behind,
]
