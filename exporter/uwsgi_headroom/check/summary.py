"""Summarizes verdicts in a few words."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from uwsgi_headroom.check.exit_status import WORST_FIRST
from uwsgi_headroom.documents.schema import Server
from uwsgi_headroom.words.formats import counted, factor


def count_statuses(judged: Sequence[Server]) -> str:
    """Return such as `4 servers: 1 critical, 1 unknown, 2 ok`."""
    count = Counter(server.status for server in judged)
    parts = ", ".join(f"{count[status]} {status}" for status in WORST_FIRST if count[status])
    return f"{counted(len(judged), 'server')}: {parts}"


def describe_headroom(server: Server) -> str:
    """Return `1.2x`, `>100x`, or `-` if headroom is unknown."""
    if server.state != "up" or server.headroom is None:
        return "-"
    if server.headroom.factor is None:
        return ">100x" if server.headroom.far else "-"
    return factor(server.headroom.factor)
