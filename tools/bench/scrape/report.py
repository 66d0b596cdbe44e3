"""Formats what a scrape costs as Markdown: the figures, whether the targets are met, and the machine."""

from __future__ import annotations

import statistics
from collections.abc import Sequence

from tools.bench.exporters import EVERYTHING, OURS, SAME_CONTENT
from tools.bench.scrape import master
from tools.bench.scrape.measure import Figures, Result
from tools.bench.table import machine, render_table, spread

RESIDENT_TARGET_BYTES = 45e6
CPU_TARGETS = {SAME_CONTENT: 0.5, EVERYTHING: 1.0}

SCRAPE_INTERVAL_SECONDS = 15


def report(results: Sequence[Result], scrapes: int) -> str:
    """The whole text between the markers."""
    return "\n\n".join([_measured(results), _targets(results), _notes(scrapes), machine()])


def _measured(results: Sequence[Result]) -> str:
    head = (
        "server | exporter | CPU a scrape, ms | CPU a sample, ms | CPU at rest, ms/s | of one CPU | scrape, ms | "
        "resident, MB | series | answer, kB | master's CPU, ms | master occupied, ms | held up, ms"
    )
    return render_table(
        head, [_row(result, name, figures) for result in results for name, figures in result.figures.items()]
    )


def _row(result: Result, name: str, figures: Figures) -> str:
    rest = statistics.median(figures.rest)
    return " | ".join(
        [
            f"{result.scenario}, {result.document / 1e3:.0f} kB",
            name,
            spread(figures.cpu, 1e3),
            spread(figures.sample, 1e3) if any(figures.sample) else "-",
            f"{rest * 1e3:.1f}",
            f"{rest + statistics.median(figures.cpu) / SCRAPE_INTERVAL_SECONDS:.2%}",
            spread(figures.scrape, 1e3),
            f"{figures.resident / 1e6:.1f}",
            str(figures.series),
            f"{figures.sent / 1e3:.1f}",
            f"{statistics.median(figures.master_cpu) * 1e3:.2f}",
            f"{figures.occupation.occupied * 1e3:.2f}",
            f"{figures.occupation.held_up * 1e3:.2f}",
        ]
    )


def _targets(results: Sequence[Result]) -> str:
    peers = [name for name in results[0].figures if not name.startswith("ours")]
    rows = [
        f"{name}: CPU of a scrape{' and a sample' * (name == EVERYTHING)} at most {limit:g} x that of {peer} | "
        + " | ".join(
            _mark(_cpu(result.figures[name]) / _cpu(result.figures[peer]), limit, "{:.2f}") for result in results
        )
        for peer in peers
        for name, limit in CPU_TARGETS.items()
    ]
    rows += [
        f"{name}: resident at most {RESIDENT_TARGET_BYTES / 1e6:g} MB | "
        + " | ".join(
            _mark(result.figures[name].resident / 1e6, RESIDENT_TARGET_BYTES / 1e6, "{:.1f}") for result in results
        )
        for name in OURS
    ]
    return render_table("target | " + " | ".join(str(result.scenario) for result in results), rows)


def _notes(scrapes: int) -> str:
    return (
        "CPU is user and system time of the exporter: the median of the rounds and their range. *A scrape*: ours "
        "serves its last sample, the others read uWSGI for it. *A sample*: the CPU that ours uses without scrapes, "
        "divided by the samples it takes meanwhile, so that all its other work counts too. *Of one CPU*: rest and "
        f"scrapes together, at a scrape every {SCRAPE_INTERVAL_SECONDS} s. Resident memory is after {scrapes} scrapes "
        "or more. "
        f"{master.HOW}. *Same content* is assembled by the benchmark: without queries to the kernel and without "
        "sampling."
    )


def _cpu(figures: Figures) -> float:
    """Returns the CPU seconds of one read of uWSGI: a scrape, and the sample that it serves."""
    return statistics.median(figures.cpu) + statistics.median(figures.sample)


def _mark(value: float, limit: float, form: str) -> str:
    return f"{form.format(value)} {'✓' if value <= limit else '✗'}"
