"""A fixed story of samples: a real uWSGI whose requests wait, read as two servers, its log, and a history file.

`stage` records it; `Stage.find_broken` plays it with one fault, and says what that has broken.
"""

import asyncio
import contextlib
import gc
import logging
import os
import random
import socket
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.store.test_database import minute, requests
from tests.support import real_uwsgi
from tests.torture.world import BYTES, ERRORS, SHORT, SQL, TORN, Fault, Place, World
from uwsgi_headroom.clock import Clock
from uwsgi_headroom.kernel import backlogs, cgroups, procfs
from uwsgi_headroom.kernel.aside import DIRECT
from uwsgi_headroom.kernel.cpus import MachineCpu
from uwsgi_headroom.kernel.host import Host
from uwsgi_headroom.kernel.waits import WaitSetting, peers, sampler
from uwsgi_headroom.reading import Reading, describe_server
from uwsgi_headroom.source import Room, Unix
from uwsgi_headroom.store import writer
from uwsgi_headroom.watch.code_watch import CodeSetting
from uwsgi_headroom.watch.log_reader import LogReader
from uwsgi_headroom.watch.watch import Watch

TIMES, LAST_FAULT = (0.0, 1.0, 6.0, 7.0, 67.0, 68.0, 73.0, 133.0, 134.0, 139.0, 140.0, 141.0), 4
"""Of samples, in seconds: facts are read at each, every five seconds, or once a minute. Faults come up to LAST_FAULT;
the other samples show whether the figures are complete again."""

LINES = "Empty python request. skip.\n", "OSError: write error\n", "DAMN ! worker 1 (pid: 1) died :(\n"
MINUTES = 6


class Run(logging.Handler):
    """What a run has seen: by step and server, what was read; warnings; figures at the end; what is broken."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.steps: list[dict[str, dict[str, Any]]] = []
        self.last: dict[str, Any] = {}
        self.warnings: list[str] = []
        self.broken: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.warnings.append(record.getMessage())
        if record.exc_info:
            self.broken.append(f"a traceback is logged: {record.getMessage()} {record.exc_info[1]!r}")


class Stage:
    """A uWSGI with 2x4 threads: one request of each process holds a lock, one waits for it, one for a backend."""

    def __init__(self, server: real_uwsgi.Uwsgi) -> None:
        self.server, self.world, self._began = server, World(), time.time()
        pids = (os.getpid(), server.pid, *(child.pid for child in psutil.Process(server.pid).children()))
        self.world.processes = set(map(str, pids))
        self._play(None)  # which is recorded
        self.healthy = self._play(None)
        self.places = [place for place in self.world.places if place.step <= LAST_FAULT]
        assert not self._write_history(None)
        self.places += [place for place in self.world.places if place.site.startswith("store/")]

    def find_broken(self, fault: Fault) -> list[str]:
        """What a fault has broken, one line each."""
        if fault.place.site.startswith("store/"):
            return self._write_history(fault)
        return list(judge(self.healthy, self._play(fault), fault))

    def _path(self, name: str) -> Path:
        """Each process that plays has its own files."""
        return self.server.directory / f"{name}-{threading.main_thread().native_id}"

    def _write_history(self, fault: Fault | None) -> list[str]:
        run, path = Run(), self._path("history")
        with self._watched(run, fault), pytest.MonkeyPatch.context() as patch:
            patch.setattr(writer, "RETRY_SECONDS", 0.01)
            patch.setattr(writer, "_TOGETHER_SECONDS", 0.0)
            writes = writer.HistoryWriter(path, 10**9)
            for number in range(1, MINUTES + 1):
                writes.put(minute(number))
                real_uwsgi.wait_until(lambda at=number: writes.written >= at, 10, "a minute", 0.002)
            writes.close(10)
        if not run.broken and len(requests(path, 60)) != MINUTES:
            run.broken.append(f"{requests(path, 60)} is in the file, {writes.dropped} minutes were dropped")
        _ = [each.unlink() for each in path.parent.glob(f"{path.name}*")]
        return run.broken + run.warnings[1:]

    def _play(self, fault: Fault | None) -> Run:
        run, before = Run(), _list_descriptors()
        self._path("log").write_text("")
        random.seed(1)
        with self._watched(run, fault):
            _forget()
            asyncio.run(self._sample(run))
            gc.collect()
            _forget()
        if left := _list_descriptors() - before:
            run.broken.append(f"descriptors are left open: {left}")
        return run

    @contextlib.contextmanager
    def _watched(self, run: Run, fault: Fault | None) -> Iterator[None]:
        """Play with a fault, and note what is logged and raised."""
        self.world.begin(fault)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(logging.getLogger("uwsgi_headroom"), "handlers", [run])
            patch.setattr(logging.getLogger("uwsgi_headroom"), "propagate", False)
            try:
                with self.world.between():
                    yield
            except Exception as error:  # noqa: BLE001 - the judgement of this run
                run.broken.append(f"a task ended: {error!r}")

    async def _sample(self, run: Run) -> None:
        watches = self._make_watches()
        logs = LogReader(lambda: watches, lambda: self.world.now)
        for self.world.step, self.world.now in enumerate(TIMES):
            for _ in range(3 * self.world.records):  # figures move
                with request(self.server, "/pool") as client:
                    client.recv(1000)
            seen: dict[str, dict[str, Any]] = {}
            for watch in watches:
                self.world.server = watch.name
                seen[watch.name] = found = {"outcome": await watch.reader.read()}
                if watch.code:
                    await watch.code.look()
                    found["code"] = dict(watch.code.history.totals.seconds)
                if isinstance(found["outcome"], Reading):
                    found |= {name: getattr(found["outcome"], name) for name in ("snapshot", "host")}
                    found["workers"] = getattr(describe_server(found["outcome"]), "workers", None)
                run.broken += [f"an internal error: {each}" for each in watch.reader.faults]
            with self._path("log").open("a") as file:
                file.write(LINES[self.world.step % len(LINES)])
            self.world.server = "log"
            await logs.turn()
            run.steps.append(seen)
        for thread in threading.enumerate():
            if thread.name == "reading logs":
                thread.join(10)  # it keeps the log open
        for watch in watches:
            assert watch.reading
            run.last[watch.name] = [*watch.figures(watch.reading, (10.0,)), watch.log and watch.log.totals]

    def _make_watches(self) -> list[Watch]:
        clock = Clock(lambda: self.world.now, lambda: self._began + self.world.now, lambda: 0.0)
        machine, dumps = MachineCpu(clock.monotonic), backlogs.ListenerDumps(clock.monotonic)
        waits, room = WaitSetting(enabled=True, backends={}, read_pollfds=True, read_locks=True), Room()
        watches = []
        for name in ("first", "second"):
            host = Host(False, clock.monotonic, machine, waits, dumps, DIRECT)
            code, log = (CodeSetting(), str(self._path("log"))) if name == "first" else (None, "")
            watch = Watch(name, Unix(self.server.stats), host=host, clock=clock, room=room, log=log, code=code)
            if watch.code:
                watch.code._questions = type("Asks", (type(DIRECT),), {"forget": lambda _: None})()
            watches.append(watch)
        return watches


def _list_descriptors() -> set[str]:
    links = [f"/proc/self/fd/{name}" for name in os.listdir("/proc/self/fd")]
    return {f"{link} {os.readlink(link)}" for link in links if os.path.lexists(link)}


def _forget() -> None:
    """Forget what modules keep for all servers."""
    procfs.KEPT.close()
    if cgroups.OUR_MOUNTS._file:
        cgroups.OUR_MOUNTS._file.close()
        cgroups.OUR_MOUNTS._file = None
    modules = [module for name, module in sys.modules.items() if name.startswith("uwsgi_headroom.kernel")]
    for each in [each for module in modules for each in vars(module).values() if hasattr(each, "cache_clear")]:
        each.cache_clear()


def request(server: real_uwsgi.Uwsgi, path: str) -> socket.socket:
    client = socket.create_connection(("127.0.0.1", server.http), 30)
    client.sendall(f"GET {path} HTTP/1.0\r\n\r\n".encode())
    return client


@contextlib.contextmanager
def stage() -> Iterator[Stage]:
    """A stage whose story is recorded."""
    app = Path(__file__).parents[1] / "support/waiting_app.py"
    with contextlib.ExitStack() as stack:
        patch = stack.enter_context(pytest.MonkeyPatch.context())
        patch.setattr(peers, "MOST_SECONDS", 30.0)  # the machine may be busy
        patch.setattr(backlogs, "MOST_LISTING_SECONDS", 30.0)
        patch.setattr(sampler, "_LEAST_THREADS", 64)
        server = stack.enter_context(real_uwsgi.uwsgi("--processes", "2", "--threads", "4", app=app))
        real_uwsgi.wait_for_workers(server)
        backend = stack.enter_context(socket.socket(socket.AF_UNIX))
        backend.bind(str(server.directory / "backend"))
        backend.listen()
        for path in ("/lock", "/lock", "/lock", "/backend"):
            stack.enter_context(request(server, path))
        real_uwsgi.wait_until(lambda: server.document().count(b'"in_request":1') >= 4, what="requests to wait")
        stack.enter_context(backend.accept()[0])
        time.sleep(0.3)
        of = Stage(server)
        gc.collect()
        gc.freeze()  # each run looks for garbage
        yield of
        (server.directory / "stop").touch()


def list_faults(places: Sequence[Place]) -> Iterator[Fault]:
    """Every kind of fault at each place."""
    for place in places:
        kinds = SQL if place.call.startswith("sqlite") else ERRORS + (SHORT, TORN) * (place.call in BYTES)
        yield from (Fault(place, kind) for kind in kinds)


def plain(value: Any) -> Any:
    """Structs, mappings and sequences as dictionaries and lists, for comparison."""
    fields = [getattr(value, name, ()) for name in ("__struct_fields__", "_fields", "__dataclass_fields__")]
    if names := next(filter(None, fields), ()):
        return {name: plain(getattr(value, name)) for name in names}
    if hasattr(value, "items"):
        return {str(key): plain(each) for key, each in value.items()}
    return [plain(each) for each in value] if isinstance(value, (list, tuple)) else value


LABELS = ("source", "of", "complete")  # which say from where, or of what, the others are
ESTIMATES = ("nap", "turn", "threads_since", "cpus")  # means and times, which a sample less changes
REASONS = ("off", "reason", "limits_off", "needs_right")
LATE = (".code", ".unique", ".ways_in", ".holder", ".backend.name")  # read once a minute, or learnt from many samples


def differences(right: Any, found: Any, where: str) -> Iterator[tuple[str, bool]]:
    """Where two values differ, and whether what was found is merely absent there, or says itself that it is less."""
    name = where.rpartition(".")[2]
    if isinstance(found, float) and found < 0 and found != right:
        yield f"{where}: {found}", False
    if right == found or name in ESTIMATES or (right is None and ".unique." in where):  # another worker's turn
        return
    right, found = plain(right), plain(found)
    if found is None or found in ([], {}, ""):
        yield where, True
    elif isinstance(right, dict) and isinstance(found, dict):
        if name == "threads" and found.keys() - right.keys() <= {"unknown"}:
            yield where, all(found[each] <= right[each] for each in found if each != "unknown")
        elif found.get("off") or found.get("ways") == [] or any(right.get(each) != found.get(each) for each in LABELS):
            yield where, True
        else:
            for each in right.keys() | found.keys():
                yield from differences(right.get(each), found.get(each), f"{where}.{each}")
    elif isinstance(right, list) and isinstance(found, list) and len(right) == len(found):
        for place, (each, other) in enumerate(zip(right, found, strict=True)):
            yield from differences(each, other, f"{where}.{place}")
    elif not (isinstance(right, (int, float)) and isinstance(found, (int, float))) or (
        abs(found - right) > abs(right) * (0.05 if isinstance(right, int) else 1e-6)  # of another moment
    ):
        is_known = right is None and ".locks." in where  # of one thread less, more may be said
        is_less = name in REASONS or ".gaps" in where or ".code" in where  # which counts looks
        is_nothing = isinstance(found, dict) and not any(found.values())
        yield f"{where}: {right!r} -> {found!r}"[:200], is_known or is_less or is_nothing


SAYS_SO = {
    "kernel/processes.py": "EACCES ENOENT ESRCH torn",  # the process has ended, or is as at the reading before
    "kernel/sock_diag.py": "ENOENT",  # there is no such socket
    "kernel/backlogs.py": "ENOENT",  # the descriptor is closed
    "uwsgi_log/tail.py": "ENOENT short",  # there was no file, or it was truncated: it is read from its beginning
    "kernel/waits/memory.py": "EACCES ENOENT ESRCH short torn",  # a file was replaced: its locks stay unknown
}
"""Faults that say that the server is another, by file: other figures are right."""


def is_said(fault: Fault) -> bool:
    """Whether other figures are right. One fault is known: a process whose first reading fails is not proven to be a
    worker, and counts as ended until the next reading."""
    file = fault.place.site.partition(":")[0]
    return fault.kind in SAYS_SO.get(file, "").split() or (file == "kernel/processes.py" and fault.place.step == 0)


def judge(healthy: Run, run: Run, fault: Fault) -> Iterator[str]:
    """What a fault has broken, one line each."""
    yield from dict.fromkeys(run.broken)
    yield from (f"another line is logged: {line}" for line in run.warnings[len(healthy.warnings) + 1 :])
    is_complete = not is_said(fault)
    for step, (rights, seen) in enumerate(zip(healthy.steps, run.steps, strict=False)):
        later = step - fault.place.step
        for server, right in rights.items():
            found = seen[server]
            if not isinstance(found["outcome"], Reading):
                if server != fault.place.server or later:
                    yield f"sample {later} of {server} is lost: {found['outcome']}"
                continue
            parts = [name for name in right if name != "outcome" and not is_said(fault)]
            for part in parts:
                for where, is_absent in differences(right[part], found[part], f"{server}.{part}"):
                    is_complete = step < len(TIMES) - 1
                    if not is_absent:
                        yield f"false, {later} later: {where}"
                    elif step >= len(TIMES) - 2 and not any(each in where for each in LATE):
                        yield f"still absent, {later} later: {where}"
    for server, right in healthy.last.items() if is_complete and run.last else ():
        for where, is_absent in differences(right, run.last[server], f"{server}.figures"):
            if not is_absent:
                yield f"false at the end: {where}"
