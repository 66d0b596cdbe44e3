"""Builds the head of a server's page: verdict, advice, headroom, first limit and load."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from rich.text import Text

from uwsgi_headroom.analysis.capacity import Limit
from uwsgi_headroom.documents.schema import Server, Summary
from uwsgi_headroom.terminal_text import wrap
from uwsgi_headroom.top.feeds.feed import Trend
from uwsgi_headroom.top.view.identity import identity_lines
from uwsgi_headroom.top.view.response_lines import objective_lines, percentile_lines
from uwsgi_headroom.top.view.route_rows import route_lines
from uwsgi_headroom.top.view.spark import with_spark
from uwsgi_headroom.top.view.time_lines import time_lines, why_not_known
from uwsgi_headroom.words.formats import chosen, duration, factor, mean_count, rate
from uwsgi_headroom.words.states import DOWN_STYLE, LIMITS, STATUSES

_MOST_HEADROOM = 10.0  # upper end of its sparkline: more makes no difference


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
    verdict = [Text(line) for line in cut_lines(wrap(f"{word}  {trouble_of(server) or server.verdict}", width), room)]
    verdict[0].stylize(status_style(server), 0, len(word))
    block = [*block, *verdict][:lines]
    block += _advice(server, width, lines - len(block))
    return [*block, *[Text()] * (lines - len(block))]


@dataclass(frozen=True, slots=True)
class Part:
    """A line of the head. Lines with a larger `rank` are left out first. is_spare: left out unless the whole page fits
    on the screen."""

    rank: int
    line: Text
    is_spare: bool = False


def head_parts(server: Server, trend: Trend, width: int) -> list[Part]:
    """Build the lines below the verdict."""
    return [
        *(Part(0, line) for line in _headroom(server, trend, width)),
        *(Part(9, line) for line in _limits(server)),
        *(Part(2, line) for line in _concurrency(server, trend, width)),
        *(Part(3, line) for line in _requests(server)),
        *(Part(5, line) for line in percentile_lines(server, trend, width)),
        *_objective(server, width),
        *_time(server, width),
        *(Part(6, line) for line in route_lines(server, width)),
        *(Part(4 if place == 0 else 10, line) for place, line in enumerate(_queues(server))),
        *(Part(8, line) for line in identity_lines(server, width)),
        Part(6, Text()),
    ]


def _advice(server: Server, width: int, lines: int) -> list[Text]:
    """Build the lines with the advice of the worst finding; empty if the server is ok."""
    judged = server.state == "up" and server.status in ("warning", "critical")
    if lines <= 0 or not judged or not server.findings or not server.findings[0].change:
        return []
    wrapped = wrap(server.findings[0].change, width, "change       ", " " * 13)
    return [_label(line) if place == 0 else Text(line) for place, line in enumerate(cut_lines(wrapped, lines))]


def cut_lines(lines: list[str], most: int) -> list[str]:
    """Cut to the first `most` lines; an ellipsis replaces the rest."""
    return lines if len(lines) <= most else [*lines[: most - 1], lines[most - 1][:-2].rstrip(" ,.") + " …"]


def _headroom(server: Server, trend: Trend, width: int) -> Iterator[Text]:
    if server.kind != "server":
        return
    room, line = server.headroom, _label("headroom     ")
    if server.state == "down" or room is None:
        line.append("not known" if server.state == "up" else f"not known: the server is {server.state}")
    elif room.factor is None or room.first is None:
        line.append("over 100x: nearly idle" if room.far else "not known")
    else:
        line.append("at most " if room.is_upper_bound else "").append(factor(room.factor), "bold").append(
            f", first limit: {LIMITS[room.first].name}"
        )
    yield with_spark(line, trend.headroom.factor, _MOST_HEADROOM, trend.step, width)


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
    }
    limits = [f"{LIMITS[limit].short} {factor(value)}" for limit, value in factors.items() if value is not None]
    limits += [f"{LIMITS[limit].short} >100x" for limit in room.far]
    yield Text("             " + ", ".join(limits) if limits else "", "dim")


def _concurrency(server: Server, trend: Trend, width: int) -> Iterator[Text]:
    threads, flow = server.threads, server.flow
    if threads is None:
        return
    line = _label("in service   ")
    if flow and flow.observed is not None:
        line.append(mean_count(flow.observed), "bold")
        line.append(f" of {threads.available} threads" if threads.available is not None else "")
        line.append(f" ({mean_count(flow.littles_law)} by Little's law)" if flow.littles_law is not None else "")
        line.append(", ")
    elif flow and flow.littles_law is not None:
        line.append(mean_count(flow.littles_law), "bold").append(" by Little's law, ")
    line.append("threads not known" if threads.busy is None else f"{threads.busy} now")
    if threads.stuck:
        is_async = server.setup is not None and server.setup.concurrency_kind == "async"
        line.append(f", {threads.stuck} for over {chosen(threads.stuck_seconds)}", "" if is_async else "bold red")
    if threads.configured != threads.available and threads.configured is not None:
        line.append(f", {threads.configured} configured")
    yield with_spark(line, trend.concurrency.observed, threads.available, trend.step, width)


def _requests(server: Server) -> Iterator[Text]:
    flow = server.flow
    if server.kind != "server":
        return
    if flow is None or flow.throughput is None:
        yield _label("requests     ").append("not known")
        return
    line = _label("requests     ").append(rate(flow.throughput), "bold")
    if flow.response_time is not None:
        line.append(" of ").append(duration(flow.response_time), "bold").append(" each")
    if flow.queue_wait is not None:
        line.append(f", {duration(flow.queue_wait)} in the listen queue")
    window = server.window
    if window:
        counts = ("exceptions", window.exceptions), ("harakiri", window.harakiris), ("reloads", window.reloads)
        for name, count in counts:
            line.append(f", {count} {name}" if count else "", "yellow")
    yield line


def _time(server: Server, width: int) -> Iterator[Part]:
    lines = time_lines(server, width)
    if lines:
        yield from (Part(rank, line) for rank, line in zip((5, 7), lines, strict=True))
    elif reason := why_not_known(server):
        yield Part(11, reason, is_spare=True)


def _objective(server: Server, width: int) -> Iterator[Part]:
    for place, line in enumerate(objective_lines(server, width)):
        yield Part(5 if place == 0 else 10, line)


def _queues(server: Server) -> Iterator[Text]:
    """Build the lines of the queues: longest first, then those that are not known."""
    for socket in sorted(server.sockets, key=lambda socket: -1 if socket.queue is None else socket.queue, reverse=True):
        line = _label("queue        ")
        if socket.queue is None:
            line.append(f"not known: {socket.reason}", "magenta")
        else:
            full = socket.limit is not None and socket.queue >= socket.limit
            line.append(f"{socket.queue} of {socket.limit}", "bold red" if full else "bold")
            line.append(", full" if full else "")
        line.append("" if socket.mean_queue is None else f" ({mean_count(socket.mean_queue)} on average)")
        yield line.append(f"  {socket.name}", "dim")


def _label(text: str) -> Text:
    line = Text(text)
    line.stylize("bold", 0, 13)
    return line
