"""Checks of microscale.torch on a GPU; scripts/gpu_check_python runs it. Prints a row for each, and ends
with 1 if one fails.

usage: python python/gpu_check_torch [WORD]     only checks with this in their name
"""

import sys
import time
import traceback

import models
import modules
import operators
import times

CHECKS = [*operators.CHECKS, *modules.CHECKS, *models.CHECKS, *times.CHECKS]


def main():
    import torch

    import microscale as ms

    if not torch.cuda.is_available() or ms.cuda.device_count() == 0:
        print(f"gpu_check_torch: no GPU: {ms.cuda.unavailable_reason()}")
        return 1
    versions = f"microscale {ms.__version__}, torch {torch.__version__}, Python {sys.version.split()[0]}"
    print(f"{ms.cuda.device_name()}, {versions}")
    word = sys.argv[1] if len(sys.argv) > 1 else ""
    failed = []
    for check in CHECKS:
        name = check.__name__.replace("_", " ")
        if word not in name:
            continue
        started, said = time.perf_counter(), ""
        try:
            said = check() or ""
            result = "ok"
            if said.startswith("NOT RUN"):
                result, said = "NOT RUN", said.removeprefix("NOT RUN").lstrip(": ")
            torch.cuda.synchronize()
        except Exception:
            result = "FAILED"
            failed.append(name)
            traceback.print_exc()
        print(f"{name:<58} {result:<8} {time.perf_counter() - started:6.1f} s  {said}", flush=True)
    print(f"failed: {', '.join(failed)}" if failed else "all equal")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
