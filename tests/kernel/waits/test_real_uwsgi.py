"""What the threads of real uWSGI wait for."""

from __future__ import annotations

import errno
import socket
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from tests.support.other_namespaces import as_nobody, as_root, forbid_netlink, in_child, knows_socket_call
from tools.support.clock import MovableClock
from tools.support.real_uwsgi import Uwsgi, uwsgi, wait_until
from uwsgi_headroom import stats
from uwsgi_headroom.kernel.host import Host
from uwsgi_headroom.kernel.waits import peers
from uwsgi_headroom.kernel.waits.memory_map import read_memory_map
from uwsgi_headroom.kernel.waits.sampler import WaitSetting
from uwsgi_headroom.kernel.waits.system_calls import find_calls
from uwsgi_headroom.record import State, Waits
from uwsgi_headroom.source import Answer
from uwsgi_headroom.stats import Snapshot

pytestmark = [
    pytest.mark.integration,
    pytest.mark.skipif(
        not find_calls() or not find_calls().tried,  # type: ignore[union-attr]
        reason="the system calls of this architecture were never tried",
    ),
]

APP = Path(__file__).parents[2] / "support/waiting_app.py"

TWO_BY_FOUR = ("--processes", "2", "--threads", "4")


def snapshot_of(server: Uwsgi) -> Snapshot:
    snapshot = stats.decode(server.document())
    assert isinstance(snapshot, Snapshot)
    return snapshot


def waits_of(host: Host, server: Uwsgi, snapshot: Snapshot | None = None) -> Waits:
    waits = host.read_facts(snapshot or snapshot_of(server), Answer(b"", peer_pid=server.pid)).waits
    assert waits
    return waits


@contextmanager
def requests(server: Uwsgi, path: str, number: int) -> Iterator[None]:
    """Keeps this many requests in service until the block ends."""
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
def test_the_state_of_most_threads(path: str, state: State) -> None:
    """All eight threads sleep, or all but one of each worker wait for the application's lock."""
    with uwsgi(*TWO_BY_FOUR, app=APP) as server, requests(server, path, 8):
        wait_for(Host(waits=WaitSetting()), server, state)
        workers = [worker.pid for worker in snapshot_of(server).workers]
        assert all(pid and read_memory_map(pid).has_python for pid in workers)


def test_a_backend_with_a_name() -> None:
    """Threads that wait for an answer are counted for the backend, which is known by the path of its socket."""
    with uwsgi(*TWO_BY_FOUR, app=APP) as server, socket.socket(socket.AF_UNIX) as backend:
        path = str(server.directory / "backend")
        backend.bind(path)
        backend.listen()
        with requests(server, "/backend", 6), ExitStack() as answered:
            for _ in range(6):
                answered.enter_context(backend.accept()[0])
            host = Host(waits=WaitSetting(backends={path: "db"}))
            waits = wait_for(host, server, "backend", 0.9)
            assert waits.backends == {"db": 6}


def test_uwsgis_own_lock_under_thunder_lock() -> None:
    """A lock of the application looks like thunder-lock; the document shows which it is, so it is not idleness."""
    with uwsgi(*TWO_BY_FOUR, "--thunder-lock", app=APP) as server, requests(server, "/uwsgi-lock", 6):
        hands = MovableClock()
        host = Host(clock=hands.clock.monotonic, waits=WaitSetting())
        wait_for(host, server, "lock", between=lambda: hands.move(1))


def test_idle_threads_are_not_in_service() -> None:
    """One request sleeps; the seven idle threads, whatever uWSGI lets them wait in, are not counted."""
    for options in ((), ("--thunder-lock",)):
        with uwsgi(*TWO_BY_FOUR, *options, app=APP) as server, requests(server, "/sleep", 1):
            waits = wait_for(Host(waits=WaitSetting()), server, "sleep", 0.9)
            assert waits.threads == {"sleep": 1}


@knows_socket_call
@pytest.mark.parametrize("tables", [True, False])
def test_idle_threads_without_netlink(tables: bool) -> None:
    """If the kernel does not say over netlink what an idle thread's sockets are, its tables in /proc do; and without
    these, no thread counts that uWSGI calls idle."""

    def ask() -> dict[State, float]:
        forbid_netlink(errno.EPERM)
        if not tables:
            peers._read_all = lambda *_: {}  # type: ignore[assignment]
        hands = MovableClock()  # a second between samples, so that each looks at all threads
        host = Host(clock=hands.clock.monotonic, waits=WaitSetting())
        return dict(wait_for(host, server, "sleep", 0.9, between=lambda: hands.move(1)).threads)

    with uwsgi(*TWO_BY_FOUR, app=APP) as server, requests(server, "/sleep", 3):
        assert in_child(ask) == {"sleep": 3}


def test_after_the_end_of_the_server() -> None:
    """If the processes are gone, a sample raises nothing."""
    host = Host(waits=WaitSetting())
    with uwsgi(*TWO_BY_FOUR, app=APP) as server, requests(server, "/sleep", 4):
        snapshot = snapshot_of(server)
        wait_for(host, server, "sleep")
    facts = host.read_facts(snapshot, Answer(b"", peer_pid=server.pid))
    assert facts.waits is None or not facts.waits.threads


@as_root
def test_another_user_may_not_know() -> None:
    """Without the right to trace uWSGI, nothing is known, and the reason says what to grant."""
    with uwsgi(*TWO_BY_FOUR, app=APP) as server, requests(server, "/sleep", 4):
        server.directory.chmod(0o755)
        Path(server.stats).chmod(0o666)
        waits = as_nobody(lambda: waits_of(Host(waits=WaitSetting()), server))
    assert waits == Waits(off=waits.off, needs_right=True)
    assert "CAP_SYS_PTRACE and CAP_DAC_READ_SEARCH" in (waits.off or "")
