"""Names the slots that serve requests: threads, or async cores, of which one thread has many."""

from __future__ import annotations

from uwsgi_headroom.reading import Reading

ASYNC = "async cores"


def name_slots(reading: Reading) -> str:
    """The name of the slots in texts: `threads`, or `async cores` with gevent and the like."""
    setup = reading.host.setup
    return ASYNC if setup and setup.concurrency_kind == "async" else "threads"
