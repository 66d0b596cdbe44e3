"""Plays the story with each fault: `python -m tests.torture [--every N] [--seed N]`. Prints a table.

With `--every N`, one fault of N, drawn by the seed. Exit status 1 if a fault has broken something.
"""

import argparse
import multiprocessing
import random
import sys
import time

from tests.torture.story import Stage, list_faults, stage
from tests.torture.world import Fault

_of: list[Stage] = []


def _find_broken(fault: Fault) -> tuple[Fault, list[str]]:
    return fault, _of[0].find_broken(fault)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.torture")
    parser.add_argument("--every", type=int, default=1, help="one fault of so many")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    began = time.monotonic()
    with stage() as of:
        _of.append(of)
        faults = list(list_faults(of.places))
        faults = random.Random(options.seed).sample(faults, -(-len(faults) // options.every))
        with multiprocessing.get_context("fork").Pool() as pool:
            played = list(pool.imap_unordered(_find_broken, faults))
    table = {f"{place.site} {place.call}": [0, 0, 0] for place in sorted(of.places)}
    for place in of.places:
        table[f"{place.site} {place.call}"][0] += 1
    for fault, found in sorted(played):
        row, place = table[f"{fault.place.site} {fault.place.call}"], fault.place
        row[1:] = row[1] + 1, row[2] + bool(found)
        if found:
            print(f"{fault.kind} at {place.site} {place.call} {place.number}, sample {place.step} of {place.server}:")
            print(*[f"  {line}" for line in found[:6]], sep="\n")
    print(f"{'call site':48} {'occurrences':>11} {'faults':>7} {'failures':>8}")
    for name, row in table.items():
        print(f"{name:48} {row[0]:11} {row[1]:7} {row[2]:8}")
    failures = sum(bool(found) for _, found in played)
    print(f"{len(table)} call sites, {len(faults)} faults, {failures} failures, {time.monotonic() - began:.0f} s")
    return bool(failures)


if __name__ == "__main__":
    sys.exit(main())
