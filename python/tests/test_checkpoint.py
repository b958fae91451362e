"""Open checkpoints as Python's mappings, and the errors of paths and broken files."""

import json
import struct

import numpy as np
import pytest

import microscale as ms
from models import write_model


@pytest.fixture
def model(tmp_path):
    write_model(tmp_path / "model")
    return tmp_path / "model"


def test_a_mapping(model):
    with ms.open_checkpoint(model) as opened:
        assert opened == opened and opened != ms.open_checkpoint(model) and len({opened}) == 1
        assert opened._ipython_key_completions_() == list(opened)
        assert str(model) in repr(opened)
        tensor = opened["model.norm.weight"]
    assert tensor.sum() == 64  # its memory stays
    with pytest.raises(ValueError, match="is closed; open_checkpoint opens it again"):
        opened["model.norm.weight"]


def test_paths(model, tmp_path):
    with pytest.raises(FileNotFoundError) as missing:
        ms.open_checkpoint(tmp_path / "nowhere")
    assert missing.value.errno == 2 and isinstance(missing.value, ms.Error)
    for nothing in (None, 3):
        with pytest.raises(TypeError, match="os.PathLike"):
            ms.open_checkpoint(nothing)


def test_bytes_that_are_no_text(model, tmp_path):
    header = b"\xff\xfe{" + b" " * 61
    (model / "model.safetensors").write_bytes(struct.pack("<Q", 64) + header)
    (problem,) = ms.verify_model(model)
    assert "model.safetensors" in problem
    with pytest.raises(ValueError, match="model.safetensors"):
        ms.open_checkpoint(model)
    (model / "model.safetensors").write_bytes(b"\xff" * 8 + b'{"a": 1}' * 9)
    with pytest.raises(ValueError, match=r"\\xff"):
        ms.open_checkpoint(model)


def test_a_folder_whose_name_is_no_text(model, tmp_path):
    seen = []
    folder = str(tmp_path / "m\udcffodel")
    model.rename(folder)
    ms.quantize_model(folder, str(tmp_path / "o\udcffut"), progress=lambda *news: seen.append(news))
    assert ms.verify_model(str(tmp_path / "o\udcffut")) == [] and seen
    with pytest.raises(ValueError, match=r"o\\xffut"):
        ms.quantize_model(folder, str(tmp_path / "o\udcffut"))


@pytest.mark.parametrize(
    ("words", "kind", "message"),
    [
        ({"progress": 3}, TypeError, "progress: expected a function, got int"),
        ({"threads": -1}, ValueError, "threads: -1; pass 1 or more"),
        ({"max_memory": 0}, ValueError, "max_memory: 0; pass a number of bytes"),
        ({"max_memory": 1000}, MemoryError, r"set max_memory to at least \d+ << 20"),
        ({"ignore": ["no*"]}, ValueError, "matches ignore 'no\\*'; see the names with plan_quantize"),
    ],
)
def test_refused_before_anything_is_written(model, tmp_path, words, kind, message):
    with pytest.raises(kind, match=message):
        ms.quantize_model(model, tmp_path / "out", **words)
    assert not (tmp_path / "out").exists()


def test_an_unfinished_folder_in_words_of_python(tmp_path):
    model = tmp_path / "model"
    write_model(model, layers=1, hidden=1024)  # seconds of work for one thread and this rule
    with pytest.raises(ms.Error, match="run again with resume=True to finish"):
        ms.quantize_model(
            model, tmp_path / "out", scale_rule="full", progress=lambda *_: False, threads=1
        )
    with pytest.raises(ValueError, match="pass resume=True to continue it"):
        ms.quantize_model(model, tmp_path / "out")
    (problem,) = ms.verify_model(tmp_path / "out")
    assert "quantize_model with resume=True" in problem and "--" not in problem


def test_reports_are_json(model, tmp_path):
    ms.quantize_model(model, tmp_path / "out")
    assert json.loads(json.dumps(ms.compare_models(model, tmp_path / "out")))["swapped"] is False
    assert np.isfinite(ms.compare_models(model, tmp_path / "out")["sqnr_db"])
