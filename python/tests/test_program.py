"""The command line in the wheel: `microscale` and `python -m microscale` are the program."""

import subprocess
import sys
from pathlib import Path

import pytest

import microscale as ms

SCRIPT = str(Path(sys.executable).parent / "microscale")


@pytest.fixture(params=["script", "module"])
def program(request):
    return [SCRIPT] if request.param == "script" else [sys.executable, "-m", "microscale"]


def run(command, *arguments):
    return subprocess.run([*command, *arguments], capture_output=True, text=True, timeout=60)


def test_version_is_the_packages(program):
    done = run(program, "--version")
    assert (done.returncode, done.stdout) == (0, f"microscale {ms.__version__}\n")


def test_exit_codes_are_the_programs(program, tmp_path):
    wrong = run(program, "quantze")
    assert wrong.returncode == 2 and "did you mean quantize" in wrong.stderr
    assert run(program, "inspect", str(tmp_path / "absent")).returncode == 4
    (tmp_path / "model.safetensors").write_bytes(b"no safetensors at all")
    assert run(program, "inspect", str(tmp_path)).returncode == 3
    assert run(program, "explain", "block", "1", "2", "--format", "mxfp4").returncode == 0


def test_evaluate_and_calibrate_say_what_they_need(tmp_path):
    (tmp_path / "torch.py").write_text("raise ImportError('no torch here')")
    (tmp_path / "text").write_text("a text")
    words = (
        f"import sys; sys.path.insert(0, {str(tmp_path)!r}); sys.argv[0] = 'microscale'; "
        "from microscale._cli import main; main()"
    )
    for command in (["evaluate"], ["compare", "--json"], ["compare"]):
        done = run([sys.executable, "-c", words], *command, "a", "b", "--text", str(tmp_path / "text"))
        assert done.returncode == 4 and "pip install 'microscale[transformers]'" in done.stderr, done.stderr
    for command in ("calibrate", "rotate"):
        done = run([sys.executable, "-c", words], command, "a", "-o", str(tmp_path / "out"))
        assert done.returncode == 4 and "pip install 'microscale[transformers]'" in done.stderr, done.stderr
    for command in ("evaluate", "calibrate", "rotate"):
        assert run([sys.executable, "-m", "microscale"], command, "--help").returncode == 0
