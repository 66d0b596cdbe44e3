"""Responses that uWSGI could not write: from its document to a window, a merged record and a file."""

import socket
import struct

import pytest
from msgspec.structs import replace

from tests.history.test_window import Watched, watch
from tests.support import windows
from tests.support.real_uwsgi import Uwsgi, uwsgi, wait_until
from tests.support.simulated_server import Server, reading
from uwsgi_headroom import stats
from uwsgi_headroom.history.window import Window, WorkerWindow
from uwsgi_headroom.kernel.facts import HostFacts
from uwsgi_headroom.stats import Snapshot
from uwsgi_headroom.store.codec import decode_record, encode_record
from uwsgi_headroom.store.record import Record, merge_records


def errors_of(window: Window | None) -> list[int | None]:
    return [worker.write_errors for worker in window.workers]


def test_growth_in_a_window():
    """What was there before the first sample is left out, and a decrease due to a race adds nothing."""
    server = Server(processes=2)
    server[1].write_errors, server[2].write_errors = 100, 5
    watched = Watched(server)
    for second in range(10):
        watched.sample(float(second))
        server[1].write_errors += 2
        server[2].write_errors = 4 if second == 4 else 6
    assert errors_of(watched.history.window(60)) == [18, 3]
    assert errors_of(watched.history.window(3)) == [6, 0]


def test_respawn_and_reload():
    """A respawn keeps uWSGI's counter; after a full reload it counts from 0, and what it counted since is added."""
    server = Server(processes=2)
    server[1].write_errors = 5
    watched = Watched(server)
    watched.sample(0.0)
    server.respawn(1, 0.5)
    server[1].write_errors = 7
    watched.sample(1.0)
    server.reload(1.5)
    server[1].write_errors = 3
    watched.sample(2.0)
    assert errors_of(watched.history.window(60)) == [5, 0]


def test_unknown_without_cores():
    """With stats-no-cores it is unknown, and so it is after that until the window begins later."""
    server, watched = watch(processes=1, cores=False)
    for second in range(20):
        server.cores = not 5 <= second < 10
        server[1].write_errors += 1
        watched.sample(float(second))
        if second == 4:
            assert errors_of(watched.history.window(60)) == [4]
        if second == 9:
            assert errors_of(watched.history.window(60)) == [None]
    assert errors_of(watched.history.window(60)) == [None]
    assert errors_of(watched.history.window(5)) == [5]


def with_errors(*counts: int | None) -> Record:
    """A record of workers with so many errors."""
    workers = [
        WorkerWindow(**{name: getattr(windows.worker(place, 5, up=60.0), name) for name in NAMES}, write_errors=count)
        for place, count in enumerate(counts, 1)
    ]
    return Record(60.0, windows.window(60.0, *workers))


NAMES = [name for name in WorkerWindow.__struct_fields__ if name != "write_errors"]


def test_a_record_survives_with_them():
    """The file keeps a count, 0 and unknown apart."""
    record = with_errors(3, 0, None)
    assert decode_record(encode_record(record)) == record


def test_records_merge():
    """They add up where all of it is known."""
    first, second = with_errors(3, 0), with_errors(4, None)
    assert errors_of(merge_records([first, replace(second, until=120.0)]).window) == [7, None]


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
        watched = Watched(Server())
        snapshots: list[Snapshot] = []

        def sample() -> int | None:
            snapshot = stats.decode(server.document())
            snapshots.append(replace(snapshot, sockets=()))  # uWSGI adds their queues after a second
            return snapshot.workers[0].write_errors

        assert sample() == 0
        leave_early(server)
        wait_until(sample, what="the write error")
    for at, snapshot in enumerate((snapshots[0], snapshots[-1], snapshots[-1])):
        watched.integrals.add(reading(float(at), snapshot, HostFacts()), 1.0)
        watched.history.add(float(at), watched.integrals.totals)
    assert errors_of(watched.history.window(60)) == [1]
