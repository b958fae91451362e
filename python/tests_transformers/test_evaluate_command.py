"""microscale evaluate and microscale compare --text, as somebody types them."""

import json
import shutil
import signal
import subprocess
import sys
import time

from types import SimpleNamespace

import pytest
from test_evaluate import TEXT, tokenizer  # noqa: F401

from microscale._evaluate_command import command, compare

PROGRAM = [sys.executable, "-m", "microscale"]


@pytest.fixture()
def run(capfd):
    """In this process: torch takes seconds to be imported."""

    def call(name, *arguments):
        words = [str(word) for word in arguments]
        try:
            code = (command if name == "evaluate" else compare)(words)
        except SystemExit as end:  # argparse's
            code = end.code
        out, err = capfd.readouterr()
        return SimpleNamespace(returncode=code, stdout=out, stderr=err)

    return call


@pytest.fixture()
def folders(models, tokenizer, tmp_path_factory):  # noqa: F811
    """Dense and packed, with a tokenizer and a text."""
    work = tmp_path_factory.mktemp("command")
    for kind in ("dense", "packed"):
        shutil.copytree(models.path("llama", kind), work / kind)
        tokenizer.save_pretrained(work / kind)
    (work / "text").write_text(TEXT)
    return [work / "dense", work / "packed", work / "text"]


def test_evaluate(folders, run):
    dense, packed, text = folders
    done = run("evaluate", dense, packed, "--text", text, "--context", 32)
    assert done.returncode == 0, done.stderr
    assert "5 chunks of 32 tokens, 75 scored" in done.stdout and "same top word" in done.stdout
    done = run("evaluate", dense, "--text", text, "--context", 32, "--chunks", "all", "--json")
    found = json.loads(done.stdout)
    assert found["chunks"] == 5 and found["perplexity"] > 1 and "kl_mean" not in found


def test_compare_with_a_text_has_both(folders, run):
    dense, packed, text = folders
    done = run("compare", dense, packed, "--text", text, "--context", 32, "--json", "--max-mse", "1e-9")
    assert done.returncode == 1, done.stderr  # the check's
    found = json.loads(done.stdout)
    assert found["within_max_mse"] is False and found["evaluation"]["kl_mean"] > 0
    done = run("compare", dense, packed, f"--text={text}", "--context", 32)
    assert done.returncode == 0 and done.stdout.index("Worst by relative MSE") < done.stdout.index(
        "KL divergence"
    )


def test_exit_codes(folders, tmp_path, run):
    dense, _, text = folders
    assert run("evaluate", dense).returncode == 2
    done = run("evaluate", dense, "--text", tmp_path / "absent")
    assert done.returncode == 4 and "absent" in done.stderr and "Traceback" not in done.stderr
    done = run("evaluate", dense, "--text", text)
    assert done.returncode == 3 and "one chunk takes context=512" in done.stderr
    done = run("evaluate", dense, "--text", text, "--chunks", "few")
    assert done.returncode == 2 and "--chunks" in done.stderr
    assert run("evaluate", tmp_path / "nothing", "--text", text).returncode == 4


def test_ctrl_c_leaves_nothing_behind(folders, tmp_path, monkeypatch):
    dense, _, text = folders
    long = tmp_path / "long"
    long.write_text(" ".join([text.read_text()] * 2000))
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    running = subprocess.Popen(
        [*PROGRAM, "evaluate", str(dense), "--text", str(long), "--chunks", "all", "--context", "32"],
        stderr=subprocess.PIPE, text=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # a shell's background ignores it
    )  # fmt: skip
    time.sleep(8)
    running.send_signal(signal.SIGINT)
    _, said = running.communicate(timeout=60)
    assert running.returncode == 130 and "stopped" in said and "Traceback" not in said, said
    assert [path.name for path in tmp_path.iterdir()] == ["long"]


def test_figures_go_into_the_report(folders, tmp_path, run):
    dense, packed, text = folders
    subprocess.run(
        [*PROGRAM, "quantize", str(dense), "-o", str(tmp_path / "q"), "--format", "nvfp4", "--report",
         str(tmp_path / "page.html")], check=True, capture_output=True,
    )  # fmt: skip
    for _ in range(2):
        done = run(
            "evaluate", dense, packed, "--text", text, "--context", 32, "--report", tmp_path / "page.html"
        )
        assert done.returncode == 0, done.stderr
    page = (tmp_path / "page.html").read_text()
    assert page.count('<section id="words">') == 1 and "KL divergence, mean" in page
    assert page.index('id="words"') < page.index('id="size"') and page.rstrip().endswith("</html>")
    (tmp_path / "other.html").write_text("<html></html>")
    done = run("evaluate", dense, "--text", text, "--context", 32, "--report", tmp_path / "other.html")
    assert done.returncode == 3 and "no report of microscale" in done.stderr
