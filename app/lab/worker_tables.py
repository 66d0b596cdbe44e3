"""The tables of E4: what its clients saw, and what the exporter saw of the workers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from statistics import median

from app.lab import published
from app.lab.experiment import NONE, render_table, show, show_share
from app.lab.figures import (
    Runs,
    concurrency,
    cost,
    error_rate,
    hot_ratio,
    interpreter_load,
    largest_share,
    least_share,
    mean_ms,
    p99_ms,
    server_cpus,
    throughput,
)
from app.lab.results import Outcome

STATES = ("cpu", "cpu_wait", "interpreter_lock", "sleep")
"""The wait states of docs/waits.md that this load has."""


def published_table() -> list[str]:
    """Returns the published results."""
    rows = []
    for shape in published.SHAPES:
        least, most = shape.shares
        shares = f"{100 * least:.0f} to {100 * most:.0f} %" if least else f"largest {100 * most:.0f} %"
        threads = published.E4_MACHINES * shape.threads * shape.workers
        rows.append([shape.name, shares, f"{most * shape.workers:.2f}", str(threads)])
    rate = published.E4_RATE / published.E4_MACHINES
    return [
        f"Published: {published.E4_MACHINES} machines, {rate:.1f} requests/s on each, mean {published.E4_SECONDS:g} s"
        f" before and less after, {published.E4_CONCURRENCY} in service (Little's law).",
        "",
        *render_table(["published", "shares", "hot ratio", "threads, all machines"], rows),
    ]


def clients_table(runs: Runs, load: str, setups: Sequence[str]) -> list[str]:
    """Returns shares, and what the clients saw."""
    head = ["setup", "shares", "hot ratio", "requests/s", "mean ms", "p99 ms", "errors", "CPUs"]
    rows = []
    for name in setups:
        least, most = runs.spread(name, load, least_share), runs.spread(name, load, largest_share)
        if runs.of(name, load):
            rows.append(
                [
                    name,
                    f"{100 * least.median:.0f} to {100 * most.median:.0f} %" if least and most else NONE,
                    show(runs.spread(name, load, hot_ratio), 2),
                    show(runs.spread(name, load, throughput), 1),
                    show(runs.spread(name, load, mean_ms)),
                    show(runs.spread(name, load, p99_ms)),
                    show_share(runs.spread(name, load, error_rate)),
                    show(runs.spread(name, load, server_cpus), 2),
                ]
            )
    return render_table(head, rows)


def waits_table(runs: Runs, load: str, setups: Sequence[str]) -> list[str]:
    """Returns what the threads in service waited for, and the figures about interpreters."""
    head = [
        *("setup", "in service", *(f"`{state}`" for state in STATES), "`interpreter_lock`, by worker"),
        *("busiest interpreter", "cost of unevenness", "least headroom"),
    ]
    rows = []
    for name in setups:
        seen = [run for run in runs.of(name, load) if run.observed]
        if seen:
            rows.append(
                [
                    name,
                    show(runs.spread(name, load, concurrency), 1),
                    *(_state(seen, state) for state in STATES),
                    _by_worker(seen),
                    show(runs.spread(name, load, interpreter_load), 2),
                    show_share(runs.spread(name, load, cost)),
                    _headroom(seen),
                ]
            )
    return render_table(head, rows)


def _state(seen: Sequence[Outcome], state: str) -> str:
    """Returns the threads in a wait state: the median of the runs."""
    values = [run.observed.waits.get(state, 0.0) for run in seen if run.observed and run.observed.waits]
    return f"{median(values):.1f}" if values else NONE


def _by_worker(seen: Sequence[Outcome]) -> str:
    """Returns the threads of each worker that wait for its interpreter, the most first: the median of the runs."""
    ranked = [sorted(run.observed.interpreter_waits.values(), reverse=True) for run in seen if run.observed]
    return ", ".join(f"{median(values):.1f}" for values in zip(*ranked, strict=False)) or NONE


def _headroom(seen: Sequence[Outcome]) -> str:
    """Returns the headroom that the exporter gave, with the limit that most runs had."""
    found = [run.observed for run in seen if run.observed and run.observed.headroom is not None]
    if not found:
        return NONE
    limit = Counter(one.limit for one in found).most_common(1)[0][0]
    return f"{median([one.headroom for one in found if one.headroom is not None]):.1f}x ({limit})"
