"""The plugin for vLLM where it must do nothing. What it does with vLLM: make test-engines."""

import logging
import subprocess
import sys
from importlib.metadata import entry_points

import pytest

import microscale.vllm


def test_vllm_finds_it():
    [found] = entry_points(group="vllm.general_plugins", name="microscale")
    assert found.load() is microscale.vllm.register


@pytest.mark.parametrize("value", [None, "", "0"])
def test_it_does_nothing_unless_asked(monkeypatch, value, caplog):
    if value is None:
        monkeypatch.delenv(microscale.vllm.VARIABLE, raising=False)
    else:
        monkeypatch.setenv(microscale.vllm.VARIABLE, value)
    with caplog.at_level(logging.DEBUG):
        assert "MICROSCALE_VLLM is not set" in microscale.vllm.register()
    assert not caplog.records


def test_without_vllm_it_says_so_and_goes_on(monkeypatch, caplog):
    monkeypatch.setitem(sys.modules, "vllm", None)  # as if it were not installed
    monkeypatch.setenv(microscale.vllm.VARIABLE, "1")
    reason = microscale.vllm.register()
    assert "does not have what the plugin builds on (ModuleNotFoundError" in reason
    assert reason in caplog.text and "microscale is not used" in caplog.text
    assert microscale.vllm.register() == reason  # again: vLLM may call it many times


def test_it_loads_no_framework():
    code = "import sys, microscale.vllm; print([n for n in ('torch', 'vllm', 'numpy') if n in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stdout.strip() == "[]", done.stdout + done.stderr
