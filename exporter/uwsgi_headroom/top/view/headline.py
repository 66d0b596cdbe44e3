"""Builds the head of a server's page, one line for each topic: verdict, first act, what users feel, time, limits.

Each function of a topic builds its lines whole. `screen` leaves out those with the largest rank where there is no room.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from msgspec import Struct
from rich.cells import cell_len, set_cell_size
from rich.text import Text

from uwsgi_headroom.analysis.capacity import Limit
from uwsgi_headroom.analysis.littles_law import NOTICED
from uwsgi_headroom.analysis.percentiles import SHARES
from uwsgi_headroom.analysis.verdict import usable_clause
from uwsgi_headroom.documents.request_time import (
    RequestTime,
    TimePart,
    describe_destinations,
    describe_stuck,
    split_request_time,
)
from uwsgi_headroom.documents.response_times import find_percentile
from uwsgi_headroom.documents.schema import Headroom, Server, Summary
from uwsgi_headroom.documents.sentences import (
    describe_first_act,
    describe_objective,
    describe_routes,
    describe_served,
    describe_since,
    describe_total_time,
    list_percentiles,
)
from uwsgi_headroom.terminal_text import cut_lines, downsample, escape_text, sparkline, wrap
from uwsgi_headroom.top.feeds import Trend
from uwsgi_headroom.top.view.figures import age, cut_middle, use_of
from uwsgi_headroom.words.formats import chosen, duration, factor, in_queue, mean_count, mean_threads, rate
from uwsgi_headroom.words.states import DOWN_STYLE, LIMITS, STATUSES, WAITS

_LABEL = 13  # columns of the name of a line


_LEAST_SINCE = 60  # columns of a terminal with room for since when


def _label(name: str) -> Text:
    return Text().append(f"{name:{_LABEL}}", "bold")


def status_word(server: Server | Summary) -> str:
    """Return `CRITICAL`, `warning` or `ok`, or the state if not up. Capitals are the alarm without colour."""
    if server.state != "up":
        return server.state.upper()
    return server.status.upper() if server.status == "critical" else server.status


def status_style(server: Server | Summary) -> str:
    """Return the style of `status_word`."""
    return DOWN_STYLE if server.state == "down" else STATUSES[server.status].terminal


def trouble_of(server: Server | Summary) -> str:
    """Return the reason why a server is down; empty if it is not down."""
    return server.error.message if server.state == "down" and server.error else ""


def verdict_block(server: Server, troubles: Sequence[str], width: int, lines: int) -> list[Text]:
    """Build exactly `lines` lines, so that a changed sentence moves nothing below: reasons why the figures are not
    current, the verdict, and the advice."""
    stale = [Text(cut_lines(wrap(f"STALE  {trouble}", width), 1)[0], "bold red") for trouble in troubles]
    block = stale[: max(1, lines - 1)]
    advice = _advice(server, width, max(0, lines - len(block) - 1))
    room = max(lines - len(block) - min(len(advice), 2 if lines > 3 else 1), 1)
    word = status_word(server).upper()
    since = describe_since(server) if width >= _LEAST_SINCE else ""
    start = f"{word} {since}" if since else word
    verdict = [Text(line) for line in cut_lines(wrap(f"{start}  {trouble_of(server) or server.verdict}", width), room)]
    verdict[0].stylize(status_style(server), 0, len(word))
    block = [*block, *verdict][:lines]
    block += _advice(server, width, lines - len(block))
    return [*block, *[Text()] * (lines - len(block))]


def _advice(server: Server, width: int, lines: int) -> list[Text]:
    """Build the lines with the first act; empty if nothing has to be done."""
    act = describe_first_act(server)
    if lines <= 0 or not act:
        return []
    cut = [Text(line) for line in cut_lines(wrap(act, width, f"{'DO':{_LABEL}}", " " * _LABEL), lines)]
    cut[0].stylize("bold", 0, _LABEL)
    return cut


class Part(Struct, frozen=True):
    """A line of the head."""

    rank: int
    """Lines with a larger rank are left out first."""

    line: Text
    is_spare: bool = False
    """Whether it is left out unless the whole page fits on the screen."""


def head_parts(server: Server, trend: Trend, width: int) -> list[Part]:
    """Build the lines below the verdict: what users feel, where the time goes, then limits and details."""
    is_down = server.state == "down"
    return [
        *(Part(rank, line) for rank, line in enumerate(_felt(server, width))),
        *_time(server, width),
        *(Part(3, line) for line in _headroom(server, trend, width)),
        *(Part(10, line) for line in _limits(server)),
        *(Part(5, line) for line in _concurrency(server, trend, width)),
        *(Part(5, line) for line in percentile_lines(server, trend, width)),
        *(Part(5 if place == 0 else 11, line) for place, line in enumerate(objective_lines(server, width))),
        *(Part(7, line) for line in route_lines(server, width)),
        *(Part(4 if place == 0 else 11, line) for place, line in enumerate(_queues(server))),
        *(Part(9, line) for line in _identity(server, width)),
        Part(6, _label("workers").append("their last figures, before the server went down:") if is_down else Text()),
    ]


def _felt(server: Server, width: int) -> Iterator[Text]:
    """Build the lines of what users wait, and of what is served and what is not."""
    if server.kind != "server":
        return
    if server.state == "down":
        last = server.flow and server.flow.throughput
        yield _label("served").append("nothing: the server is down" + (f"; {rate(last)} before" if last else ""))
        return
    waited = describe_total_time(server)
    yield _label("users wait").append(waited or "not known", "bold" if waited else "")
    line = _label("served").append(describe_served(server) or "not known")
    if window := server.window:
        counts = ("exceptions", window.exceptions), ("harakiri", window.harakiris), ("reloads", window.reloads)
        for name, count in counts:
            text = f"; {count:,} {name}" if count else ""
            line.append(text if line.cell_len + len(text) <= width else "", "yellow")
    yield line


def _headroom(server: Server, trend: Trend, width: int) -> Iterator[Text]:
    if server.kind != "server":
        return
    room, line = server.headroom, _label("headroom")
    if server.state == "down" or room is None:
        line.append("not known" if server.state == "up" else f"not known: the server is {server.state}")
    elif room.factor is None or room.first is None:
        line.append("over 100x: nearly idle" if room.far else _why_not_known(room))
    elif room.first == "other" and room.other:
        line.append(factor(room.factor), "bold").append(f": {room.other.why}")
    else:
        line.append("at most " if room.is_upper_bound else "").append(factor(room.factor), "bold").append(
            f", first limit: {LIMITS[room.first].name}"
        )
        waiting = server.flow is not None and server.flow.waiting in NOTICED
        usable = usable_clause(room.usable, room.factor, waiting=waiting)
        line.append(f"; {usable}" if usable and line.cell_len + len(usable) + 2 <= width else "")
    yield _with_spark(line, [use_of(value) for value in trend.headroom.factor], 1.0, trend.step, width)


def _why_not_known(room: Headroom) -> str:
    if room.other:
        return f"not known: {room.other.why}"
    return "not known: no requests yet" if room.no_requests else "not known"


def _limits(server: Server) -> Iterator[Text]:
    room = server.headroom
    if server.kind != "server":
        return
    if room is None or server.state == "down":
        yield Text()
        return
    factors: dict[Limit, float | None] = {
        "hottest_interpreter": room.by_limit.hottest_interpreter,
        "interpreters": room.by_limit.interpreters,
        "cpu": room.by_limit.cpu,
        "threads": room.by_limit.threads,
        "lock": room.by_limit.lock,
    }
    limits = [f"{LIMITS[limit].short} {factor(value)}" for limit, value in factors.items() if value is not None]
    limits += [f"{LIMITS[limit].short} >100x" for limit in room.far]
    yield Text(" " * _LABEL + ", ".join(limits) if limits else "", "dim")


def _concurrency(server: Server, trend: Trend, width: int) -> Iterator[Text]:
    threads, flow = server.threads, server.flow
    if threads is None or server.state == "down":
        return
    line = _label("in service")
    if flow and flow.observed is not None:
        line.append(mean_count(flow.observed), "bold")
        mean = threads.available if threads.mean is None else threads.mean
        line.append(f" of {mean_threads(mean)} threads" if mean is not None else "")
        line.append(f" ({mean_count(flow.littles_law)} by Little's law)" if flow.littles_law is not None else "")
        line.append(", ")
    elif flow and flow.littles_law is not None:
        line.append(mean_count(flow.littles_law), "bold").append(" by Little's law, ")
    line.append("threads not known" if threads.busy is None else f"{threads.busy} now")
    if threads.stuck:
        is_async = server.setup is not None and server.setup.concurrency_kind == "async"
        line.append(f", {threads.stuck} for over {chosen(threads.stuck_seconds)}", "" if is_async else "bold red")
    line.append(", kept connections hold more" if threads.held else "")
    if threads.configured != threads.available and threads.configured is not None:
        line.append(f", {threads.configured} configured")
    yield _with_spark(line, trend.concurrency.observed, threads.available, trend.step, width)


_HOW_KNOWN = "; inside uWSGI, estimated"
_FEW_SHARES = (0.5, 0.95, 0.99)
_OBJECTIVE_STYLES = {"fast": "bold red", "slow": "bold yellow", None: ""}


def percentile_lines(server: Server, trend: Trend, width: int) -> Iterator[Text]:
    """Build the line of the percentiles, with as much about each as fits; none if they are not known."""
    section = server.response_times
    if section is None or server.state == "down":
        return
    forms = (
        list_percentiles(section),
        list_percentiles(section, _FEW_SHARES),
        list_percentiles(section, _FEW_SHARES, short=True),
        list_percentiles(section, _FEW_SHARES[1:], short=True),
        list_percentiles(section, _FEW_SHARES[1:2], short=True),
    )
    choices = [", ".join(form) for form in forms]
    room = width - _LABEL
    text = next((choice for choice in choices if cell_len(choice) <= room), choices[-1])
    text += _HOW_KNOWN if cell_len(text + _HOW_KNOWN) <= room else ""
    yield _with_spark(_label("response").append(text), trend.response_times.column(SHARES[2]), None, trend.step, width)


def objective_lines(server: Server, width: int) -> list[Text]:
    """Build the lines about the objective; none if the server has none."""
    objective = server.objective
    if objective is None or server.state == "down":
        return []
    wrapped = wrap(describe_objective(objective), width, f"{'objective':{_LABEL}}", " " * _LABEL)
    lines = [Text(text, _OBJECTIVE_STYLES[objective.level]) for text in wrapped]
    lines[0].stylize("bold", 0, _LABEL)
    return lines


_BAR_EDGE = "│"
_SWITCHED_OFF = "off:"


def time_lines(server: Server, width: int) -> tuple[Text, Text] | None:
    """Build the line of figures and the bar; None if the time is not known or no request was in service."""
    time = split_request_time(server.waits, server.flow) if server.waits else None
    return (_time_figures(time, width), _time_bar(time, width)) if time else None


def stuck_line(server: Server, width: int) -> Text | None:
    """Build the line about stuck requests, which the time of a request leaves out; None without any."""
    time = split_request_time(server.waits, server.flow) if server.waits else None
    text = describe_stuck(server.waits, time) if server.waits and time else ""
    return Text(" " * _LABEL).append(cut_middle(text, max(0, width - _LABEL)), "bold red") if text else None


def outside_line(server: Server, width: int) -> Text | None:
    """Build the line that names what requests wait for outside of the server; None if that is not known."""
    text = escape_text("; ".join(describe_destinations(server.waits))) if server.waits else ""
    return Text(" " * _LABEL).append(cut_middle(text, max(0, width - _LABEL))) if text else None


def why_not_known(server: Server) -> Text | None:
    """Build one line with the first clause of the reason why the time is not known; the page of advice has the whole.
    None if the time is known, if the exporter's settings switch it off, or if the document has no reason."""
    why = next((unknown.why for unknown in server.unknown if unknown.what == "waits"), None)
    if server.waits or why is None or why.startswith(_SWITCHED_OFF):
        return None
    return _label("time").append(f"not known: {why.partition(': ')[0]}", "dim")


def _time_figures(time: RequestTime, width: int) -> Text:
    """Write the parts, largest first, in the unit of the whole. An ellipsis replaces those that do not fit."""
    whole = time.whole.size if time.whole.per_request is not None else f"{time.whole.size} {time.unit}"
    unit = time.whole.size.removeprefix(time.whole.size.split()[0])
    line = _label("time").append(whole, "bold").append(": ")
    for place, part in enumerate(time.parts):
        text = f"{', ' if place else ''}{_part_name(part)} {part.size.removesuffix(unit)}"
        is_last = place == len(time.parts) - 1
        if line.cell_len + cell_len(text) + (0 if is_last else len(" …")) > width:
            return line.append(" …" if place else "…")
        line.append(text)
    return line


def _time_bar(time: RequestTime, width: int) -> Text:
    """Draw the parts in the order of the figures, each as long as its share, with its name if that fits."""
    room = max(0, width - _LABEL - len(_BAR_EDGE))
    line = Text(" " * _LABEL)
    start, so_far = 0, 0.0
    for part in time.parts:
        so_far += part.threads
        end = round(room * so_far / time.whole.threads)
        name = _BAR_EDGE + _part_name(part)
        fitting = name if cell_len(name) <= end - start else _BAR_EDGE
        line.append(set_cell_size(fitting, end - start), WAITS[part.state].terminal)
        start = end
    return line.append(_BAR_EDGE)


def _part_name(part: TimePart) -> str:
    return escape_text(part.backend) if part.backend is not None else WAITS[part.state].short


def _time(server: Server, width: int) -> Iterator[Part]:
    if server.state == "down":
        return
    lines = time_lines(server, width)
    if lines:
        yield from (Part(rank, line) for rank, line in zip((2, 8), lines, strict=True))
        if stuck := stuck_line(server, width):
            yield Part(7, stuck)
        if outside := outside_line(server, width):
            yield Part(9, outside)
    elif reason := why_not_known(server):
        yield Part(12, reason, is_spare=True)


def route_lines(server: Server, width: int) -> Iterator[Text]:
    """Build one line with the routes that hold most busy threads, as many as fit; none if routes are off, or no thread
    was busy."""
    parts = [escape_text(part) for part in describe_routes(server.routes or ())]
    if not parts or server.state == "down":
        return
    room = width - _LABEL
    text = parts[0]
    for part in parts[1:]:
        if cell_len(f"{text}; {part}") > room:
            break
        text = f"{text}; {part}"
    yield _label("routes").append(cut_middle(text, room))


def _queues(server: Server) -> Iterator[Text]:
    """Build the lines of the queues: longest first, then those that are not known. A percentile is of all requests, so
    it stands beside an only queue."""
    if server.state == "down":
        return
    p95 = find_percentile(server.queue_waits, 0.95)
    for socket in sorted(server.sockets, key=lambda socket: -1 if socket.queue is None else socket.queue, reverse=True):
        line = _label("queue")
        if socket.queue is None:
            line.append(f"not known: {socket.reason}", "magenta")
        else:
            full = socket.limit is not None and socket.queue >= socket.limit
            line.append(f"{in_queue(socket.queue, socket.limit)} of {socket.limit}", "bold red" if full else "bold")
            line.append(", full" if full else "")
        mean = socket.mean_queue
        line.append("" if mean is None else f" ({in_queue(mean, socket.limit)} on average)")
        line.append(f", oldest {duration(socket.oldest_wait)}" if socket.oldest_wait else "")
        line.append(f", p95 {duration(p95.seconds)}" if p95 and p95.seconds and len(server.sockets) == 1 else "")
        yield line.append(f"  {socket.name}", "dim")


_LEAST_PATH = 12  # least columns for the name of an application or a file, else the name is left out


def _identity(server: Server, width: int) -> Iterator[Text]:
    """Build one line: the master's PID, uptime and host, then application and configuration file if they fit."""
    identity = server.identity
    if identity is None:
        return
    short = [
        f"master PID {identity.pid}" if identity.pid else "",
        f"up {age(identity.uptime)}" if identity.uptime is not None and server.state == "up" else "",
        f"on {escape_text(identity.host)}" if identity.host else "",
    ]
    line = _label("uWSGI").append(", ".join(part for part in short if part))
    for label, value in (("app ", identity.application), ("config ", identity.configuration_file)):
        before = ", " if len(line) > _LABEL else ""
        room = width - line.cell_len - len(before) - len(label)
        if value and room >= min(len(value), _LEAST_PATH):
            line.append(before + label + cut_middle(escape_text(value), room))
    yield line


_SPARK_OF, _LEAST_SPARK = 5, 5  # columns of the screen per column of a sparkline; least columns of a sparkline


def _with_spark(line: Text, values: Sequence[float | None], of: float | None, step: float, width: int) -> Text:
    """Append a sparkline of the values at the right end of a line, if there is room."""
    room = min(width - line.cell_len - 6, width // _SPARK_OF)  # a gap of two columns, and four for the time span
    if room < _LEAST_SPARK or not any(value is not None for value in values):
        return line
    drawn = sparkline(downsample(values, room), of)
    span = f" {age(len(values) * step)}"
    line.append(" " * (width - line.cell_len - len(drawn) - len(span)))
    return line.append(drawn, "cyan").append(span, "dim")
