"""Writes a verdict for a person: one sentence, the figures behind it, and advice. 80 columns, no colour."""

from __future__ import annotations

from collections.abc import Iterator

from uwsgi_headroom.analysis.capacity import LIMITS
from uwsgi_headroom.analysis.slots import ASYNC
from uwsgi_headroom.analysis.verdict import gives_out
from uwsgi_headroom.check.what_if_table import render_what_if
from uwsgi_headroom.documents.request_time import split_request_time
from uwsgi_headroom.documents.response_time_words import describe_objective, list_percentiles
from uwsgi_headroom.documents.response_times import ResponseTimes
from uwsgi_headroom.documents.route_words import describe_routes
from uwsgi_headroom.documents.schema import Finding, Flow, Headroom, Server
from uwsgi_headroom.documents.waits import Waits
from uwsgi_headroom.documents.workers import Worker
from uwsgi_headroom.terminal_text import bar, wrap
from uwsgi_headroom.words.formats import amount, counted, duration, factor, mean_count, percent
from uwsgi_headroom.words.states import LIMITS as LIMIT_WORDS
from uwsgi_headroom.words.states import WAITS, WORKERS

WIDTH = 80


def render_lines(server: Server) -> Iterator[str]:
    """Write the whole report; for a server that was not judged, the reason."""
    yield f"{server.name}  {server.address}"
    if server.version and server.state == "up":
        yield f"uWSGI {server.version}{_describe_window(server)}"
    yield ""
    yield from _wrap(f"{server.status.upper()}  {server.verdict}")
    if server.state != "up":
        return
    if server.flow and server.headroom:
        yield ""
        yield from _figures(server, server.flow, server.headroom)
        yield ""
        yield from _workers(server)
    yield from _emperor(server)
    for place, finding in enumerate(server.findings, 1):
        yield ""
        yield from _finding(place, finding)
    if server.what_if:
        yield ""
        yield from render_what_if(server.what_if, WIDTH)


def _describe_window(server: Server) -> str:
    return f", watched for {duration(server.window.seconds)}" if server.window else f" {server.kind or ''}".rstrip()


def _figures(server: Server, flow: Flow, room: Headroom) -> Iterator[str]:
    slots = ASYNC if server.setup and server.setup.concurrency_kind == "async" else "threads"
    if server.threads and server.threads.configured is not None:
        capacity = counted(server.threads.configured, slots[:-1])
        yield f"  capacity     {capacity} configured, {server.threads.available} available"
    if flow.throughput is not None:
        is_below = server.response_times is not None
        at = "" if is_below or flow.response_time is None else f" of {duration(flow.response_time)} each"
        yield f"  throughput   {amount(flow.throughput)} requests/s{at}"
    if server.response_times:
        yield from _response_times(server.response_times, flow.response_time)
    if server.objective:
        yield from _section("objective", describe_objective(server.objective))
    if server.waits:
        yield from _time(server.waits)
    if routes := describe_routes(server.routes or ()):
        yield from _section("routes", "; ".join(route.replace(" ", "\u00a0") for route in routes))
    ways = [(flow.observed, "observed"), (flow.littles_law, "by Little's law")]
    known = ", ".join(f"{mean_count(value)} {how}" for value, how in ways if value is not None)
    yield f"  concurrency  {known or 'not known'}"
    if room.first and room.factor is not None:
        most = "at most " if room.is_upper_bound else ""
        yield f"  headroom     {most}{factor(room.factor)}, then {gives_out(room.first, slots)}"
    elif room.far:
        yield "  headroom     nearly idle"
    values = {limit: getattr(room.by_limit, limit) for limit in LIMITS}
    others = [f"{LIMIT_WORDS[limit].name} {factor(value)}" for limit, value in values.items() if value is not None]
    others += [f"{LIMIT_WORDS[limit].name} >100x" for limit in room.far]
    if others:
        others = [limit.replace(" ", "\u00a0") for limit in others]
        yield from _wrap(", ".join(others), indent=(" " * 15, " " * 15))
    for socket in server.sockets:
        if socket.mean_queue is not None:
            waiting = f"{mean_count(socket.mean_queue)} waiting on average, {socket.limit} fit"
            yield f"  queue        {waiting}   {socket.name}"
    if flow.queue_wait is not None:
        yield f"  queue wait   {duration(flow.queue_wait)} in the listen queue"


def _response_times(section: ResponseTimes, mean: float | None) -> Iterator[str]:
    parts = [] if mean is None else [f"mean {duration(mean)}"]
    parts = [part.replace(" ", "\u00a0") for part in (*parts, *list_percentiles(section))]
    yield from _section("response", f"{', '.join(parts)}; inside uWSGI, percentiles estimated from samples")


def _section(name: str, text: str) -> list[str]:
    return _wrap(text, indent=(f"  {name:13}", " " * 15))


def _time(waits: Waits) -> Iterator[str]:
    time = split_request_time(waits)
    if time:
        parts = [f"{part.size} {part.backend or WAITS[part.state].name}".replace(" ", "\u00a0") for part in time.parts]
        yield from _section("time", f"{time.whole.size} {time.unit}: {', '.join(parts)}")


def _workers(server: Server) -> Iterator[str]:
    workers = server.workers
    active = sum(bool(worker.active) for worker in workers)
    longest = max((worker.response_time or 0.0 for worker in workers), default=0.0)
    even = 1 / max(1, active)
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
    if active > 1:
        yield f"          (even: {percent(even)} each)"
    if any(_state(worker) == _PARTLY for worker in workers):
        yield f"          ({_PARTLY}: not up all the time)"


_PARTLY = "partly"


def _state(worker: Worker) -> str:
    """Why a worker cannot be compared with the others, in at most seven letters: the line has no room for more."""
    if worker.active:
        return ""
    return _PARTLY if worker.accepting else WORKERS[worker.state].short


def _column(value: float | None, of: float, text: str) -> str:
    return f"{'-':>7} {'':11}" if value is None else f"{text:>7} {bar(value, of, 11):11}"


def _emperor(server: Server) -> Iterator[str]:
    if not server.emperor or not server.emperor.throttled:
        return
    yield ""
    for vassal in server.emperor.throttled:
        attempts = "" if vassal.attempts is None else f", {counted(vassal.attempts, 'attempt')}"
        delay = "" if vassal.delay is None else f", the next in {duration(vassal.delay)}"
        yield from _wrap(f"throttled  {vassal.name}{attempts}{delay}", indent=("  ", "    "))


def _finding(place: int, finding: Finding) -> Iterator[str]:
    yield from _wrap(f"{place}. {finding.severity.upper()}: {finding.title}", indent=("", "   "))
    for text in (finding.evidence, finding.meaning):
        yield from _wrap(text, indent=("   ", "   "))
    if finding.change:
        yield from _wrap(finding.change, indent=("   -> ", "      "))


def _wrap(text: str, indent: tuple[str, str] = ("", "")) -> list[str]:
    return wrap(text, WIDTH, *indent)
