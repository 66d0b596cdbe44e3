"""What the threads of real uWSGI wait for."""

from __future__ import annotations

import errno
import json
import os
import random
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from pathlib import Path

import pytest
from msgspec import Struct, field

from tests.kernel.contained import snapshot_of
from tests.kernel.waits.test_sampler import needs_known_calls
from tests.support.other_namespaces import as_nobody, as_root, forbid_netlink, in_child, knows_socket_call
from tests.support.real_uwsgi import Uwsgi, uwsgi, wait_until
from tests.support.simulated_server import MovableClock
from uwsgi_headroom.analysis.locks import compute_lock
from uwsgi_headroom.history.hour import History
from uwsgi_headroom.history.integrals import Integrals
from uwsgi_headroom.history.window import Window
from uwsgi_headroom.kernel.host import Host
from uwsgi_headroom.kernel.waits import peers
from uwsgi_headroom.kernel.waits.memory import read_memory_map
from uwsgi_headroom.kernel.waits.sampler import GAP_TIME, WaitSetting
from uwsgi_headroom.reading import Reading
from uwsgi_headroom.record import State, Waits
from uwsgi_headroom.source import Answer
from uwsgi_headroom.stats import Snapshot

pytestmark = [pytest.mark.integration, needs_known_calls]

APP = Path(__file__).parents[2] / "support/waiting_app.py"

TWO_BY_FOUR = ("--processes", "2", "--threads", "4")


def waits_of(host: Host, server: Uwsgi, snapshot: Snapshot | None = None) -> Waits:
    waits = host.read_facts(snapshot or snapshot_of(server), Answer(b"", peer_pid=server.pid)).waits
    assert waits
    return waits


@contextmanager
def requests(server: Uwsgi, path: str, number: int) -> Iterator[None]:
    with ExitStack() as stack:
        for _ in range(number):
            client = stack.enter_context(socket.create_connection(("127.0.0.1", server.http)))
            client.sendall(f"GET {path} HTTP/1.0\r\n\r\n".encode())
        wait_until(lambda: busy(server) == number, what="the requests to be in service")
        try:
            yield
        finally:
            (server.directory / "stop").touch()


def busy(server: Uwsgi) -> int:
    return sum(worker.busy_threads or 0 for worker in snapshot_of(server).workers)


def wait_for(
    host: Host, server: Uwsgi, state: State, share: float = 0.5, between: Callable[[], object] = lambda: None
) -> Waits:
    """Samples until the state has more than this share of the threads in service, all of which are seen."""
    waits: list[Waits] = []

    def dominates() -> bool:
        between()
        waits[:] = [waits_of(host, server)]
        total = sum(waits[0].threads.values())
        return waits[0].busy > 0 and total == waits[0].busy and waits[0].threads.get(state, 0.0) > share * total

    wait_until(dominates, what=f"more than {share:.0%} of the threads in {state}")
    return waits[0]


@pytest.mark.parametrize(("path", "state"), [("/sleep", "sleep"), ("/lock", "lock")])
def test_the_state_of_most_threads(path, state):
    """All eight threads sleep, or all but one of each worker wait for the application's lock."""
    with uwsgi(*TWO_BY_FOUR, app=APP) as server, requests(server, path, 8):
        wait_for(Host(waits=WaitSetting()), server, state)
        workers = [worker.pid for worker in snapshot_of(server).workers]
        assert all(pid and read_memory_map(pid).has_python for pid in workers)


WEBSOCKET = (
    b"GET /websocket HTTP/1.1\r\nHost: x\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
    b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\r\n"
)
UPLOAD = b"POST /websocket HTTP/1.0\r\nContent-Length: 999\r\n\r\n"


@pytest.mark.parametrize(
    ("sends", "websockets", "writing"), [(WEBSOCKET, 6, 0), (UPLOAD, 0, 0), (b"GET /write HTTP/1.0\r\n\r\n", 0, 6)]
)
def test_what_a_client_is_waited_for(sends, websockets, writing):
    with uwsgi(*TWO_BY_FOUR, "--post-buffering", "1", app=APP) as server, ExitStack() as stack:
        clients = [stack.enter_context(socket.create_connection(("127.0.0.1", server.http))) for _ in range(6)]
        for client in clients:
            client.sendall(sends)
        wait_until(lambda: busy(server) == 6, what="the requests to be in service")
        waits = wait_for(Host(waits=WaitSetting()), server, "client", 0.9)
        assert waits.threads == {"client": 6}
        assert (waits.websockets, waits.writing) == (websockets, writing)


def test_a_backend_with_a_name():
    with uwsgi(*TWO_BY_FOUR, app=APP) as server, socket.socket(socket.AF_UNIX) as backend:
        path = str(server.directory / "backend")
        backend.bind(path)
        backend.listen()
        with requests(server, "/backend", 6), ExitStack() as answered:
            for _ in range(6):
                answered.enter_context(backend.accept()[0])
            host = Host(waits=WaitSetting(backends={path: "db"}))
            assert wait_for(host, server, "backend", 0.9).backends == {"db": 6}


def test_uwsgis_own_lock_under_thunder_lock():
    """A lock of the application looks like thunder-lock; the document shows which it is, so it is not idleness."""
    with uwsgi(*TWO_BY_FOUR, "--thunder-lock", app=APP) as server, requests(server, "/uwsgi-lock", 6):
        hands = MovableClock()
        host = Host(clock=hands.clock.monotonic, waits=WaitSetting())
        wait_for(host, server, "lock", between=lambda: hands.move(1))


def test_idle_threads_are_not_in_service():
    for options in ((), ("--thunder-lock",)):
        with uwsgi(*TWO_BY_FOUR, *options, app=APP) as server, requests(server, "/sleep", 1):
            assert wait_for(Host(waits=WaitSetting()), server, "sleep", 0.9).threads == {"sleep": 1}


@knows_socket_call
@pytest.mark.parametrize("tables", [True, False])
def test_idle_threads_without_netlink(tables):
    """Its tables in /proc say what their sockets are, and without these no thread counts that is idle."""

    def ask() -> dict[State, float]:
        forbid_netlink(errno.EPERM)
        if not tables:
            peers._read_all = lambda *_: {}
        hands = MovableClock()  # a second between samples, so that each looks at all threads
        host = Host(clock=hands.clock.monotonic, waits=WaitSetting())
        return dict(wait_for(host, server, "sleep", 0.9, between=lambda: hands.move(1)).threads)

    with uwsgi(*TWO_BY_FOUR, app=APP) as server, requests(server, "/sleep", 3):
        assert in_child(ask) == {"sleep": 3}


@as_root
def test_another_user_may_not_know():
    with uwsgi(*TWO_BY_FOUR, app=APP) as server, requests(server, "/sleep", 4):
        server.directory.chmod(0o755)
        Path(server.stats).chmod(0o666)
        waits = as_nobody(lambda: waits_of(Host(waits=WaitSetting()), server))
    assert waits == Waits(off=waits.off, needs_right=True)
    assert "CAP_SYS_PTRACE and CAP_DAC_READ_SEARCH" in (waits.off or "")


class Clients(Struct):
    """Clients that ask again and again, each after a time of its own. held: for how long each request held the lock."""

    server: Uwsgi
    path: str
    think: float
    held: list[float] = field(default_factory=list)
    _stop: threading.Event = field(default_factory=threading.Event)

    def ask(self) -> None:
        chance = random.Random()
        while not self._stop.wait(chance.expovariate(1 / self.think) if self.think else 0.0):
            with suppress(OSError), socket.create_connection(("127.0.0.1", self.server.http), 20) as client:
                client.sendall(f"GET {self.path} HTTP/1.0\r\n\r\n".encode())
                answer = b"".join(iter(partial(client.recv, 4096), b""))
                if body := answer.rpartition(b"\r\n\r\n")[2]:  # none from a worker that ended
                    self.held.append(float(body))

    @contextmanager
    def run(self, number: int) -> Iterator[Clients]:
        threads = [threading.Thread(target=self.ask) for _ in range(number)]
        for thread in threads:
            thread.start()
        try:
            yield self
        finally:
            self._stop.set()
            for thread in threads:
                thread.join()


def windows_of(server: Uwsgi, host: Host) -> Iterator[Window]:
    """What the exporter's samples say, five a second, of all the time until then."""
    integrals, history = Integrals(), History()
    begin = time.monotonic()
    while True:
        snapshot = snapshot_of(server)
        at = time.monotonic()
        facts = host.read_facts(snapshot, Answer(b"", peer_pid=server.pid))
        integrals.add(Reading(at, time.time(), 0.0, 0.0, 0, snapshot, facts), 2.0)
        history.add(at, integrals.totals)
        if window := history.window(at - begin):
            yield window
        time.sleep(0.2)


OWN_ADDRESSES = {"/hold": sys.version_info >= (3, 13), "/hold-again": sys.version_info >= (3, 14)}
"""Whether each thread that waits for the lock of a path does so at an address of its own, which is not the lock's: a
`threading.Lock` is a PyMutex from CPython 3.13 on, an `RLock` from 3.14 on (Modules/_threadmodule.c)."""


@pytest.mark.parametrize(
    ("path", "reads", "within", "scope", "clients"),
    [
        ("/hold", True, 0.15, "worker", 8),
        pytest.param("/hold", False, 0.3, "worker", 8, marks=pytest.mark.slow),
        pytest.param("/hold-again", True, 0.15, "worker", 8, marks=pytest.mark.slow),
        pytest.param("/hold-file", True, 0.2, "file", 3, marks=pytest.mark.slow),
    ],
)
def test_the_limit_of_a_lock(path, reads, within, scope, clients):
    """Held for 50 ms, each process serves 20 a second, all together if it is a file's. Most of that is used."""
    is_known = not OWN_ADDRESSES.get(path, False)
    with uwsgi(*TWO_BY_FOUR, app=APP) as server, Clients(server, path, think=0.15).run(clients) as asking:
        for window in windows_of(server, Host(waits=WaitSetting(read_locks=reads))):
            lock = compute_lock(window)
            assert window.seconds < 60, "the lock is not known"
            if (lock or not is_known) and window.seconds > 18:
                break
        held = list(asking.held)
    if not is_known:
        assert window.waits.seconds["lock"] > 6
        assert lock is None or not lock.is_known
        return
    assert (lock.scope, lock.is_known) == (scope, True)
    assert lock.limit == pytest.approx((2 if scope == "worker" else 1) * len(held) / sum(held), rel=within)


def test_threads_that_wait_for_a_condition_show_no_lock():
    """A pool of two connections hands them out under a condition: each waiter has a semaphore of its own."""
    with uwsgi(*TWO_BY_FOUR, app=APP) as server, Clients(server, "/pool", think=0.0).run(8):
        for window in windows_of(server, Host(waits=WaitSetting(read_locks=True))):
            assert window.seconds < 60, "no waits are seen"
            if window.waits and window.waits.seconds["lock"] > 6:
                break
    lock = compute_lock(window)
    assert lock is None or not lock.is_known


@pytest.mark.skipif(OWN_ADDRESSES["/hold"], reason="Python 3.13 shows no lock: test_the_limit_of_a_lock")
def test_a_lock_after_a_respawn():
    """What is known of a lock ends with its process, while samples go on, and is found anew in the next one."""
    with uwsgi(*TWO_BY_FOUR, app=APP) as server, Clients(server, "/hold", think=0.0).run(6):
        host = Host(waits=WaitSetting(read_locks=True))
        wait_until(lambda: len(waits_of(host, server).locks) == 2, what="the locks of both workers")
        pids = {worker.pid for worker in snapshot_of(server).workers}
        for pid in pids:
            assert pid
            os.kill(pid, signal.SIGKILL)
            waits_of(host, server)
        wait_until(lambda: pids.isdisjoint({worker.pid for worker in snapshot_of(server).workers}), what="respawns")
        wait_until(lambda: len(waits_of(host, server).locks) == 2, what="the locks of the new workers")


def test_a_worker_that_ends_waits_for_no_lock():
    """At a reload the main thread waits until the others have served: that is no lock of the application."""
    with uwsgi(*TWO_BY_FOUR, "--worker-reload-mercy", "60", app=APP) as server:
        for _ in range(30):  # which threads serve is chance
            with requests(server, "/sleep", 2):
                if _has_only_other_threads_busy(server):
                    _look_while_it_ends(server)
                    return
            wait_until(lambda: busy(server) == 0, what="the end of these requests")
            (server.directory / "stop").unlink()
    pytest.fail("a busy worker always has its main thread in service")


def _look_while_it_ends(server: Uwsgi) -> None:
    host = Host(waits=WaitSetting())
    wait_for(host, server, "sleep", 0.9)
    os.kill(server.pid, signal.SIGHUP)
    wait_until(lambda: _joins_a_thread(server), what="a main thread that waits for the others")
    looks = 0
    while looks < 10:
        time.sleep(0.3)  # so that the budget allows a look at every thread
        waits = waits_of(host, server)
        if GAP_TIME in waits.gaps:  # another program had the CPU for most of the sample
            continue
        assert waits.threads == {"sleep": 2}
        assert waits.busy == 2
        looks += 1


def _has_only_other_threads_busy(server: Uwsgi) -> bool:
    """Whether a worker serves requests, and not in its main thread."""
    workers = json.loads(server.document())["workers"]
    in_service = [[core["in_request"] for core in worker["cores"]] for worker in workers]
    return any(any(cores) and not cores[0] for cores in in_service)


def _joins_a_thread(server: Uwsgi) -> bool:
    """Whether the main thread of a worker waits for the end of another one: FUTEX_WAIT_BITSET, not private."""
    for worker in snapshot_of(server).workers:
        with suppress(OSError):
            if " 0x109 " in Path(f"/proc/{worker.pid}/task/{worker.pid}/syscall").read_text():
                return True
    return False
