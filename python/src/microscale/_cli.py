"""The command line: the program, in this process, and what only the package does."""

from __future__ import annotations

import sys

from ._core import cli


def main() -> None:
    """Ends the process with the program's exit code."""
    first, rest = sys.argv[1:2], sys.argv[2:]
    if first == ["evaluate"]:
        from ._evaluate_command import command

        sys.exit(command(rest))
    if first == ["calibrate"]:
        from ._calibrate_command import command as calibrate

        sys.exit(calibrate(rest))
    if first == ["rotate"]:
        from ._rotate_command import command as rotate

        sys.exit(rotate(rest))
    if first == ["quantize"] and any(word.partition("=")[0] == "--calibrate" for word in rest):
        from ._quantize_command import command as quantize

        sys.exit(quantize(rest))
    if first == ["compare"] and any(word.partition("=")[0] == "--text" for word in rest):
        from ._evaluate_command import compare

        sys.exit(compare(rest))
    sys.exit(cli(sys.argv[1:]))
