"""The list of servers: those that cannot be read first, then by headroom, the least first."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from rich.text import Text

from uwsgi_headroom.analysis.formatting import counted, duration, factor
from uwsgi_headroom.documents.schema import Summary
from uwsgi_headroom.top.model import ScreenModel, ServerEntry
from uwsgi_headroom.top.navigation import Key
from uwsgi_headroom.top.view.headline import STATUS_STYLES
from uwsgi_headroom.top.view.worker_table import rate

_NAME = 16


def server_table(model: ScreenModel, chosen: Key | None, width: int, now: float) -> Iterator[Text]:
    """The title and a line for every server, the chosen one marked; those of a feed in trouble with their age."""
    title = f"  {'SERVER':{_NAME}} {'STATUS':8} {'MORE':>5} {'IN SERVICE':>10} {'REQ/S':>6} {'RESP':>6}  HOW IT IS"
    yield Text(f"{title:{width}}"[:width], "reverse")
    for entry in model.entries:
        summary, here = entry.summary, entry.key == chosen
        line = Text("> " if here else "  ", "bold")
        name = Text(summary.name, "bold" if here else "")
        name.truncate(_NAME, overflow="ellipsis", pad=True)
        line.append_text(name).append(" ")
        line.append(f"{summary.status if summary.state == 'up' else summary.state:8} ", STATUS_STYLES[summary.status])
        line.append(f"{_growth(summary):>5} ", "bold")
        line.append(f"{_in_service(summary):>10} {rate(summary.throughput):>6} ")
        line.append(f"{'-' if summary.response_time is None else duration(summary.response_time):>6}  ")
        if entry.key[0] in model.troubles:
            line.append(f"{duration(max(0.0, now - entry.seen_at))} ago: ", "bold red")
        yield line.append(summary.verdict)


def _growth(summary: Summary) -> str:
    """By how much load can grow; where CPU, which may give out before, is hidden, it is the most."""
    if summary.headroom is None:
        return ">100x" if summary.far else "-"
    return ("≤" if summary.is_upper_bound else "") + factor(summary.headroom)


def count_servers(entries: Sequence[ServerEntry]) -> str:
    """`3 servers: 1 down, 1 critical`; what is well is not counted."""
    states = Counter("down" if entry.summary.state == "down" else entry.summary.status for entry in entries)
    bad = ", ".join(f"{states[state]} {state}" for state in ("down", "critical", "warning", "unknown") if states[state])
    return counted(len(entries), "server") + (f": {bad}" if bad else "")


def _in_service(summary: Summary) -> str:
    if summary.observed is None:
        return "-"
    return f"{summary.observed:.1f}" + ("" if summary.available is None else f" of {summary.available}")
