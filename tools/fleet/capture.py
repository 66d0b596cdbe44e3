"""Captures two expositions of the real exporter, beside a real uWSGI under load, a minute apart."""

from __future__ import annotations

import contextlib
import http.client
import threading
import time
from collections.abc import Iterator
from pathlib import Path

from tools.support.exporter import exporter
from tools.support.real_uwsgi import uwsgi

WARM_SECONDS = 75
"""Longer than the window of one minute, and than the exporter needs for its first figures of memory."""
CLIENTS = 6
REQUEST = "/?cpu_ms=2&io_ms=40"
SOCKET = "/run/app.sock"
"""Replaces the path of the temporary socket."""


def capture(workers: int, threads: int, seconds: float = 60, warm: float = WARM_SECONDS) -> tuple[str, str]:
    """Runs uWSGI with closed-loop clients, and the exporter with its defaults and an objective. Returns two scrapes
    that are `seconds` apart, as text."""
    with (
        uwsgi("--workers", str(workers), "--threads", str(threads), "--listen", "100") as server,
        exporter("--stats", f"shop=unix://{server.stats}", "--slo", "1s:99%") as exporting,
        _load(server.http),
    ):
        time.sleep(warm)
        first = exporting.metrics()
        time.sleep(seconds)
        return tuple(text.replace(server.socket, SOCKET) for text in (first, exporting.metrics()))  # type: ignore[return-value]


def write(directory: Path, texts: tuple[str, str]) -> None:
    """Writes both expositions as `first.metrics` and `second.metrics`."""
    directory.mkdir(parents=True, exist_ok=True)
    for name, text in zip(("first", "second"), texts, strict=True):
        (directory / f"{name}.metrics").write_text(text)


@contextlib.contextmanager
def _load(port: int) -> Iterator[None]:
    """Keeps `CLIENTS` requests in service."""
    ended = threading.Event()
    clients = [threading.Thread(target=_ask, args=(port, ended), daemon=True) for _ in range(CLIENTS)]
    for client in clients:
        client.start()
    try:
        yield
    finally:
        ended.set()
        for client in clients:
            client.join(10)


def _ask(port: int, ended: threading.Event) -> None:
    while not ended.is_set():
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
        with contextlib.closing(connection), contextlib.suppress(OSError, http.client.HTTPException):
            connection.request("GET", REQUEST)
            connection.getresponse().read()
