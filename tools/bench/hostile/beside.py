"""Measures an exporter that watches one good server, beside hostile servers, abusive clients, both, or none."""

from __future__ import annotations

import contextlib
import resource
import sys
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from statistics import median

from tests.support.abusive_clients import HEAD, endless, many
from tests.support.bad_servers import CountedServer, counted_server
from tests.support.exporter import Exporter, configured_exporter
from tests.support.hostile.process import hostile_servers
from tests.support.kernel_counts import peak_resident_bytes
from tests.support.real_uwsgi import wait_until
from tools.bench.exporters import cpu_seconds

SETTLE_SECONDS = 8.0
"""By then every server has been read, and every abusive client is connected."""

SCRAPE_EVERY = 2.0
"""Seconds from one scrape to the next, or longer if a scrape takes longer."""

SCRAPE_TIMEOUT = 10.0
"""Seconds: Prometheus' default."""

DESCRIPTORS = 1024
"""Files that the exporter may open: a common limit, and tight with a thousand clients."""

_COMMAND = (sys.executable, "-m", "tests.support.stoppable_exporter", f"DESCRIPTORS={DESCRIPTORS}", "--")

ABUSES = {
    "1,000 clients that send a byte of their request now and then": many(HEAD, b"a"),
    "2 clients that send a header without end": endless(HEAD + b"X: ", b"a"),
    "100 clients that take no answer": many(HEAD + b"\r\n", count=100),
}

SITUATIONS: Mapping[str, tuple[bool, bool]] = {
    "alone": (False, False),
    "beside hostile servers": (True, False),
    "beside abusive clients": (False, True),
    "beside both": (True, True),
}
"""Whether there are hostile servers, and whether there are abusive clients."""


@dataclass(frozen=True)
class Figures:
    """Figures of one situation. samples: reads of the good server per second; scrapes: seconds until each was answered;
    cpu: parts of a core; resident: peak in bytes; lag: the event loop's longest delay in seconds (None if no scrape was
    answered); series: number in the last answered scrape (0 if none was)."""

    samples: float
    scrapes: tuple[float, ...]
    cpu: float
    resident: int
    lag: float | None
    series: int

    @property
    def median_scrape(self) -> float:
        return median(self.scrapes)


def measure(seconds: float) -> Iterator[tuple[str, Figures]]:
    """Measures every situation for `seconds`, one after the other."""
    resource.setrlimit(resource.RLIMIT_NOFILE, (4096, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))  # for the clients
    for name, (servers, clients) in SITUATIONS.items():
        with contextlib.ExitStack() as stack:
            good = stack.enter_context(counted_server())
            hostile = stack.enter_context(hostile_servers()) if servers else []
            watched: list[dict[str, object]] = [{"name": "good", "stats": good.address}, *hostile]
            exporter = stack.enter_context(configured_exporter(watched, command=_COMMAND))
            wait_until(lambda server=good: server.reads, what="the first read")  # type: ignore[misc]
            if clients:
                for abuse in ABUSES.values():
                    stack.enter_context(abuse(exporter.port))
            time.sleep(SETTLE_SECONDS)
            yield name, _figures(exporter, good, seconds)


def _figures(exporter: Exporter, good: CountedServer, seconds: float) -> Figures:
    reads, cpu, began = len(good.reads), cpu_seconds(exporter.pid), time.monotonic()
    scrapes: list[float] = []
    lags: list[float] = []
    series: dict[str, float] = {}
    while (asked := time.monotonic()) < began + seconds:
        with contextlib.suppress(TimeoutError):  # counted below, with the time waited
            series = exporter.scrape(SCRAPE_TIMEOUT)
            lags.append(series["uwsgi_exporter_loop_lag_seconds"])
        scrapes.append(time.monotonic() - asked)
        time.sleep(max(0.0, SCRAPE_EVERY - scrapes[-1]))
    passed = time.monotonic() - began
    return Figures(
        samples=(len(good.reads) - reads) / passed,
        scrapes=tuple(scrapes),
        cpu=(cpu_seconds(exporter.pid) - cpu) / passed,
        resident=peak_resident_bytes(exporter.pid),
        lag=max(lags, default=None),
        series=len(series),
    )
