"""Readings become events: down and up, gaps, configuration, verdicts; and one real uWSGI."""

import asyncio
import os
import signal
import subprocess

import pytest
from msgspec.structs import replace

from tests.support.real_uwsgi import uwsgi
from tests.support.scripted_watch import ScriptedWatch
from tests.support.simulated_server import EPOCH, Server, emperor
from tests.watch.sampling import until
from uwsgi_headroom import stats
from uwsgi_headroom.analysis.findings import Finding, queue
from uwsgi_headroom.errors import ReadError, SourceError
from uwsgi_headroom.history.events import Journal
from uwsgi_headroom.kernel.memory import OomKills
from uwsgi_headroom.kernel.setup import read_identity
from uwsgi_headroom.record import Options, Setup
from uwsgi_headroom.source import Unix
from uwsgi_headroom.watch.recorder import NO_VERDICT, Verdict, Verdicts
from uwsgi_headroom.watch.watch import Watch
from uwsgi_headroom.watch.worker_events import EndedProcess, find_cause

REFUSED = ReadError("refused", "connection refused: nothing listens here")
TIMEOUT = ReadError("timeout", "no complete answer within 5 s")


def events(watch):
    first, *rest = reversed(watch.watch.recorder.journal.latest(100))
    assert first.kind == "exporter_started"
    return rest


def kinds(watch):
    return [event.kind for event in events(watch)]


class TestDown:
    def test_refused(self):
        """A server that refuses connections is down immediately, with one event, and up with the first answer."""
        server = Server()
        watch = ScriptedWatch().seconds(server, 5)
        for at in (5.5, 6.5, 7.5):
            watch.read(REFUSED, at)
        watch.seconds(server, 2)
        down, up = events(watch)
        assert (down.kind, down.time - EPOCH) == ("server_down", 5.5)
        assert down.evidence == "Connection refused: nothing listens here."
        assert (up.kind, up.title) == ("server_up", "The server is up again after 3.0 s.")
        assert up.evidence == "Its master is the same process."

    def test_silence_is_normal_for_a_few_seconds(self):
        """uWSGI's master is silent for up to 3 s; after 5 s the server is down."""
        server = Server()
        watch = ScriptedWatch().seconds(server, 5).read(TIMEOUT, 8.0)
        assert kinds(watch.seconds(server, 5)) == []
        watch.read(TIMEOUT, watch.now + 5.1)
        assert kinds(watch) == ["server_down"]

    def test_never_read(self):
        watch = ScriptedWatch().read(REFUSED, 1.0)
        assert kinds(watch) == ["server_down"]
        assert kinds(watch.seconds(Server(), 1)) == ["server_down", "server_up"]

    def test_a_gap_is_not_an_outage(self):
        server = Server()
        watch = ScriptedWatch().seconds(server, 5)
        watch.read(server.read(17.0))
        (gap,) = events(watch)
        assert (gap.kind, gap.title) == ("sampling_gap", "There were no samples for 12 s.")

    def test_an_emperor(self):
        watch = ScriptedWatch().read(emperor(1.0)).read(REFUSED, 2.0).read(emperor(3.0))
        assert kinds(watch) == ["server_down", "server_up"]


class TestConfiguration:
    def reading(self, at, options=None, **snapshot):
        reading = Server(born=at - 1.0).read(at)
        changed = replace(reading.snapshot, **snapshot)
        setup = None if options is None else Setup(options, None, None, None, None)
        return replace(reading, snapshot=changed, host=replace(reading.host, setup=setup))

    def title(self, *readings):
        watch = ScriptedWatch()
        for reading in readings:
            watch.read(reading)
        changed = [event for event in events(watch) if event.kind == "configuration_changed"]
        assert len(changed) <= 1
        return changed[0].title if changed else ""

    def test_version_and_sockets(self):
        sockets = (stats.server.AppSocket("127.0.0.1:80", None, None),)
        assert (
            self.title(self.reading(1.0), self.reading(2.0, version="2.0.32", sockets=sockets))
            == "Configuration changed: version 2.0.31 → 2.0.32, sockets app.sock → 127.0.0.1:80."
        )

    def test_workers_and_threads(self):
        watch = ScriptedWatch().read(Server(threads=8).read(1.0)).read(Server(processes=2, threads=16).read(2.0))
        watch.read(Server(processes=2, threads=8).read(3.0))
        titles = [event.title for event in events(watch) if event.kind == "configuration_changed"]
        assert titles == ["Configuration changed: workers 4 → 2.", "Configuration changed: threads 32 → 16."]

    def test_options(self):
        """Options are reported by name; a missing one counts as unset only if all options are known."""
        before = self.reading(1.0, Options(harakiri=30, thunder_lock=True, async_cores=5))
        assert (
            self.title(before, self.reading(2.0), self.reading(3.0, Options(harakiri=60, thunder_lock=False)))
            == "Configuration changed: `harakiri` 30 → 60, `thunder-lock` on → off."
        )
        assert self.title(before, self.reading(2.0, Options(complete=True))) == (
            "Configuration changed: `harakiri` 30 → unset, `thunder-lock` on → unset, `async` 5 → unset."
        )
        assert self.title(before, before) == ""

    def test_many_are_counted(self):
        set_now = "harakiri", "listen", "max_requests", "gevent", "cheaper", "reload_on_rss", "asyncio", "http_timeout"
        many = Options(**dict.fromkeys(set_now, 2), complete=True)
        title = self.title(self.reading(1.0, Options(complete=True)), self.reading(2.0, many))
        assert title.endswith(", and 2 others.")
        assert title.count("→") == 6

    def test_one_that_is_starting(self):
        """Without workers in its document, uWSGI is still starting, and their number is unknown."""
        assert self.title(self.reading(1.0), self.reading(2.0, workers=()), self.reading(3.0)) == ""


def codes(finding):
    return {finding.code, *(harm.code for harm in finding.harms)}


class TestVerdicts:
    def overloaded(self, seconds):
        server = Server(processes=1, threads=1)
        watch = ScriptedWatch().seconds(server, 30, lambda _: server.serve(1, 1, each=0.1))
        server.queue = 50

        def second(_number):
            server.busy(1)
            server.serve(1, 10, each=0.1)

        return watch.seconds(server, seconds, second), server

    def test_a_verdict_changes_once(self):
        """A change is dated when it was first seen; a verdict of a single moment is not a change."""
        watch, server = self.overloaded(60)
        changed = [event for event in events(watch) if event.kind == "verdict_changed"]
        assert changed[-1].title.startswith("Verdict: critical. ")
        assert changed[-1].evidence.startswith("Before: ")
        assert 30 < changed[0].time - EPOCH < 60
        assert len(changed) <= 3  # at most: at first, the worst finding of each moment
        before = len(events(watch))
        server.queue = 0

        def calm(_number):
            server.busy(0)
            server.serve(1, 1, each=0.1)

        watch.seconds(server, 150, calm)
        assert events(watch)[-1].title.startswith("Verdict: ok. ")
        assert len(events(watch)) > before

    def test_the_present_verdict(self):
        """It is unknown until two judgements agree, and while the server cannot be read; a new status has its time."""
        watch, _ = self.overloaded(60)
        verdict = watch.watch.recorder.verdicts.current
        assert (verdict.status, verdict.code) == ("critical", watch.document().findings[0].code)
        assert verdict.since is not None
        assert 30 < verdict.since - EPOCH < 60
        watch.read(REFUSED, watch.now + 1.0)
        assert watch.watch.recorder.verdicts.current == NO_VERDICT
        verdicts = Verdicts(Journal())
        finding = Finding("queue_wait", "critical", "It waits.", "Much.", queue.LONG_WAIT)
        seen = []
        for time, found in enumerate([False, True, True, False, False], start=10):
            status = "critical" if found else "ok"
            verdicts.judge(float(time), status, "So it is.", [finding] if found else [], time - 5)
            seen.append(verdicts.current)
        slow = Verdict("critical", "queue_wait", 6.0, "queue_wait")
        assert seen == [NO_VERDICT, slow, slow, Verdict("ok", None, 13.0), Verdict("ok", None, 13.0)]
        verdicts.interrupt()
        verdicts.judge(19.0, "ok", "So it is.", [], None)
        assert verdicts.current == Verdict("ok", None, 19.0)

    def test_a_finding_reports_its_start_until_it_ends(self):
        watch, server = self.overloaded(60)
        finding = next(each for each in watch.document().findings if "queue_wait" in codes(each))
        assert finding.since is not None
        assert 30 < finding.since - EPOCH < 90
        later = watch.seconds(server, 30, lambda _: server.serve(1, 10, each=0.1)).document().findings
        assert next(each for each in later if "queue_wait" in codes(each)).since == finding.since
        watch.read(REFUSED, watch.now + 1.0)
        assert all(each.since is None for each in watch.document().findings)

    def test_a_finding_names_its_event(self):
        server = Server()
        watch = ScriptedWatch().seconds(server, 15)
        server.busy(2, 0, 0, 0)
        watch.seconds(server, 1)
        server.respawn(1, watch.now)
        watch.seconds(server, 2)
        lost = next(each for each in watch.document().findings if each.code == "requests_lost")
        assert lost.event.title == "Worker 1 ended with at least 2 requests in service."


def test_a_fault_in_the_journal_does_not_stop_sampling(monkeypatch):
    watch = ScriptedWatch()

    def fail(*_):
        raise ZeroDivisionError

    monkeypatch.setattr(watch.watch.recorder, "read", fail)
    watch.seconds(Server(), 3)
    assert watch.watch.integrals.totals.observed_seconds == 3.0
    assert watch.watch.state == "up"


async def test_a_real_worker_is_killed():
    with uwsgi("--processes", "2", "--threads", "2") as running:
        watch = Watch("shop", Unix(running.stats))
        sampling = asyncio.create_task(watch.sample())
        try:
            await until(lambda: watch.reading and watch.reading.host.processes)
            os.kill(next(iter(watch.reading.host.processes)), signal.SIGKILL)
            await until(lambda: watch.recorder.journal.latest_of("worker_ended"))
        finally:
            sampling.cancel()
            await watch.reader.close()
    journal = watch.recorder.journal
    ended = journal.latest_of("worker_ended")
    assert (len(ended.workers), ended.cause, ended.count) == (1, "unknown", 1)
    assert ended.evidence.startswith("It ")
    assert journal.counts["worker_ended"] == 1
    assert journal.counts["reload"] == journal.counts["server_down"] == 0


class Watched:
    def __init__(self, options=None, **server):
        self.server = Server(**server)
        self.options = options
        self.watch = ScriptedWatch()
        self.pass_by(2.0)

    def pass_by(self, seconds=0.5):
        for _ in range(round(seconds * 2)):
            self.watch.read(self.reading(self.watch.now + 0.5))

    def respawn(self, worker_id, seconds=0.5):
        self.server.respawn(worker_id, self.watch.now)
        self.pass_by(seconds)

    def reading(self, at):
        reading = self.server.read(at)
        if self.options is None:
            return reading
        setup = Setup(self.options, None, "threads", None, None)
        return replace(reading, host=replace(reading.host, setup=setup))

    def events(self, *kinds):
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
    # Respawns between two samples are counted.
    watched = Watched()
    for _ in range(3):
        watched.respawn(1)
    (end,) = watched.events("worker_ended")
    assert end.count == 3
    assert watched.watch.watch.recorder.journal.counts["worker_ended"] == 3


def test_harakiri_is_found_although_uwsgi_counts_it_later():
    watched = Watched(Options(harakiri=30))
    watched.server.kill(1)
    watched.pass_by(1.0)
    watched.server[1].harakiris += 1
    watched.respawn(1)
    (end,) = watched.events("worker_ended")
    assert (end.cause, end.title) == ("harakiri", "Worker 1 was ended by `harakiri`.")
    assert end.evidence == "A request took longer than `harakiri` (30 s)."


def test_a_worker_that_cheaper_mode_ends_is_no_worker_end():
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
        for _ in range(6):
            for worker in (1, 2, 3, 4):
                watched.respawn(worker, 2.0)
            assert len(watched.events("reload")) == 1

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
    assert f"served {served:,} request" in find_cause(ended, replace(now, requests=served), None, None)[1]
    found, evidence = find_cause(ended, now, options, kills)
    assert found == cause
    assert evidence.endswith(".")
    if cause in ("unknown", "max_requests"):
        assert f"served {served:,} request" in evidence  # requests of the successor are not the process's own
