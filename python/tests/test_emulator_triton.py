"""microscale.emulator.triton: twelve kernels, compiled without a GPU for three of them, beside NumPy."""

import numpy as np
import pytest

import microscale as ms
from microscale import emulator

pytest.importorskip("triton", reason="triton is not installed: its kernels are not compiled and run")

import triton_kernels as kernels  # noqa: E402

ARCHS = ("sm_80", "sm_90", "sm_120")
rng = np.random.default_rng(3)


def normal(*shape):
    return rng.standard_normal(shape, dtype=np.float32)


@pytest.fixture(params=ARCHS)
def arch(request):
    return request.param


@pytest.fixture
def run(arch):
    """Runs a kernel for one architecture; nothing may be found."""

    def launch(kernel, grid, args, **named):
        return emulator.triton(kernel, grid, args, arch=arch, **named).check()

    return launch


def test_vector_add(run):
    x, y, out = normal(1000), normal(1000), np.empty(1000, np.float32)
    report = run(kernels.vector_add, 4, [x, y, emulator.Output(out), 1000], BLOCK=256)
    np.testing.assert_array_equal(out, x + y)
    assert report.kernel == "vector_add" and report.warp_instructions > 0


def softmax_of(x):
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def test_softmax(run):
    x, out = normal(5, 100), np.empty((5, 100), np.float32)
    run(kernels.softmax, (5,), [x, emulator.Output(out), 100], BLOCK=128)
    np.testing.assert_allclose(out, softmax_of(x), rtol=1e-5)


def test_layernorm(run):
    x, w, b, out = normal(4, 200), normal(200), normal(200), np.empty((4, 200), np.float32)
    run(kernels.layernorm, 4, [x, w, b, emulator.Output(out), 200, 1e-5], BLOCK=256)
    wanted = (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + 1e-5) * w + b
    np.testing.assert_allclose(out, wanted, rtol=1e-4, atol=1e-5)


def test_matmul(run):
    m, n, k = 70, 64, 96
    a, b, c = normal(m, k).astype("f2"), normal(k, n).astype("f2"), np.empty((m, n), np.float32)
    run(kernels.matmul, (2, 1), [a, b, emulator.Output(c), m, n, k], M=64, N=64, K=32)
    np.testing.assert_allclose(c, a.astype("f4") @ b.astype("f4"), rtol=1e-3, atol=1e-3)


def test_matmul_fp8(run, arch):
    types = pytest.importorskip("ml_dtypes", reason="ml_dtypes is not installed: no float8 arrays")
    fp8 = types.float8_e5m2 if arch == "sm_80" else types.float8_e4m3fn  # which Triton has there
    a, b, c = normal(64, 64).astype(fp8), normal(64, 64).astype(fp8), np.empty((64, 64), np.float32)
    run(kernels.matmul, (1, 1), [a, b, emulator.Output(c), 64, 64, 64], M=64, N=64, K=32)
    np.testing.assert_allclose(c, a.astype("f4") @ b.astype("f4"), rtol=1e-2, atol=5e-2)


def test_reduction(run):
    x, out = normal(50, 60), np.empty(60, np.float32)
    run(kernels.column_sums, 2, [x, emulator.Output(out), 50, 60], R=16, C=32)
    np.testing.assert_allclose(out, x.sum(0), rtol=1e-4, atol=1e-5)


def test_scan(run):
    x, out = rng.integers(-9, 9, (3, 120), np.int32), np.empty((3, 120), np.int32)
    run(kernels.running_sum, 3, [x, emulator.Output(out), 120], BLOCK=128)
    np.testing.assert_array_equal(out, x.cumsum(1))


def test_atomics(run):
    x, counts = rng.integers(0, 10, 500, np.int32), np.zeros(10, np.int32)
    run(kernels.count_values, lambda meta: (-(-500 // meta["BLOCK"]),), [x, counts, 500], BLOCK=128)
    np.testing.assert_array_equal(counts, np.bincount(x, minlength=10))


def test_attention(run):
    q, k, v = (normal(50, 32).astype("f2") for _ in range(3))
    out = np.empty((50, 32), np.float32)
    run(kernels.attention, 2, [q, k, v, emulator.Output(out), 50, 32**-0.5], M=32, N=32, D=32)
    q, k, v = q.astype("f4"), k.astype("f4"), v.astype("f4")
    np.testing.assert_allclose(out, softmax_of(q @ k.T * 32**-0.5) @ v, rtol=5e-3, atol=5e-3)


def test_dropout(run):
    x, out = np.ones(512, np.float32), np.empty(512, np.float32)
    run(kernels.dropout, 2, [x, emulator.Output(out), 512, 0.75, 7], BLOCK=256)
    assert set(np.unique(out)) == {np.float32(0), np.float32(1 / 0.75)}
    kept = int((out > 0).sum())
    assert abs(kept - 0.75 * 512) < 5 * (512 * 0.75 * 0.25) ** 0.5


def test_gather(run):
    table, index, out = normal(20, 30), rng.integers(0, 20, 6, np.int64), np.empty((6, 30), np.float32)
    run(kernels.gather_rows, 6, [table, index, emulator.Output(out), 30], BLOCK=32)
    np.testing.assert_array_equal(out, table[index])


def test_transposition(run):
    x, out = normal(40, 70), np.empty((70, 40), np.float32)
    run(kernels.transpose, (2, 3), [x, emulator.Output(out), 40, 70], BLOCK=32)
    np.testing.assert_array_equal(out, x.T)


def test_an_access_beyond_the_end_names_argument_and_line():
    x, y, out = normal(250), normal(250), normal(250)
    report = emulator.triton(kernels.vector_add_unguarded, 1, [x, y, out, 250], BLOCK=256, num_warps=1)
    first = report.findings[0]
    assert first.kind == "out-of-bounds" and first.argument == 0 and first.object.startswith("x + ")
    assert first.file == "triton_kernels.py" and first.line


def test_wrong_calls_are_refused():
    x = normal(16)
    for args, constants, says in (
        ([x, x, x], {"BLOCK": 16}, "nothing for 'n'"),
        ([x, x, x, 16, 1], {"BLOCK": 16}, "1 too many"),
        ([x, x, x, 16], {"BLOK": 16}, "BLOK: the kernel has no such parameter"),
        ([x, x, "x", 16], {"BLOCK": 16}, "out: expected an array or a number, got str"),
    ):
        with pytest.raises(ms.Error, match=says):
            emulator.triton(kernels.vector_add, 1, args, **constants)
    with pytest.raises(ms.Error, match="pass sm_80"):
        emulator.triton(kernels.vector_add, 1, [x, x, x, 16], arch="gfx942", BLOCK=16)
    with pytest.raises(ms.Error, match="what @triton.jit makes"):
        emulator.triton(print, 1, [])
