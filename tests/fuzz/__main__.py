"""Fuzzes on all CPUs: `python -m tests.fuzz [--seconds 10] [DECODER...]`. Prints what was found of each.

Each kind of failure is printed once, with its input; the first eight bytes of a story are its number.
"""

import argparse
import multiprocessing
import sys
from functools import partial

from tests.fuzz.decoders import DECODERS, fuzz


def main() -> int:
    """Run, and return 1 if something failed."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz")
    parser.add_argument("--seconds", type=float, default=10.0, help="for each decoder")
    parser.add_argument("decoders", nargs="*", default=list(DECODERS))
    options = parser.parse_args()
    with multiprocessing.get_context("fork").Pool() as pool:
        results = pool.map(partial(fuzz, seconds=options.seconds), options.decoders, chunksize=1)
    for name, (inputs, kept, failures) in zip(options.decoders, results, strict=True):
        print(f"{name:14} {inputs:8} inputs, {kept:5} kept, {len(failures)} failures")
        for failure in failures:
            print(f"  {failure}")
    return any(failures for _, _, failures in results)


if __name__ == "__main__":
    sys.exit(main())
