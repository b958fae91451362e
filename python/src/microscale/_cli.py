"""The command line: the program, in this process."""

from __future__ import annotations

import sys

from ._core import cli


def main() -> None:
    """Ends the process with the program's exit code."""
    sys.exit(cli(sys.argv[1:]))
