"""The cores that products run on, in a process whose threads an OpenMP runtime has bound."""

from __future__ import annotations

import os

import torch

from .._core import set_defaults
from ..torch._module import ops


def use_all_cores() -> None:
    """vLLM binds each OpenMP thread to a core, the calling one too, where libgomp or libiomp are
    preloaded. Our threads would all be heirs of that one core. They are started here, once, with the cores
    of all."""
    if not hasattr(os, "sched_getaffinity") or torch.get_num_threads() == 1:
        return
    own = os.sched_getaffinity(0)
    if len(own) >= torch.get_num_threads():
        return
    torch.ones(1 << 20).add(1)  # starts the OpenMP threads
    every = set(own)
    for task in os.listdir("/proc/self/task"):
        try:
            every |= os.sched_getaffinity(int(task))
        except OSError:  # it has ended
            continue
    set_defaults("auto", torch.get_num_threads(), None)
    os.sched_setaffinity(0, every)
    try:
        codes = torch.zeros(1024, 512, dtype=torch.uint8)
        scales = torch.zeros(1024, 32, dtype=torch.uint8)
        packed = ops.pack_weights(codes, scales, "mxfp4")
        ops.linear(torch.zeros(8, 1024), packed, None, None, 1024, 1024, "mxfp4")
    finally:
        os.sched_setaffinity(0, own)
