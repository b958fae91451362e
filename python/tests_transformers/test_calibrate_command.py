"""microscale calibrate, as somebody types it."""

import json
import shutil
import signal
import subprocess
import sys
import time
from types import SimpleNamespace

import pytest
from test_evaluate import TEXT, tokenizer  # noqa: F401

from microscale._calibrate_command import command

PROGRAM = [sys.executable, "-m", "microscale"]


@pytest.fixture()
def run(capfd):
    """In this process: torch takes seconds to be imported."""

    def call(*arguments):
        try:
            code = command([str(word) for word in arguments])
        except SystemExit as end:  # argparse's
            code = end.code
        out, err = capfd.readouterr()
        return SimpleNamespace(returncode=code, stdout=out, stderr=err)

    return call


@pytest.fixture()
def folder(models, tokenizer, tmp_path):  # noqa: F811
    """A model with a tokenizer and a text of 167 words."""
    shutil.copytree(models.path("llama", "dense"), tmp_path / "m")
    tokenizer.save_pretrained(tmp_path / "m")
    (tmp_path / "text").write_text(TEXT)
    return tmp_path / "m"


def test_from_the_text_to_a_smaller_model(folder, tmp_path, run):
    statistics = tmp_path / "s.safetensors"
    done = run(folder, "--text", tmp_path / "text", "-o", statistics, "--sequence", 32, "--tokens", 100)
    assert done.returncode == 0 and not done.stderr, done.stderr
    first, second = done.stdout.splitlines()
    assert first == f"{statistics}: statistics of 14 layers, of 96 tokens in sequences of 32 (text)"
    words = second.partition("Next: microscale ")[2].replace("FOLDER", str(tmp_path / "q")).split()
    made = subprocess.run([*PROGRAM, *words], capture_output=True, text=True)
    assert made.returncode == 0 and "weighted by importance" in made.stdout + made.stderr, made.stderr
    assert run(folder, "-o", statistics).returncode == 3
    done = run(
        folder, "--random", "--hessian", "-o", tmp_path / "r", "--tokens", 64, "--sequence", 32, "--json"
    )
    found = json.loads(done.stdout)
    assert found["hessian"] and found["text"] == "random token ids, seed 0" and found["layers"] == 14


def whole(*arguments):
    """microscale quantize as a process: after the calibration another program takes its place."""
    return subprocess.run([*PROGRAM, "quantize", *map(str, arguments)], capture_output=True, text=True)


@pytest.fixture()
def quantize(capfd):
    """In this process, for what ends before a calibration does."""
    from microscale._quantize_command import command as quantize

    def call(*arguments):
        code = quantize([str(word) for word in arguments])
        out, err = capfd.readouterr()
        return SimpleNamespace(returncode=code, stdout=out, stderr=err)

    return call


def test_quantize_calibrates(folder, tmp_path, quantize, run):
    out, text = tmp_path / "q", tmp_path / "text"
    text.write_text(" ".join([TEXT] * 4))
    words = ("--format", "nvfp4", folder, "-o", out, "--threads=1")
    done = quantize(*words, f"--calibrate={text}", "--dry-run")
    assert done.returncode == 0 and not out.exists() and "will be written" in done.stdout
    done = whole(*words, "--calibrate", text, "--max-memory=128MiB")  # torch's is not counted
    assert done.returncode == 0 and "statistics of 14 layers, of 512 tokens" in done.stdout, done.stderr
    assert "Next:" not in done.stdout and "weighted by importance" in done.stdout + done.stderr
    assert sorted(path.name for path in tmp_path.iterdir()) == ["m", "q", "text"]
    for more, code, said in (
        (("--calibrate",), 2, "pass a file with a text"),
        (("--calibrate", text, "--importance", text), 2, "leave one out"),
        (("--calibrate", text, "--scale-rule", "best"), 2, "best"),
        (("--calibrate", tmp_path / "absent"), 4, "absent"),
    ):
        done = quantize("--format", "nvfp4", folder, "-o", tmp_path / "r", *more)
        assert done.returncode == code and said in done.stderr, (more, done.stderr)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["m", "q", "text"]


def test_quantize_calibrates_for_gptq(folder, tmp_path, quantize):
    text = tmp_path / "text"
    text.write_text(" ".join([TEXT] * 4))
    words = ("--format", "nvfp4", folder, "--threads=1", "--calibrate", text, "--method", "gptq")
    assert quantize(*words, "--shrink=0.3", "-o", tmp_path / "d", "--dry-run").returncode == 0
    done = whole(*words, "--shrink=0.3", "-o", tmp_path / "q", "--max-memory=128MiB")
    assert done.returncode == 0 and "and Hessians" in done.stdout, done.stderr
    for more, said in (
        (("--method", "best"), "--method got 'best'"),
        (("--shrink", "2"), "--shrink got '2'; it takes a number from 0 to 1"),
        (("--damping", "x"), "--damping got 'x'"),
    ):
        done = quantize(*words, *more, "-o", tmp_path / "r")
        assert done.returncode == 2 and said in done.stderr and not done.stdout, done.stderr
    assert sorted(path.name for path in tmp_path.iterdir()) == ["m", "q", "text"]


def test_quantize_rotates(folder, models, tmp_path, quantize):
    text = tmp_path / "text"
    text.write_text(" ".join([TEXT] * 4))
    words = (folder, "--threads=1", "--calibrate", text, "--rotate")
    for more, code, said in (
        (("--format", "nvfp4", "--method", "gptq"), 2, "is for --format mxfp4"),
        (("--format", "mxfp4"), 2, "give --method gptq, too"),
    ):
        done = quantize(*words, *more, "-o", tmp_path / "r")
        assert done.returncode == code and said in done.stderr, (more, done.stderr)
    words = (*words, "--format", "mxfp4", "--method", "gptq")
    done = quantize(models.path("olmo2", "dense"), *words[1:], "-o", tmp_path / "r")
    assert done.returncode == 3 and "come after attention" in done.stderr and not done.stdout, done.stderr
    words = [str(word) for word in (*words, "--shrink", "0.3", "-o", tmp_path / "q")]
    done = subprocess.run([*PROGRAM, "quantize", *words], capture_output=True, text=True)
    assert done.returncode == 0 and "rotated by blocks of 32" in done.stdout, done.stderr
    assert sorted(path.name for path in tmp_path.iterdir()) == ["m", "q", "text"]


def test_quantize_goes_on_with_its_statistics(folder, tmp_path, quantize):
    out, kept = tmp_path / "q", tmp_path / "q.statistics.safetensors"
    words = (folder, "-o", out, "--format", "nvfp4", "--calibrate", "random")
    kept.write_bytes(b"none")
    done = quantize(*words)
    assert done.returncode == 3 and "q.statistics.safetensors: it exists" in done.stderr
    done = whole(*words, "--resume")
    assert done.returncode == 3 and kept.exists() and "q.statistics.safetensors" in done.stderr


def test_sequences_come_from_all_of_the_text(folder, tmp_path, run):
    every = []
    for changed in (
        None,
        10,
        110,
        163,
    ):  # of 168 tokens: two sequences of 32, the first and the third of five
        words = TEXT.split()
        if changed is not None:
            words[changed] = "w250"
        (tmp_path / "text").write_text(" ".join(words))
        out = tmp_path / f"{changed}"
        done = run(folder, "--text", tmp_path / "text", "-o", out, "--tokens", 64, "--sequence", 32)
        assert done.returncode == 0, done.stderr
        every.append(out.read_bytes())
    assert [one == every[0] for one in every] == [True, False, True, True]


def test_exit_codes(folder, tmp_path, run):
    assert run(folder).returncode == 2  # no output
    done = run(folder, "-o", tmp_path / "s", "--max-memory", "much")
    assert done.returncode == 2 and "'much'; a size is 512M or 1GiB" in done.stderr
    done = run(folder, "-o", tmp_path / "s", "--text", tmp_path / "absent")
    assert done.returncode == 4 and "absent" in done.stderr and "Traceback" not in done.stderr
    (tmp_path / "empty").write_text("")
    done = run(folder, "-o", tmp_path / "s", "--text", tmp_path / "empty", "--tokens", 64)
    assert done.returncode == 0 and "gives 1 tokens, of 64" in done.stderr  # <s>
    assert run(tmp_path / "nothing", "-o", tmp_path / "t").returncode == 4


def test_ctrl_c_and_resume(folder, tmp_path, run):
    words = [str(folder), "--random", "-o", str(tmp_path / "s"), "--sequence", "256", "--tokens"]
    running = subprocess.Popen(
        [*PROGRAM, "calibrate", *words, "400000"],
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # a shell's background ignores it
    )
    for _ in range(3000):
        if (tmp_path / "s.part").exists():
            break
        time.sleep(0.1)
    running.send_signal(signal.SIGINT)
    _, said = running.communicate(timeout=60)
    assert running.returncode == 130 and "--resume goes on" in said and "Traceback" not in said, said
    assert (tmp_path / "s.part").is_dir() and not (tmp_path / "s").exists()
    done = run(*words, "512", "--resume")
    assert done.returncode == 3 and "begun with another tokens" in done.stderr, done.stderr
