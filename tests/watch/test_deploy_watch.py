"""A reload is judged by what was before it, whatever happens around it."""

from __future__ import annotations

from random import Random

import pytest

from tests.support.scripted_watch import ScriptedWatch
from tests.support.simulated_server import Server
from uwsgi_headroom.documents.deploys import Deploy


class Deployed:
    """A server with 12 requests a second that take 0.1 s on average, and the watch of it."""

    def __init__(self, before: int = 660, rate: int = 3) -> None:
        self.server, self.scripted, self.random = Server(4, 8), ScriptedWatch(), Random(1)
        self.rate = rate
        self.run(before)

    def run(self, seconds: int, each: float = 0.1) -> Deployed:
        """Lets so many seconds pass, with requests that take `each` seconds on average and half of that on CPU."""

        def second(_number: int) -> None:
            for worker_id in range(1, len(self.server.slots) + 1):
                for _ in range(self.rate):
                    self.server.serve(worker_id, 1, self.random.expovariate(1 / each), 0.05)

        self.scripted.seconds(self.server, seconds, second)
        return self

    def reload(self, processes: int | None = None) -> Deployed:
        self.server.reload(self.scripted.now + 0.25, processes)
        return self

    @property
    def deploy(self) -> Deploy:
        deploy = self.scripted.document().deploy
        assert deploy
        return deploy

    @property
    def judged(self) -> list[str]:
        events = self.scripted.watch.recorder.journal.since(0)
        return [event.title for event in events if event.kind == "deploy_judged"]


def test_a_slower_version_is_found_within_minutes() -> None:
    """The document, the journal and the metric say what became worse, and by how much."""
    deployed = Deployed().reload().run(200, each=0.15)
    deploy = deployed.deploy
    assert deploy.status == "worse"
    assert "4 min ago) a request takes" not in deploy.sentence
    assert deploy.sentence.startswith("Since the reload at ")
    (time,) = [change for change in deploy.changes if change.subject == "time"]
    assert time.low < 0.5 < time.high
    assert time.state == "worse"
    assert len(deployed.judged) == 1
    assert " ago)" not in deployed.judged[0]
    worse = deployed.scripted.watch.observe([60.0]).deploy_worse
    assert worse == {"time": True, "cpu": False, "errors": False, "memory": False}


def test_the_start_stands_apart_and_the_same_version_is_no_change() -> None:
    """For a minute after a reload requests take five times as long, while caches fill: that is none of the change."""
    deploy = Deployed().reload().run(55, each=0.5).run(420).deploy
    assert deploy.status == "same"
    assert deploy.bound
    assert deploy.bound <= 0.2
    assert "no change above" in deploy.sentence


def test_too_early_names_the_requests_that_are_needed() -> None:
    """Soon after a reload it says how many requests there are, and how many it takes."""
    deploy = Deployed().reload().run(130).deploy
    assert deploy.status == "early"
    assert deploy.needed
    assert 400 < deploy.needed < 2500
    assert f"{deploy.after.requests} of about" in deploy.sentence


def test_another_number_of_workers_is_compared_as_well() -> None:
    """The hour of charts begins anew with other workers; what was before the reload is still known."""
    deploy = Deployed().reload(processes=6).run(200, each=0.15).deploy
    assert deploy.status == "worse"
    assert deploy.before.requests > 6000


def test_one_worker_that_is_replaced_is_no_deploy() -> None:
    """A worker's crash or recycling starts nothing."""
    deployed = Deployed(before=30)
    deployed.server.respawn(1, deployed.scripted.now)
    assert deployed.run(30).scripted.document().deploy is None


def test_workers_replaced_one_after_another_are_one_deploy() -> None:
    """The time in which old and new workers serve is neither before the deploy nor after it."""
    deployed = Deployed()
    for worker_id in (1, 2, 3, 4):
        deployed.server.respawn(worker_id, deployed.scripted.now)
        deployed.run(10, each=0.4)
    deployed.run(200, each=0.15)
    deploy = deployed.deploy
    assert (deploy.status, deploy.reloads) == ("worse", 1)
    (time,) = [change for change in deploy.changes if change.subject == "time"]
    assert time.before == pytest.approx(0.1, rel=0.05)


def test_several_reloads_in_a_row_are_judged_by_what_was_before_the_first() -> None:
    """A fix three minutes after a slow version is no improvement: it is as before the first reload."""
    deploy = Deployed().reload().run(200, each=0.2).reload().run(420).deploy
    assert (deploy.status, deploy.reloads) == ("same", 2)
    assert "the last of 2 reloads" in deploy.sentence


def test_a_storm_of_reloads() -> None:
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


@pytest.mark.parametrize(
    ("before", "rate", "reason"),
    [(60, 3, "of the 10 min before this time are known"), (620, 0, "there were only 0 requests before this time")],
)
def test_without_a_before_nothing_is_said(before: int, rate: int, reason: str) -> None:
    """An exporter that began a minute before, and a server that was idle, have nothing to compare with."""
    deployed = Deployed(before, rate).reload()
    deployed.rate = 3
    deploy = deployed.run(200, each=0.3).deploy
    assert deploy.status == "unknown"
    assert reason in deploy.sentence
    assert not deployed.judged


def test_a_doubled_load_is_not_compared() -> None:
    """With a load that is another one, times say nothing about the version."""
    deployed = Deployed().reload()
    deployed.rate = 7
    deploy = deployed.run(200, each=0.15).deploy
    assert deploy.status == "unknown"
    assert "the load is 2.3 times the load before" in deploy.sentence


def test_after_an_hour_the_last_verdict_stays_and_its_batches_are_gone() -> None:
    """It is judged for an hour; a day later it is no metric any more."""
    deployed = Deployed().reload().run(200, each=0.15)
    watch = deployed.scripted.watch
    latest = watch.deploys.latest
    assert latest
    deployed.scripted.now = latest.at + 3700
    deployed.scripted.read(deployed.server.read(deployed.scripted.now))
    assert (latest.is_over, len(latest.before), deployed.deploy.status) == (True, 0, "worse")
    assert watch.deploys.find_worse(latest.at + 86_000)
    assert watch.deploys.find_worse(latest.at + 87_000) is None
