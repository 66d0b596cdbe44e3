"""Measures what hostile stats servers and HTTP clients cost the exporter: its samples, scrapes, CPU and memory.

The exit status does not depend on the figures.
"""

from __future__ import annotations

import argparse
import sys

from tools.bench.hostile import beside, crowds, decoding
from tools.bench.hostile.report import report


def main() -> None:
    options = _options()
    decoded = {}
    for document, figures in decoding.measure():
        decoded[document] = figures
    print("measured: decoding", file=sys.stderr)
    measured = {}
    for situation, found in beside.measure(options.seconds):
        measured[situation] = found
        print(f"measured: {situation}", file=sys.stderr)
    crowded = {}
    for place, crowd in crowds.measure(options.crowd_seconds):
        crowded[place] = crowd
        print(f"measured: {' '.join(place)}: {crowd.samples:.2f} {max(crowd.scrapes):.3f}", file=sys.stderr)
    text = report(measured, decoded, crowded, options.seconds, options.crowd_seconds)
    print(text)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python3 -m tools.bench.hostile", description=__doc__)
    parser.add_argument("--seconds", type=float, default=40, help="length of each situation (default %(default)g)")
    parser.add_argument("--crowd-seconds", type=float, default=5, help="length of each crowd (default %(default)g)")
    return parser.parse_args()


if __name__ == "__main__":
    main()
