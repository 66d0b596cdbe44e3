"""Many stats servers in one small process, for measurements with more servers than real uWSGIs fit into memory.

    python3 -m tests.support.stand_in_servers FOLDER --servers 1000 --workers 2 --threads 1 --traffic 0.05

Each is a UNIX socket in FOLDER whose document is a captured one of uWSGI 2.0.31, with as many workers and threads as
requested. A server at rest always answers the same bytes, as a real one does. A server with traffic serves two requests
a second that take half a second each. The kernel knows no processes of these servers, so there are no facts of them.
"""

import argparse
import contextlib
import copy
import json
import os
import selectors
import signal
import socket
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.support import real_uwsgi
from tests.support.captured_documents import document

_REQUESTS_PER_SECOND = 2.0
_REQUEST_SECONDS = 0.5

_BACKLOG = 100
_SEND_SECONDS = 5.0  # of a document that is larger than the socket's buffer, to a reader that has stopped


class StandInServer:
    """One server. `requests` are those that it has served so far, the same number by each worker in turn."""

    def __init__(self, workers: int, threads: int, *, has_traffic: bool, began: float = 0.0) -> None:
        self._document = make_document(workers, threads)
        self._has_traffic = has_traffic
        self._began = began
        self._at_rest = _write(self._document)

    def answer(self, now: float) -> bytes:
        """Return the document at a monotonic time."""
        if not self._has_traffic:
            return self._at_rest
        served, rest = divmod((now - self._began) * _REQUESTS_PER_SECOND, 1.0)
        workers = self._document["workers"]
        for place, worker in enumerate(workers):
            requests = int(served + len(workers) - 1 - place) // len(workers)
            is_busy = int(served) % len(workers) == place and rest < _REQUESTS_PER_SECOND * _REQUEST_SECONDS
            _serve(worker, requests, is_busy=is_busy, epoch=int(time.time()))
        return _write(self._document)


def make_document(workers: int, threads: int) -> dict[str, Any]:
    """Return a captured document, changed to this many idle workers and threads that have served nothing yet."""
    captured: dict[str, Any] = json.loads(document("2.0.31_threads"))
    worker = captured["workers"][0]
    captured["workers"] = []
    for worker_id in range(1, workers + 1):
        new = copy.deepcopy(worker)
        new["id"], new["pid"] = worker_id, captured["pid"] + worker_id
        new["cores"] = [{**copy.deepcopy(worker["cores"][0]), "id": thread} for thread in range(threads)]
        _serve(new, 0, is_busy=False, epoch=0)
        captured["workers"].append(new)
    return captured


def _serve(worker: dict[str, Any], requests: int, *, is_busy: bool, epoch: int) -> None:
    """Set what a worker has served, and whether its first thread serves a request now."""
    worker["status"] = "busy" if is_busy else "idle"
    worker["requests"] = worker["delta_requests"] = worker["apps"][0]["requests"] = requests
    worker["running_time"] = int(requests * _REQUEST_SECONDS * 1e6)
    worker["avg_rt"] = int(_REQUEST_SECONDS * 1e6) if requests else 0
    worker["tx"] = 67 * requests
    cores = worker["cores"]
    for place, core in enumerate(cores):
        core["requests"] = (requests + len(cores) - 1 - place) // len(cores)
    cores[0]["in_request"] = int(is_busy)
    cores[0]["vars"] = [""] if is_busy else []
    cores[0]["req_info"] = {"request_start": epoch} if is_busy else {}


def _write(contents: dict[str, Any]) -> bytes:
    return json.dumps(contents, indent="\t").encode()


@contextlib.contextmanager
def stand_ins(folder: Path, servers: int, workers: int, threads: int, traffic: float = 0.0) -> Iterator[list[str]]:
    """Run so many stand-ins in a process of their own until the block ends; returns the paths of their sockets."""
    numbers = ("--servers", servers, "--workers", workers, "--threads", threads, "--traffic", traffic)
    command = [sys.executable, "-m", __name__, str(folder), *map(str, numbers)]
    paths = socket_paths(folder, servers)
    with real_uwsgi.running(command, lambda: real_uwsgi.accepts(paths[-1]), "the stand-ins"):
        yield paths


def socket_paths(folder: Path, servers: int) -> list[str]:
    """Return the paths of the sockets, in the order in which they are bound."""
    return [str(folder / f"{place:05d}.stats") for place in range(servers)]


@contextlib.contextmanager
def stale_sockets(folder: Path, number: int) -> Iterator[list[str]]:
    """Leave so many sockets that nobody listens on, as processes do that were killed."""
    paths = [str(folder / f"stale-{place:05d}.stats") for place in range(number)]
    for path in paths:
        with socket.socket(socket.AF_UNIX) as left:
            left.bind(path)
    yield paths
    for path in paths:
        os.unlink(path)


@contextlib.contextmanager
def short_folder() -> Iterator[Path]:
    """Make a folder whose path leaves room for the name of a socket, until the block ends."""
    with tempfile.TemporaryDirectory(prefix="many-") as folder:
        yield Path(folder)


def main() -> None:
    options = _options()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: sys.exit(0))
    began = time.monotonic()
    with_traffic = round(options.servers * options.traffic)
    selector = selectors.DefaultSelector()
    at_rest = StandInServer(options.workers, options.threads, has_traffic=False)
    for place, path in enumerate(socket_paths(options.folder, options.servers)):
        has_traffic = place * with_traffic // options.servers != (place + 1) * with_traffic // options.servers
        server = (
            StandInServer(options.workers, options.threads, has_traffic=True, began=began) if has_traffic else at_rest
        )
        listener = socket.socket(socket.AF_UNIX)
        listener.bind(path)
        listener.listen(_BACKLOG)
        selector.register(listener, selectors.EVENT_READ, server)
    parent = os.getppid()
    while os.getppid() == parent:  # else the process that started this one was killed
        for key, _ in selector.select(timeout=1.0):
            connection, _ = key.fileobj.accept()  # type: ignore[union-attr]
            with connection, contextlib.suppress(OSError):
                connection.settimeout(_SEND_SECONDS)
                connection.sendall(key.data.answer(time.monotonic()))


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python3 -m tests.support.stand_in_servers", description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--servers", type=int, default=1)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--traffic", type=float, default=0.0, help="part of the servers that have traffic")
    return parser.parse_args()


if __name__ == "__main__":
    main()
