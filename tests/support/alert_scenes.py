"""Scenes on a real uWSGI for the end-to-end tests of the alerts: each is reliable, and ends with its block."""

import contextlib
import os
import signal
import tempfile
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from msgspec import Struct

from tests.support import real_uwsgi
from tools.bench.accuracy.generator import Load, generator
from tools.scenarios.scenario import APP


class Mortal:
    """A uWSGI that can be killed and restarted on the same paths. `stats` and `http` are UNIX sockets."""

    def __init__(self, directory: Path, *options: str) -> None:
        self.stats, self.http, self.log = (str(directory / name) for name in ("stats", "http", "log"))
        self._command = [real_uwsgi.uwsgi_binary(), "--master", "--need-app", "--wsgi-file", str(real_uwsgi.APP)]
        self._command += ["--stats", self.stats, "--http-socket", self.http, "--logto", self.log, *options]
        self._output, self._running = directory / "output", contextlib.ExitStack()

    def start(self) -> None:
        """Starts uWSGI; returns when its stats server listens."""
        ready = partial(real_uwsgi.accepts, self.stats)
        process = self._running.enter_context(real_uwsgi.running(self._command, ready, "uWSGI", log=self._output))
        self._running.callback(os.killpg, process.pid, signal.SIGKILL)

    def kill(self) -> None:
        """Kills the master and its workers with SIGKILL, if they run."""
        self._running.close()


@contextlib.contextmanager
def mortal(*options: str) -> Iterator[Mortal]:
    """Yields a running uWSGI; kills it when the block ends."""
    with tempfile.TemporaryDirectory(prefix="headroom-") as directory:
        server = Mortal(Path(directory), *options)
        with contextlib.closing(server._running):
            server.start()
            yield server


class Mapped(Struct, frozen=True):
    """A uWSGI with `map-socket`: only worker 1 serves the socket `hot`, the others serve `calm`."""

    stats: str
    hot: str
    calm: str

    @contextlib.contextmanager
    def loaded(self, hot: int, calm: int) -> Iterator[None]:
        """Runs `hot` and `calm` clients on the two sockets, with requests like those of an API that queries a database.

        A request takes 20 ms of CPU, so that one interpreter serves at most 50 per second, and 80 ms without load.
        """
        with loaded(self.hot, hot, io_ms=60, cpu_ms=20), loaded(self.calm, calm, io_ms=60, cpu_ms=20):
            yield


@contextlib.contextmanager
def mapped(processes: int = 3, threads: int = 8) -> Iterator[Mapped]:
    """Runs a reliably uneven uWSGI: clients choose the worker, not the kernel."""
    others = ",".join(str(worker_id) for worker_id in range(2, processes + 1))
    options = ["--http-socket", "{directory}/hot", "--map-socket", "0:1"]
    options += ["--http-socket", "{directory}/calm", "--map-socket", f"1:{others}"]
    with _serving(processes, threads, *options) as server:
        yield Mapped(server.stats, str(server.directory / "hot"), str(server.directory / "calm"))


class Short(Struct, frozen=True):
    """A uWSGI with two threads and a listen queue of 20, at the UNIX socket `web`."""

    stats: str
    web: str

    def overloaded(self) -> contextlib.AbstractContextManager[None]:
        """Keeps the queue full during the block, with clients that wait for room in it; then ends the clients."""
        return loaded(self.web, clients=2 + 20 + 10, io_ms=200)


@contextlib.contextmanager
def short() -> Iterator[Short]:
    """Runs a uWSGI whose threads and queue a few clients can fill."""
    with _serving(1, 2, "--http-socket", "{directory}/web", "--listen", "20") as server:
        yield Short(server.stats, str(server.directory / "web"))


@contextlib.contextmanager
def loaded(address: str, clients: int, io_ms: float, cpu_ms: float = 0) -> Iterator[None]:
    """Runs closed-loop clients during the block, then abandons their requests in flight."""
    with generator(Load(clients=clients, io_ms=io_ms, cpu_ms=cpu_ms), address) as load:
        load.go()
        yield


def _serving(processes: int, threads: int, *options: str) -> contextlib.AbstractContextManager[real_uwsgi.Uwsgi]:
    """Runs the application of the load, with a stats socket."""
    shape = ["--processes", str(processes), "--threads", str(threads)]
    fixed = ["--master", "--need-app", "--wsgi-file", str(APP), "--stats", "{directory}/stats", "--disable-logging"]
    return real_uwsgi.bare(*fixed, *shape, *options)
