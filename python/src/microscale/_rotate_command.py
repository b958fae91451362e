"""The command line `microscale rotate`."""

from __future__ import annotations

import argparse
import dataclasses
import json
import signal
import sys
from collections.abc import Sequence

from ._errors import Interrupted
from ._progress_line import ProgressLine
from ._rotate import rotate

_SUCCESS, _BAD_INPUT, _RESOURCES = 0, 3, 4


def command(arguments: Sequence[str]) -> int:
    """microscale rotate ...: prints, and returns the exit code."""
    options = _parser().parse_args(arguments)
    line = ProgressLine("rotate")
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # the program may have left its own
    try:
        made = rotate(
            options.model,
            options.out,
            statistics=options.statistics,
            shrink=options.shrink,
            device=options.device,
            progress=line.show,
        )
    except (KeyboardInterrupt, Interrupted):
        return line.end("stopped; nothing is written", 128 + signal.SIGINT)
    except (ImportError, OSError, MemoryError) as error:
        return line.end(str(error), _RESOURCES)
    except (ValueError, NotImplementedError) as error:
        return line.end(str(error), _BAD_INPUT)
    finally:
        line.clear()
        signal.signal(signal.SIGINT, before)
    if options.json:
        print(json.dumps(dataclasses.asdict(made), indent=2))
        return _SUCCESS
    print(made)
    if made.statistics and not options.no_next:
        words = f"{made.out} -o FOLDER --format mxfp4 --importance {made.statistics}"
        print(f"Next: microscale quantize {words}")
    return _SUCCESS


def unrotatable(model: str) -> str:
    """Why no rotation can be merged into a model; "" where one can."""
    try:
        from .transformers._rotation_plan import plan_of

        plan_of(model)
    except (ImportError, OSError, ValueError) as error:
        return str(error)
    return ""


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="microscale rotate",
        description="A model that says the same, its hidden states turned by Hadamard matrices that are "
        "merged into the weights: MXFP4 by GPTQ is more accurate so. Any engine loads it.",
        epilog="Example: microscale rotate Llama-3-8B -o turned --statistics statistics.safetensors",
    )
    parser.add_argument("model", metavar="MODEL", help="a folder with dense weights in safetensors")
    parser.add_argument("-o", "--out", required=True, metavar="FOLDER", help="what to write")
    parser.add_argument(
        "--statistics",
        metavar="FILE",
        help="what calibrate --hessian made of the model; OUT.statistics.safetensors is written with its "
        "Hessians turned",
    )
    parser.add_argument(
        "--shrink", type=float, metavar="PART", help="by which Hessians shrink before (as quantize's)"
    )
    parser.add_argument("--device", help="where it is checked: cpu, cuda, ...; or a GPU, if there is one")
    parser.add_argument("--json", action="store_true", help="what was done as JSON")
    parser.add_argument("--no-next", action="store_true", help=argparse.SUPPRESS)  # quantize --rotate's
    return parser
