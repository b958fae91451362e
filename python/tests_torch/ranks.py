"""Processes of torch.distributed on this machine, which share a test."""

import importlib
import os
import socket
import sys
import traceback

import torch
import torch.distributed as dist
import torch.multiprocessing as mp


def _work(rank, size, port, file, name, results, arguments):
    torch.set_num_threads(1)
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port), GLOO_SOCKET_IFNAME="lo")
    sys.path.insert(0, os.path.dirname(file))
    try:
        dist.init_process_group("gloo", rank=rank, world_size=size)
        module = importlib.import_module(os.path.basename(file).removesuffix(".py"))
        with torch.no_grad():
            results.put((rank, getattr(module, name)(*arguments)))
    except BaseException:
        results.put((rank, traceback.format_exc()))
    finally:
        if dist.is_initialized():
            dist.destroy_process_group()


def run(size, function, *arguments):
    """Calls a function of a test's file in `size` processes; raises what one raised. Returns what each
    returned."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    context = mp.get_context("spawn")
    results = context.Queue()
    file, name = sys.modules[function.__module__].__file__, function.__name__
    processes = [
        context.Process(target=_work, args=(rank, size, port, file, name, results, arguments))
        for rank in range(size)
    ]
    for process in processes:
        process.start()
    found = dict(results.get(timeout=300) for _ in processes)  # one that dies says nothing
    for process in processes:
        process.join()
    for rank, value in sorted(found.items()):
        if isinstance(value, str):
            raise AssertionError(f"rank {rank} of {size}:\n{value}")
    return [found[rank] for rank in range(size)]
