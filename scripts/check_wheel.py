#!/usr/bin/env python3
"""What an installer and a package index ask of the wheel: its tags, the symbols it needs, its size, its contents.

usage: scripts/check_wheel.py WHEEL        prints what it found; exit 1 where something is wrong
"""
import re
import subprocess
import sys
import zipfile
from pathlib import Path

PLATFORM = "manylinux_2_34_x86_64"  # Ubuntu 22.04, RHEL 9, Debian 12
MOST_BYTES = 60_000_000
WANTED = ["microscale/_core.abi3.so", "microscale/_core.pyi", "microscale/py.typed", "microscale/__init__.py"]
REQUIRES = {"nanobind-backend", "numpy"}  # nothing else, and no pins of torch or jax


def problems_of(wheel):
    if not re.fullmatch(rf"microscale-[0-9.]+-cp310-abi3-{PLATFORM}\.whl", wheel.name):
        yield f"the name {wheel.name} does not say cp310-abi3-{PLATFORM}"
    if wheel.stat().st_size > MOST_BYTES:
        yield f"{wheel.stat().st_size} bytes, more than {MOST_BYTES}"
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        metadata = archive.read(next(n for n in names if n.endswith(".dist-info/METADATA"))).decode()
    yield from (f"{name} is missing" for name in WANTED if name not in names)
    plain = [line for line in metadata.splitlines() if line.startswith("Requires-Dist:") and "extra ==" not in line]
    required = {re.split(r"[ <>=!~;\[]", line.split(":")[1].strip())[0] for line in plain}
    if required != REQUIRES:
        yield f"depends on {sorted(required)}, not on {sorted(REQUIRES)}"
    show = subprocess.run(["auditwheel", "show", str(wheel)], capture_output=True, text=True)
    print(show.stdout, show.stderr)
    words = " ".join(show.stdout.split())
    if not re.search(rf'platform tag: "{PLATFORM}"', words):
        yield f"auditwheel does not find it consistent with {PLATFORM}"
    audit = subprocess.run(["abi3audit", "--strict", "--report", str(wheel)], capture_output=True, text=True)
    print(audit.stdout, audit.stderr)
    if audit.returncode != 0:
        yield "abi3audit finds symbols outside the stable ABI of Python 3.10"


def main():
    found = list(problems_of(Path(sys.argv[1])))
    for problem in found:
        print(f"check_wheel: {problem}")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
