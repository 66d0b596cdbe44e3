"""PIDs in the commands of a runbook are those on the exporter's side, and never those of another process."""

import json

from uwsgi_headroom import stats
from uwsgi_headroom.kernel.facts import HostFacts
from uwsgi_headroom.kernel.identity import Identity
from uwsgi_headroom.reading import Reading
from uwsgi_headroom.stats.server import Snapshot
from uwsgi_headroom.web.runbook_values import collect_pids


def reading(pid: int, host: HostFacts) -> Reading:
    snapshot = stats.decode(json.dumps({"pid": pid, "workers": [{"pid": 7}, {"pid": 8}]}).encode())
    return Reading(1.0, 1.0, 0.1, 0.1, 10, snapshot, host)


def pids_of(found: Reading) -> dict[str, str]:
    assert isinstance(found.snapshot, Snapshot)
    workers = found.snapshot.workers
    return collect_pids(found, found.snapshot.pid, workers, workers[0])


def test_container() -> None:
    """A proven uWSGI in a container has other PIDs on the exporter's side."""
    found = pids_of(reading(1, HostFacts(master_pid=500, local_pids={7: 507, 8: 508})))
    assert found == {"MASTER_PID": "500", "WORKER_PIDS": "507 508", "WORKER_PID": "507"}


def test_unproven_container() -> None:
    """An unproven uWSGI that is process 1 of its container has no PIDs: on the host, 1 is another process."""
    assert pids_of(reading(1, HostFacts(off="the stats server is on another host"))) == {}


def test_host() -> None:
    """Without namespaces, and on another host, the PIDs are those of the document."""
    expected = {"MASTER_PID": "40", "WORKER_PIDS": "7 8", "WORKER_PID": "7"}
    assert pids_of(reading(40, HostFacts(master_pid=40))) == expected
    assert pids_of(reading(40, HostFacts(off="the stats server is on another host"))) == expected


def identity(started: float) -> Identity:
    return Identity("host", started, None, None)


def test_same_master() -> None:
    """A container that was restarted has another master, although its PID in the document is the same."""
    first = reading(1, HostFacts(master_pid=500, identity=identity(100.0)))
    assert reading(1, HostFacts(master_pid=500, identity=identity(100.2))).has_same_master(first) is True
    assert reading(1, HostFacts(master_pid=600, identity=identity(200.0))).has_same_master(first) is False
    assert reading(1, HostFacts(master_pid=500, identity=identity(200.0))).has_same_master(first) is False
    assert reading(2, HostFacts(master_pid=500, identity=identity(100.0))).has_same_master(first) is False


def test_unknown_whether_the_same_master() -> None:
    """Without a proof, process 1 may be that of another start; any other PID is taken for one process."""
    off = HostFacts(off="not proven")
    assert reading(1, off).has_same_master(reading(1, off)) is None
    assert reading(40, off).has_same_master(reading(40, off)) is True
