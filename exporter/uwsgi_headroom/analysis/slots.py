"""What serves a request: a thread, or one of many slots of one thread where uWSGI is async."""

from __future__ import annotations

from uwsgi_headroom.reading import Reading

ASYNC = "async cores"


def name_slots(reading: Reading) -> str:
    """What a text calls them: `threads`, or `async cores` with gevent and the like."""
    setup = reading.host.setup
    return ASYNC if setup and setup.concurrency_kind == "async" else "threads"
