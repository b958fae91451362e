"""Threads, fork, the end of the interpreter during a call, and memory: whole processes."""

import gc
import os
import subprocess
import sys
import threading

import numpy as np
import pytest

import microscale as ms


def run(code, timeout=60):
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=timeout)
    assert done.returncode == 0, (done.returncode, done.stdout, done.stderr)
    return done.stdout


def test_threads_call_at_once():
    x = np.random.default_rng(0).standard_normal((64, 256)).astype(np.float32)
    weights = ms.quantize(x)
    wanted, wrong = ms.matmul(x, weights), []

    def work():
        for _ in range(50):
            if not np.array_equal(ms.matmul(x, weights), wanted) or not np.array_equal(
                ms.quantize(x).codes, weights.codes
            ):
                wrong.append(1)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_the_gil_is_free_during_a_call():
    x = np.ones((1024, 1024), np.float32)
    ticks, done = [], threading.Event()

    def tick():
        while not done.wait(0.001):
            ticks.append(1)

    ticker = threading.Thread(target=tick)
    ticker.start()
    try:
        ms.quantize(x, scale_rule="full", threads=1)
    finally:
        during = len(ticks)
        done.set()
        ticker.join()
    assert during >= 2


def test_a_thread_has_defaults_of_its_own():
    seen = []

    def other():
        try:
            ms.quantize(np.ones((1, 64), np.float32), backend=None)
            seen.append("fine")
        except Exception as error:
            seen.append(error)

    with ms.context(backend="cuda"):
        with pytest.raises(Exception):
            ms.quantize(np.ones((1, 64), np.float32))
        thread = threading.Thread(target=other)
        thread.start()
        thread.join()
    assert seen == ["fine"]
    ms.quantize(np.ones((1, 64), np.float32))


def test_a_forked_child_computes():
    run("""
import os, numpy as np, microscale as ms
def quantize(x): return ms.quantize(x)
x = np.random.default_rng(0).standard_normal((512, 1024)).astype(np.float32)
wanted = ms.quantize(x).codes
child = os.fork()
if child == 0:
    os._exit(0 if np.array_equal(ms.quantize(x).codes, wanted) else 3)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
import multiprocessing
with multiprocessing.get_context("fork").Pool(2) as pool:
    assert all(np.array_equal(t.codes, wanted) for t in pool.map(quantize, [x, x]))
""")


def test_a_child_forked_during_a_call_ends():
    run("""
import os, threading, time, numpy as np, microscale as ms
x = np.ones((1024, 1024), np.float32)
thread = threading.Thread(target=lambda: ms.quantize(x, scale_rule="full"))
thread.start()
time.sleep(0.05)
child = os.fork()
if child == 0:
    ms.quantize(x[:4])
    raise SystemExit(0)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
thread.join()
""")


def test_the_interpreter_ends_during_a_call():
    run("""
import threading, time, numpy as np, microscale as ms
x = np.ones((1024, 1024), np.float32)
def work():
    while True:
        ms.quantize(x, scale_rule="full")
for _ in range(2):
    threading.Thread(target=work, daemon=True).start()
time.sleep(0.2)
""")


def test_the_interpreter_ends_during_a_conversion(tmp_path):
    from models import write_model

    write_model(tmp_path / "model", layers=3, hidden=1024)
    run(
        f"""
import threading, time, microscale as ms
threading.Thread(target=lambda: ms.quantize_model({str(tmp_path / "model")!r}, {str(tmp_path / "q")!r},
                 scale_rule="full", threads=1), daemon=True).start()
time.sleep(0.3)
""",
        timeout=20,
    )


def resident():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGESIZE")


def test_ten_thousand_calls_leak_nothing():
    x = np.random.default_rng(0).standard_normal((2, 64)).astype(np.float32)
    weights, out = ms.quantize(np.ones((16, 64), np.float32)), np.empty((2, 16), np.float32)
    packed = ms.pack_weights(weights)
    cache = ms.KvCache.allocate(1, 1, 32, 16, format="mxfp8")
    q = np.ones((1, 1, 1, 32), np.float32)

    def calls(count):
        for _ in range(count):
            t = ms.quantize(x)
            t.dequantize()
            ms.matmul(x, packed)
            ms.matmul(t, weights, out=out, threads=1)
            cache.lengths[:] = 0
            cache.append(q, q)
            ms.attention(q, cache=cache)
            try:
                ms.matmul(q, packed)
            except ValueError:
                pass

    watched = (x, out, q, weights, packed, cache, weights.codes, weights.scales, np.dtype("f4"))
    with ms.context(threads=1):
        calls(500)
        gc.collect()
        references, memory = [sys.getrefcount(thing) for thing in watched], resident()
        calls(10_000)
        gc.collect()
    after = [sys.getrefcount(thing) for thing in watched]
    assert all(abs(b - a) < 100 for a, b in zip(references, after)), (references, after)
    assert resident() - memory < 2_000_000


def test_many_threads_make_their_first_call_at_once():
    for _ in range(3):
        run("""
import sys, threading, numpy as np, microscale as ms
sys.setswitchinterval(1e-6)
barrier, x = threading.Barrier(8), np.ones((4, 64), np.float32)
def work():
    barrier.wait()
    ms.matmul(x, ms.quantize(x))
threads = [threading.Thread(target=work) for _ in range(8)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
""")
