"""The tables of every metric in docs/metrics.md."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace

import msgspec
from prometheus_client.metrics_core import Metric

from tools.environments import ROOT
from tools.generated_files import replace_section
from tools.support.captured_documents import NAMES
from tools.support.observations import down, proven, up
from uwsgi_headroom.analysis.figures import compute_figures
from uwsgi_headroom.analysis.percentiles import SHARES, Percentile, ResponseTimes
from uwsgi_headroom.history.hour import History
from uwsgi_headroom.history.integrals import Integrals
from uwsgi_headroom.metrics import SUBJECTS
from uwsgi_headroom.metrics.scrape import group_by_kind
from uwsgi_headroom.reading import Reading, describe_server
from uwsgi_headroom.stats import Snapshot
from uwsgi_headroom.watch.observation import ExporterHealth, HistoryHealth, LastReload, Observation, PatternServers

FILE = ROOT / "docs" / "metrics.md"


def watched(observation: Observation) -> Observation:
    """Returns the same server a minute and a thousand requests per worker later, so that it has windows."""
    reading = observation.outcome
    assert isinstance(reading, Reading)
    assert isinstance(reading.snapshot, Snapshot)
    workers = tuple(
        msgspec.structs.replace(
            worker, requests=(worker.requests or 0) + 1000, running_time=(worker.running_time or 0.0) + 100.0
        )
        for worker in reading.snapshot.workers
    )
    # With CPU residency, which is opt-in: each worker with a thread that stays on CPU 0.
    host = replace(reading.host, threads={pid: {pid: (0, 1.0)} for pid in reading.host.processes})
    later = msgspec.structs.replace(reading.snapshot, workers=workers)
    slo = observation.slo
    integrals, history = Integrals((slo.threshold,) if slo else ()), History()
    for place in range(61):
        at = reading.at + place
        snapshot = later if place else reading.snapshot
        now = Reading(at, reading.time + place, 0.001, 0.001, 1, snapshot, host, reading.routes)
        integrals.add(now, longest_step=2.0)
        history.add(at, integrals.totals)
    window = history.window(60.0)
    server = describe_server(now)
    assert window is not None
    assert server is not None
    response_times = ResponseTimes(4000, 0.2, {share: Percentile(2 * share, share, 3 * share) for share in SHARES})
    return Observation(
        observation.name,
        observation.address,
        now,
        {},
        integrals.totals,
        observation.pace,
        [replace(compute_figures(window, server), response_times=response_times)],
        others_follow=False,
        slo=slo,
    )


HEALTH = ExporterHealth(
    history=HistoryHealth(is_written=True, size=1_000_000, dropped=0),
    reload=LastReload(is_successful=True, succeeded_at=1_780_000_000.0),
    patterns=[PatternServers("/run/uwsgi/*.stats", found=2, expected=3, missing=1)],
)
"""An exporter that serves, and has a history file and a pattern."""


def everything() -> list[Observation]:
    """Returns servers of every captured document, one with kernel facts and windows, and one that is down."""
    observations = [up(name) for name in NAMES]
    return [*observations, watched(proven("threads_4x8_busy", "watched")), down("down")]


def labels(metric: Metric) -> str:
    """Returns a metric's labels without `server`, and without the `le` of histograms."""
    names = {name for sample in metric.samples for name in sample.labels} - {"server", "le"}
    return ", ".join(f"`{name}`" for name in sorted(names))


def table() -> str:
    """Returns the table as Markdown, one section per subject."""
    scrape = group_by_kind(everything(), HEALTH)
    lines: list[str] = []
    for families in SUBJECTS:
        rows = [metric for metric in families(scrape) if metric.samples and not metric.name.startswith("process_")]
        lines += [f"## {title(families)}", "", "| metric | type | labels | what it says |", "|---|---|---|---|"]
        for metric in rows:
            name = f"{metric.name}_total" if metric.type == "counter" else metric.name
            words = re.sub(r"\|", r"\\|", metric.documentation)
            lines.append(f"| `{name}` | {metric.type} | {labels(metric)} | {words} |")
        lines.append("")
    return "\n".join(lines)


def title(families: Callable[..., object]) -> str:
    """Returns the subject of a builder as a heading: that of `cpu_affinity_families` is `CPU affinity`. The subject of
    `families` is the name of its module."""
    name = families.__name__ if families.__name__ != "families" else families.__module__.rpartition(".")[2]
    words = name.removesuffix("_families").replace("_", " ")
    return (words[:1].upper() + words[1:]).replace("Cpu", "CPU")


def page() -> str:
    """docs/metrics.md with the metrics as they are exported."""
    return replace_section(FILE.read_text(), "metrics", table())
