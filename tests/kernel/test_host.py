"""How often the kernel is asked: queues at every reading, processes once a second or when it matters."""

from __future__ import annotations

import pytest

from tests.real import uwsgi
from uwsgi_headroom import stats
from uwsgi_headroom.kernel import host
from uwsgi_headroom.source import Answer
from uwsgi_headroom.window import ROW_SECONDS


def test_processes_are_in_step_with_the_history() -> None:
    """A row's processes are of the row's own instant."""
    assert host.LOOK_SECONDS == ROW_SECONDS


@pytest.mark.integration
def test_processes_are_of_the_last_second_and_fresh_on_demand() -> None:
    """Between two looks the same facts serve; a demand for fresh ones does not shift the next look."""
    with uwsgi("--processes", "2") as server:
        body = server.document()
        snapshot, answer = stats.decode(body), Answer(body, peer_pid=server.pid)
        it = host.Host()
        asked = ((10.0, False), (10.2, False), (10.4, True), (10.6, False), (10.9, False), (11.0, False))
        looked = [it.facts(snapshot, answer, at, fresh=fresh).at for at, fresh in asked]
        assert looked == [10.0, 10.0, 10.4, 10.4, 10.4, 11.0]
        assert len(it.facts(snapshot, answer, 11.1, fresh=False).processes) == 2


@pytest.mark.integration
def test_a_new_process_is_looked_at_at_once() -> None:
    """A worker that was not there at the last look is no ghost until the next."""
    with uwsgi("--processes", "2") as server:
        body = server.document()
        snapshot, answer = stats.decode(body), Answer(body, peer_pid=server.pid)
        assert isinstance(snapshot, stats.Snapshot)
        one = stats.decode(body.replace(b'"pid":%d' % (snapshot.workers[1].pid or 0), b'"pid":0'))
        it = host.Host()
        assert len(it.facts(one, answer, 10.0, fresh=False).processes) == 1
        facts = it.facts(snapshot, answer, 10.1, fresh=False)
        assert (len(facts.processes), facts.at) == (2, 10.1)
