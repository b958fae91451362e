#!/usr/bin/env python3
"""What links what in a build: no object file of a room of src calls one that the table in check_house.py does not
allow, and a program that links microscale alone holds nothing of the GPU's host code, the kernels or the emulator.

usage: scripts/check_links.py [BUILD]      the folder of a build, `build`; exit 1 if any finding
"""
import re
import subprocess
import sys
from collections import defaultdict
from pathlib import Path

from check_house import ROOMS

CPU_PROGRAM = "example_quantize_matrix"  # README's
NOT_OF_THE_CPU = re.compile(r"microscale::(cuda|emulator|sass)::|microscale_image_|microscale_cuda_|microscale_emulated_")


def symbols(path, *options):
    """(kind, name) of every symbol, readable."""
    lines = subprocess.run(["nm", "-C", *options, str(path)], capture_output=True, text=True, check=True).stdout
    for line in lines.splitlines():
        if found := re.match(r"^[0-9a-f ]{16} ([A-Za-z]) (.*)$", line):
            yield found.groups()


def objects(build):
    """(room, file) of every object file below src; generated kernel images are no room's."""
    for path in sorted(build.glob("src/CMakeFiles/*.dir/**/*.o")):
        room = path.relative_to(build).parts[3]
        if room in ROOMS:
            yield room, path


def calls_between_rooms(build):
    defined, used = {}, defaultdict(set)
    count = 0
    for room, path in objects(build):
        count += 1
        for kind, name in symbols(path):
            if kind in "TDBR":  # not what headers define in every file
                defined[name] = room
            elif kind == "U":
                used[name].add((room, path.name.removesuffix(".o")))
    if count == 0:
        yield f"{build}: no object files of the rooms; build first"
    for name, users in sorted(used.items()):
        below = defined.get(name)
        for room, file in sorted(users):
            if below not in (None, room, *ROOMS[room].split()) and not declared_in_seam(name):
                yield f"src/{room}, {file}: calls {name} of {below}, which {room} must not know"


def declared_in_seam(name):
    """src/seam declares what src/cpu defines: the kernel tables and the transposition."""
    return name.endswith("_kernels") or name.startswith("void microscale::transpose<")


def cpu_program(build):
    path = build / CPU_PROGRAM
    found = [name for _, name in symbols(path) if NOT_OF_THE_CPU.search(name)]
    for name in found[:5]:
        yield f"{path}: links {name}; a program for the CPU must not"
    if len(found) > 5:
        yield f"{path}: and {len(found) - 5} more"
    print(f"{CPU_PROGRAM}: {path.stat().st_size / 1e6:.1f} MB, {len(found)} symbols of GPU, kernels and emulator")


def main():
    build = Path(sys.argv[1] if len(sys.argv) > 1 else Path(__file__).parent.parent / "build")
    found = [*calls_between_rooms(build), *cpu_program(build)]
    for line in found:
        print(line)
    print(f"check_links: {len(found)} findings")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
