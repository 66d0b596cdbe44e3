"""What is judged of a server is taken from uWSGI's document and from the kernel."""

from msgspec.structs import replace

from tests.analysis.judging import AT, describe
from tests.support.simulated_server import EPOCH, Server
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
