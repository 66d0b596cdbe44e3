"""On which CPUs workers may run, and on which they did: from their affinity masks and the exporter's CPU residency."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path
from statistics import median

from app.lab.experiment import Results
from app.lab.figures import Finding, hot_ratio, mean_ms, order
from app.lab.programs import mask_file
from uwsgi_headroom.tune.outcome import Outcome

LEAST_CPU_SECONDS = 0.5
"""Of a worker whose residency counts: less is a few samples."""
BOUND = 0.95
"""A worker that spent this part of its CPU time on one CPU ran there only."""


def recorded(results: Path, experiment: str, setup: str) -> dict[int, list[tuple[int, frozenset[int]]]]:
    """Returns what the workers of a setup recorded: by the master's pid, each worker's id and affinity mask."""
    file = mask_file(results, experiment, setup)
    found: dict[int, list[tuple[int, frozenset[int]]]] = defaultdict(list)
    for line in file.read_text().splitlines() if file.is_file() else []:
        master, worker, mask = json.loads(line)
        found[master].append((worker, frozenset(mask)))
    return found


def starts_per_run(results: Path, experiment: str, setup: str) -> float:
    """Returns how many workers a run of the setup started, restarts included: the median of the runs; 0 if unknown."""
    return median([len(started) for started in recorded(results, experiment, setup).values()] or [0])


def parts(run: Outcome) -> dict[int, dict[int, float]]:
    """Returns the part of each worker's CPU time on each CPU, for workers that used enough."""
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
    allowed = min(map(len, masks))
    text = (
        f"The processes use the same CPU by default: each worker's affinity mask allowed"
        f" {allowed} of {results.machine.cpus} CPUs, and the most of its CPU time that a worker spent on one CPU was"
        f" {100 * max(most):.0f} %."
    )
    if allowed > 1 and max(most) < BOUND:
        text += " A mask that is inherited from the master binds no worker to a CPU."
        return [Finding("differs", text)]
    return [Finding("agrees" if allowed == 1 else "open", text)]


def guess_about_busiest(results: Results, setup: str) -> list[Finding]:
    """Tests the guess that the busiest worker has affinity to the least loaded CPU."""
    seen = [found for run in _with_result(results, setup) if (found := _busiest_on_quietest(run))]
    if not seen or results.machine.cpus < 2:
        return []
    even = 1 / results.machine.cpus
    shown = ", ".join(f"{100 * part:.0f} %" for part, _ in seen)
    loads = ", ".join(" and ".join(f"{100 * load:.0f} %" for load in cpus) for _, cpus in seen)
    text = (
        f"The busiest worker had affinity to the least loaded CPU: in the runs of {setup}, the worker with the most"
        f" requests spent {shown} of its CPU time on the CPU that was used least, where chance gives"
        f" {100 * even:.0f} % (CPUs used: {loads})."
    )
    if all(part > BOUND for part, _ in seen):
        return [Finding("agrees", text)]
    return [Finding("differs", text + " It had affinity to none.")]


def _busiest_on_quietest(run: Outcome) -> tuple[float, tuple[float, ...]] | None:
    """Returns the part of the busiest worker's CPU time on the least used CPU, and how much each CPU was used."""
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
    changed = {1: "more uneven", -1: "more even", 0: "as uneven, within the ranges of the runs"}[order(hot[0], hot[1])]
    text = (
        f"With `cpu-affinity = 1` each worker may use {max(map(len, masks))} of {results.machine.cpus} CPUs. The"
        f" shares are {changed}: hot ratio {hot[0].median:.2f} free, {hot[1].median:.2f} bound; mean"
        f" {means[0].median:,.0f} and {means[1].median:,.0f} ms."
    )
    if order(hot[0], hot[1]) > 0:
        return [Finding("agrees", f"{text} Affinity makes shares uneven.")]
    return [Finding("differs", f"{text} Affinity is not what makes the shares uneven.")]
