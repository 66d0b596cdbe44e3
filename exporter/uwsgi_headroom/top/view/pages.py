"""Builds the pages beside the tables, such as threads, findings and plots."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence

from msgspec import Struct
from rich.text import Text

from uwsgi_headroom.check.reports import CODE_AT, write_code_lines, write_finding
from uwsgi_headroom.check.tables import (
    age,
    alarm,
    busy_bar,
    clock,
    number,
    percent,
    rate,
    size,
    sort_workers,
    stuck_age,
)
from uwsgi_headroom.documents.history import HistoryDocument
from uwsgi_headroom.documents.lines import list_lines
from uwsgi_headroom.documents.schema import ServerDocument
from uwsgi_headroom.documents.sentences import describe_code_rest
from uwsgi_headroom.documents.subjects import Emperor, Route, Router, Vassal, WorkerSection
from uwsgi_headroom.history.events import Event
from uwsgi_headroom.terminal_text import bar, downsample, escape_text, sparkline, wrap
from uwsgi_headroom.top.view.tables import Page, column_of, cut_middle, title_line, use_of
from uwsgi_headroom.words.formats import duration, factor, mean_count
from uwsgi_headroom.words.states import EVENTS, STATUSES
from uwsgi_headroom.words.template import Facts, fill

_THREADS_AT, _THREAD = 17, 15  # first column of the threads, columns of each thread


def thread_lines(server: ServerDocument, sort: str, width: int) -> Iterator[Text]:
    """Write the threads of each worker: requests completed, and the age of the current one."""
    yield title_line("  W  BUSY        THREAD: REQUESTS COMPLETED, AGE OF CURRENT REQUEST", width)
    across = max(1, (width - _THREADS_AT) // _THREAD)
    for worker in sort_workers(server.workers, sort):
        line = Text.assemble(f"{worker.worker_id:>3}  ", *busy_bar(worker, _THREADS_AT - 7))
        line.append(" " * (_THREADS_AT - line.cell_len))
        cells = [_thread(place, worker, server) for place in range(len(worker.thread_requests or ()))]
        if not cells:
            yield line.append("threads not known" if worker.pid else worker.state, "dim")
        for first in range(0, len(cells), across):
            yield Text.assemble(line if first == 0 else " " * _THREADS_AT, *cells[first : first + across])


def _thread(place: int, worker: WorkerSection, server: ServerDocument) -> Text:
    cell = Text(f"{place}: {number((worker.thread_requests or ())[place])}", "dim" * (not worker.pid))
    if worker.serving and place in worker.serving:
        seconds = worker.serving[place]
        style = alarm(seconds, (stuck_age(server), "bold red")) or "bold green"
        cell.append(" busy" if seconds is None else f" {age(seconds)}", style)
    cell.truncate(_THREAD - 1, overflow="ellipsis")
    cell.pad_right(_THREAD - cell.cell_len)
    return cell


def finding_lines(server: ServerDocument, width: int) -> Iterator[Text]:
    """Write every finding whole, then what is not known, with the reasons."""
    for place, finding in enumerate(server.findings, 1):
        head, *rest = map(Text, write_finding(place, finding, server, width))
        head.stylize(STATUSES[finding.severity].terminal, 0, len(f"{place}. {finding.severity}"))
        yield from (head, *rest)
        if finding.runbook:
            yield Text(f"   Runbook: {finding.runbook} on the exporter", "dim")
        yield Text()
    if not server.findings:
        yield Text("Nothing stands out.")
        yield Text()
    for line in list_lines(server):
        if line.code == "unknown":
            yield from (Text(text, "dim") for text in wrap(f"Not known: {line.text}.", width))
    if server.thunder_lock is not None:
        yield Text(fill("thunder-lock is [on? on][not on? off].", {"on": server.thunder_lock}))


_EVENT_INDENT = " " * 17
EVENT = "{title}[often?  ({often:plain} times since {since})]"


def event_page(events: Sequence[Event], text: str, width: int, now: float) -> Page:
    zone = time.strftime("%Z", time.localtime(now))[:5]
    shown = [event for event in events if text.casefold() in f"{event.kind} {event.title}".casefold()]
    rows = [row for event in shown for row in _event_rows(event, width, now)]
    return _filtered(
        f"TIME {zone:7} AGO  EVENT", rows, text, width, "No event matches the filter.", "No events so far."
    )


def _filtered(title: str, rows: Sequence[Text], text: str, width: int, no_match: str, nothing: str) -> Page:
    """A page of rows, or why it has none: a filter, or there is nothing to filter."""
    return Page([title_line(title, width)], rows or [Text(no_match if text else nothing)])


def _event_rows(event: Event, width: int, now: float) -> Iterator[Text]:
    local = time.localtime(event.time)
    today = local[:3] == time.localtime(now)[:3]
    moment = clock(event.time) if today else time.strftime("%d %b %Hh", local)
    first = f"{moment:11}{age(max(0.0, now - event.time)):>4}  "
    facts: Facts = {"title": event.title, "often": event.count > 1 and event.count, "since": clock(event.since)}
    style = EVENTS[event.kind].terminal if event.kind in EVENTS else ""
    for place, line in enumerate(wrap(fill(EVENT, facts), width, first, _EVENT_INDENT)):
        row = Text(line)
        row.stylize("dim", 0, len(first) * (place == 0))
        row.stylize(style, len(first))
        yield row
    yield from (Text(line, "dim") for line in wrap(event.evidence, width, _EVENT_INDENT, _EVENT_INDENT))


_ROUTE_BAR = 10
_ROUTE_TITLE = "THREADS SHARE OF BUSY  NOW OLDEST  ROUTE"
_ROUTE_AT = _ROUTE_TITLE.index("ROUTE")
_LEAST_ROUTE = 12
_ROUTES_OFF = "Routes are off. An exporter shows them with --routes; see its documentation first."


def route_page(server: ServerDocument, text: str, width: int) -> Page:
    if server.routes is None:
        return Page([title_line(_ROUTE_TITLE, width)], [Text(_ROUTES_OFF)])
    shown = [route for route in server.routes if text.casefold() in route.route.casefold()]
    rows = [_route_row(route, server, max(_LEAST_ROUTE, width - _ROUTE_AT)) for route in shown]
    return _filtered(_ROUTE_TITLE, rows, text, width, "No route matches the filter.", _NO_THREAD)


_NO_THREAD = "No thread was busy."


def _route_row(route: Route, server: ServerDocument, room: int) -> Text:
    line = Text(f"{route.threads:>7.1f} {percent(route.share):>4} ")
    line.append(f"{bar(route.share, 1.0, _ROUTE_BAR):{_ROUTE_BAR}}", "cyan").append(f"{route.in_service:>4} ")
    oldest = route.oldest_seconds
    line.append(f"{age(oldest):>6}", alarm(oldest, (stuck_age(server), "bold red")))
    return line.append("  ").append(cut_middle(escape_text(route.route), room), "bold")


_CODE_TITLE = "   REQUEST  SHARE  LINE OF CODE, AND WHAT IT WAITS FOR"
_CODE_OFF = "Code is off. An exporter shows it with --code; see its documentation first."


def code_page(server: ServerDocument, text: str, width: int) -> Page:
    """Build the page of code: what takes the most time first."""
    code = server.code
    if code is None or code.why is not None:
        why = _CODE_OFF if code is None else f"Not known: {code.why}."
        return Page([title_line(_CODE_TITLE, width)], [Text(line) for line in wrap(why, width)])
    rows = [Text(row) for row in write_code_lines(code.lines, width, text)]
    if rows and not text and (rest := describe_code_rest(code, len(code.lines))):
        rows.append(Text(f"{'':{CODE_AT}}{rest}", "dim"))
    return _filtered(_CODE_TITLE, rows, text, width, "No line matches the filter.", _NO_THREAD)


def emperor_lines(emperor: Emperor, width: int) -> Iterator[Text]:
    yield title_line("    PID  STATE           AGE  BEAT RESTARTS  VASSAL", width)
    for vassal in emperor.vassals:
        state = _vassal_state(vassal)
        style = {"cursed": "red", "starting": "yellow"}.get(state, "green")
        line = Text(f"{vassal.pid:>7}  ").append(f"{state:12}", style)
        line.append(f"{age(vassal.age):>7}{age(vassal.heartbeat_age):>6}{number(vassal.respawns):>9}  ")
        yield line.append(vassal.name, "bold")
    for throttled in emperor.throttled:
        line = Text("      -  ").append("throttled   ", "bold red")
        yield line.append(f"{age(throttled.delay):>7}{'':6}{number(throttled.attempts):>9}  ").append(throttled.name)


def _vassal_state(vassal: Vassal) -> str:
    states = ("cursed", vassal.cursed), ("loyal", vassal.loyal), ("accepting", vassal.accepting)
    return next((name for name, holds in (*states, ("ready", vassal.ready)) if holds), "starting")


def router_lines(router: Router, width: int) -> Iterator[Text]:
    """Write backends by the key to which they subscribed, then those of the configuration."""
    yield title_line(" REQUESTS      TX      RX  LOAD WEIGHT FAILED  BACKEND", width)
    for key in router.subscriptions:
        yield Text(f"{number(key.hits):>9}  ").append(key.key, "bold")
        for node in key.nodes:
            columns = f"{number(node.requests):>9}{size(node.transmitted_bytes):>8}{size(node.received_bytes):>8}"
            columns += f"{number(node.load):>6}{number(node.weight):>7}{number(node.failures):>7}    "
            yield Text(columns).append(node.name, "bold red" * bool(node.dead)).append(" dead" * bool(node.dead))
    for static in router.static_nodes:
        yield Text(f"{number(static.hits):>9}{'':36}    {static.name}")


class _Row(Struct, frozen=True):
    name: str
    values: Sequence[float | None]
    """One for each slice."""
    text: Callable[[float], str]
    style: str
    top: float | None = None
    """The height of a full column, None for the largest value."""
    height: Callable[[float], float] = float
    """A value's height on the scale of `top`."""


def plot_lines(trend: HistoryDocument, width: int) -> Iterator[Text]:
    if not trend.time:
        yield Text("No history to draw yet.")
        return
    available = [threads for threads in trend.threads.available if threads]
    p95 = column_of(trend, 0.95)
    rows = (
        _Row("load, requests per second", trend.throughput, rate, "cyan"),
        _Row("headroom, drawn by use", trend.headroom.factor, factor, "green", 1.0, use_of),
        *[_Row("p95 inside uWSGI, estimated", p95, duration, "magenta")] * bool(p95),
        _Row("wait in the listen queue", trend.queue_wait, duration, "yellow"),
        _Row("busy threads", trend.concurrency.observed, mean_count, "blue", max(available, default=None)),
    )
    for row in rows:
        yield Text(row.name, "bold").append(f"   {_write_figures(row)}", "not bold")
        heights = [None if value is None else row.height(value) for value in _stretch(row.values, width)]
        yield Text(sparkline(heights, row.top), row.style)
    begin = clock(trend.time[0] - trend.step)
    end = time.strftime("%H:%M:%S %Z", time.localtime(trend.time[-1]))
    columns = len(_stretch(trend.time, width))
    yield Text(begin + end.rjust(max(len(end) + 1, columns - len(begin))), "dim")


def _write_figures(row: _Row) -> str:
    known = [value for value in row.values if value is not None]
    if not known:
        return "not known"
    when = "last" if row.values[-1] is None else "now"
    return f"{when} {row.text(known[-1])}, min {row.text(min(known))}, max {row.text(max(known))}"


def _stretch(values: Sequence[float | None], room: int) -> list[float | None]:
    """Spread the values over at most `room` columns, each equally wide."""
    fitting = downsample(values, room)
    return [value for value in fitting for _ in range(max(1, room // max(1, len(fitting))))]
