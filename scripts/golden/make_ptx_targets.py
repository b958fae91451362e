#!/usr/bin/env python3
"""Writes tests/emulator/ptx/targets.txt: which target takes which instruction, as ptxas says.

usage: scripts/golden/make_ptx_targets.py [PTXAS]     some minutes; needs CUDA's ptxas, no GPU

A line of the result: a '+' or '-' for each target of the header, the first PTX version with which the first
of those targets takes it, and the instruction as in ptx_instructions.txt.
"""
import concurrent.futures
import pathlib
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
OUT = HERE.parent.parent / "tests" / "emulator" / "ptx" / "targets.txt"
TARGETS = ("sm_75 sm_80 sm_86 sm_89 sm_90 sm_90a sm_100 sm_100a sm_100f sm_103a sm_103f sm_110a sm_110f "
           "sm_120 sm_120a sm_120f sm_121a sm_121f").split()
VERSIONS = "6.3 6.4 6.5 7.0 7.1 7.2 7.3 7.4 7.5 7.6 7.7 7.8 8.0 8.1 8.2 8.3 8.4 8.5 8.6 8.7 8.8 9.0".split()

FRAME = """.version {version}
.target {target}
.address_size 64
.visible .entry k()
{{
.reg .pred %p<4>; .reg .b8 %b<4>; .reg .b16 %h<8>; .reg .b32 %r<16>; .reg .b64 %d<8>;
.reg .f32 %f<8>; .reg .f64 %e<8>; {wide}
.shared .align 128 .b8 smem[1024];
{instruction}
ret;
}}
"""


def accepts(ptxas, folder, instruction, target, version):
    wide = ".reg .b128 %x<2>;" if "%x" in instruction else ""
    source = folder / f"{abs(hash((instruction, target, version)))}.ptx"
    source.write_text(FRAME.format(version=version, target=target, instruction=instruction, wide=wide))
    done = subprocess.run([ptxas, "-arch", target, "-o", "/dev/null", source], capture_output=True)
    source.unlink()
    return done.returncode == 0


def line_of(ptxas, folder, instruction):
    taken = [accepts(ptxas, folder, instruction, target, "9.0") for target in TARGETS]
    if not any(taken):
        return "-" * len(TARGETS) + " none " + instruction
    first = TARGETS[taken.index(True)]
    low, high = 0, len(VERSIONS) - 1  # the first version that does it, by halves
    while low < high:
        middle = (low + high) // 2
        if accepts(ptxas, folder, instruction, first, VERSIONS[middle]):
            high = middle
        else:
            low = middle + 1
    return "".join("+" if each else "-" for each in taken) + f" {VERSIONS[low]} " + instruction


def main():
    ptxas = sys.argv[1] if len(sys.argv) > 1 else "ptxas"
    release = subprocess.run([ptxas, "--version"], capture_output=True, text=True, check=True).stdout
    release = next(line for line in release.splitlines() if "release" in line)
    instructions = [line for line in (HERE / "ptx_instructions.txt").read_text().splitlines()
                    if line and not line.startswith("#")]
    with tempfile.TemporaryDirectory() as folder, concurrent.futures.ThreadPoolExecutor(2) as pool:
        lines = list(pool.map(lambda each: line_of(ptxas, pathlib.Path(folder), each), instructions))
    OUT.write_text(f"# made by scripts/golden/make_ptx_targets.py; {release.strip()}\n"
                   f"targets {' '.join(TARGETS)}\n" + "\n".join(lines) + "\n")
    print(f"{OUT}: {len(lines)} instructions, {len(TARGETS)} targets")


if __name__ == "__main__":
    main()
