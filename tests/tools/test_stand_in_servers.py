"""Servers that tests and benchmarks use in the place of uWSGI."""

import asyncio
import socket
import time

import pytest

from tests.support import bad_servers
from tests.support.stand_in_servers import StandInServer, short_folder, stale_sockets, stand_ins
from tests.support.synthetic import stories
from tests.support.synthetic.plan import History, Service
from tests.support.synthetic.server import make_review_data
from uwsgi_headroom import source, stats
from uwsgi_headroom.errors import ReadError
from uwsgi_headroom.report.quarters import count_requests, mean_busy
from uwsgi_headroom.source import Unix


def test_a_stand_in_at_rest_answers_the_same_bytes():
    server = StandInServer(2, 1, has_traffic=False)

    assert server.answer(1.0) == server.answer(100.0)


def test_a_stand_in_with_traffic_serves_two_requests_a_second():
    server = StandInServer(4, 8, has_traffic=True)

    before, after = (stats.decode(server.answer(at)) for at in (10.25, 20.25))

    assert isinstance(before, stats.Snapshot)
    assert isinstance(after, stats.Snapshot)
    assert [worker.requests for worker in before.workers] == [5, 5, 5, 5]
    assert [worker.requests for worker in after.workers] == [10, 10, 10, 10]
    assert [worker.busy_threads for worker in before.workers] == [1, 0, 0, 0]
    assert [worker.threads for worker in before.workers] == [8, 8, 8, 8]
    assert all(sum(worker.thread_requests) == worker.requests for worker in before.workers)


def _read(path: str) -> bytes:
    return asyncio.run(source.read_document(Unix(path), timeout=10.0, size_cap=10**6)).body


@pytest.mark.integration
def test_each_stand_in_answers_at_its_own_socket_and_a_stale_one_refuses():
    with short_folder() as folder, stand_ins(folder, 20, 2, 1, traffic=0.1) as paths, stale_sockets(folder, 2) as stale:
        first = [_read(path) for path in paths]
        time.sleep(1.1)
        later = [_read(path) for path in paths]
        with pytest.raises(ReadError):
            _read(stale[0])

    assert len(paths) == 20
    assert sum(before != after for before, after in zip(first, later, strict=True)) == 2


DOCUMENT = b'{"version":"2.0.31","workers":[]}' * 100

both = pytest.mark.parametrize("where", ["unix", "tcp"])


def connect(address: str, timeout: float = 1.0) -> socket.socket:
    if address.startswith("/"):
        client = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        client.settimeout(timeout)
        client.connect(address)
        return client
    host, _, port = address.rpartition(":")
    return socket.create_connection((host, int(port)), timeout)


@both
def test_resets_after_the_document(where):
    """The whole document arrives, then a reset (on UNIX if the client has sent something)."""
    with bad_servers.resets(where, DOCUMENT) as address, connect(address) as client:
        client.sendall(b"GET / HTTP/1.0\r\n\r\n")
        received = b""
        while len(received) < len(DOCUMENT):
            received += client.recv(65536)
        assert received == DOCUMENT
        with pytest.raises(ConnectionResetError):
            client.recv(1)


@both
def test_a_server_ends_while_its_client_holds_on(where):
    """A client that neither reads nor disconnects does not keep the server running."""
    began = time.monotonic()
    with bad_servers.endless(where) as address:
        client = connect(address)
    client.close()
    assert time.monotonic() - began < 3


def peak_of(server):
    """The quarter of an hour with most requests."""
    return max(server.records, key=count_requests)


def test_the_story_has_its_figures():
    """83 of 192 threads at its peak."""
    servers = make_review_data(stories.story(days=7)).servers
    busiest = (sum(mean_busy(server.quarters[end]) for server in servers) for end in servers[0].quarters)
    assert max(busiest) == pytest.approx(83.0)
    assert sum(server.records[0].window.configured for server in servers) == 192
    with pytest.raises(ValueError, match="cannot serve"):
        make_review_data(History(services=(Service(name="small", peak=33.0),), days=1))


def test_the_hot_worker_of_the_story_has_43_percent_and_costs_time():
    """Its interpreter is the first limit, and its requests take longer than those of the others."""
    peak = peak_of(make_review_data(stories.story(days=7)).servers[0])
    window = peak.window
    hot, *others = window.workers
    assert hot.requests / count_requests(peak) == pytest.approx(0.43, abs=0.001)
    assert hot.cpu_seconds / window.observed_seconds == pytest.approx(0.86, abs=0.01)
    for worker in others:
        assert hot.running_time / hot.requests > 1.4 * worker.running_time / worker.requests


def test_the_parts_of_a_server_add_up():
    """Wait states, buckets and CPUs, in every quarter of an hour; outages have none."""
    server = make_review_data(stories.interrupted(days=24)).servers[0]
    assert len(server.quarters) == 96 * (24 - 4.5)
    for record in server.records:
        window, busy = record.window, mean_busy(record)
        assert sum(window.waits.seconds.values()) == pytest.approx(busy * window.waits.observed_seconds)
        assert sum(record.response_times.counts) == pytest.approx(count_requests(record))
        cpu = window.cpu
        assert cpu.own_seconds + cpu.idle_seconds + cpu.others_seconds == pytest.approx(
            record.levels.cpus * cpu.measured_seconds
        )
    assert sum(record.window.reloads for record in server.records) == 2
