"""The command line `microscale calibrate`."""

from __future__ import annotations

import argparse
import json
import re
import signal
import sys
from collections.abc import Sequence
from pathlib import Path

from ._calibrate import calibrate
from ._errors import Interrupted
from ._progress_line import ProgressLine

_SUCCESS, _BAD_INPUT, _RESOURCES = 0, 3, 4


def command(arguments: Sequence[str]) -> int:
    """microscale calibrate ...: prints, and returns the exit code."""
    options = _parser().parse_args(arguments)
    line = ProgressLine("calibrate")
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # the program may have left its own
    try:
        made = calibrate(
            options.model,
            None if options.text is None else Path(options.text),
            out=options.out,
            tokens=options.tokens,
            sequence=options.sequence,
            random=options.random,
            hessian=options.hessian,
            gradients=options.gradients,
            dtype=options.dtype,
            device=options.device,
            seed=options.seed,
            progress=line.show,
            resume=options.resume,
            max_memory=options.max_memory,
        )
    except (KeyboardInterrupt, Interrupted):
        return line.end("stopped; --resume goes on", 128 + signal.SIGINT)
    except (ImportError, OSError, MemoryError) as error:
        return line.end(str(error), _RESOURCES)
    except (ValueError, NotImplementedError, TypeError) as error:
        return line.end(str(error), _BAD_INPUT)
    finally:
        line.clear()
        signal.signal(signal.SIGINT, before)
    if options.json:
        print(json.dumps(made.to_dict(), indent=2))
        return _SUCCESS
    for note in made.notes:
        print(f"note: {note}", file=sys.stderr)
    print(made)
    if not options.no_next:
        print(f"Next: microscale quantize {options.model} -o FOLDER --format nvfp4 --importance {made.out}")
    return _SUCCESS


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="microscale calibrate",
        description="Statistics of what each layer of a model takes in on a text, which make quantize more "
        "accurate. Of a folder one block is in memory at a time.",
        epilog="Example: microscale calibrate Llama-3-8B --text book.txt -o statistics.safetensors",
    )
    parser.add_argument("model", metavar="MODEL", help="a model folder, or a GGUF file")
    parser.add_argument("-o", "--out", required=True, metavar="FILE", help="what to write: safetensors")
    source = parser.add_mutually_exclusive_group()
    source.add_argument(
        "--text", metavar="FILE", help="the text, UTF-8; left out, one of several kinds out of packages"
    )
    source.add_argument("--random", action="store_true", help="token ids drawn at random, no text")
    parser.add_argument(
        "--hessian", action="store_true", help="the mean of x x^T too: 4 bytes for each pair of columns"
    )
    parser.add_argument(
        "--gradients",
        action=argparse.BooleanOptionalAction,
        help="weigh each token by the gradient at the layer's output: better, for four times the work; "
        "--hessian does if not told otherwise",
    )
    parser.add_argument(
        "--tokens", type=int, metavar="N", help="how many of the text (16384; with --hessian 65536)"
    )
    parser.add_argument("--sequence", type=int, default=512, metavar="N", help="tokens of a sequence (512)")
    parser.add_argument(
        "--dtype", default="float32", help="float32, bfloat16 or float16: what is computed in"
    )
    parser.add_argument("--device", help="cpu, cuda, cuda:1, ...; left out, a GPU if there is one")
    parser.add_argument(
        "--seed", type=int, default=0, metavar="N", help="of --random, and of the words of gradients (0)"
    )
    parser.add_argument(
        "--max-memory", type=_size, default=4 << 30, metavar="SIZE", help="of Hessians at a time (4GiB)"
    )
    parser.add_argument("--resume", action="store_true", help="go on with an interrupted run")
    parser.add_argument("--json", action="store_true", help="what was found as JSON")
    parser.add_argument("--no-next", action="store_true", help=argparse.SUPPRESS)  # quantize --calibrate's
    return parser


def _size(word: str) -> int:
    found = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([KMGT]?)(?:i?B)?", word, re.IGNORECASE)
    if not found:
        raise argparse.ArgumentTypeError(f"'{word}'; a size is 512M or 1GiB")
    return int(float(found[1]) * 1024 ** " KMGT".index(found[2].upper() or " "))
