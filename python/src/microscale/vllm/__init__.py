"""A plugin for vLLM: compressed-tensors checkpoints in NVFP4, MXFP4 and MXFP8 on CPUs, which vLLM alone
refuses, and on Hopper GPUs, by packed weights.

    MICROSCALE_VLLM=1 vllm serve FOLDER

vLLM finds `register` by itself (its entry points "vllm.general_plugins") and calls it in every process.
Without MICROSCALE_VLLM in the environment it does nothing. Needs vLLM 0.30 or newer, and torch 2.10 or
newer.
"""

from __future__ import annotations

import logging
import os

__all__ = ["VARIABLE", "register", "wanted"]

VARIABLE = "MICROSCALE_VLLM"
"""Of the environment: "1" turns the plugin on; unset, empty or "0" leaves vLLM as it is."""

_log = logging.getLogger("vllm.plugins.microscale")  # vLLM's handlers print it


def wanted() -> bool:
    """Whether the environment asks for the plugin."""
    return os.environ.get(VARIABLE, "") not in ("", "0")


def register() -> str:
    """Called by vLLM, any number of times. Returns "" where vLLM now uses packed weights, or why it does
    not; that is logged too, unless the environment does not ask for it."""
    if not wanted():
        return f"{VARIABLE} is not set"
    try:
        from ._config import install

        reason = install()
    except (ImportError, AttributeError, TypeError) as error:
        reason = f"this vLLM does not have what the plugin builds on ({type(error).__name__}: {error})"
    if reason:
        _log.warning("microscale is not used: %s", reason)
    return reason
