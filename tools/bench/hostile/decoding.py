"""Measures the decoding of the largest and worst documents within the bounds, each in a separate process."""

from __future__ import annotations

import json
import multiprocessing
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from tests.support.kernel_counts import peak_resident_bytes
from uwsgi_headroom import stats
from uwsgi_headroom.config.defaults import SIZE_CAP
from uwsgi_headroom.errors import StatsError
from uwsgi_headroom.stats.bounds import MOST, QUOTES

TIMES = 7
"""How often each document is decoded; the first time, memory is measured too."""

_MEGABYTE = 2**20
_RESET_PEAK = "5"
"""Written to clear_refs, resets the high-water mark of memory: proc_pid_clear_refs(5)."""


@dataclass(frozen=True)
class Decoding:
    """outcome: the kind of the document, or the reason why it is refused; cpu: seconds of each decoding; growth: bytes
    of the peak above what the process had before, without the document itself."""

    size: int
    outcome: str
    cpu: tuple[float, ...]
    growth: int

    @property
    def median_cpu(self) -> float:
        return median(self.cpu)


def measure() -> Iterator[tuple[str, Decoding]]:
    """Decodes each document in a new process; yields its name and figures."""
    with multiprocessing.get_context("spawn").Pool(1, maxtasksperchild=1) as pool:
        for name, make in DOCUMENTS.items():
            # Built in this process: building leaves free memory, which decoding would use without visible growth.
            yield name, pool.apply(_decode, (make(),))


def _decode(body: bytes) -> Decoding:
    stats.decode(b'{"workers":[]}')
    own = Path("/proc/self")
    own.joinpath("clear_refs").write_text(_RESET_PEAK)
    pid = int(own.resolve().name)
    before = peak_resident_bytes(pid)
    outcomes: set[str] = set()
    seconds: list[float] = []
    growth = 0
    for _ in range(TIMES):
        began = time.process_time()
        try:
            outcomes.add(stats.decode(body).kind)
        except StatsError as error:
            outcomes.add(error.reason)
        seconds.append(time.process_time() - began)
        growth = growth or peak_resident_bytes(pid) - before
    (outcome,) = outcomes
    return Decoding(len(body), outcome, tuple(seconds), growth)


def _filled(first: bytes, more: bytes, last: bytes, size: int = SIZE_CAP) -> bytes:
    """Returns a document of at most `size` bytes: `first`, then `more` repeated, then `last`."""
    return first + more * ((size - len(first) - len(last)) // len(more)) + last


def _server(**keys: object) -> bytes:
    return json.dumps({"version": "2.0.31", "pid": 7, "workers": [], **keys}).encode()


def _workers(count: int, threads: int, variables: int = 0) -> bytes:
    """Returns `count` workers of `threads` threads as uWSGI prints them, with `variables` bytes of request variables in
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
    """Returns a server of 1,024 busy threads whose requests repeat `variable` as often as `size` allows."""
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
