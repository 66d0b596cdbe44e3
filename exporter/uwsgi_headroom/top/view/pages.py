"""Builds the pages beside the tables: threads, findings, events and routes of a server, vassals, backends."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Sequence

from rich.text import Text

from uwsgi_headroom.check.narrow_figures import age, number, percent, size
from uwsgi_headroom.check.reports import CODE_AT, write_code_lines, write_finding
from uwsgi_headroom.check.worker_table import busy_bar, sort_workers
from uwsgi_headroom.documents.emperor_router import Emperor, Router, Vassal
from uwsgi_headroom.documents.lines import list_lines
from uwsgi_headroom.documents.schema import ServerDocument
from uwsgi_headroom.documents.sentences import describe_code_rest
from uwsgi_headroom.documents.waits import Route
from uwsgi_headroom.documents.workers import WorkerSection
from uwsgi_headroom.journal.events import Event
from uwsgi_headroom.terminal_text import bar, escape_text, wrap
from uwsgi_headroom.top.view.figures import Page, cut_middle, title_line
from uwsgi_headroom.words.states import EVENTS, STATUSES

_THREADS_AT, _THREAD = 17, 15  # first column of the threads, columns of each thread


def thread_lines(server: ServerDocument, sort: str, width: int) -> Iterator[Text]:
    """Build the lines of every worker's threads: requests completed, and the age of the current request."""
    yield title_line("  W  BUSY        THREAD: REQUESTS COMPLETED, AGE OF CURRENT REQUEST", width)
    stuck = server.threads.stuck_seconds if server.threads else math.inf
    for worker in sort_workers(server.workers, sort):
        line = Text.assemble(f"{worker.worker_id:>3}  ", *busy_bar(worker, _THREADS_AT - 7))
        line.append(" " * (_THREADS_AT - line.cell_len))
        cells = [_thread(place, worker, stuck) for place in range(len(worker.thread_requests or ()))]
        if not cells:
            yield line.append("threads not known" if worker.pid else worker.state, "dim")
        for place, cell in enumerate(cells):
            if line.cell_len + _THREAD > width and place:
                yield line
                line = Text(" " * _THREADS_AT)
            line.append_text(cell)
        if cells:
            yield line


def _thread(place: int, worker: WorkerSection, stuck_seconds: float) -> Text:
    cell = Text(f"{place}: {number((worker.thread_requests or ())[place])}", "" if worker.pid else "dim")
    if worker.serving and place in worker.serving:
        seconds = worker.serving[place]
        stuck = seconds is not None and seconds >= stuck_seconds
        cell.append(" busy" if seconds is None else f" {age(seconds)}", "bold red" if stuck else "bold green")
    cell.truncate(_THREAD - 1, overflow="ellipsis")
    cell.pad_right(_THREAD - cell.cell_len)
    return cell


def finding_lines(server: ServerDocument, width: int) -> Iterator[Text]:
    """Build the lines of every finding with its evidence and advice, then what is not known, with the reasons."""
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
        yield Text(f"thunder-lock is {'on' if server.thunder_lock else 'off'}.")


_EVENT_INDENT = " " * 17


def event_page(events: Sequence[Event], text: str, width: int, now: float) -> Page:
    """Build the page of the events that match a filter, with local times."""
    zone = time.strftime("%Z", time.localtime(now))[:5]
    title = title_line(f"TIME {zone:7} AGO  EVENT", width)
    shown = [event for event in events if text.casefold() in f"{event.kind} {event.title}".casefold()]
    rows = [row for event in shown for row in _event_rows(event, width, now)]
    return Page(title, rows or [Text("No event matches the filter." if text else "No events so far.")])


def _clock(moment: float) -> str:
    return time.strftime("%H:%M:%S", time.localtime(moment))


def _event_rows(event: Event, width: int, now: float) -> Iterator[Text]:
    local = time.localtime(event.time)
    today = local[:3] == time.localtime(now)[:3]
    moment = _clock(event.time) if today else time.strftime("%d %b %Hh", local)
    first = f"{moment:11}{age(max(0.0, now - event.time)):>4}  "
    often = f" ({event.count} times since {_clock(event.since)})" if event.count > 1 else ""
    for place, line in enumerate(wrap(event.title + often, width, first, _EVENT_INDENT)):
        row = Text(line)
        row.stylize("dim", 0, len(first) if place == 0 else 0)
        row.stylize(EVENTS[event.kind].terminal if event.kind in EVENTS else "", len(first))
        yield row
    yield from (Text(line, "dim") for line in wrap(event.evidence, width, _EVENT_INDENT, _EVENT_INDENT))


_ROUTE_BAR = 10
_ROUTE_TITLE = "THREADS SHARE OF BUSY  NOW OLDEST  ROUTE"
_ROUTE_AT = _ROUTE_TITLE.index("ROUTE")
_LEAST_ROUTE = 12
_ROUTES_OFF = "Routes are off. An exporter shows them with --routes true; see its documentation first."


def route_page(server: ServerDocument, text: str, width: int) -> Page:
    """Build the page of the routes that match a filter, most busy threads first."""
    title = title_line(_ROUTE_TITLE, width)
    if server.routes is None:
        return Page(title, [Text(_ROUTES_OFF)])
    shown = [route for route in server.routes if text.casefold() in route.route.casefold()]
    stuck = server.threads.stuck_seconds if server.threads else math.inf
    rows = [_route_row(route, stuck, max(_LEAST_ROUTE, width - _ROUTE_AT)) for route in shown]
    return Page(title, rows or [Text("No route matches the filter." if text else "No thread was busy.")])


def _route_row(route: Route, stuck_seconds: float, room: int) -> Text:
    line = Text(f"{route.threads:>7.1f} {percent(route.share):>4} ")
    line.append(f"{bar(route.share, 1.0, _ROUTE_BAR):{_ROUTE_BAR}}", "cyan").append(f"{route.in_service:>4} ")
    oldest = route.oldest_seconds
    line.append(f"{age(oldest):>6}", "bold red" if oldest is not None and oldest >= stuck_seconds else "")
    return line.append("  ").append(cut_middle(escape_text(route.route), room), "bold")


_CODE_TITLE = "   REQUEST  SHARE  LINE OF CODE, AND WHAT IT WAITS FOR"
_CODE_OFF = "Code is off. An exporter shows it with --code; see its documentation first."


def code_page(server: ServerDocument, text: str, width: int) -> Page:
    """Build the page of the lines of code that match a filter, those that take the most time first."""
    title, code = title_line(_CODE_TITLE, width), server.code
    if code is None:
        return Page(title, [Text(_CODE_OFF)])
    if code.why is not None:
        return Page(title, [Text(line) for line in wrap(f"Not known: {code.why}.", width)])
    rows = [Text(row) for row in write_code_lines(code.lines, width, text)]
    if rows and not text and (rest := describe_code_rest(code, len(code.lines))):
        rows.append(Text(f"{'':{CODE_AT}}{rest}", "dim"))
    return Page(title, rows or [Text("No line matches the filter." if text else "No thread was busy.")])


def emperor_lines(emperor: Emperor, width: int) -> Iterator[Text]:
    """Build the lines of vassals, then throttled vassals."""
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
    """Build the lines of backends by the key to which they subscribed, then those of the configuration."""
    yield title_line(" REQUESTS      TX      RX  LOAD WEIGHT FAILED  BACKEND", width)
    for key in router.subscriptions:
        yield Text(f"{number(key.hits):>9}  ").append(key.key, "bold")
        for node in key.nodes:
            columns = f"{number(node.requests):>9}{size(node.transmitted_bytes):>8}{size(node.received_bytes):>8}"
            columns += f"{number(node.load):>6}{number(node.weight):>7}{number(node.failures):>7}    "
            yield Text(columns).append(node.name, "bold red" if node.dead else "").append(" dead" if node.dead else "")
    for static in router.static_nodes:
        yield Text(f"{number(static.hits):>9}{'':36}    {static.name}")
