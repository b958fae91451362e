"""The text of a calibration without one."""

import importlib
import sys

import pytest

from microscale.transformers import _calibration_sample as sample


@pytest.fixture()
def package(tmp_path, monkeypatch):
    """A stand-in for the package with texts for calibration."""
    folder = tmp_path / sample.PACKAGE / "conversion" / "standard_cal_data"
    folder.mkdir(parents=True)
    (tmp_path / sample.PACKAGE / "__init__.py").write_text("raise ImportError('nobody needs to import it')")
    (folder / "prose.utf8").write_text("".join(f"It was day {i}. " for i in range(40000)), encoding="utf-8")
    (folder / "code.utf8").write_text("x = 1  # é\n" * 9, encoding="utf-8")
    (folder / "notes.txt").write_text("not a text")
    about = tmp_path / f"{sample.PACKAGE}-9.8.dist-info"
    about.mkdir()
    (about / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {sample.PACKAGE}\nVersion: 9.8\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    importlib.invalidate_caches()
    return folder


def test_of_what_is_installed(monkeypatch):
    monkeypatch.setattr(sample, "_of_package", dict)
    text, said, note = sample.sample_text(16384)
    assert said.startswith("manual, code, docstrings, descriptions, licenses of Python 3.")
    assert f"pip install --no-deps {sample.PACKAGE}" in note
    assert 5 * 16384 < len(text) <= 6 * 16384 + 100
    assert "Permission is hereby granted" in text and "def " in text and "import " in text
    assert sample.sample_text(16384) == (text, said, note)


def test_of_the_package_with_texts(package):
    text, said, note = sample.sample_text(4096)
    assert said == f"texts of {sample.PACKAGE} 9.8: code, prose" and note == ""
    assert text.startswith("x = 1  # é\n" * 9) and sample.PACKAGE not in sys.modules
    days = [int(word[:-1]) for word in text.split() if word.endswith(".") and word[:-1].isdigit()]
    assert min(days) == 0 and max(days) > 35000  # from all of it
    assert 5 * 16384 // 2 < len(text) < 6 * 16384 // 2 + 200  # half of it is not to be had
