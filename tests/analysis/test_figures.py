"""The record of a server, and all figures of it and a window."""

import pytest
from msgspec.structs import replace

from tests.analysis.judging import AT, describe, figures_of
from tests.support.simulated_server import EPOCH, Server
from tests.support.windows import window, worker
from uwsgi_headroom.history.counts import sum_if_all_known
from uwsgi_headroom.kernel.cpus import Throttling
from uwsgi_headroom.record import CacheRecord, Quota, SpoolerRecord
from uwsgi_headroom.stats.raw import Cache, Spooler
from uwsgi_headroom.surroundings import RoleUse


def test_parts_of_a_record():
    """A directory of tasks is there once, with all of its processes; tasks in one that nobody may list are unknown."""
    server = Server(processes=2, threads=1, accept_lock=102)
    server[2].stopped = True
    spoolers = (Spooler("/a", tasks=9), Spooler("/a", tasks=9), Spooler("/b", tasks=0))
    snapshot = replace(server.read(AT).snapshot, caches=(Cache("pages", 7, 8, 40, 49, 50),), spoolers=spoolers)
    mule, quota = RoleUse("mule", 2, 100.0, 1.1, 50_000_000), Quota("/app", 0.5, 8)
    facts = {"spooled": {"/a": 85}, "roles": (mule,), "throttling": Throttling(quota)}
    record = describe(server, snapshot=snapshot, **facts)
    assert (record.accept_lock_holder, [each.is_stopped for each in record.workers]) == (102, [False, True])
    assert record.caches == (CacheRecord("pages", 49, 50, 40),)
    assert record.spoolers == (SpoolerRecord("/a", 2, 85), SpoolerRecord("/b", 1, None))
    assert (record.roles, record.quota) == ((mule,), quota)


def test_requests_per_life():
    """It is the mean of the processes that ended; unknown until one has."""
    server = Server(processes=4)
    for slot in server.slots:
        slot.requests, slot.before_spawn, slot.respawns, slot.last_spawn = 100, 90, 2, EPOCH + 1
    lives = [[worker.requests_per_life for worker in describe(each).workers] for each in (server, Server(processes=1))]
    assert lives == [[90.0] * 4, [None]]


@pytest.mark.parametrize(("cores", "threads"), [(True, (32, 16)), (False, (None, None))])
def test_capacity_is_of_the_reading(cores, threads):
    """Configured threads are those of all slots, available ones those of accepting workers. Without cores, threads are
    None and have no headroom."""
    server = Server(processes=4, threads=8, spawned=3, cores=cores)
    server.cheap(1)
    result = figures_of(window(60, worker(1, 10, each=1.0)), server)
    assert (result.configured, result.available) == threads
    assert cores or result.headroom.far == ()
    assert result.headroom.by_limit == {}


def test_usable_cpus_come_from_the_kernel():
    """With kernel facts there is a CPU limit, without them there is none."""
    server = Server(cpus=1.5)
    busy = window(60, worker(1, 10, cpu=30.0))
    assert figures_of(busy, server).headroom.by_limit["cpu"] == 3.0
    server.host = False
    assert "cpu" not in figures_of(busy, server).headroom.by_limit


@pytest.mark.parametrize(("values", "sum_"), [([], None), ([1, 2], 3), ([0, 0], 0), ([1, None], None), ([None], None)])
def test_sum_if_all_known(values, sum_):
    """A sum with an unknown part is unknown, and so is one of no parts."""
    assert sum_if_all_known(values) == sum_
