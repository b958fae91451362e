"""The command line `microscale quantize --calibrate TEXT`: calibrate, with --rotate rotate, then the
program's quantize by it."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Sequence

from ._calibrate_command import command as calibrate
from ._core import cli
from ._rotate_command import command as rotate
from ._rotate_command import unrotatable

_USAGE, _BAD_INPUT = 2, 3
_SOURCES = {"sample": [], "random": ["--random"]}


def command(arguments: Sequence[str]) -> int:
    """microscale quantize ... --calibrate TEXT: prints, and returns the exit code of what cannot be
    calibrated. After a calibration another program takes this process's place (_finish)."""
    text, rest = _taken(arguments, "--calibrate")
    if text is None:
        return _end("--calibrate: pass a file with a text, or one of the words sample and random", _USAGE)
    rotates = "--rotate" in rest
    rest = [word for word in rest if word != "--rotate"]
    program = [sys.executable, "-m", "microscale", "quantize"]
    values, words = _values(subprocess.run([*program, "--help"], capture_output=True, text=True).stdout), []
    given: dict[str, str] = {}
    left = iter(rest)
    for word in left:
        name, _, value = word.partition("=")
        if not word.startswith("-") or word == "-":
            words.append(word)
        elif name in values:
            given[name] = value if "=" in word else next(left, "")
        else:
            given[name] = ""
    trial = _without(["--method", "--shrink", "--damping"], rest)  # what only statistics have a use for
    if "--dry-run" in given or "--help" in given or "-h" in given:
        return int(cli(["quantize", *trial]))
    if "--importance" in given:
        return _end("--calibrate makes what --importance reads; leave one out", _USAGE)
    wrong = _wrong_use(given) or (_wrong_rotation(given) if rotates else "")
    if wrong:
        return _end(wrong, _USAGE)
    tried = subprocess.run([*program, *trial, "--dry-run"], capture_output=True, text=True)
    if tried.returncode != 0:  # now, not after the calibration
        sys.stderr.write(tried.stderr)
        return tried.returncode
    model, out = words[0], given.get("-o") or given["--output"]
    if model.endswith(".gguf") and out.endswith(".gguf"):
        return _end(
            "--calibrate: a GGUF file made of a GGUF file keeps that one's names; make a folder first "
            "(microscale dequantize), and quantize it",
            _USAGE,
        )
    if rotates and (wrong := unrotatable(model)):
        return _end(wrong, _BAD_INPUT)
    statistics = out.rstrip(os.sep) + ".statistics.safetensors"
    if not ("--resume" in given and os.path.exists(statistics)):
        code = calibrate(
            [model, "-o", statistics, *_SOURCES.get(text, ["--text", text])]
            + (["--hessian"] if given.get("--method", "search") != "search" else [])
            + (["--gradients"] if "--bits" in given or "--fit" in given else [])
            + (["--device", given["--device"].partition(":all")[0]] if "--device" in given else [])
            + (["--resume"] if "--resume" in given else [])
            + ["--no-next"]
        )
        if code != 0:
            return code
    made = [statistics]
    if rotates:
        rotated = out.rstrip(os.sep) + ".rotated"
        made += [rotated, rotated + ".statistics.safetensors"]
        if not ("--resume" in given and all(map(os.path.exists, made))):
            code = rotate(
                [model, "-o", rotated, "--statistics", statistics, "--no-next"]
                + (["--shrink", given["--shrink"]] if "--shrink" in given else [])
                + (["--device", given["--device"].partition(":all")[0]] if "--device" in given else [])
            )
            if code != 0:
                return code
        rest = [rotated if word == model else word for word in _without(["--shrink"], rest)]
    sys.stdout.flush()
    sys.stderr.flush()
    # In place of this process, which torch made so large that --max-memory could not be kept.
    program = [sys.executable, "-m", "microscale._quantize_command", json.dumps(made)]
    os.execv(sys.executable, [*program, *rest])


def _finish(made: Sequence[str], arguments: Sequence[str]) -> int:
    """Quantizes by a file of statistics, the last that was made for it, and removes all of them; returns the
    exit code."""
    code = int(cli(["quantize", *arguments, "--importance", made[-1]]))
    if code == 0:
        for path in made:
            shutil.rmtree(path) if os.path.isdir(path) else os.remove(path)
    return code


def _wrong_use(given: dict[str, str]) -> str:
    """What is wrong with the options that say how statistics are used; "" if nothing is."""
    method = given.get("--method", "gptq")
    if method not in ("gptq", "block-hessian", "search"):
        return f"--method got '{method}'; choose one of gptq, block-hessian, search"
    for name, most in (("--shrink", 1.0), ("--damping", float("inf"))):
        try:
            if not 0 <= float(given.get(name, "0")) <= most:
                raise ValueError
        except ValueError:
            limits = "from 0 to 1" if most == 1 else "that is 0 or more"
            return f"{name} got '{given[name]}'; it takes a number {limits}"
    return ""


def _wrong_rotation(given: dict[str, str]) -> str:
    if given.get("--format") != "mxfp4":
        return "--rotate is for --format mxfp4; NVFP4 and 8-bit formats lose by it"
    if given.get("--method", "search") != "gptq":
        return "--rotate makes a model worse unless errors are made good: give --method gptq, too"
    return ""


def _without(names: Sequence[str], words: Sequence[str]) -> list[str]:
    """The words but for some options and their values."""
    found, left = [], iter(words)
    for word in left:
        if word.partition("=")[0] not in names:
            found.append(word)
        elif "=" not in word:
            next(left, None)
    return found


def _taken(arguments: Sequence[str], name: str) -> tuple[str | None, list[str]]:
    """The value of an option, and the words without it."""
    words = list(arguments)
    for i, word in enumerate(words):
        if word.startswith(name + "="):
            return word.partition("=")[2] or None, words[:i] + words[i + 1 :]
        if word == name:
            return words[i + 1] if i + 1 < len(words) else None, words[:i] + words[i + 2 :]
    return None, words


def _values(text: str) -> set[str]:
    """Options that take a value, by the program's help."""
    found = re.findall(r"^  (?:(-\w),)?(--[\w-]+) [A-Z]", text, re.MULTILINE)
    return {name for pair in found for name in pair if name}


def _end(sentence: str, code: int) -> int:
    print(f"microscale quantize: {sentence}", file=sys.stderr)
    return code


if __name__ == "__main__":
    sys.exit(_finish(json.loads(sys.argv[1]), sys.argv[2:]))
