"""Requests that wait although a thread is free: the time is added up, and the lock that causes it is named."""

from __future__ import annotations

import os
import signal
import socket
import time
from dataclasses import replace

import pytest

from tests.history.test_window import Watched
from tests.support.real_uwsgi import Uwsgi, accepting, wait_until
from tests.support.simulated_server import Server
from tools.scenarios.actions import find_accept_lock_holder
from uwsgi_headroom.history.integrals import Integrals
from uwsgi_headroom.record import Options, Setup


def idle_seconds(*samples: tuple[int | None, int]) -> float | None:
    """The total after samples, a second apart, of a queue's length and the busy threads of two."""
    server = Server(processes=2, threads=1)
    watched = Watched(server)
    for second, (queue, busy) in enumerate(samples):
        server.queue = queue
        server.busy(*(int(place < busy) for place in range(2)))
        watched.sample(float(second))
    return watched.integrals.totals.idle_queue_seconds


def test_requests_that_wait_beside_a_free_thread() -> None:
    """Time counts in which both samples have a waiting request and a free thread."""
    assert idle_seconds((3, 0), (3, 1), (3, 1)) == 2.0


def test_requests_that_wait_for_a_thread() -> None:
    """With all threads busy, or no request waiting, nothing counts."""
    assert idle_seconds((3, 2), (3, 2), (0, 1), (0, 0)) == 0.0


def test_a_request_that_is_just_accepted() -> None:
    """One sample alone shows the moment between a request's arrival and its start."""
    assert idle_seconds((0, 0), (1, 0), (0, 1), (1, 1), (0, 2)) == 0.0


@pytest.mark.parametrize(("busy", "idle"), [(1, 0.0), (0, 2.0)])
def test_the_threads_of_the_socket(busy: int, idle: float) -> None:
    """With `map-socket`, only the threads count that take requests from the socket where requests wait."""
    server, integrals = Server(processes=2, threads=1, queue=3), Integrals()
    server.busy(busy, 0)
    setup = Setup(Options(), None, None, {server.socket: (1,)}, mapped=True)
    for second in range(3):
        sample = server.read(float(second))
        integrals.add(replace(sample, host=replace(sample.host, setup=setup)), 1.0)
    assert integrals.totals.idle_queue_seconds == idle


def test_unknown_queue() -> None:
    """Where the queue cannot be measured it is unknown."""
    assert idle_seconds((None, 0), (None, 1)) is None


def test_unknown_threads() -> None:
    """With stats-no-cores it is unknown."""
    watched = Watched(Server(cores=False, queue=5))
    for second in range(3):
        watched.sample(float(second))
    assert watched.integrals.totals.idle_queue_seconds is None


def answers(server: Uwsgi) -> bool:
    """Whether a request is answered within two seconds."""
    with socket.create_connection(("127.0.0.1", server.http), 2) as client:
        client.settimeout(2)
        client.sendall(b"GET / HTTP/1.0\r\n\r\n")
        try:
            return client.recv(12).endswith(b"200")
        except TimeoutError:
            return False


@pytest.mark.integration
@pytest.mark.parametrize("sign", [signal.SIGCONT, signal.SIGKILL])
def test_the_advice_frees_the_accept_lock(sign: signal.Signals) -> None:
    """While the holder is stopped nobody is served; `kill -CONT` and `kill -KILL`, which the finding advises, end
    that."""
    with accepting("--processes", "3", "--thunder-lock") as server:
        holder = find_accept_lock_holder(server)
        os.kill(holder, signal.SIGSTOP)
        time.sleep(0.2)
        assert not answers(server)
        os.kill(holder, sign)
        wait_until(lambda: answers(server), what="an answer")
