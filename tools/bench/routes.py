"""Measures what routes cost: CPU time to decode a document, and CPU time of the exporter, with and without them.

`python3 -m tools.bench.routes` takes about two minutes. The documents have every thread busy, and each request has the
variables of a browser behind nginx. They come from a stats server that changes a counter in each one, because the
exporter does not decode a document twice.
"""

from __future__ import annotations

import itertools
import json
import os
import socket
import threading
import time
from collections.abc import Callable
from statistics import median

from tools.bench.exporters import cpu_seconds
from tools.bench.table import machine
from tools.support.bad_servers import serving
from tools.support.exporter import COMMAND, configured_exporter
from uwsgi_headroom import stats
from uwsgi_headroom.routes.shape import Templates

SHAPES = ((8, 8), (64, 16))
HEADER_BYTES = (1024, 5120)
ROUNDS = 30
EXPORTER_SECONDS = 10.0
WARM_UP_SECONDS = 2.0
SIZE_CAP = 16 * 2**20

_SAMPLES = "uwsgi_exporter_samples_total"
_COUNTER = b"4200000000"


def make_document(processes: int, threads: int, header_bytes: int) -> bytes:
    """Returns a document as uWSGI prints it. Every thread serves a request with a path of its own, of 18 routes."""
    workers = [
        {
            "id": number + 1, "pid": 8 + number, "accepting": 1, "requests": 5, "status": "busy", "rss": 0,
            "running_time": int(_COUNTER), "respawn_count": 1, "last_spawn": 1_700_000_000, "apps": [],
            "cores": [_core(thread, number * threads + thread, header_bytes) for thread in range(threads)],
        }
        for number in range(processes)
    ]  # fmt: skip
    return json.dumps({"version": "2.0.31", "pid": 7, "workers": workers}, indent="\t").encode()


def _core(thread: int, request: int, header_bytes: int) -> dict[str, object]:
    cookie = "".join(f"name{number}=value-of-the-cookie; " for number in range(header_bytes // 28 + 1))[:header_bytes]
    names = ("requests", "static_requests", "routed_requests", "offloaded_requests", "write_errors", "read_errors")
    word = "abcdefghijklmnopqrstuvwxyz"[request % 18] * 3
    variables = [
        "QUERY_STRING=page=2", "REQUEST_METHOD=GET", "CONTENT_TYPE=", "CONTENT_LENGTH=",
        f"REQUEST_URI=/{word}/{1000 + request}/items?page=2", f"PATH_INFO=/{word}/{1000 + request}/items",
        "DOCUMENT_ROOT=/srv", "SERVER_PROTOCOL=HTTP/1.1", "REMOTE_ADDR=192.0.2.1", "SERVER_PORT=443",
        "HTTP_HOST=example.com", f"HTTP_COOKIE={cookie}", "HTTP_ACCEPT=text/html", "",
    ]  # fmt: skip
    return {"id": thread, **dict.fromkeys(names, 1), "in_request": 1, "vars": variables,
            "req_info": {"request_start": 1_700_000_000}}  # fmt: skip


def measure_decoding(body: bytes, templates: Templates | None) -> float:
    """Returns the median CPU seconds to decode a document."""
    seconds = []
    for _ in range(ROUNDS):
        began = time.process_time()
        stats.decode(body, templates)
        seconds.append(time.process_time() - began)
    return median(seconds)


def make_server(body: bytes) -> Callable[[socket.socket, threading.Event], None]:
    """A stats server that answers with the document, with another counter each time."""
    numbers = itertools.count(4_200_000_000)

    def answer(connection: socket.socket, _ended: threading.Event) -> None:
        connection.settimeout(10)
        connection.sendall(body.replace(_COUNTER, b"%d" % next(numbers)))

    return answer


def measure_exporter(body: bytes, *flags: str) -> float:
    """Returns the CPU seconds that an exporter of this server takes for each sample."""
    with (
        serving("unix", make_server(body)) as path,
        configured_exporter([{"stats": path, "size_cap": SIZE_CAP}], command=(*COMMAND, *flags)) as running,
    ):
        running.metrics()
        time.sleep(WARM_UP_SECONDS)
        samples, used = running.value(_SAMPLES), cpu_seconds(running.pid)
        time.sleep(EXPORTER_SECONDS)
        used = cpu_seconds(running.pid) - used
        return used / (running.value(_SAMPLES) - samples)


def main() -> int:
    """Measures and prints the table."""
    load = os.getloadavg()[0]
    print(
        "| server, all threads busy | headers each | document | decoding, off | on | exporter, each sample, off | on |"
    )
    print("|---|---|---|---|---|---|---|")
    for processes, threads in SHAPES:
        for header_bytes in HEADER_BYTES:
            body = make_document(processes, threads, header_bytes)
            off, on = measure_decoding(body, None), measure_decoding(body, Templates())
            cpu_off, cpu_on = measure_exporter(body), measure_exporter(body, "--routes")
            print(
                f"| {processes}x{threads} | {header_bytes // 1024} kB | {len(body) / 1e3:,.0f} kB "
                f"| {1e3 * off:.2f} ms | {1e3 * on:.2f} ms | {1e3 * cpu_off:.1f} ms | {1e3 * cpu_on:.1f} ms |"
            )
    print(f"\n{machine()} Load average {load:.1f} at the start.")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
