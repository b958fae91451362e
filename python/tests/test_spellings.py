"""Messages that reach Python are in Python's words: nothing of C++ is left in them."""

import re
from pathlib import Path

import numpy as np
import pytest

import microscale as ms
from microscale._spellings import in_python

ROOT = Path(__file__).parents[2]
CPP = re.compile(r"\b\w+::\w+")
NAMES = re.compile(
    r"quantize_into|kv_cache_of_records|KvPageShape|fill_rope_tables|packed_weights_bytes: |"
    r"`\w+` of its view"
)
# What only a C++ program can do wrong, which has the plan or the view in its hands.
OF_CPP_ALONE = re.compile(r"this plan was made|an enumerator|enumerators| \+ std::string\(")


def literals():
    """The texts of the library's sources, neighbours joined as the compiler joins them."""
    for folder in ("core", "formats", "layouts", "seam", "ops", "cpu", "reference", "cuda", "checkpoint"):
        for path in sorted((ROOT / "src" / folder).rglob("*.cpp")):
            text = re.sub(r'"\s*\n\s*"', "", path.read_text())
            for literal in re.findall(r'"((?:[^"\\\n]|\\.)*)"', text):
                if " " in literal and not OF_CPP_ALONE.search(literal):
                    yield path, literal


def test_every_message_of_the_library_has_a_twin():
    found = [(path, literal) for path, literal in literals() if CPP.search(literal)]
    assert len(found) > 10
    for path, literal in found:
        assert not CPP.search(in_python(literal)), f"{path}: {literal}; add a phrase to _spellings.py"
    for path, literal in literals():
        assert not NAMES.search(in_python(literal)), f"{path}: {literal}; add a phrase to _spellings.py"


OPTION = re.compile(r"(?<![\w`])--[a-z][a-z-]+")
# What is the name of an option, or a command of another tool.
OPTIONS_THAT_STAY = re.compile(r"^--[a-z-]+( '\{\}')?$|hf download")


def test_options_of_the_command_line_are_keywords():
    found = [(path, literal) for path, literal in literals() if OPTION.search(literal)]
    assert len(found) > 20
    for path, literal in found:
        if not OPTIONS_THAT_STAY.search(literal):
            assert not OPTION.search(in_python(literal)), f"{path}: {literal}; see _spellings.py"


def test_names_that_look_like_options_stay():
    for name in ("'models--use--it'", "`hf download a --local-dir b`", "'/m/--resume'"):
        assert name in in_python(f"cannot open {name}")


def test_every_phrase_is_one_of_the_library():
    from microscale._spellings import PHRASES

    every = "\n".join(literal for _, literal in literals())
    every = re.sub(r"\{[^}]*\}", "", every)
    for phrase, twin in PHRASES:
        assert phrase.strip(": ") in every, phrase
        assert not CPP.search(twin)


def test_names_of_files_and_tensors_stay():
    assert in_python("a::b/Layout::x.y: no such file") == "a::b/x.y: no such file"
    assert in_python("std::vector") == "std::vector"


X = np.ones((4, 50), np.float32)
W = ms.quantize(np.ones((32, 64), np.float32))


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: ms.quantize(X), "pad=True"),
        (lambda: ms.quantize_both(X), "pad=True"),
        (lambda: ms.quantize(X[:, :48] * np.nan, refuse_non_finite=True), "leave refuse_non_finite out"),
        (lambda: ms.quantize(X[:, :48], backend="cuda"), "leave backend out"),
        (lambda: ms.matmul(X[:, :32], W, out_format="mxfp8"), "k = 64"),
        (lambda: ms.rms_norm_quantize(X[:, :48], eps=-1.0, global_scale=1.0), "eps is -1"),
        (lambda: ms.rope_tables(-1.0, 4, 64), "rope_tables: theta"),
    ],
)
def test_what_a_user_sees(call, words):
    with pytest.raises(ms.Error) as error:
        call()
    assert words in str(error.value) and not CPP.search(str(error.value)), str(error.value)
