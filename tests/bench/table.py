"""Results as Markdown: what was measured, whether the targets are met, and on what machine."""

from __future__ import annotations

import os
import platform
import statistics
import subprocess
from collections.abc import Sequence
from pathlib import Path

from tests import real
from tests.bench import master
from tests.bench.exporters import EVERYTHING, OURS, SAME_CONTENT
from tests.bench.measure import Figures, Result

RESIDENT_TARGET_BYTES = 45e6
CPU_TARGETS = {SAME_CONTENT: 0.5, EVERYTHING: 1.0}

BEGIN, END = "<!-- bench:scrape -->", "<!-- /bench:scrape -->"


def report(results: Sequence[Result], scrapes: int) -> str:
    """The whole text between the markers."""
    return "\n\n".join([_measured(results), _targets(results), _notes(scrapes), _machine()])


def write(path: Path, text: str) -> None:
    """Put the text between the markers of a file, or at its end where it has none."""
    whole = path.read_text() if path.exists() else ""
    before, begin, rest = whole.partition(BEGIN)
    _, end, after = rest.partition(END)
    if bool(begin) != bool(end):
        raise SystemExit(f"{path}: {BEGIN} without {END}")
    path.write_text(f"{before}{BEGIN}\n{text}\n{END}{after or os.linesep}")


def _measured(results: Sequence[Result]) -> str:
    return _table(
        "server | exporter | CPU a scrape, ms | CPU at rest, ms/s | scrape, ms | resident, MB | series | answer, kB | "
        "master's CPU, ms | master occupied, ms | held up, ms",
        [
            f"{result.scenario}, {result.document / 1e3:.0f} kB | {name} | {_spread(it.cpu)} | "
            f"{statistics.median(it.rest) * 1e3:.1f} | {_spread(it.scrape)} | {it.resident / 1e6:.1f} | {it.series} | {it.sent / 1e3:.1f} | "
            f"{statistics.median(it.master_cpu) * 1e3:.2f} | {it.occupation.occupied * 1e3:.2f} | "
            f"{it.occupation.held_up * 1e3:.2f}"
            for result in results
            for name, it in result.figures.items()
        ],
    )


def _targets(results: Sequence[Result]) -> str:
    peers = [name for name in results[0].figures if name not in OURS]
    rows = [
        f"{name}: CPU at most {limit:g} x that of {peer} | "
        + " | ".join(_mark(_cpu(it.figures[name]) / _cpu(it.figures[peer]), limit, "{:.2f}") for it in results)
        for peer in peers
        for name, limit in CPU_TARGETS.items()
    ]
    rows += [
        f"{name}: resident at most {RESIDENT_TARGET_BYTES / 1e6:g} MB | "
        + " | ".join(_mark(it.figures[name].resident / 1e6, RESIDENT_TARGET_BYTES / 1e6, "{:.1f}") for it in results)
        for name in OURS
    ]
    return _table("target | " + " | ".join(str(result.scenario) for result in results), rows)


def _notes(scrapes: int) -> str:
    return (
        f"Median and range, of rounds for CPU and of scrapes for time; resident memory after {scrapes} scrapes "
        "or more. "
        "CPU is the exporter's user and system time, less what it uses when nobody asks. "
        f"{master.HOW}. *Same content* leaves out what is asked of the kernel, put together by the benchmark itself."
    )


def _machine() -> str:
    version = subprocess.run([real.uwsgi_binary(), "--version"], capture_output=True, text=True, check=True).stdout
    return (
        f"Machine: {os.cpu_count()} CPUs, {platform.system()} {platform.release()}, {platform.python_implementation()} "
        f"{platform.python_version()}, uWSGI {version.strip()}."
    )


def _cpu(figures: Figures) -> float:
    return statistics.median(figures.cpu)


def _spread(seconds: Sequence[float]) -> str:
    return f"{statistics.median(seconds) * 1e3:.2f} ({min(seconds) * 1e3:.2f}-{max(seconds) * 1e3:.2f})"


def _mark(value: float, limit: float, form: str) -> str:
    return f"{form.format(value)} {'✓' if value <= limit else '✗'}"


def _table(head: str, rows: Sequence[str]) -> str:
    return "\n".join(f"| {line} |" for line in (head, " | ".join("---" for _ in head.split(" | ")), *rows))
