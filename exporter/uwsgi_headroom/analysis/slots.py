"""Names the slots that serve requests: threads, or async cores, of which one thread has many."""

from __future__ import annotations

from uwsgi_headroom.record.server import ServerRecord

ASYNC = "async cores"

ASYNC_FULL = 0.9
"""Async cores are scarce if at least this fraction of them is in use. uWSGI then spins, like a busy worker."""


def name_slots(server: ServerRecord) -> str:
    """The name of the slots in texts: `threads`, or `async cores` with gevent and the like."""
    return ASYNC if server.setup.concurrency_kind == "async" else "threads"
