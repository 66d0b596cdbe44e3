"""Servers that tests and benchmarks use in the place of uWSGI."""

import asyncio
import socket
import time

import numpy as np
import pytest

from tests.support import bad_servers
from tests.support.stand_in_servers import StandInServer, short_folder, stale_sockets, stand_ins
from tests.support.synthetic import stories
from tests.support.synthetic.plan import DAY, History, Service
from tests.support.synthetic.server import find_load, make_review_data, make_server
from uwsgi_headroom import source, stats
from uwsgi_headroom.errors import ReadError
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


def test_the_story_has_its_figures():
    """83 of 192 threads at its peak."""
    servers = make_review_data(stories.story(days=7)).servers
    assert np.nanmax(sum(server.busy for server in servers)) == pytest.approx(83.0)
    assert sum(server.configured[0] for server in servers) == 192
    history = stories.growing(days=56)
    load = find_load(history, history.services[0])
    end = history.until - 3 * DAY + 14 * 3600  # a Friday
    four_weeks = load.expected(np.array([end - 28 * DAY, end]))
    assert (four_weeks[1] - four_weeks[0]) / load.scale == pytest.approx(0.10, abs=1e-3)
    history = stories.story(days=2)
    minutes, quarters = (make_server(history, history.services[0], 0, step) for step in (60.0, 900.0))
    np.testing.assert_allclose(minutes.busy.reshape(-1, 15).mean(axis=1), quarters.busy, rtol=2e-3)
    with pytest.raises(ValueError, match="cannot serve"):
        make_review_data(History(services=(Service(name="small", peak=33.0),), days=1))


def test_the_hot_worker_of_the_story_has_43_percent_and_costs_time():
    """Its interpreter is the first limit, and its requests take longer than those of the others."""
    server = make_review_data(stories.story(days=7)).servers[0]
    peak = int(np.nanargmax(server.busy))
    hot, *others = server.by_worker
    assert hot.requests[peak] / server.requests[peak] == pytest.approx(0.43)
    assert hot.cpu[peak] == pytest.approx(0.86, abs=0.01)
    for worker in others:
        assert hot.running[peak] / hot.requests[peak] > 1.4 * worker.running[peak] / worker.requests[peak]


def test_the_parts_of_a_server_add_up():
    """Workers, wait states, buckets, occupancy and CPUs, in every quarter of an hour."""
    server = make_review_data(stories.interrupted(days=24)).servers[0]
    known = server.covered > 0
    assert known.sum() == 96 * (24 - 4.5)
    assert np.isnan(server.busy[~known]).all()
    for parts, whole in (
        ([worker.busy for worker in server.by_worker], server.busy),
        (server.waits.values(), server.busy),
        (server.by_time, server.requests),
        (server.occupancy, np.ones_like(server.busy)),
        ((server.cpu_own, server.cpu_idle, server.cpu_others), server.cpus),
    ):
        np.testing.assert_allclose(sum(part[known] for part in parts), whole[known])
    assert np.nansum(server.reloads) == 2
