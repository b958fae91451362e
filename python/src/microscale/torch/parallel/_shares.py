"""Who gets what: contiguous shares of rows, columns and heads, as even as whole tiles and blocks allow."""

from __future__ import annotations

from math import gcd

TILE = 64
"""Elements of k that a tile of a GPU's packed weights has."""


def share(units: int, ranks: int, rank: int) -> tuple[int, int]:
    """First unit and last + 1; the first ranks get those that do not come out even."""
    each, more = divmod(units, ranks)
    start = rank * each + min(rank, more)
    return start, start + each + (rank < more)


def unit_of(size: int, ranks: int, block: int = 1) -> int:
    """What is not cut in two: a tile; a block where tiles are too few or do not fit; else, where `block` is
    1, one. 0: there are fewer blocks than ranks."""
    for unit in (TILE, 32, 16):
        if unit % block == 0 and size % unit == 0 and size // unit >= ranks:
            return unit
    return 1 if block == 1 and size >= ranks else 0


def share_of(size: int, ranks: int, rank: int, name: str, block: int = 1) -> tuple[int, int]:
    """A rank's rows, or columns of blocks: the same for the layer whose results are cut and the one that
    takes them. What is refused is so on every rank."""
    unit = unit_of(size, ranks, block)
    if not unit and block > 1:
        raise ValueError(
            f"{name}: {size} columns are {size // block} blocks of {block}, which {ranks} ranks cannot share"
        )
    if not unit:
        raise ValueError(f"{name}: {size} rows cannot be shared by {ranks} ranks")
    start, end = share(size // unit, ranks, rank)
    return start * unit, end * unit


def require_whole_blocks(start: int, end: int, block: int, format: str, name: str) -> None:
    """That columns from start to end begin and end where blocks do."""
    if start % block or end % block:
        raise ValueError(
            f"{name}: columns {start} to {end} are no whole blocks of {block} ({format}); use "
            "another number of ranks"
        )


def heads_of(heads: int, kv_heads: int, ranks: int, rank: int, name: str) -> tuple[range, list[int]]:
    """A rank's query heads, and its heads of keys and values in the order in which equally many query
    heads use each. Where ranks outnumber those, several ranks have the same one."""
    if heads % kv_heads:
        raise ValueError(f"{name}: {heads} query heads for {kv_heads} of keys and values")
    if heads < ranks:
        raise ValueError(f"{name}: {heads} query heads cannot be shared by {ranks} ranks")
    group = heads // kv_heads
    if ranks <= kv_heads:
        start, end = share(kv_heads, ranks, rank)
        return range(start * group, end * group), list(range(start, end))
    own = range(*share(heads, ranks, rank))
    used = [head // group for head in own]
    counts = {kv: used.count(kv) for kv in used}
    each = gcd(*counts.values())
    return own, [kv for kv, count in counts.items() for _ in range(count // each)]
