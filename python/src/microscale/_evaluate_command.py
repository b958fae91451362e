"""The command lines `microscale evaluate` and `microscale compare --text`."""

from __future__ import annotations

import argparse
import json
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from ._core import cli
from ._evaluate import NEEDS, evaluate
from ._evaluate_report import add_to_report, check_report
from ._progress_line import ProgressLine

if TYPE_CHECKING:
    from .transformers import Evaluation

_SUCCESS, _USAGE, _BAD_INPUT, _RESOURCES = 0, 2, 3, 4


def command(arguments: Sequence[str]) -> int:
    """microscale evaluate ...: prints, and returns the exit code."""
    options = _parser().parse_args(arguments)
    found = _attempt(options, ProgressLine("evaluate"))
    if isinstance(found, int):
        return found
    if options.json:
        print(json.dumps(found.to_dict(), indent=2))
    else:
        for note in found.notes:
            print(f"note: {note}", file=sys.stderr)
        print(found)
    return _SUCCESS


def compare(arguments: Sequence[str]) -> int:
    """microscale compare A B --text FILE ...: the program's comparison by tensor, then the evaluation."""
    parser = _parser("compare")
    parser.add_argument("--max-mse")
    parser.add_argument("--threads")
    options = parser.parse_args(arguments)
    words = ["compare", options.model, options.other]
    for name in ("max_mse", "threads"):
        value = getattr(options, name)
        if value is not None:
            words += ["--" + name.replace("_", "-"), value]
    line = ProgressLine("compare")
    try:
        from . import transformers  # noqa: F401  to say at once that it is missing
    except ImportError as error:
        return line.end(f"{NEEDS} ({error})", _RESOURCES)
    if not options.json:
        code = cli(words)
        if code > 1:
            return code
        sys.stdout.flush()
        found = _attempt(options, line)
        if isinstance(found, int):
            return found
        print(f"\n{found}")
        return code
    done = subprocess.run(
        [sys.executable, "-m", "microscale", *words, "--json"], stdout=subprocess.PIPE, text=True
    )
    if done.returncode > 1:
        return done.returncode
    found = _attempt(options, line)
    if isinstance(found, int):
        return found
    print(json.dumps({**json.loads(done.stdout), "evaluation": found.to_dict()}, indent=2))
    return done.returncode


def _parser(name: str = "evaluate") -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog=f"microscale {name}",
        description="Perplexity of a model on a text, and how far another one's probabilities are from it "
        "(llama.cpp's definitions). Of folders one block is in memory at a time.",
    )
    parser.add_argument(
        "model", metavar="A", help="a model folder, a GGUF file or a name that transformers knows"
    )
    both = name == "compare"
    parser.add_argument(
        "other", metavar="B", nargs=None if both else "?", help="another one, of the same tokenizer"
    )
    parser.add_argument("--text", required=True, metavar="FILE", help="the text, UTF-8")
    parser.add_argument(
        "--chunks",
        default=64,
        type=_count,
        metavar="N",
        help="how much of it: N times --context, or all (64)",
    )
    parser.add_argument("--context", type=int, default=512, metavar="TOKENS", help="tokens of a chunk (512)")
    parser.add_argument(
        "--dtype", default="float32", help="float32, bfloat16 or float16: what is computed in"
    )
    parser.add_argument("--device", help="cpu, cuda, cuda:1, ...; left out, a GPU if there is one")
    parser.add_argument(
        "--report", metavar="HTML", help="add the figures to a page that quantize --report wrote"
    )
    parser.add_argument("--json", action="store_true", help="figures as JSON")
    return parser


def _count(word: str) -> int | None:
    return None if word == "all" else int(word)


def _attempt(options: argparse.Namespace, line: ProgressLine) -> Evaluation | int:
    """The evaluation; or the exit code, after a sentence on stderr."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # the program may have left its own
    try:
        if options.report is not None:
            check_report(options.report)
        found = evaluate(
            options.model,
            options.other,
            text=Path(options.text),
            context=options.context,
            chunks=options.chunks,
            dtype=options.dtype,
            device=options.device,
            progress=line.show,
        )
        if options.report is not None:
            add_to_report(options.report, found)
        return found
    except KeyboardInterrupt:
        return line.end("stopped; nothing was left behind", 128 + signal.SIGINT)
    except ImportError as error:
        return line.end(str(error), _RESOURCES)
    except (OSError, MemoryError) as error:
        return line.end(str(error), _RESOURCES)
    except (ValueError, NotImplementedError, TypeError) as error:
        return line.end(str(error), _BAD_INPUT)
    finally:
        line.clear()
        signal.signal(signal.SIGINT, before)
