"""Stand-ins answer as real servers do."""

from __future__ import annotations

import asyncio
import time

import pytest

from tests.support.stand_in_servers import StandInServer, short_folder, stale_sockets, stand_ins
from uwsgi_headroom import source, stats
from uwsgi_headroom.errors import ReadError
from uwsgi_headroom.source import Unix


def test_a_stand_in_at_rest_answers_the_same_bytes() -> None:
    server = StandInServer(2, 1, has_traffic=False)

    assert server.answer(1.0) == server.answer(100.0)


def test_a_stand_in_with_traffic_serves_two_requests_a_second() -> None:
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
def test_each_stand_in_answers_at_its_own_socket_and_a_stale_one_refuses() -> None:
    with short_folder() as folder, stand_ins(folder, 20, 2, 1, traffic=0.1) as paths, stale_sockets(folder, 2) as stale:
        first = [_read(path) for path in paths]
        time.sleep(1.1)
        later = [_read(path) for path in paths]
        with pytest.raises(ReadError):
            _read(stale[0])

    assert len(paths) == 20
    assert sum(before != after for before, after in zip(first, later, strict=True)) == 2
