"""The top of a server's page: how it is, how much more load it takes, what gives out first, what to change."""

from __future__ import annotations

from collections.abc import Iterator

from rich.text import Text

from uwsgi_headroom.analysis.capacity import Limit
from uwsgi_headroom.analysis.findings.words import duration, factor
from uwsgi_headroom.analysis.verdict import GIVES_OUT, Status
from uwsgi_headroom.api.documents import Server
from uwsgi_headroom.layout import spark, wrap
from uwsgi_headroom.top.feed import Trend
from uwsgi_headroom.top.workers import age

STATUS_STYLES: dict[Status, str] = {
    "ok": "bold green",
    "warning": "bold yellow",
    "critical": "bold red",
    "unknown": "bold magenta",
}
_MOST_HEADROOM = 10.0  # the height of its spark: beyond, more is no news
_SPARK = 20


def verdict(server: Server, width: int, lines: int) -> list[Text]:
    """The word and the sentence, in so many lines at most."""
    word = server.status.upper()
    told = [Text(line) for line in cut(wrap(f"{word}  {server.verdict}", width), lines)]
    told[0].stylize(STATUS_STYLES[server.status], 0, len(word))
    return told


def figures(server: Server, trend: Trend, width: int) -> Iterator[Text]:
    """A line each, the most telling first: headroom, requests in service, requests, queue, limits."""
    yield from _headroom(server, trend, width)
    yield from _concurrency(server, trend, width)
    yield from _requests(server)
    yield from _queues(server)


def change(server: Server, width: int, lines: int) -> list[Text]:
    """What to do about the worst finding; nothing where there is nothing to do."""
    if not server.findings or not server.findings[0].change:
        return []
    told = wrap(server.findings[0].change, width, "change       ", " " * 13)
    return [_labelled(line) if place == 0 else Text(line) for place, line in enumerate(cut(told, lines))]


def cut(lines: list[str], most: int) -> list[str]:
    """The first of these; what is left out is said by three dots."""
    return lines if len(lines) <= most else [*lines[: most - 1], lines[most - 1][:-4] + " ..."]


def _headroom(server: Server, trend: Trend, width: int) -> Iterator[Text]:
    room = server.headroom
    if room is None:
        return
    line = _labelled("headroom     ")
    if room.factor is None or room.first is None:
        line.append("not known: it does next to nothing now")
    else:
        line.append(factor(room.factor), "bold").append(f", then {GIVES_OUT[room.first]}")
    yield _with_spark(line, spark(trend.headroom.factor[-_SPARK:], _MOST_HEADROOM), trend, width)
    factors: dict[Limit, float | None] = {
        "hottest_interpreter": room.by_limit.hottest_interpreter,
        "interpreters": room.by_limit.interpreters,
        "cpu": room.by_limit.cpu,
        "threads": room.by_limit.threads,
    }
    limits = [f"{limit.replace('_', ' ')} {factor(it)}" for limit, it in factors.items() if it is not None]
    if limits:
        yield Text("             " + ", ".join(limits), "dim")


def _concurrency(server: Server, trend: Trend, width: int) -> Iterator[Text]:
    threads, flow = server.threads, server.flow
    if threads is None:
        return
    line = _labelled("in service   ")
    if flow and flow.observed is not None:
        line.append(f"{flow.observed:.1f}", "bold")
        line.append(f" of {threads.available} threads" if threads.available is not None else "")
        line.append(f" ({flow.littles_law:.1f} by Little's law)" if flow.littles_law is not None else "")
        line.append(", ")
    elif flow and flow.littles_law is not None:
        line.append(f"{flow.littles_law:.1f}", "bold").append(" by Little's law, ")
    line.append("threads not known" if threads.busy is None else f"{threads.busy} now")
    if threads.stuck:
        line.append(f", {threads.stuck} stuck", "bold red")
    if threads.configured != threads.available and threads.configured is not None:
        line.append(f", {threads.configured} configured")
    yield _with_spark(line, spark(trend.concurrency.observed[-_SPARK:], threads.available), trend, width)


def _requests(server: Server) -> Iterator[Text]:
    flow = server.flow
    if flow is None or flow.throughput is None:
        return
    line = _labelled("requests     ").append(f"{flow.throughput:.1f}/s", "bold")
    if flow.response_time is not None:
        line.append(" of ").append(duration(flow.response_time), "bold").append(" each")
    if flow.queue_wait is not None:
        line.append(f", after {duration(flow.queue_wait)} in the queue")
    window = server.window
    if window:
        counts = ("exceptions", window.exceptions), ("harakiri", window.harakiris), ("reloads", window.reloads)
        for name, count in counts:
            line.append(f", {count} {name}" if count else "", "yellow")
    yield line


def _queues(server: Server) -> Iterator[Text]:
    for it in server.sockets:
        line = _labelled("queue        ")
        if it.queue is None:
            line.append(f"not known: {it.reason}", "magenta")
        else:
            full = it.limit is not None and it.queue >= it.limit
            line.append(f"{it.queue} of {it.limit}", "bold red" if full else "bold")
            line.append("" if it.mean_queue is None else f" ({it.mean_queue:.1f} on average)")
        yield line.append(f"  {it.name}", "dim")


def _labelled(text: str) -> Text:
    line = Text(text)
    line.stylize("bold", 0, 13)
    return line


def _with_spark(line: Text, drawn: str, trend: Trend, width: int) -> Text:
    """The line with the spark at its right end, where there is room for both."""
    span = f" {age(len(drawn) * trend.step)}"
    room = width - line.cell_len - len(drawn) - len(span) - 1
    if room < 0 or not drawn.strip():
        return line
    return line.append(" " * (room + 1)).append(drawn, "cyan").append(span, "dim")
