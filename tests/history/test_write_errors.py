"""Responses that uWSGI could not write: from its document to a window."""

import socket
import struct

import pytest
from msgspec.structs import replace

from tests.history.watched import Watched, watch
from tests.support.real_uwsgi import Uwsgi, uwsgi, wait_until
from tests.support.simulated_server import reading
from uwsgi_headroom import stats
from uwsgi_headroom.history.window import Window
from uwsgi_headroom.kernel.facts import HostFacts
from uwsgi_headroom.stats import Snapshot


def errors_of(window: Window | None) -> list[int | None]:
    return [worker.write_errors for worker in window.workers]


def test_unknown_without_cores():
    """With stats-no-cores it is unknown, and so it is after that until the window begins later."""
    server, watched = watch(processes=1, cores=False)
    for second in range(20):
        server.cores = not 5 <= second < 10
        server[1].write_errors += 1
        watched.sample(float(second))
        if second == 4:
            assert errors_of(watched.window(60)) == [4]
        if second == 9:
            assert errors_of(watched.window(60)) == [None]
    assert errors_of(watched.window(60)) == [None]
    assert errors_of(watched.window(5)) == [5]


def leave_early(server: Uwsgi) -> None:
    """Asks for a response, and resets the connection before it is written."""
    with socket.create_connection(("127.0.0.1", server.http), 20) as client:
        client.sendall(b"GET /?io_ms=300 HTTP/1.0\r\n\r\n")
        wait_until(lambda: b'"in_request":1' in server.document(), what="the request")
        client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


@pytest.mark.integration
def test_a_client_that_leaves():
    """uWSGI counts a response for a client that has left, and the window has it."""
    with uwsgi("--processes", "1", "--threads", "2") as server:
        watched = Watched()
        snapshots: list[Snapshot] = []

        def sample() -> int | None:
            snapshot = stats.decode(server.document())
            snapshots.append(replace(snapshot, sockets=()))  # uWSGI adds their queues after a second
            return snapshot.workers[0].write_errors

        assert sample() == 0
        leave_early(server)
        wait_until(sample, what="the write error")
    for at, snapshot in enumerate((snapshots[0], snapshots[-1], snapshots[-1])):
        watched.add(reading(float(at), snapshot, HostFacts()))
    assert errors_of(watched.window(60)) == [1]
