"""On which CPUs workers may run, and on which they did: from their affinity masks and the exporter's CPU residency."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path
from statistics import median

from app.lab.experiment import Results
from app.lab.figures import Finding, change_words, hot_ratio, mean_ms, order, verdict_of
from app.lab.programs import mask_file
from app.lab.results import Outcome

LEAST_CPU_SECONDS = 0.5
"""Of a worker whose residency counts: less is a few samples."""
BOUND = 0.95
"""A worker that spent this part of its CPU time on one CPU ran there only."""


def recorded(results: Path, experiment: str, setup: str) -> dict[int, list[tuple[int, frozenset[int]]]]:
    """What the workers of a setup recorded: by the master's PID, each worker's id and affinity mask."""
    file = mask_file(results, experiment, setup)
    found: dict[int, list[tuple[int, frozenset[int]]]] = defaultdict(list)
    for line in file.read_text().splitlines() if file.is_file() else []:
        master, worker, mask = json.loads(line)
        found[master].append((worker, frozenset(mask)))
    return found


def starts_per_run(results: Path, experiment: str, setup: str) -> float:
    """How many workers a run of the setup started, restarts included: the median of the runs; 0 if unknown."""
    return median([len(started) for started in recorded(results, experiment, setup).values()] or [0])


def parts(run: Outcome) -> dict[int, dict[int, float]]:
    """The part of each worker's CPU time on each CPU, for workers that used enough."""
    residency: Mapping[int, Mapping[int, float]] = run.observed.residency if run.observed else {}
    return {
        worker: {cpu: seconds / sum(on.values()) for cpu, seconds in on.items()}
        for worker, on in residency.items()
        if sum(on.values()) >= LEAST_CPU_SECONDS
    }


def processes_share_a_cpu(results: Results, experiment: str, setup: str) -> list[Finding]:
    """Tests the claim that the processes of a uWSGI use the same CPU by default."""
    masks = {mask for run in recorded(results.directory, experiment, setup).values() for _, mask in run}
    most = [max(on.values()) for run in _with_result(results, setup) for on in parts(run).values()]
    if results.machine.cpus < 2 or not masks or not most:
        return []
    allowed, subject = min(map(len, masks)), "the claim that all processes use the same CPU by default"
    text = (
        f"Each worker's affinity mask allowed {allowed} of {results.machine.cpus} CPUs, and the most of its CPU time"
        f" that a worker spent on one CPU was {100 * max(most):.0f} %."
    )
    if allowed > 1 and max(most) < BOUND:
        return [
            Finding("differs", subject, f"{text} The mask that workers inherit from the master binds none of them.")
        ]
    return [Finding("agrees" if allowed == 1 else "open", subject, text)]


def guess_about_busiest(results: Results, setup: str) -> list[Finding]:
    """Tests the guess that the busiest worker has affinity to the least loaded CPU."""
    seen = [found for run in _with_result(results, setup) if (found := _busiest_on_quietest(run))]
    if not seen or results.machine.cpus < 2:
        return []
    parts_there = " and ".join(f"{100 * part:.0f} %" for part, _ in seen)
    loads = "; ".join(" and ".join(f"{100 * load:.0f} %" for load in cpus) for _, cpus in seen)
    subject = "the guess that the busiest worker has affinity to the least loaded CPU"
    text = (
        f"In the runs of {setup}, the worker with the most requests spent {parts_there} of its CPU time on the CPU that"
        f" was used least; chance gives {100 / results.machine.cpus:.0f} %. The CPUs were used {loads}."
    )
    if all(part > BOUND for part, _ in seen):
        return [Finding("agrees", subject, text)]
    return [Finding("differs", subject, f"{text} It was not bound to it.")]


def _busiest_on_quietest(run: Outcome) -> tuple[float, tuple[float, ...]] | None:
    """The part of the busiest worker's CPU time on the least used CPU, and how much each CPU was used."""
    shares = run.observed.shares if run.observed else {}
    on = parts(run).get(max(shares, key=lambda worker: shares[worker])) if shares else None
    if not on or not run.cpus:
        return None
    quietest = min(range(len(run.cpus)), key=lambda cpu: run.cpus[cpu])
    return on.get(quietest, 0.0), run.cpus


def _with_result(results: Results, setup: str) -> Iterator[Outcome]:
    return (run for run in results.runs.outcomes if run.setup == setup and run.observed)


def pinned_workers(results: Results, load: str, experiment: str, free: str, pinned: str) -> list[Finding]:
    """Compares workers that are bound to a CPU each with free ones: does affinity make shares uneven?"""
    masks = [mask for run in recorded(results.directory, experiment, pinned).values() for _, mask in run]
    hot = [results.runs.spread(name, load, hot_ratio) for name in (free, pinned)]
    means = [results.runs.spread(name, load, mean_ms) for name in (free, pinned)]
    if not masks or not hot[0] or not hot[1] or not means[0] or not means[1]:
        return []
    sign = order(hot[0], hot[1])
    text = (
        f"With `cpu-affinity = 1` each worker may use {max(map(len, masks))} of {results.machine.cpus} CPUs. It"
        f" {change_words(sign, 'hot ratio')}: {hot[0].median:.2f} free, {hot[1].median:.2f} bound. The mean response"
        f" time was {means[0].median:,.0f} and {means[1].median:,.0f} ms."
    )
    return [Finding(verdict_of(sign, 1), "`cpu-affinity` makes shares more uneven", text)]
