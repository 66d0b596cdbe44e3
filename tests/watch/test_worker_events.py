"""Events of workers: the causes of their ends, returns, and reloads that replace all of them."""

import subprocess

import pytest
from msgspec.structs import replace

from tests.support.scripted_watch import ScriptedWatch
from tests.support.simulated_server import EPOCH, Server
from uwsgi_headroom.errors import SourceError
from uwsgi_headroom.kernel.memory import OomKills
from uwsgi_headroom.kernel.setup import read_identity
from uwsgi_headroom.record import Options, Setup
from uwsgi_headroom.watch.worker_events import EndedProcess, find_cause


class Watched:
    """A server that is watched, and the worker events in its journal."""

    def __init__(self, options=None, **server):
        self.server = Server(**server)
        self.options = options
        self.watch = ScriptedWatch()
        self.pass_by(2.0)

    def pass_by(self, seconds=0.5):
        """Let this much time pass, with two samples per second."""
        for _ in range(round(seconds * 2)):
            self.watch.read(self.reading(self.watch.now + 0.5))

    def respawn(self, worker_id, seconds=0.5):
        self.server.respawn(worker_id, self.watch.now)
        self.pass_by(seconds)

    def reading(self, at):
        reading = self.server.read(at)
        if self.options is None:
            return reading
        kind = "threads"
        setup = Setup(self.options, None, kind, None, None)
        return replace(reading, host=replace(reading.host, setup=setup))

    def events(self, *kinds):
        """The events of these kinds, oldest first."""
        latest = self.watch.watch.recorder.journal.latest(100)
        return [event for event in reversed(latest) if event.kind in kinds]


def test_nothing_happens():
    watched = Watched()
    for _ in range(10):
        watched.server.serve(1, 5)
        watched.pass_by(1.0)
    assert [event.kind for event in watched.watch.watch.recorder.journal.latest(9)] == ["exporter_started"]


def test_a_killed_worker():
    """Its end is dated when it was noticed, and reports the lost requests; its return is an event, too."""
    watched = Watched()
    watched.server.busy(0, 3, 0, 0)
    watched.pass_by()
    watched.server.kill(2)
    watched.pass_by(1.5)
    assert watched.events("worker_ended") == []  # until uWSGI has counted the end
    ended_at = watched.watch.now - 1.0
    watched.respawn(2, 1.0)
    (end,) = watched.events("worker_ended")
    assert (end.title, end.workers) == ("Worker 2 ended with at least 3 requests in service.", (2,))
    assert (end.time, end.cause, end.count) == (EPOCH + ended_at, "unknown", 1)
    (start,) = watched.events("worker_started")
    assert start.title == "Worker 2 is back after 1.5 s."


def test_an_end_that_uwsgi_never_notices():
    """The end is recorded once, after three seconds."""
    watched = Watched()
    watched.server.kill(2)
    watched.pass_by(20.0)
    assert len(watched.events("worker_ended")) == 1
    watched.respawn(2, 2.0)
    (end,) = watched.events("worker_ended")
    assert end.count == 1
    assert len(watched.events("worker_started")) == 1


def test_harakiri_is_found_although_uwsgi_counts_it_later():
    """A harakiri is recognised even if the process ends before `harakiri_count` grows."""
    watched = Watched(Options(harakiri=30))
    watched.server.kill(1)
    watched.pass_by(1.0)
    watched.server[1].harakiris += 1
    watched.respawn(1)
    (end,) = watched.events("worker_ended")
    assert (end.cause, end.title) == ("harakiri", "Worker 1 was ended by `harakiri`.")
    assert end.evidence == "A request took longer than `harakiri` (30 s)."


def test_respawns_between_two_samples_are_counted():
    """A worker may crash faster than it is sampled."""
    watched = Watched()
    for _ in range(3):
        watched.respawn(1)
    (end,) = watched.events("worker_ended")
    assert end.count == 3
    assert watched.watch.watch.recorder.journal.counts["worker_ended"] == 3


def test_cheaper():
    """A worker that cheaper mode spawns or ends is not a worker's end."""
    watched = Watched(processes=4, spawned=2)
    watched.respawn(3)
    watched.server.cheap(2)
    watched.server.cheap(3)
    watched.pass_by(5.0)
    (up,) = watched.events("cheaper_up")
    (down,) = watched.events("cheaper_down")
    assert (up.title, up.evidence) == ("Cheaper mode spawned worker 3.", "3 of 4 workers are up.")
    assert (down.title, down.workers) == ("Cheaper mode ended workers 2 and 3.", (2, 3))
    assert watched.events("worker_ended", "worker_started", "reload") == []


class TestReload:
    """Reloads: of the master, which resets its counters, and of the workers only."""

    def test_full(self):
        watched = Watched()
        watched.server.serve(1, 500)
        watched.pass_by()
        watched.server.reload(watched.watch.now)
        watched.pass_by(3.0)
        (reload,) = watched.events("reload")
        assert reload.title == "uWSGI was reloaded."
        assert watched.events("worker_ended", "worker_started") == []

    @pytest.mark.parametrize(("pause", "manner"), [(0.0, "at once"), (8.0, "one after another")])
    def test_of_the_workers(self, pause, manner):
        """If all workers ended once and lost no requests, the workers were reloaded."""
        watched = Watched()
        for worker in (3, 1, 4, 2):
            watched.respawn(worker, pause)
        watched.pass_by(3.0)
        (reload,) = watched.events("reload")
        assert reload.title == f"All 4 workers were replaced, {manner}."

    @pytest.mark.parametrize("workers", [(1, 2, 3), (1, 2, 3, 1, 2, 3)])
    def test_not_all_of_the_workers(self, workers):
        watched = Watched()
        for worker in workers:
            watched.respawn(worker, 2.0)
        assert watched.events("reload") == []

    def test_a_crash_loop_is_not_a_reload(self):
        watched = Watched()
        for turn in range(6):
            for worker in (1, 2, 3, 4):
                watched.respawn(worker, 2.0)
            assert len(watched.events("reload")) == 1, turn

    def test_with_requests_in_service(self):
        """Workers that end with requests in service were killed, not reloaded."""
        watched = Watched()
        for worker in (1, 2, 3, 4):
            watched.server.busy(1, 1, 1, 1)
            watched.pass_by()
            watched.respawn(worker)
        assert watched.events("reload") == []


def test_another_uwsgi_at_the_same_address():
    """While the earlier master still runs, it was not restarted: another uWSGI answers in its place."""

    def read(at, master):
        server = Server(born=at - 0.5)
        for worker_id in (1, 2, 3, 4):
            server[worker_id].pid = master + worker_id
        reading = server.read(at)
        facts = replace(reading.host, master_pid=master, identity=read_identity(master))
        snapshot = replace(reading.snapshot, pid=master)
        return replace(reading, snapshot=snapshot, host=facts)

    def happened(watch):
        events = reversed(watch.watch.recorder.journal.latest(9))
        return [f"{event.title} {event.evidence}" for event in events if event.kind in ("reload", "server_up")]

    with subprocess.Popen(["sleep", "60"]) as earlier, subprocess.Popen(["sleep", "60"]) as later:
        try:
            first, second = read(1.0, earlier.pid), read(2.0, later.pid)
            watch = ScriptedWatch().read(first).read(second)
            back = ScriptedWatch().read(first).read(SourceError("refused", "refused"), 1.1).read(second)
            earlier.kill()
            earlier.wait()
            restarted = ScriptedWatch().read(first).read(second)
        finally:
            earlier.kill()
            later.kill()
    assert happened(watch) == [
        f"Another uWSGI answers at this stats address. It is process {later.pid}. The earlier master, process "
        f"{earlier.pid}, still runs, and is no longer watched here. Unless it is about to end, or has another stats "
        "address by now, give each uWSGI a `stats` path of its own, and reload both."
    ]
    assert (
        f"Its master is another process, and the earlier one, process {earlier.pid}, still runs." in happened(back)[0]
    )
    assert happened(restarted) == [
        f"uWSGI was restarted. Its master was process {earlier.pid} and is process {later.pid}."
    ]


NO_KILLS, KILLS = OomKills(1, 5), OomKills(2, 6)


@pytest.mark.parametrize(
    ("options", "kills", "served", "age", "resident", "cause"),
    [
        (Options(max_requests=1000), NO_KILLS, 1003, 60, None, "max_requests"),
        (Options(max_requests=1000), NO_KILLS, 700, 60, None, "max_requests"),
        (Options(max_requests=1000), NO_KILLS, 699, 60, None, "unknown"),
        (Options(max_requests=1000), KILLS, 1003, 60, None, "out_of_memory"),
        (Options(max_requests=1000), None, 1003, 60, None, "max_requests"),
        (Options(max_worker_lifetime=3600), NO_KILLS, 5, 3601, None, "max_worker_lifetime"),
        (Options(max_worker_lifetime=3600), NO_KILLS, 5, 3000, None, "unknown"),
        (Options(reload_on_rss=100), NO_KILLS, 5, 60, 100 << 20, "reload_on_rss"),
        (Options(evil_reload_on_rss=100), NO_KILLS, 5, 60, 95 << 20, "reload_on_rss"),
        (Options(reload_on_rss=100), NO_KILLS, 5, 60, 50 << 20, "unknown"),
        (Options(reload_on_rss=100), NO_KILLS, 5, 60, None, "unknown"),
        (None, KILLS, 5, 60, None, "out_of_memory"),
        (None, OomKills(None, None), 5, 60, None, "unknown"),
        (Options(), NO_KILLS, 5, 60, None, "unknown"),
    ],
)
def test_causes(options, kills, served, age, resident, cause):
    """The likely cause is the one that left a trace; without a trace it is unknown."""
    server = Server(processes=1)
    server.serve(1, served)
    then = server.read(1.0).snapshot.workers[0]
    server.respawn(1, 2.0)
    server.serve(1, 3)
    now = server.read(2.0).snapshot.workers[0]
    ended = EndedProcess(then.last_spawn + age, then, resident, NO_KILLS)
    found, evidence = find_cause(ended, now, options, kills)
    assert found == cause
    assert evidence.endswith(".")
    if cause in ("unknown", "max_requests"):
        assert f"served {served:,} request" in evidence  # requests of the successor are not the process's own


def test_a_process_that_served_nothing_more():
    """No request is added to those at the last sample."""
    server = Server(processes=1)
    server.serve(1, 5)
    then = server.read(1.0).snapshot.workers[0]
    server.respawn(1, 2.0)
    _, evidence = find_cause(EndedProcess(EPOCH, then), server.read(2.0).snapshot.workers[0], None, None)
    assert "served 5 requests" in evidence
