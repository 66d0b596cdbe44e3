"""Starts many servers: real uWSGIs, an Emperor with its vassals, stand-ins, and sockets that nobody listens on."""

from __future__ import annotations

import contextlib
import math
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psutil

from tests.support import real_uwsgi
from tools.bench.clients import Kind, Plan, running

Address = int | str
"""Where a server takes HTTP requests: a port of loopback, or the path of a socket."""

VASSAL_BYTES = 14e6
"""A vassal of 2x1 takes some 11 MB of memory that it shares with no other; what is left is for the rest."""

SPARE_BYTES = 3e9
"""Of memory, for everything else on the machine."""

_VASSAL = """[uwsgi]
master = true
need-app = true
processes = 2
threads = 1
listen = 16
buffer-size = 4096
wsgi-file = {app}
stats = %d../%n.stats
http-socket = %d../%n.http
disable-logging = true
"""


@contextlib.contextmanager
def many_uwsgis(number: int, *options: str, workers: int) -> Iterator[list[real_uwsgi.Uwsgi]]:
    """Run so many uWSGIs with these options until the block ends, which begins when all workers accept requests."""
    with contextlib.ExitStack() as stack, ThreadPoolExecutor(4) as pool:
        waiting = [pool.submit(lambda: stack.enter_context(real_uwsgi.uwsgi(*options))) for _ in range(number)]
        servers = []
        for started in waiting:
            servers.append(started.result())
            print(f"\r{len(servers)} servers", end="", file=sys.stderr)
        print(file=sys.stderr)
        for server in servers:
            real_uwsgi.wait_until(
                lambda server=server: server.document().count(b'"accepting":1') == workers,  # type: ignore[misc]
                what="workers",
            )
        try:
            yield servers
        finally:
            for server in servers:  # together: each takes half a second to end
                server.process.terminate()


def count_vassals(wanted: int) -> int:
    """Return how many vassals fit into the memory that is available."""
    return max(0, min(wanted, int((psutil.virtual_memory().available - SPARE_BYTES) / VASSAL_BYTES)))


@contextlib.contextmanager
def vassals(number: int, seconds: float = 900.0) -> Iterator[tuple[Path, list[str]]]:
    """Run an Emperor with so many vassals of 2 workers and 1 thread until the block ends. Returns the folder with their
    sockets `*.stats`, and the sockets on which they take requests. seconds: how long all may take to start."""
    files = {f"vassals/v{place:04d}.ini": _VASSAL.format(app=real_uwsgi.APP) for place in range(number)}
    options = ("--emperor", "{directory}/vassals", "--emperor-stats", "{directory}/stats", "--emperor-throttle", "0")
    with real_uwsgi.bare(*options, files=files) as emperor:
        try:
            until = time.monotonic() + seconds
            while (started := len(list(emperor.directory.glob("*.stats")))) < number:
                print(f"\r{started} vassals", end="", file=sys.stderr)
                if time.monotonic() > until:
                    raise AssertionError(f"{started} of {number} vassals started within {seconds:g} s")
                time.sleep(1.0)
            print(f"\r{number} vassals", file=sys.stderr)
            yield emperor.directory, sorted(map(str, emperor.directory.glob("*.http")))
        finally:
            _end(emperor.process)


def _end(emperor: subprocess.Popen[bytes], seconds: float = 120.0) -> None:
    """End an Emperor and its vassals, which takes longer than one server does."""
    running = psutil.Process(emperor.pid).children(recursive=True)
    emperor.send_signal(signal.SIGINT)
    _, left = psutil.wait_procs(running, seconds)
    for process in left:
        with contextlib.suppress(psutil.NoSuchProcess):
            process.kill()


@contextlib.contextmanager
def loaded(addresses: Sequence[Address]) -> Iterator[None]:
    """Send two requests a second of half a second each to each address, at random, until the block ends."""
    if not addresses:
        yield
        return
    sockets = tuple((address, 1 / len(addresses)) for address in addresses)
    with running(Plan(sockets, (Kind(1.0, "/?io_ms=500"),), ((2.0 * len(addresses), math.inf),))):
        yield


def add_names(stats: str, each: int) -> list[str]:
    """Return the path of a stats socket, and links to it: the exporter refuses two servers of one path."""
    links = [f"{stats}{number}" for number in range(1, each)]
    for link in links:
        os.symlink(stats, link)
    return [stats, *links]
