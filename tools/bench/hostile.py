"""Measures what hostile stats servers and HTTP clients cost the exporter: its samples, scrapes, CPU and memory.

An exporter watches one good server at 5 samples a second: alone, beside all cases of tests/support/hostile, beside
abusive clients, beside both. Then 200 clients ask for each route at once (`hostile_crowds`). While the exporter decodes
a document it does nothing else, so the largest and worst documents within the bounds are decoded, each in a process of
its own. The exit status does not depend on the figures.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import multiprocessing
import resource
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import median

from tests.support.abusive_clients import HEAD, endless, many
from tests.support.bad_servers import CountedServer, counted_server
from tests.support.exporter import Exporter, configured_exporter
from tests.support.hostile.process import hostile_servers
from tests.support.kernel_counts import peak_resident_bytes
from tests.support.real_uwsgi import wait_until
from tools.bench import hostile_crowds
from tools.bench.exporters import cpu_seconds
from tools.bench.hostile_crowds import QUIET, SCRAPE_TIMEOUT, Crowd, scrape_until
from tools.bench.table import machine, render_table
from uwsgi_headroom import stats
from uwsgi_headroom.config.defaults import SIZE_CAP
from uwsgi_headroom.errors import StatsError
from uwsgi_headroom.stats.bounds import MOST, QUOTES

SETTLE_SECONDS = 8.0
"""By then every server has been read, and every abusive client is connected."""

SCRAPE_EVERY = 2.0
"""Seconds from one scrape to the next, or longer if a scrape takes longer."""

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


def measure_beside(seconds: float) -> Iterator[tuple[str, Figures]]:
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
    answered: list[dict[str, float]] = []
    scrape = lambda: answered.append(exporter.scrape(SCRAPE_TIMEOUT))  # noqa: E731
    scrapes = tuple(scrape_until(began + seconds, SCRAPE_EVERY, scrape))
    passed = time.monotonic() - began
    return Figures(
        samples=(len(good.reads) - reads) / passed,
        scrapes=scrapes,
        cpu=(cpu_seconds(exporter.pid) - cpu) / passed,
        resident=peak_resident_bytes(exporter.pid),
        lag=max((series["uwsgi_exporter_loop_lag_seconds"] for series in answered), default=None),
        series=len(answered[-1]) if answered else 0,
    )


TIMES = 7
"""How often each document is decoded."""

_MEGABYTE = 2**20


@dataclass(frozen=True)
class Decoding:
    """outcome: the kind of the document, or the reason why it is refused; cpu: seconds of each decoding."""

    size: int
    outcome: str
    cpu: tuple[float, ...]

    @property
    def median_cpu(self) -> float:
        return median(self.cpu)


def measure_decoding() -> Iterator[tuple[str, Decoding]]:
    """Decodes each document in a new process; yields its name and figures."""
    with multiprocessing.get_context("spawn").Pool(1, maxtasksperchild=1) as pool:
        for name, make in DOCUMENTS.items():
            yield name, pool.apply(_decode, (make(),))


def _decode(body: bytes) -> Decoding:
    stats.decode(b'{"workers":[]}')
    outcomes: set[str] = set()
    seconds: list[float] = []
    for _ in range(TIMES):
        began = time.process_time()
        try:
            outcomes.add(stats.decode(body).kind)
        except StatsError as error:
            outcomes.add(error.reason)
        seconds.append(time.process_time() - began)
    (outcome,) = outcomes
    return Decoding(len(body), outcome, tuple(seconds))


def _filled(first: bytes, more: bytes, last: bytes, size: int = SIZE_CAP) -> bytes:
    """A document of at most `size` bytes: `first`, then `more` repeated, then `last`."""
    return first + more * ((size - len(first) - len(last)) // len(more)) + last


def _server(**keys: object) -> bytes:
    return json.dumps({"version": "2.0.31", "pid": 7, "workers": [], **keys}).encode()


def _workers(count: int, threads: int, variables: int = 0) -> bytes:
    """`count` workers of `threads` threads as uWSGI prints them, with `variables` bytes of request variables in
    each thread."""
    core = {
        **dict.fromkeys(("id", "requests", "static_requests", "routed_requests", "write_errors", "read_errors"), 1),
        "in_request": int(variables > 0),
        "vars": [f"HTTP_X_{number}={'v' * (variables // 20 - 9)}" for number in range(20 * (variables > 0))],
        "req_info": {"request_start": 1_700_000_000} if variables else {},
    }
    names = ("requests", "delta_requests", "exceptions", "harakiri_count", "signals", "rss", "vsz", "tx", "avg_rt")
    worker = {**dict.fromkeys(names, 5), "pid": 8, "accepting": 1, "status": "idle", "running_time": 99, "apps": [],
              "cores": [core] * threads}  # fmt: skip
    return json.dumps({"version": "2.0.31", "pid": 7, "workers": [worker] * count}, indent="\t").encode()


def _requests(variable: bytes, size: int = SIZE_CAP) -> bytes:
    """A server of 1,024 busy threads whose requests repeat `variable` as often as `size` allows."""
    opening, closing = b'{"requests":1,"in_request":1,"vars":["A=', b'",""],"req_info":{}}'
    room = size // 1024 - len(opening) - len(closing) - 2
    core = opening + variable * (room // len(variable)) + closing
    return b'{"workers":[{"pid":2,"accepting":1,"cores":[' + b",".join([core] * 1024) + b"]}]}"


def _router() -> bytes:
    node = {"name": "n" * 255, "requests": 1, "tx": 1, "rx": 1, "load": 1, "weight": 1, "failcnt": 1, "death_mark": 0}
    keys = [{"key": "k" * 255, "hits": 1, "nodes": [node] * (MOST["nodes"] // 512)}] * 512
    return json.dumps({"active_sessions": 0, "subscriptions": keys}).encode()


DOCUMENTS: Mapping[str, Callable[[], bytes]] = {
    "64 x 64 threads, idle": lambda: _workers(64, 64),
    "1,024 busy threads with 4 kB of request variables each": lambda: _workers(64, 16, 4096),
    "1,024 workers of 16 threads": lambda: _workers(1024, 16),
    "16,384 threads without a key": lambda: _server(workers=[{"cores": [{}] * MOST["cores"]}]),
    "32,768 metrics": lambda: _server(metrics={f"worker.1.core.{n}": {"value": n} for n in range(MOST["metrics"])}),
    "8,192 nodes of 512 subscriptions": _router,
    "6 MB of spaces": lambda: _filled(b'{"workers":[]', b" ", b"}"),
    "6 MB of keys that are skipped": lambda: _filled(b"{", b'"":0,', b'"workers":[]}'),
    "6 MB of numbers that are skipped": lambda: _filled(b'{"workers":[],"x":[', b"0,", b"0]}"),
    "6 MB of objects that are skipped": lambda: _filled(b'{"workers":[],"x":[', b"{},", b"0]}"),
    "6 MB of escapes that are skipped": lambda: _filled(b'{"workers":[],"x":"', rb"\u0041", b'"}'),
    "6 MB of one key, again and again": lambda: _filled(b'{"workers":[]', b',"locks":[]', b"}"),
    "6 MB of empty lists of workers": lambda: _filled(b'{"workers":[]', b',"workers":[]', b"}"),
    "6 MB: one key as often as may be, then objects": lambda: _filled(
        b'{"workers":[]' + b',"locks":[]' * (QUOTES // 2 - 2) + b',"x":[', b"{},", b"0]}"
    ),
    "6 MB of requests with control bytes": lambda: _requests(b"\x01"),
    "6 MB of requests without UTF-8": lambda: _requests(b"\xff"),
    "6 MB of requests with braces": lambda: _requests(b"{},"),
    "6 MB that ends in the middle": lambda: _filled(b'{"workers":[],"x":[', b"{},", b"{}"),
    "6 MB of abstract sockets in requests": lambda: _filled(b'{"workers":[],"x":[', b'{"name":"\\0"},', b"0]}"),
    "1 MB of requests without UTF-8, repaired": lambda: _requests(b"\xff\x01", _MEGABYTE - 2048),
    "1 MB of half surrogate pairs, repaired": lambda: _requests(rb"\ud800", 150 * 1024),
    "1 MB of objects and a control byte, repaired": lambda: _filled(
        b'{"workers":[],"x":["\x01",', b"{},", b"0]}", _MEGABYTE
    ),
}


SAMPLES_TARGET = 0.5
"""The least part of its samples that a good server keeps."""

DECODING_TARGET = 0.05
"""Seconds for which decoding one document may block everything else."""


CROWD_SAMPLES_TARGET = 0.9
"""The least part of its samples that a server keeps beside 200 clients of any route."""

CROWD_SCRAPE_TARGET = 0.5
"""Seconds within which a scrape is answered beside them."""

Crowds = Mapping[tuple[str, str, str], Crowd]


def report(beside: Mapping[str, Figures], decoded: Mapping[str, Decoding], crowded: Crowds) -> str:
    return "\n\n".join([_beside(beside), _crowded(crowded), _decoded(decoded), _misses(beside, decoded, crowded)])


def _beside(beside: Mapping[str, Figures]) -> str:
    rows = [
        f"{name} | {figures.samples:.2f} | {figures.median_scrape:.3f} | {max(figures.scrapes):.3f} | "
        f"{figures.series:,} | {figures.cpu:.1%} | {figures.resident / 1e6:.0f} | "
        + ("-" if figures.lag is None else f"{figures.lag:.3f}")
        for name, figures in beside.items()
    ]
    return render_table(
        "the exporter | samples a second | scrape, s (median) | scrape, s (max) | series | CPU | peak memory, MB | "
        "loop lag, s",
        rows,
    )


def _crowded(crowded: Crowds) -> str:
    rows = [
        f"{size} | {manner or '-'} | {route} | {crowd.samples:.2f} | {crowd.median_scrape:.3f} | "
        f"{max(crowd.scrapes):.3f} | {crowd.answers:,.0f} | {crowd.refused:,.0f} | {crowd.resident / 1e6:.0f}"
        for (size, manner, route), crowd in crowded.items()
    ]
    return render_table(
        "the server | clients | route | samples a second | scrape, s (median) | scrape, s (max) | answered a second | "
        "refused a second | peak memory, MB",
        rows,
    )


def _crowd_misses(crowded: Crowds) -> Iterator[str]:
    for (size, manner, route), crowd in crowded.items():
        alone = crowded[size, "", QUIET].samples
        where = f"{size}, {manner}, {route}"
        if crowd.samples < CROWD_SAMPLES_TARGET * alone:
            yield f"{where}: {crowd.samples / alone:.0%} of the samples"
        if max(crowd.scrapes) > CROWD_SCRAPE_TARGET:
            yield f"{where}: a scrape took {max(crowd.scrapes):.2f} s"


def _decoded(decoded: Mapping[str, Decoding]) -> str:
    rows = [
        f"{name} | {decoding.size / 1e6:.2f} | {decoding.outcome} | {decoding.median_cpu * 1e3:.1f} | "
        f"{max(decoding.cpu) * 1e3:.1f}"
        for name, decoding in decoded.items()
    ]
    return render_table("document | MB | read as | CPU, ms (median) | CPU, ms (max)", rows)


def _misses(beside: Mapping[str, Figures], decoded: Mapping[str, Decoding], crowded: Crowds) -> str:
    least = SAMPLES_TARGET * next(iter(beside.values())).samples
    misses: Sequence[str] = [
        *(
            f"{name}: {figures.samples:.2f} samples a second, less than half of the rate alone"
            for name, figures in beside.items()
            if figures.samples < least
        ),
        *(
            f"{name}: {late} of {len(figures.scrapes)} scrapes were not answered within {SCRAPE_TIMEOUT:g} s"
            for name, figures in beside.items()
            if (late := sum(seconds >= SCRAPE_TIMEOUT for seconds in figures.scrapes))
        ),
        *(
            f"{name}: decoding took {decoding.median_cpu * 1e3:.0f} ms, more than {DECODING_TARGET * 1e3:g} ms"
            for name, decoding in decoded.items()
            if decoding.median_cpu > DECODING_TARGET
        ),
        *_crowd_misses(crowded),
    ]
    return "\n".join(["Misses:" if misses else "Misses: none.", *(f"* {miss}" for miss in misses)])


def main() -> None:
    parser = argparse.ArgumentParser(prog="python3 -m tools.bench.hostile", description=__doc__)
    parser.add_argument("--seconds", type=float, default=40, help="length of each situation (default %(default)g)")
    parser.add_argument("--crowd-seconds", type=float, default=5, help="length of each crowd (default %(default)g)")
    options = parser.parse_args()
    decoded = dict(measure_decoding())
    measured = {}
    for situation, found in measure_beside(options.seconds):
        measured[situation] = found
        print(f"measured: {situation}", file=sys.stderr)
    crowded = {}
    for place, crowd in hostile_crowds.measure(options.crowd_seconds):
        crowded[place] = crowd
        print(f"measured: {' '.join(place)}: {crowd.samples:.2f} {max(crowd.scrapes):.3f}", file=sys.stderr)
    print(f"{report(measured, decoded, crowded)}\n\n{machine()}")


if __name__ == "__main__":
    main()
