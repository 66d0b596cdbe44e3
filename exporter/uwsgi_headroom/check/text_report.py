"""A verdict for a person: what it is, in one sentence; the figures behind it; what to change. 80 columns, no colour."""

from __future__ import annotations

from collections.abc import Iterator

from uwsgi_headroom.analysis.balance import WorkerFigures
from uwsgi_headroom.analysis.findings import Finding
from uwsgi_headroom.analysis.formatting import counted, duration, factor, percent
from uwsgi_headroom.analysis.slots import name_slots
from uwsgi_headroom.analysis.verdict import gives_out
from uwsgi_headroom.check.judge import Verdict
from uwsgi_headroom.terminal_text import bar, wrap

_WIDTH = 80


def render_lines(verdict: Verdict) -> Iterator[str]:
    """The whole text."""
    yield f"{verdict.watch.name}  {verdict.watch.address}"
    yield f"uWSGI {verdict.figures.snapshot.version}, watched for {duration(verdict.figures.window.seconds)}"
    yield ""
    yield from _wrap(f"{verdict.status.upper()}  {verdict.sentence}")
    yield ""
    yield from _figures(verdict)
    yield ""
    yield from _workers(verdict)
    for place, finding in enumerate(verdict.findings, 1):
        yield ""
        yield from _finding(place, finding)


def _figures(verdict: Verdict) -> Iterator[str]:
    figures = verdict.figures
    flow, room = figures.flow, figures.headroom
    if figures.configured is not None:
        slots = counted(figures.configured, name_slots(verdict.reading)[:-1])
        yield f"  capacity     {slots} configured, {figures.available} available"
    if flow.throughput is not None:
        at = f" of {duration(flow.response_time)} each" if flow.response_time is not None else ""
        yield f"  throughput   {flow.throughput:.1f} requests/s{at}"
    ways = [(flow.observed, "observed"), (flow.littles_law, "by Little's law")]
    known = ", ".join(f"{value:.1f} {how}" for value, how in ways if value is not None)
    yield f"  concurrency  {known or 'not known'}"
    if room.first and room.factor is not None:
        most = "at most " if room.is_upper_bound else ""
        yield f"  headroom     {most}{factor(room.factor)}, then {gives_out(room.first, name_slots(verdict.reading))}"
    elif room.far:
        yield "  headroom     nearly idle"
    others = [f"{limit} {factor(value)}" for limit, value in room.by_limit.items()]
    others += [f"{limit} >100x" for limit in room.far]
    if others:
        others = [limit.replace("_", " ").replace(" ", "\u00a0") for limit in others]
        yield from _wrap(", ".join(others), indent=(" " * 15, " " * 15))
    for name, backlog in verdict.reading.listen_queues().items():
        area = figures.window.queue_seconds.get(name)
        if backlog.queue is not None and area is not None and figures.window.observed_seconds:
            mean = area / figures.window.observed_seconds
            yield f"  queue        {mean:.1f} waiting on average, {backlog.limit} fit   {name}"
    if flow.queue_wait is not None:
        yield f"  queue wait   {duration(flow.queue_wait)} before uWSGI sees a request"


def _workers(verdict: Verdict) -> Iterator[str]:
    workers = verdict.figures.balance.workers
    longest = max((worker.response_time or 0.0 for worker in workers), default=0.0)
    even = 1 / max(1, sum(worker.active for worker in workers))
    largest = max([worker.share or 0.0 for worker in workers] + [even])
    yield "  worker  share of requests    response time        interpreter load"
    for worker in workers:
        yield (
            f"  {worker.worker_id:>6}  "
            + "  ".join(
                (
                    _column(worker.share, largest, percent(worker.share or 0.0)),
                    _column(worker.response_time, longest, duration(worker.response_time or 0.0)),
                    _column(worker.interpreter_load, 1.0, f"{worker.interpreter_load or 0.0:.2f}"),
                    _state(worker),
                )
            ).rstrip()
        )
    if sum(worker.active for worker in workers) > 1:
        yield f"          (even: {percent(even)} each)"


def _state(worker: WorkerFigures) -> str:
    return "" if worker.active else "not up"


def _column(value: float | None, of: float, text: str) -> str:
    return f"{'-':>7} {'':11}" if value is None else f"{text:>7} {bar(value, of, 11):11}"


def _finding(place: int, finding: Finding) -> Iterator[str]:
    yield from _wrap(f"{place}. {finding.severity.upper()}: {finding.title}", indent=("", "   "))
    for text in (finding.evidence, finding.meaning):
        yield from _wrap(text, indent=("   ", "   "))
    if finding.change:
        yield from _wrap(finding.change, indent=("   -> ", "      "))


def _wrap(text: str, indent: tuple[str, str] = ("", "")) -> list[str]:
    return wrap(text, _WIDTH, *indent)
