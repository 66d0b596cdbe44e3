"""A reload is judged by what was before it, whatever happens around it, a restart of the exporter included."""

from __future__ import annotations

import asyncio
import sqlite3
from pathlib import Path
from random import Random

import pytest

from tests.support.scripted_watch import ScriptedWatch
from tests.support.simulated_server import EPOCH, Server
from uwsgi_headroom.code_look import CodeLook
from uwsgi_headroom.documents.deploys import Deploy
from uwsgi_headroom.store.writer import HistoryWriter
from uwsgi_headroom.watch.code_watch import CodeSetting
from uwsgi_headroom.watch.kept_history import restore

WRITERS: list[HistoryWriter] = []


@pytest.fixture(autouse=True)
def _no_writer_stays():
    """One that tries again would write into the log of a later test."""
    yield
    while WRITERS:
        WRITERS.pop().close(10)


class Deployed:
    """12 requests of 0.1 s a second, and an exporter that comes and goes. before: seconds until now; path: history."""

    def __init__(self, before: int = 660, rate: int = 3, path: Path | None = None) -> None:
        self.server, self.random, self.now = Server(4, 8), Random(1), 0.0
        self.rate, self.path = rate, path
        self.start().run(before)

    def start(self) -> Deployed:
        writer = HistoryWriter(self.path, 10**9, lambda: EPOCH + self.now) if self.path else None
        WRITERS.extend([writer] if writer else [])
        self.scripted = ScriptedWatch(writer=writer)
        self.scripted.now = self.now
        self.scripted.read(self.server.read(self.now))
        if writer:
            asyncio.run(restore(self.scripted.watch, self.scripted.clock))
        return self

    def stop(self) -> Deployed:
        self.scripted.watch.finish_minute()
        self.scripted.watch.writer.close(10)
        self.scripted = None
        return self

    def run(self, seconds: int, each: float = 0.1) -> Deployed:
        """Lets so many seconds pass, with requests that take `each` seconds on average and half of that on CPU."""

        def second(_number: int) -> None:
            for worker_id in range(1, len(self.server.slots) + 1):
                for _ in range(self.rate):
                    self.server.serve(worker_id, 1, self.random.expovariate(1 / each), 0.05)

        if self.scripted:
            self.scripted.seconds(self.server, seconds, second)
        else:
            for number in range(seconds):
                second(number)
        self.now += seconds
        return self

    def reload(self, processes: int | None = None) -> Deployed:
        self.server.reload(self.now + 0.25, processes)
        return self

    @property
    def deploy(self) -> Deploy | None:
        return self.scripted.document().deploy

    def titles(self, kind: str) -> list[str]:
        return [event.title for event in self.scripted.watch.recorder.journal.since(0) if event.kind == kind]


def test_a_slower_version_is_found_within_minutes():
    deployed = Deployed().reload().run(200, each=0.15)
    deploy = deployed.deploy
    assert deploy.status == "worse"
    assert "4 min ago) a request takes" not in deploy.sentence
    assert deploy.sentence.startswith("Since the reload at ")
    (time,) = [change for change in deploy.changes if change.subject == "time"]
    assert time.low < 0.5 < time.high
    assert time.state == "worse"
    (judged,) = deployed.titles("deploy_judged")
    assert " ago)" not in judged
    worse = deployed.scripted.watch.observe([60.0]).deploy_worse
    assert worse == {"time": True, "cpu": False, "errors": False, "memory": False}


def test_the_start_stands_apart_and_the_same_version_is_no_change():
    deploy = Deployed().reload().run(55, each=0.5).run(420).deploy
    assert deploy.status == "same"
    assert 0 < deploy.bound <= 0.2
    assert "no change above" in deploy.sentence


def test_too_early_names_the_requests_that_are_needed():
    deploy = Deployed().reload().run(130).deploy
    assert deploy.status == "early"
    assert 400 < deploy.needed < 2500
    assert f"{deploy.after.requests} of about" in deploy.sentence


def test_another_number_of_workers_is_compared_as_well():
    deploy = Deployed().reload(processes=6).run(200, each=0.15).deploy
    assert deploy.status == "worse"
    assert deploy.before.requests > 6000


def test_one_worker_that_is_replaced_is_no_deploy():
    deployed = Deployed(before=30)
    deployed.server.respawn(1, deployed.now)
    assert deployed.run(30).deploy is None


def test_workers_replaced_one_after_another_are_one_deploy():
    deployed = Deployed()
    for worker_id in (1, 2, 3, 4):
        deployed.server.respawn(worker_id, deployed.now)
        deployed.run(10, each=0.4)
    deployed.run(200, each=0.15)
    deploy = deployed.deploy
    assert (deploy.status, deploy.reloads) == ("worse", 1)
    (time,) = [change for change in deploy.changes if change.subject == "time"]
    assert time.before == pytest.approx(0.1, rel=0.05)


def test_several_reloads_in_a_row_are_judged_by_what_was_before_the_first():
    """A fix three minutes after a slow version is no improvement: it is as before the first reload."""
    deploy = Deployed().reload().run(200, each=0.2).reload().run(420).deploy
    assert (deploy.status, deploy.reloads) == ("same", 2)
    assert "the last of 2 reloads" in deploy.sentence


def test_a_storm_of_reloads():
    """Ten reloads in a minute are judged by what was before the first. If they go on for long, that is too old."""
    deployed = Deployed()
    for _ in range(10):
        deployed.reload().run(6, each=0.3)
    deploy = deployed.run(200, each=0.15).deploy
    assert (deploy.status, deploy.reloads) == ("worse", 10)
    for _ in range(8):
        deployed.reload().run(300, each=0.3)
    deploy = deployed.run(200, each=0.15).deploy
    assert deploy.status == "unknown"
    assert deploy.reloads < 8


def test_the_code_of_both_sides():
    """It explains a deploy; before one, the code of the last minutes is not kept for it."""
    deployed = Deployed()
    watch = deployed.scripted.watch
    watch.set_code(CodeSetting())
    watch.code.history.add(deployed.now, CodeLook(), 3.0)
    deployed.run(60)
    assert watch.deploys._usual.code is None
    deployed.reload().run(130)
    latest = watch.deploys.latest
    assert (latest.explains_before.code.looks, latest.explains_after.code.looks) == (1, 0)


@pytest.mark.parametrize(
    ("before", "rate", "reason"),
    [(60, 3, "of the 10 min before this time are known"), (620, 0, "there were only 0 requests before this time")],
)
def test_without_a_before_nothing_is_said(before, rate, reason):
    deployed = Deployed(before, rate).reload()
    deployed.rate = 3
    deploy = deployed.run(200, each=0.3).deploy
    assert deploy.status == "unknown"
    assert reason in deploy.sentence
    assert not deployed.titles("deploy_judged")


def test_a_doubled_load_is_not_compared():
    deployed = Deployed().reload()
    deployed.rate = 7
    deploy = deployed.run(200, each=0.15).deploy
    assert deploy.status == "unknown"
    assert "the load is 2.3 times the load before" in deploy.sentence


def test_after_an_hour_the_last_verdict_stays_and_its_batches_are_gone():
    deployed = Deployed().reload().run(200, each=0.15)
    watch = deployed.scripted.watch
    latest = watch.deploys.latest
    deployed.scripted.now = latest.at + 3700
    deployed.scripted.read(deployed.server.read(deployed.scripted.now))
    assert (latest.is_over, len(latest.before), deployed.deploy.status) == (True, 0, "worse")
    assert watch.deploys.find_worse(latest.at + 86_000)
    assert watch.deploys.find_worse(latest.at + 87_000) is None


@pytest.mark.parametrize(("each", "status"), [(0.15, "worse"), (0.1, "same")])
def test_a_reload_that_nobody_saw(tmp_path, each, status):
    """It is judged by the minutes of the file, and the journal has the reload."""
    deployed = Deployed(1100, path=tmp_path / "history").stop().run(60)
    deploy = deployed.reload().run(90, each).start().run(900, each).deploy
    assert (deploy.status, deploy.reloads, deploy.time) == (status, 1, pytest.approx(EPOCH + 1160, abs=2))
    assert deploy.before.requests > 12_000
    assert deploy.before.throughput == pytest.approx(12, rel=0.1)
    assert len(deployed.titles("reload")) == len(deployed.titles("deploy_judged")) == 1
    again = deployed.stop().start().deploy
    assert (again.status, again.time) == (status, pytest.approx(deploy.time, abs=2))
    assert deployed.titles("reload") == []


def test_a_restart_in_the_middle_of_a_judgement(tmp_path):
    """Requests before the restart count for both sides; two reloads with a restart between them are one chain."""
    deployed = Deployed(1100, path=tmp_path / "history").reload().run(400, 0.2).stop().run(20, 0.2)
    deploy = deployed.start().run(5, 0.2).reload().run(900).deploy
    assert (deploy.status, deploy.reloads) == ("same", 2)
    assert deploy.before.requests > 12_000


def test_what_is_old_is_no_side(tmp_path):
    """Minutes that ended an hour before the reload are of another load, and a worker that was replaced is no deploy."""
    deployed = Deployed(700, path=tmp_path / "history").stop()
    deployed.server.respawn(1, deployed.now)
    assert deployed.run(3600).start().deploy is None
    assert deployed.run(60).reload().run(200, 0.2).deploy.status == "unknown"


@pytest.mark.parametrize("fault", ["damaged", "locked", "empty", "gone", "directory"])
def test_a_file_that_cannot_be_read(tmp_path, fault, monkeypatch):
    """Then nothing is known of the time before the exporter, and everything after it is."""
    path = tmp_path / "history"
    deployed = Deployed(130, path=path).stop().reload()
    monkeypatch.setattr("uwsgi_headroom.store.file._BUSY_SECONDS", 0.05)
    holder = sqlite3.connect(path)
    if fault == "locked":
        holder.execute("PRAGMA locking_mode = EXCLUSIVE")
        holder.execute("BEGIN EXCLUSIVE")
    else:
        holder.close()
        deployed.path = tmp_path / "other"
        if fault == "directory":
            deployed.path.mkdir()
        elif fault != "gone":
            deployed.path.write_bytes(b"" if fault == "empty" else path.read_bytes()[:5000] + bytes(5000))
    deploy = deployed.start().run(700).reload().run(200, 0.2).deploy
    holder.close()
    assert (deploy.status, deploy.reloads) == ("worse", 1)
