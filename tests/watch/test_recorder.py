"""Readings become events: down and up, gaps, configuration, verdicts; and one real uWSGI."""

import asyncio
import os
import signal

from msgspec.structs import replace

from tests.support.real_uwsgi import uwsgi
from tests.support.scripted_watch import ScriptedWatch
from tests.support.simulated_server import EPOCH, Server, emperor
from uwsgi_headroom import stats
from uwsgi_headroom.analysis.findings import Finding, queue
from uwsgi_headroom.errors import ReadError
from uwsgi_headroom.history.events import Journal
from uwsgi_headroom.record import Options, Setup
from uwsgi_headroom.source import Unix
from uwsgi_headroom.watch.recorder import NO_VERDICT, Verdict, Verdicts
from uwsgi_headroom.watch.watch import Watch

REFUSED = ReadError("refused", "connection refused: nothing listens here")
TIMEOUT = ReadError("timeout", "no complete answer within 5 s")


def events(watch):
    """All events except the start, oldest first."""
    first, *rest = reversed(watch.watch.recorder.journal.latest(100))
    assert first.kind == "exporter_started"
    return rest


def kinds(watch):
    return [event.kind for event in events(watch)]


class TestDown:
    """When a server that cannot be read counts as down, and when it is up again."""

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
        """If the exporter was stopped, for example, there are no samples, but the server was not down."""
        server = Server()
        watch = ScriptedWatch().seconds(server, 5)
        watch.read(server.read(17.0))
        (gap,) = events(watch)
        assert (gap.kind, gap.title) == ("sampling_gap", "There were no samples for 12 s.")

    def test_an_emperor(self):
        watch = ScriptedWatch().read(emperor(1.0)).read(REFUSED, 2.0).read(emperor(3.0))
        assert kinds(watch) == ["server_down", "server_up"]


class TestConfiguration:
    """Changes in a server's configuration."""

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
        """Changes in the stats document itself are reported."""
        sockets = (stats.server.AppSocket("127.0.0.1:80", None, None),)
        assert (
            self.title(self.reading(1.0), self.reading(2.0, version="2.0.32", sockets=sockets))
            == "Configuration changed: version 2.0.31 → 2.0.32, sockets app.sock → 127.0.0.1:80."
        )

    def test_workers_and_threads(self):
        """A master's number of workers changes with a restart."""
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
    """The codes of a finding and of the harms that it explains."""
    return {finding.code, *(harm.code for harm in finding.harms)}


class TestVerdicts:
    """Changes of the verdict, and the start of findings."""

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
            verdicts.judge(
                float(time), "critical" if found else "ok", "So it is.", [finding] if found else [], time - 5
            )
            seen.append(verdicts.current)
        slow = Verdict("critical", "queue_wait", 6.0, "queue_wait")
        assert seen == [NO_VERDICT, slow, slow, Verdict("ok", None, 13.0), Verdict("ok", None, 13.0)]
        verdicts.interrupt()
        verdicts.judge(19.0, "ok", "So it is.", [], None)
        assert verdicts.current == Verdict("ok", None, 19.0)

    def test_since(self):
        """A finding reports its start until it ends."""
        watch, server = self.overloaded(60)
        finding = next(each for each in watch.document().findings if "queue_wait" in codes(each))
        assert finding.since is not None
        assert 30 < finding.since - EPOCH < 90
        later = watch.seconds(server, 30, lambda _: server.serve(1, 10, each=0.1)).document().findings
        assert next(each for each in later if "queue_wait" in codes(each)).since == finding.since
        watch.read(REFUSED, watch.now + 1.0)
        assert all(each.since is None for each in watch.document().findings)

    def test_a_finding_names_its_event(self):
        """A finding has the latest event of those that it counts."""
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


async def _kill_a_worker(running):
    """Watch a server until its journal has the end of a worker that is killed here."""
    watch = Watch("shop", Unix(running.stats))
    sampling = asyncio.create_task(watch.sample())
    try:
        async with asyncio.timeout(60):
            while not (watch.reading and watch.reading.host.processes):  # noqa: ASYNC110 - the watch has no event
                await asyncio.sleep(0.05)
            os.kill(next(iter(watch.reading.host.processes)), signal.SIGKILL)
            while not watch.recorder.journal.latest_of("worker_ended"):  # noqa: ASYNC110
                await asyncio.sleep(0.05)
    finally:
        sampling.cancel()
        await watch.reader.close()
    return watch


def test_a_real_worker_is_killed():
    """The journal has its end, without an explanation, and no event of the other worker."""
    with uwsgi("--processes", "2", "--threads", "2") as running:
        journal = asyncio.run(_kill_a_worker(running)).recorder.journal
    ended = journal.latest_of("worker_ended")
    assert (len(ended.workers), ended.cause, ended.count) == (1, "unknown", 1)
    assert ended.evidence.startswith("It ")
    assert journal.counts["worker_ended"] == 1
    assert journal.counts["reload"] == journal.counts["server_down"] == 0
