"""The list of servers: those that cannot be read first, then by headroom, the least first."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from rich.text import Text

from uwsgi_headroom.analysis.formatting import counted, duration, factor
from uwsgi_headroom.documents.schema import Summary
from uwsgi_headroom.top.model import ServerEntry
from uwsgi_headroom.top.navigation import Key
from uwsgi_headroom.top.view.headline import STATUS_STYLES
from uwsgi_headroom.top.view.worker_table import rate

_NAME = 16


def server_table(entries: Sequence[ServerEntry], chosen: Key | None, width: int) -> Iterator[Text]:
    """The title and a line for every server, the chosen one marked."""
    title = f"  {'SERVER':{_NAME}} {'STATUS':8} {'MORE':>5} {'IN SERVICE':>10} {'REQ/S':>6} {'RESP':>6}  HOW IT IS"
    yield Text(f"{title:{width}}"[:width], "reverse")
    for entry in entries:
        it, here = entry.summary, entry.key == chosen
        line = Text("> " if here else "  ", "bold")
        name = Text(it.name, "bold" if here else "")
        name.truncate(_NAME, overflow="ellipsis", pad=True)
        line.append_text(name).append(" ")
        line.append(f"{it.status if it.state == 'up' else it.state:8} ", STATUS_STYLES[it.status])
        line.append(f"{'-' if it.headroom is None else factor(it.headroom):>5} ", "bold")
        line.append(f"{_in_service(it):>10} {rate(it.throughput):>6} ")
        line.append(f"{'-' if it.response_time is None else duration(it.response_time):>6}  ")
        yield line.append(it.verdict)


def count_servers(entries: Sequence[ServerEntry]) -> str:
    """`3 servers: 1 down, 1 critical`; what is well is not counted."""
    states = Counter("down" if it.summary.state == "down" else it.summary.status for it in entries)
    bad = ", ".join(f"{states[it]} {it}" for it in ("down", "critical", "warning", "unknown") if states[it])
    return counted(len(entries), "server") + (f": {bad}" if bad else "")


def _in_service(it: Summary) -> str:
    if it.observed is None:
        return "-"
    return f"{it.observed:.1f}" + ("" if it.available is None else f" of {it.available}")
