"""Compares the limit that the exporter finds for a lock of the application with what the server then serves.

`python3 -m tools.bench.waits.locks` runs each server under an open load of requests at random, of which 60 % hold a
lock for 80 ms, and prints the limit and what-if's most throughput in other settings; then it runs these settings with
more clients than they serve. It takes 15 minutes. `SETTING LOCK REQUESTS_PER_SECOND [read]`, as in `4x8 lock 40 read`,
runs one case; 0 requests/s: as many as 60 clients get.
"""

from __future__ import annotations

import random
import socket
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from tools.bench import table
from tools.support.real_uwsgi import Uwsgi, uwsgi
from uwsgi_headroom import stats
from uwsgi_headroom.analysis.figures import Figures, compute_figures
from uwsgi_headroom.analysis.what_if import measure_server, parse_setting, predict_settings
from uwsgi_headroom.history.hour import History
from uwsgi_headroom.history.integrals import Integrals
from uwsgi_headroom.kernel.host import Host
from uwsgi_headroom.kernel.waits import WaitSetting
from uwsgi_headroom.reading import Reading, describe_server
from uwsgi_headroom.source import Answer

APP = Path(__file__).with_name("lock_app.py")

SECONDS, WARM_UP_SECONDS, SAMPLES_PER_SECOND = 45, 3, 5
CLIENTS, MOST_CLIENTS = 60, 300
OTHERS = ("4x16", "8x4", "32x1")

CASES = (
    *(("4x8", "lock", rate, read) for rate in (33, 40, 50, 60) for read in (True, False)),
    ("4x8", "rlock", 50, True),
    ("4x8", "condition", 50, True),
    ("4x8", "two", 40, True),
    ("4x8", "flock", 12, False),
    ("4x8", "semaphore", 60, True),
    *((setting, "lock", 0, True) for setting in ("4x8", *OTHERS)),
    ("8x4", "flock", 0, False),
)

HEAD = "setting | lock | load, requests/s | read | served, requests/s | limit | from | to | what-if: " + " | ".join(
    OTHERS
)


def main() -> None:
    cases = CASES
    if given := sys.argv[1:]:
        cases = ((given[0], given[1], int(given[2]), given[3:] == ["read"]),)
    rows = [_row(*case) for case in cases]
    print(table.render_table(HEAD, rows))
    print(f"\n{SECONDS} s each. {table.machine()}")


def _row(setting: str, lock: str, rate: int, read: bool) -> str:
    processes, _, threads = setting.partition("x")
    with uwsgi("--processes", processes, "--threads", threads, "--listen", "100", app=APP) as server:
        stop = threading.Event()
        clients = _start_clients(server, lock, rate, stop)
        try:
            time.sleep(WARM_UP_SECONDS)
            figures = _watch(server, Host(waits=WaitSetting(read_locks=read)))
        finally:
            stop.set()
            for client in clients:
                client.join()
    found = figures.lock
    limits = [f"{value:.1f}" for value in (found.limit, found.least_limit, found.most_limit)] if found else ["-"] * 3
    predicted = [""] * len(OTHERS)
    if rate and found:
        what_if = predict_settings(measure_server(figures), [parse_setting(other) for other in OTHERS])
        predicted = [f"{prediction.most_throughput:.0f}" for prediction in what_if.predictions]
    served = f"{figures.flow.throughput or 0.0:.1f}"
    return " | ".join([setting, lock, str(rate or "full"), "yes" if read else "no", served, *limits, *predicted])


def _watch(server: Uwsgi, host: Host) -> Figures:
    """The figures of a minute of samples, as the exporter takes them."""
    integrals, history = Integrals(), History()
    end = time.monotonic() + SECONDS
    while time.monotonic() < end:
        document = server.document()
        at, snapshot = time.monotonic(), stats.decode(document)
        facts = host.read_facts(snapshot, Answer(b"", peer_pid=server.pid))
        reading = Reading(at, time.time(), 0.0, 0.0, len(document), snapshot, facts)
        integrals.add(reading, 2.0)
        history.add(at, integrals.totals)
        time.sleep(random.uniform(0.5, 1.5) / SAMPLES_PER_SECOND)
    window, record = history.window(SECONDS), describe_server(reading)
    assert window
    assert record
    times = integrals.response_times.history.window(window.until - window.seconds, window.until)
    return compute_figures(window, record, response_times=times)


def _start_clients(server: Uwsgi, lock: str, rate: int, stop: threading.Event) -> list[threading.Thread]:
    def ask() -> None:
        with suppress(OSError), socket.create_connection(("127.0.0.1", server.http), 30) as client:
            client.sendall(f"GET /{lock} HTTP/1.0\r\n\r\n".encode())
            while client.recv(4096):
                pass

    def ask_again() -> None:
        while not stop.is_set():
            ask()

    def ask_at_random() -> None:
        chance, at = random.Random(1), time.monotonic()
        while not stop.is_set():
            at += chance.expovariate(rate)
            time.sleep(max(0.0, at - time.monotonic()))
            if threading.active_count() < MOST_CLIENTS:
                threading.Thread(target=ask, daemon=True).start()

    target: Callable[[], None] = ask_at_random if rate else ask_again
    clients = [threading.Thread(target=target) for _ in range(1 if rate else CLIENTS)]
    for client in clients:
        client.start()
    return clients


if __name__ == "__main__":
    main()
