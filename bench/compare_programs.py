#!/usr/bin/env python3
"""Times two builds of the program in turn and prints the ratio of each case: is the new one as fast as the old one?

usage: compare_programs.py OLD NEW [--rounds N] [--slower PERCENT] -- BENCH-OPTION...
  compare_programs.py old/microscale build/microscale --rounds 3 -- matmul --backend cuda
  compare_programs.py old/microscale build/microscale -- matmul --tasks

Runs `bench BENCH-OPTION... --json` of OLD, NEW, OLD, NEW, ...; a case's time is the least of its rounds. Prints, for each
table, the geometric mean of new / old, and every case that differs by more than PERCENT (3). Cases that only one
program has are named. Exit code 1 if a case is slower by more than that, or the mean by more than 1 percent.
"""
import argparse
import json
import math
import subprocess
import sys


def measure(program, options):
    """Seconds of each case, by (table, case)."""
    run = subprocess.run([program, "bench", *options, "--json"], capture_output=True, text=True)
    if run.returncode not in (0, 1) or not run.stdout:
        sys.exit(f"compare_programs: {program} bench {' '.join(options)} failed: {run.stderr.strip()}")
    tables = json.loads(run.stdout)["tables"]
    return {(f"table {number}, {table['device']}", case["case"]): case["seconds"]
            for number, table in enumerate(tables, 1) for case in table["cases"] if case.get("seconds")}


def main():
    parser = argparse.ArgumentParser(usage=__doc__.split("\n\n")[1].removeprefix("usage: "))
    parser.add_argument("old")
    parser.add_argument("new")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--slower", type=float, default=3.0)
    parser.add_argument("options", nargs="+")
    given = parser.parse_args()
    best = {given.old: {}, given.new: {}}
    for _ in range(given.rounds):
        for program in (given.old, given.new):
            for case, seconds in measure(program, given.options).items():
                best[program][case] = min(seconds, best[program].get(case, math.inf))
    old, new = best[given.old], best[given.new]
    for which, cases in (("old", old.keys() - new.keys()), ("new", new.keys() - old.keys())):
        for device, case in sorted(cases):
            print(f"only the {which} program has: {device}: {case}")
    failed = False
    for device in sorted({d for d, _ in old}):
        ratios = {case: new[d, case] / old[d, case] for d, case in old if d == device and (d, case) in new}
        if not ratios:
            continue
        mean = math.exp(sum(map(math.log, ratios.values())) / len(ratios))
        failed |= mean > 1.01
        print(f"{device}: {len(ratios)} cases, new / old: geometric mean {mean:.4f}, "
              f"least {min(ratios.values()):.3f}, largest {max(ratios.values()):.3f}")
        for case, ratio in sorted(ratios.items(), key=lambda pair: -pair[1]):
            if abs(ratio - 1) * 100 > given.slower:
                print(f"  {ratio:.3f}  {case}: {old[device, case] * 1e6:.2f} us, now {new[device, case] * 1e6:.2f} us")
                failed |= ratio > 1 + given.slower / 100
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
