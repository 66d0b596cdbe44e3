"""The application of the benchmark of WSGI servers: as little work as a request can be."""

from __future__ import annotations

from collections.abc import Callable, Iterable

Start = Callable[[str, list[tuple[str, str]]], object]


def application(environ: dict[str, object], start_response: Start) -> Iterable[bytes]:
    """Answers every request with `Pong!` as text/plain, with its length."""
    start_response("200 OK", [("Content-Type", "text/plain"), ("Content-Length", "5")])
    return [b"Pong!"]
