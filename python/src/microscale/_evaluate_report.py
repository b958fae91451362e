"""The figures of an evaluation as a section of the page that `quantize --report` wrote."""

from __future__ import annotations

import html
import os
import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .transformers import Evaluation

_OWN = re.compile(r'<section id="words">.*?</section>\n', re.S)
_NEXT = '<section id="size">'


def check_report(path: str) -> None:
    """Before the figures are computed: ValueError where the page is none of quantize's."""
    with open(path, encoding="utf-8") as file:
        if _NEXT not in file.read():
            raise ValueError(f"{path}: no report of microscale quantize --report")


def add_to_report(path: str, found: Evaluation) -> None:
    """In front of the sizes; a section of an earlier evaluation is replaced."""
    with open(path, encoding="utf-8") as file:
        page = _OWN.sub("", file.read())
    rows = "".join(
        f"<tr><th>{html.escape(name)}</th><td>{html.escape(value)}</td></tr>" for name, value in found.rows()
    )
    counts = f"{found.chunks} chunks of {found.context} tokens, {found.scored} scored"
    note = f"{counts}, by llama.cpp's definitions."
    section = (
        f'<section id="words"><h2>Words</h2><p class="note">{note}</p>\n<div class="body">'
        '<div class="scroll">'
        f"<table><tbody>{rows}</tbody></table></div></div></section>\n"
    )
    partial = path + ".partial"
    with open(partial, "w", encoding="utf-8") as file:
        file.write(page.replace(_NEXT, section + _NEXT, 1))
    os.replace(partial, path)
