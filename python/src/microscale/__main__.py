"""python -m microscale: the same program as `microscale`."""

from ._cli import main

main()
