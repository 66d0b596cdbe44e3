"""What benchmarks share: options, Markdown tables, lines with a target, medians with their range, the machine."""

import argparse
import os
import platform
import statistics
import subprocess
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from tests.support.real_uwsgi import uwsgi_binary


def parse_options(name: str, about: str | None, seconds: float) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog=f"python3 -m tools.bench.{name}", description=about)
    parser.add_argument("--seconds", type=float, default=seconds, help="length of each case (default %(default)g)")
    parser.add_argument("--only", default="", metavar="TEXT", help="only cases whose name contains this text")
    return parser.parse_args()


def render_table(head: str, rows: Sequence[str]) -> str:
    """Returns a Markdown table; the cells of `head` and of each row are separated by ` | `."""
    return "\n".join(f"| {line} |" for line in (head, " | ".join("---" for _ in head.split(" | ")), *rows))


def mark(met: bool | None) -> str:
    return "-" if met is None else "✓" if met else "✗"


@dataclass(frozen=True)
class Line:
    """One comparison, as formatted texts. met: None where no target applies."""

    figure: str
    ours: str
    truth: str
    error: str
    target: str
    met: bool | None
    note: str = ""


LINE_HEAD = "case | figure | ours | truth | error | target |  | note"


def lines(case: str, compared: Iterable[Line]) -> str:
    return "\n".join(
        f"| {case} | {line.figure} | {line.ours} | {line.truth} | {line.error} | {line.target} | {mark(line.met)} "
        f"| {line.note} |"
        for line in compared
    )


def within(
    figure: str, ours: float, truth: float, target: float | None, note: str = "", unit: str = "", scale: float = 1
) -> Line:
    """The line of a figure whose relative error may be at most `target`; None for no target."""
    error = ours / truth - 1 if truth else float("inf") if ours else 0.0
    return Line(
        figure,
        f"{ours * scale:.4g}{unit}",
        f"{truth * scale:.4g}{unit}",
        f"{error:+.2%}",
        f"{target:.0%}" if target is not None else "-",
        abs(error) <= target if target is not None else None,
        note,
    )


def spread(values: Sequence[float], scale: float = 1.0, digits: int = 2) -> str:
    """Median and range of values, in units of 1 / `scale`."""
    median, least, most = (
        f"{scale * value:,.{digits}f}" for value in (statistics.median(values), min(values), max(values))
    )
    return f"{median} ({least}-{most})"


def machine() -> str:
    version = subprocess.run([uwsgi_binary(), "--version"], capture_output=True, text=True, check=True).stdout
    return (
        f"Machine: {os.cpu_count()} CPUs, {platform.system()} {platform.release()}, {platform.python_implementation()} "
        f"{platform.python_version()}, uWSGI {version.strip()}; load average at the end "
        f"{'/'.join(f'{load:.1f}' for load in os.getloadavg())}."
    )
