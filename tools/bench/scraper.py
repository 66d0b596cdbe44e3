"""Scrapes as Prometheus 2.42 does: a kept connection, its Accept header, gzip."""

from __future__ import annotations

import gzip
import http.client
import re
import time
from dataclasses import dataclass

HEADERS = {
    "Accept": "application/openmetrics-text;version=1.0.0,application/openmetrics-text;version=0.0.1;q=0.75,"
    "text/plain;version=0.0.4;q=0.5,*/*;q=0.1",
    "Accept-Encoding": "gzip",
    "User-Agent": "Prometheus/2.42.0",
    "X-Prometheus-Scrape-Timeout-Seconds": "10",
}

_SERIES = re.compile(rb"^[^#\n]", re.MULTILINE)
_UP = re.compile(rb"^uwsgi_up(\{[^}]*\})? 1(\.0)?$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Answer:
    """One scrape: `seconds` from the request to the last byte, `sent` bytes of the body as received (gzipped)."""

    seconds: float
    sent: int
    body: bytes

    @property
    def series(self) -> int:
        return len(_SERIES.findall(self.body))


class Scraper:
    """Scrapes one exporter over one connection."""

    def __init__(self, port: int) -> None:
        self.port = port
        self._connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)

    def scrape(self) -> Answer:
        """Scrapes once. Raises OSError or HTTPException, and RuntimeError unless the exporter could read uWSGI."""
        start = time.perf_counter()
        self._connection.request("GET", "/metrics", headers=HEADERS)
        response = self._connection.getresponse()
        sent = response.read()
        seconds = time.perf_counter() - start
        body = gzip.decompress(sent) if response.headers.get("Content-Encoding") == "gzip" else sent
        if response.status != 200 or not _UP.search(body):
            raise RuntimeError(f"HTTP {response.status}, or uwsgi_up is not 1")
        return Answer(seconds, len(sent), body)

    def close(self) -> None:
        self._connection.close()
