"""What the package promises on a GPU, with the frameworks that are installed there; scripts/gpu_check_python
calls it. Prints a line for each check, and exits with 1 if one failed."""

import os
import subprocess
import sys
import time
import traceback

import numpy as np

import microscale as ms

os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")  # JAX shares the GPU with PyTorch here

CHECKS, ROWS = [], []


def check(needs):
    """Registers a check that needs a framework, or "" for none."""

    def add(function):
        CHECKS.append((needs, function))
        return function

    return add


def framework(name):
    try:
        return __import__(name)
    except ImportError:
        return None


def torch_operands(torch, m=5, n=512, k=1024, seed=0):
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(m, k, generator=generator).bfloat16()
    w = ms.quantize(torch.randn(n, k, generator=generator))
    return x.cuda(), ms.pack_weights(w.to("cuda:0")), x.double() @ w.dequantize().double().T


def close(found, wanted, least=2.0**-7):
    error = float((found.double().cpu() - wanted).abs().max() / wanted.abs().max())
    assert error < least, f"relative error {error}"
    return f"relative error {error:.1e}"


@check("")
def device_arrays_give_the_cpus_bytes():
    x = np.random.default_rng(0).standard_normal((64, 256)).astype(np.float16)
    for format in ("nvfp4", "mxfp4", "mxfp8"):
        there, here = ms.quantize(ms.DeviceArray.from_host(x), format), ms.quantize(x, format)
        assert np.array_equal(there.codes.numpy(), here.codes)
        assert np.array_equal(there.scales.numpy(), here.scales)
    return ms.cuda.device_name()


@check("torch")
def a_capture_before_kernels_are_loaded_is_refused(torch):
    code = (
        "import torch, microscale as ms\nx = torch.ones(1, 64, device='cuda')\ng = torch.cuda.CUDAGraph()\n"
        "try:\n    with torch.cuda.graph(g): ms.quantize(x)\nexcept NotImplementedError as e: print(e)"
    )
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert "call microscale.cuda.load_kernels() before the capture" in said.stdout, (
        said.stdout + said.stderr
    )


@check("torch")
def torch_tensors_give_the_cpus_bytes(torch):
    x = torch.randn(64, 256, generator=torch.Generator().manual_seed(0)).bfloat16()
    for format in ("nvfp4", "mxfp4", "mxfp8"):
        there, here = ms.quantize(x.cuda(), format), ms.quantize(x, format)
        assert torch.equal(there.codes.cpu(), here.codes) and there.scales.dtype == here.scales.dtype
        assert torch.equal(there.scales.view(torch.uint8).cpu(), here.scales.view(torch.uint8))
        assert torch.equal(there.dequantize(torch.float32).cpu(), here.dequantize())


@check("torch")
def products_and_attention_are_right(torch):
    x, w, wanted = torch_operands(torch)
    cache = ms.KvCache.allocate(2, 2, 128, 64, page_size=16, like=x)
    k, v, q = (torch.randn(2, 20, h, 128, device="cuda").bfloat16() for h in (2, 2, 4))
    cache.append(k, v)
    reference = torch.nn.functional.scaled_dot_product_attention(
        q.transpose(1, 2), k.transpose(1, 2), v.transpose(1, 2), enable_gqa=True
    ).transpose(1, 2)
    error = float((ms.attention(q, cache=cache) - reference).abs().max())
    assert error < 0.35, error
    return close(ms.matmul(x, w), wanted)


@check("torch")
def nothing_waits_for_the_gpu(torch):
    x, w, _ = torch_operands(torch)
    out = torch.empty(5, 512, device="cuda", dtype=torch.bfloat16)
    cache = ms.KvCache.allocate(2, 2, 128, 64, page_size=16, recent=16, like=x)
    k = torch.randn(2, 4, 2, 128, device="cuda").bfloat16()
    one = torch.ones(1, device="cuda")
    experts = ms.quantize(torch.randn(2, 512, 1024)).to("cuda:0")
    offsets, places = (torch.tensor(rows, device="cuda", dtype=torch.int32) for rows in ([0, 2, 4], [1, 3]))

    def calls():
        t = ms.quantize(x)
        t.dequantize()
        ms.quantize_both(x.repeat(13, 1)[:64])
        ms.silu_mul_quantize(x, x, global_scale=one)
        ms.matmul(x, w)
        ms.matmul(x, w, out=out)
        ms.grouped_matmul(x, experts, offsets=offsets)
        ms.attention(k[0], k[0], k[0], q_offsets=places, kv_offsets=places, max_q_len=2, max_kv_len=2)
        cache.append(k, k)
        ms.attention(k, cache=cache, causal=True)

    calls()
    torch.cuda.synchronize()
    cache.lengths.zero_()
    torch.cuda.set_sync_debug_mode("error")
    try:
        torch.cuda._sleep(200_000_000)
        begun = time.perf_counter()
        calls()
        took = time.perf_counter() - begun
    finally:
        torch.cuda.set_sync_debug_mode("default")
    assert not torch.cuda.current_stream().query(), "the work was waited for"
    torch.cuda.synchronize()
    return f"{took * 1e3:.1f} ms of host time beside a busy GPU"


@check("torch")
def what_is_not_computed_is_zeros(torch):
    x, _, _ = torch_operands(torch, m=16)
    experts = ms.quantize(torch.randn(2, 512, 1024)).to("cuda:0")
    q, k = (torch.randn(*shape, device="cuda").bfloat16() for shape in ((16, 2, 128), (9, 1, 128)))
    offsets, places, ends = (
        torch.tensor(rows, device="cuda", dtype=torch.int32) for rows in ([2, 5, 9], [1, 4], [0, 9])
    )
    for _ in range(20):
        dirty = [torch.full((16, 512), float("nan"), device="cuda", dtype=torch.bfloat16) for _ in range(8)]
        del dirty
        y = ms.grouped_matmul(x, experts, offsets=offsets)
        assert not y[:2].any() and not y[9:].any() and y[2:9].any(-1).all()
        o = ms.attention(q, k, k, q_offsets=places, kv_offsets=ends, max_q_len=3, max_kv_len=9)
        assert not o[:1].any() and not o[4:].any() and o[1:4].any(-1).all()


@check("torch")
def work_goes_to_the_current_stream(torch):
    x, w, wanted = torch_operands(torch)
    late = torch.zeros_like(x)
    side = torch.cuda.Stream()
    torch.cuda.synchronize()
    with torch.cuda.stream(side):
        torch.cuda._sleep(100_000_000)
        late.copy_(x)
        y = ms.matmul(late, w)
    assert not side.query()
    side.synchronize()
    said = close(y, wanted)
    torch.cuda._sleep(100_000_000)
    late.zero_()
    z = ms.matmul(x, w, stream=side)
    side.synchronize()
    close(z, wanted)
    return said


@check("torch")
def graphs_replay_calls(torch):
    x, w, wanted = torch_operands(torch)
    other, _, _ = torch_operands(torch, seed=1)
    cache = ms.KvCache.allocate(1, 2, 128, 64, page_size=16, like=x)
    k = torch.randn(1, 1, 2, 128, device="cuda").bfloat16()
    ms.cuda.load_kernels()
    graph = torch.cuda.CUDAGraph()
    place = other.clone()
    with torch.cuda.graph(graph):
        y = ms.matmul(place, w)
        t = ms.quantize(place)
        cache.append(k, k)
        o = ms.attention(k, cache=cache)
    before = torch.cuda.memory_allocated()
    for step in range(3):
        place.copy_(x)
        graph.replay()
    torch.cuda.synchronize()
    assert cache.lengths.tolist() == [3] and torch.isfinite(o).all()
    assert torch.equal(t.codes, ms.quantize(x).codes)
    assert torch.cuda.memory_allocated() - before < 1 << 20
    return close(y, wanted)


@check("torch")
def device_arrays_and_torch_share_memory(torch):
    array = ms.DeviceArray.from_host(np.arange(12, dtype=np.float32).reshape(3, 4))
    tensor = torch.from_dlpack(array)
    assert tensor.is_cuda and tensor.data_ptr() == array.ptr and tensor.tolist()[2] == [8, 9, 10, 11]


@check("torch")
def ten_thousand_calls_leak_nothing(torch):
    x, w, _ = torch_operands(torch)
    for _ in range(100):
        ms.matmul(x, w)
    torch.cuda.synchronize()
    before = torch.cuda.memory_allocated(), sys.getrefcount(x)
    for _ in range(10_000):
        ms.matmul(x, w)
    torch.cuda.synchronize()
    assert (torch.cuda.memory_allocated(), sys.getrefcount(x)) == before


@check("torch")
def two_devices(torch):
    if torch.cuda.device_count() < 2:
        return "one GPU here"
    x, w, wanted = torch_operands(torch)
    second = ms.pack_weights(ms.quantize(torch.randn(512, 1024)).to("cuda:1"))
    assert torch.cuda.current_device() == 0
    y = ms.matmul(x.to("cuda:1"), second)
    assert y.device.index == 1 and torch.cuda.current_device() == 0
    try:
        ms.matmul(x, second)
    except ValueError as error:
        assert "b: the array is on GPU 1, a is on GPU 0" in str(error)
    else:
        raise AssertionError("operands of two GPUs were taken")
    return close(ms.matmul(x, w), wanted)


@check("cupy")
def cupy_arrays(cupy):
    x = np.random.default_rng(0).standard_normal((8, 256)).astype(np.float16)
    weights = ms.quantize(np.random.default_rng(1).standard_normal((64, 256)).astype(np.float32))
    here = ms.quantize(x)
    with cupy.cuda.Stream(non_blocking=True) as stream:
        g = cupy.asarray(x)
        t = ms.quantize(g)
        w = ms.BlockTensor.from_parts(
            cupy.asarray(weights.codes),
            cupy.asarray(weights.scales),
            cupy.asarray([weights.global_scale], "f4"),
            format="nvfp4",
        )
        y = ms.matmul(g, w)
        stream.synchronize()
    assert isinstance(t.codes, cupy.ndarray) and np.array_equal(cupy.asnumpy(t.codes), here.codes)
    wanted = x.astype(np.float64) @ weights.dequantize().T
    assert np.abs(cupy.asnumpy(y) - wanted).max() < 0.01 * np.abs(wanted).max()
    return f"cupy {cupy.__version__}"


@check("jax")
def jax_arrays(jax):
    if jax.default_backend() != "gpu":
        return "jax has no GPU here"
    x = np.random.default_rng(0).standard_normal((8, 256)).astype(np.float16)
    t = ms.quantize(jax.numpy.asarray(x))
    assert np.array_equal(t.codes.numpy(), ms.quantize(x).codes)
    codes = jax.dlpack.from_dlpack(t.codes)
    assert np.array_equal(np.asarray(codes), ms.quantize(x).codes)
    return f"jax {jax.__version__}, results as {type(t.codes).__name__}"


@check("jax")
def jax_functions(jax):
    if jax.default_backend() != "gpu":
        return "jax has no GPU here"
    import microscale.jax as msj

    def error(found, wanted):
        return float(jax.numpy.linalg.norm(found - wanted) / jax.numpy.linalg.norm(wanted))

    x, dense = (jax.random.normal(jax.random.key(i), (rows, 256)) for i, rows in enumerate((5, 128)))
    w = jax.jit(msj.quantize)(dense)
    values = w.dequantize()
    assert error(values, dense) < 0.12
    with jax.default_matmul_precision("highest"):
        assert error(jax.jit(msj.matmul)(x, w), x @ values.T) < 0.01
    gradient = jax.jit(jax.grad(lambda x: msj.matmul(x, w).sum()))(x)
    assert error(gradient[0], values.sum(0)) < 0.01
    q, k, v = (jax.random.normal(jax.random.key(i), (2, 5, heads, 64)) for i, heads in enumerate((4, 2, 2)))
    o = jax.jit(lambda q, k, v: msj.attention(q, k, v, causal=True))(q, k, v)
    assert error(o, jax.nn.dot_product_attention(q, k, v, is_causal=True)) < 0.02
    return "quantize, dequantize, matmul, its gradient, attention, under jit"


@check("torch")
def times(torch):
    """Not a check: host time of a call, and a product in a graph, at the shapes of decoding."""
    m, n, k = 1, 8192, 8192
    x = torch.randn(m, k, device="cuda").bfloat16()
    dense = [torch.randn(n, k, device="cuda").bfloat16() for _ in range(4)]
    packed = [ms.pack_weights(ms.quantize(w)) for w in dense]
    out = torch.empty(m, n, device="cuda", dtype=torch.bfloat16)

    def host(call, calls=2000):
        best = 1e9
        for _ in range(5):
            torch.cuda.synchronize()
            torch.cuda._sleep(1_000_000_000)
            begun = time.perf_counter()
            for _ in range(calls // 10):
                call()
            best = min(best, (time.perf_counter() - begun) / (calls // 10))
            torch.cuda.synchronize()
        return best * 1e6

    def in_graph(call):
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            for i in range(100):
                call(i % 4)
        begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        best = 1e9
        for _ in range(5):
            begin.record()
            graph.replay()
            end.record()
            end.synchronize()
            best = min(best, begin.elapsed_time(end) * 10)
        return best

    with_out, without = host(lambda: ms.matmul(x, packed[0], out=out)), host(lambda: ms.matmul(x, packed[0]))
    theirs = host(lambda: torch.matmul(x, dense[0].T, out=out))
    ours_in_graph = in_graph(lambda i: ms.matmul(x, packed[i], out=out))
    theirs_in_graph = in_graph(lambda i: torch.matmul(x, dense[i].T, out=out))
    return (
        f"1 x {n} x {k}: host us of matmul with out {with_out:.1f}, without {without:.1f}, of torch.matmul "
        f"{theirs:.1f}; in a graph {ours_in_graph:.1f} us, torch BF16 {theirs_in_graph:.1f} us"
    )


def main():
    failed = 0
    for needs, function in CHECKS:
        module = framework(needs) if needs else None
        words = function.__name__.replace("_", " ")
        if needs and module is None:
            print(f"{'not run':8} {words}: {needs} is not installed")
            continue
        try:
            said = function(*([module] if module else []))
            print(f"{'ok':8} {words}" + (f": {said}" if said else ""), flush=True)
        except Exception:
            failed += 1
            print(f"{'FAILED':8} {words}", flush=True)
            traceback.print_exc()
    print(f"gpu_check_python: {len(CHECKS) - failed} of {len(CHECKS)} checks without a failure")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
