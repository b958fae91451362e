"""microscale.emulator.launch: arguments in and out, findings as objects, refusals."""

import ctypes
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest

import microscale as ms
from microscale import emulator

ROOT = Path(__file__).parents[2]
BUGS = ROOT / "tests/emulator/bugs_found/bugs.ptx"
HEAD = ".version 8.0\n.target sm_90a\n.address_size 64\n"
THREAD = (
    ".reg .b32 %r<9>; .reg .b64 %d<9>; .reg .f32 %f<9>; .reg .pred %p<3>;\n"
    "mov.u32 %r1, %ctaid.x; mov.u32 %r2, %ntid.x; mov.u32 %r3, %tid.x; mad.lo.u32 %r4, %r1, %r2, %r3;\n"
    "mul.wide.u32 %d1, %r4, 4;\n"
)
# scale(float const* x, float* y, float by): y[i] = by * x[i]
SCALE = (
    HEAD
    + ".visible .entry _Z5scalePKfPff(.param .u64 a, .param .u64 b, .param .f32 c) {\n"
    + THREAD
    + "ld.param.u64 %d2, [a]; ld.param.u64 %d3, [b]; ld.param.f32 %f1, [c]; add.s64 %d4, %d2, %d1;\n"
    "add.s64 %d5, %d3, %d1;\nld.global.f32 %f2, [%d4];\n"
    "mul.rn.f32 %f3, %f1, %f2; st.global.f32 [%d5], %f3; ret;\n}\n"
)


def test_arrays_go_in_and_out():
    x, y = np.arange(64, dtype=np.float32), np.zeros(64, np.float32)
    report = emulator.launch(SCALE, "scale", 2, 32, [x, y, 3])
    assert report.ok and report.check() is report and report.completed
    assert report.kernel == "scale(float const*, float*, float)" and report.warp_instructions > 0
    np.testing.assert_array_equal(y, 3 * x)
    assert "no findings" in str(report)


def test_arrays_with_gaps_come_back_into_their_places():
    both = np.zeros((64, 2), np.float32)
    both[:, 0] = np.arange(64)
    emulator.launch(SCALE, args=[both[:, 0], both[:, 1], 2.0], grid=(2,), block=(32, 1, 1)).check()
    np.testing.assert_array_equal(both[:, 1], 2 * both[:, 0])


def test_one_array_given_twice_is_one_buffer():
    x = np.ones(32, np.float32)
    emulator.launch(SCALE, block=32, args=[x, x, 5]).check()
    assert (x == 5).all()


def test_a_finding_says_who_where_and_what():
    x, y = np.ones(63, np.float32), np.zeros(64, np.float32)
    report = emulator.launch(SCALE, "scale", 2, 32, [x, y, 3], names=["x", "y", "by"])
    (finding,) = report.findings
    assert finding.kind == "out-of-bounds" and not report.completed
    assert (finding.block, finding.thread, finding.ptx_line) == ((1, 0, 0), (31, 0, 0), 10)
    assert (finding.argument, finding.object, finding.access) == (0, "x + 252", "reads")
    assert finding.address and finding.count == 1 and finding.source is None
    assert "index" in finding.cure and finding.cuda_words
    with pytest.raises(emulator.FindingsError, match="out-of-bounds.*\n.*in CUDA.*\n.*cure") as caught:
        report.check()
    assert caught.value.report is report and isinstance(caught.value, ms.Error)


def test_outputs_tell_what_nobody_wrote_or_what_was_read_before():
    x, y = np.ones(32, np.float32), np.full(64, 7, np.float32)
    report = emulator.launch(SCALE, block=32, args=[x, emulator.Output(y), 2], names=["x", "y", "by"])
    assert not report.ok and report.findings == []
    np.testing.assert_array_equal(report.unwritten["y"], np.arange(32, 64))
    assert (y[:32] == 2).all() and (y[32:] == 7).all()
    unread = emulator.launch(SCALE, block=32, args=[emulator.Output(x), y, 2])
    assert [each.kind for each in unread.findings] == ["uninitialised-memory"]


def test_lines_of_source_and_causes():
    n = 128
    report = emulator.launch(
        BUGS, "softmax_row<false>", 1, 128, [np.ones(n, np.float32), np.zeros(n, np.float32), n]
    )
    first = report.findings[0]
    assert first.kind == "race" and first.file == "bugs.cu" and first.object == "part"
    assert [each.same_cause for each in report.findings][0] is False
    assert "__syncthreads" in first.cure
    good = emulator.launch(
        BUGS, "softmax_row<true>", 1, 128, [np.ones(n, np.float32), np.zeros(n, np.float32), n]
    )
    assert good.ok, str(good)


def test_counters():
    x = np.ones(32, np.float32)
    report = emulator.launch(SCALE, block=32, args=[x, x, 1], count=True)
    load = next(line for line in report.lines if line.opcode.startswith("ld") and line.sectors)
    assert (load.warps, load.lanes, load.sectors, load.ideal_sectors) == (1, 32, 4, 4)
    assert report.totals()["sectors"] == 8
    assert emulator.launch(SCALE, block=32, args=[x, x, 1]).lines == []


STRUCT = (
    HEAD
    + ".visible .entry k(.param .align 8 .b8 s[16]) {\n"
    + THREAD
    + "ld.param.u64 %d2, [s]; ld.param.u32 %r5, [s+8]; ld.param.f32 %f1, [s+12]; add.s64 %d3, %d2, %d1;\n"
    "cvt.rn.f32.u32 %f2, %r5; add.rn.f32 %f3, %f1, %f2; st.global.f32 [%d3], %f3; ret;\n}\n"
)


class Pair(ctypes.Structure):
    _fields_ = [("out", ctypes.c_uint64), ("n", ctypes.c_uint32), ("by", ctypes.c_float)]


def test_structs_by_fields_and_by_bytes():
    for fields in (
        lambda y: (y, np.uint32(3), np.float32(0.5)),
        lambda y: {"out": y, "n": np.uint32(3), "by": np.float32(0.5)},
    ):
        y = np.zeros(32, np.float32)
        emulator.launch(STRUCT, block=32, args=[fields(y)]).check()
        assert (y == 3.5).all()
    null = emulator.launch(STRUCT, block=32, args=[Pair(0, 3, 0.5)])
    assert "null address" in null.findings[0].message
    with pytest.raises(ValueError, match=r"field \[1\]: 3 has no size of its own; write numpy.int32\(3\)"):
        emulator.launch(STRUCT, block=32, args=[(y, 3, 0.5)])
    with pytest.raises(ValueError, match="8 bytes were given; it takes 16"):
        emulator.launch(STRUCT, block=32, args=[(y,)])
    with pytest.raises(ValueError, match="struct of 16 bytes; pass a tuple"):
        emulator.launch(STRUCT, block=32, args=[3])


@pytest.mark.parametrize(
    "args, says",
    [
        ([1], "args: 1 for scale.*takes 3: float const\\*, float\\*, float"),
        ([1, 2, 3], r"args\[0\] \(float const\*\): 1 is no array"),
        (
            [np.ones(32), np.ones(32, "f4"), 3],
            r"args\[0\] \(float const\*\): an array of float64.*astype\(numpy.float32\)",
        ),
        ([np.ones(32, "f4"), np.ones(32, "f4"), np.ones(32, "f4")], r"args\[2\] \(float\): an array"),
        (
            [np.ones(32, "f4"), np.ones(32, "f4"), "3"],
            r"args\[2\] \(float\): expected a number, got the string",
        ),
        ([np.ones(32, "f4"), np.ones(32, "f4"), None], "no pointer"),
    ],
)
def test_wrong_arguments_are_refused_by_name(args, says):
    with pytest.raises(ValueError, match=says) as caught:
        emulator.launch(SCALE, block=32, args=args)
    assert isinstance(caught.value, ms.Error)


def test_wrong_launches_are_refused():
    x = np.ones(32, np.float32)
    args = [x, x, 1]
    for named, says in (
        ({"block": 2048}, "a block of 2048"),
        ({"grid": 0}, "grid: 0; pass a positive number"),
        ({"schedule": "best"}, "schedule: there is no 'best'; choose one of round_robin, reverse, random"),
        ({"kernel": "absent"}, "kernel got 'absent', which no kernel here is called"),
        ({"arch": "sm_7"}, "choose one of sm_75"),
        ({"budget": 0}, "budget: 0; pass 1 or more"),
        ({"symbols": {"coef": x}}, "symbols got 'coef'"),
    ):
        with pytest.raises(ms.Error, match=says):
            emulator.launch(SCALE, **{"block": 32, "args": args, **named})
    with pytest.raises(ms.Error, match="neither PTX"):
        emulator.launch("int main() {}\n")
    with pytest.raises(FileNotFoundError):
        emulator.launch("absent.ptx")
    with pytest.raises(ms.Error, match="PTX line 4"):
        emulator.launch(HEAD + ".entri k() {}\n")
    x.flags.writeable = False
    with pytest.raises(ms.Error, match="the array is read-only; pass a copy"):
        emulator.launch(SCALE, block=32, args=[x, x, 2])


def test_variables_of_the_module():
    text = (
        HEAD
        + ".const .align 4 .f32 by = 0f40000000;\n.global .align 4 .u32 counter;\n"
        ".visible .entry k(.param .u64 p) {\n"
        + THREAD
        + "ld.param.u64 %d2, [p]; add.s64 %d3, %d2, %d1; ld.const.f32 %f1, [by]; st.global.f32 [%d3], %f1;\n"
        "red.global.add.u32 [counter], 1; ret;\n}\n"
    )
    y, count = np.zeros(32, np.float32), np.zeros(1, np.uint32)
    report = emulator.launch(
        text, block=32, args=[y], symbols={"by": np.float32([9])}, read_symbols={"counter": count}
    )
    assert (y == 9).all() and count[0] == 32 and report.symbols["counter"] is count


def test_what_kernels_print():
    text = (
        HEAD + ".extern .func (.param .b32 r) vprintf (.param .b64 a, .param .b64 b);\n"
        ".global .align 1 .b8 text[4] = {104, 105, 10, 0};\n.visible .entry k() {\n.reg .b64 %d<3>;\n"
        "mov.u64 %d1, text; cvta.global.u64 %d1, %d1; mov.u64 %d2, 0;\n"
        "{ .param .b64 f; st.param.b64 [f], %d1;\n"
        ".param .b64 a; st.param.b64 [a], %d2; .param .b32 back;\n"
        "call.uni (back), vprintf, (f, a); }\nret;\n}\n"
    )
    assert emulator.launch(text, block=2).printed == "hi\nhi\n"


ENDLESS = HEAD + ".visible .entry k() {\n$L1:\n bra $L1;\n}\n"


def test_a_budget_ends_an_endless_kernel():
    report = emulator.launch(ENDLESS, block=32, budget=1000)
    assert [each.kind for each in report.findings] == ["endless"] and not report.completed


def test_other_threads_run_meanwhile_and_ctrl_c_ends_it():
    program = (
        f"import microscale.emulator as e\nprint('begun', flush=True)\ne.launch({ENDLESS!r}, block=32)\n"
    )
    running = subprocess.Popen(
        [sys.executable, "-c", program],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # a shell's background ignores it
    )
    assert running.stdout.readline() == "begun\n"
    time.sleep(0.3)
    os.kill(running.pid, signal.SIGINT)
    _, err = running.communicate(timeout=60)
    assert "KeyboardInterrupt" in err, err

    ticks = []
    worker = threading.Thread(target=lambda: emulator.launch(ENDLESS, block=32, budget=20_000_000))
    worker.start()
    while worker.is_alive():
        ticks.append(time.monotonic())
        time.sleep(0.001)
    assert len(ticks) > 3


def test_same_results_at_any_number_of_threads_and_schedules():
    for options in (
        {"threads": 1},
        {"threads": 4},
        {"schedule": "random", "seed": 5},
        {"schedule": "reverse"},
    ):
        x, y = np.arange(256, dtype=np.float32), np.zeros(256, np.float32)
        emulator.launch(SCALE, "scale", 8, 32, [x, y, 3], **options).check()
        np.testing.assert_array_equal(y, 3 * x)


CUDA = """
// A comment: void add(int no)
__global__ void add(const float* a, float *b, float4 shift, int n = 4) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i <= n) b[i] = a[i] + shift.y;
}
"""


@pytest.mark.skipif(
    not shutil.which("nvcc") and not Path("/usr/local/cuda/bin/nvcc").exists(),
    reason="no nvcc compiles .cu files here",
)
def test_cuda_source(tmp_path):
    a, b = np.arange(64, dtype=np.float32), np.zeros(64, np.float32)
    report = emulator.launch(CUDA, "add", 2, 32, [a, b, (0, 1, 0, 0), 63], arch="sm_80")
    assert report.ok and (b == a + 1).all()
    file = tmp_path / "add.cu"
    file.write_text(CUDA)
    wrong = emulator.launch(file, "add", 3, 32, [a, b, (0, 1, 0, 0), 64])
    assert str(wrong.findings[0].place) == "add.cu:5" and wrong.findings[0].object in ("a + 256", "b + 256")
    with pytest.raises(ms.Error, match="nvcc gave exit code"):
        emulator.launch(CUDA.replace("float4", "flaot4"), "add", 2, 32, [a, b, 1, 64])
