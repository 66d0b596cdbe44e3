"""Any two times of a server are compared: from the hour in memory, and from a history file."""

from __future__ import annotations

import asyncio
import functools
from pathlib import Path
from random import Random

import pytest

from tests.support.scripted_watch import ScriptedWatch
from tests.support.simulated_server import EPOCH, Server
from uwsgi_headroom.documents.deploys import Comparison, Times, compare_times
from uwsgi_headroom.store.writer import HistoryWriter

CHANGE = 960


@functools.cache
def watched(path: Path | None) -> ScriptedWatch:
    """The watch of a server whose requests take 0.1 s, and 0.16 s from CHANGE on, without a reload."""
    writer = HistoryWriter(path, 10**9, lambda: EPOCH + 3000.0) if path else None
    watch, server, random = ScriptedWatch(writer=writer), Server(2, 4), Random(1)

    def second(number: int) -> None:
        for _ in range(10):
            server.serve(1 + number % 2, 1, random.expovariate(1 / (0.1 if number < CHANGE else 0.16)), 0.05)

    watch.seconds(server, 2 * CHANGE, second)
    if writer:
        writer.close(10)
    return watch


def compared(path: Path | None, times: Times) -> Comparison:
    """What became of that server between two times."""
    watch = watched(path)
    return asyncio.run(compare_times(watch.watch, watch.clock, times))


@pytest.mark.parametrize("before", [900.0, 7200.0])
def test_both_sides_of_a_moment(tmp_path: Path, before: float) -> None:
    """The hour in memory and the file, which has minutes, find the same change."""
    path = tmp_path / "history.sqlite" if before > 3600 else None
    deploy = compared(path, Times(EPOCH + CHANGE, before, 900.0)).deploy
    assert (deploy.status, deploy.reloads) == ("worse", 0)
    (time,) = [change for change in deploy.changes if change.subject == "time"]
    assert (time.before, time.after) == (pytest.approx(0.1, rel=0.05), pytest.approx(0.16, rel=0.05))
    assert deploy.before.requests == pytest.approx(min(before, CHANGE) * 10, rel=0.1)
    assert deploy.after.seconds == pytest.approx(840, abs=70)


def test_a_time_that_nobody_knows() -> None:
    """What was before the exporter is unknown, and so is what is to come."""
    for around in (EPOCH - 5000, EPOCH + 9000):
        assert compared(None, Times(around, 900.0, 900.0)).deploy.status == "unknown"


def test_the_same_hour_of_other_days(tmp_path: Path) -> None:
    """Slower than before, as every day at this hour, is said to be so; the judgement is the same."""
    now = EPOCH + 4 * 86_400.0 + CHANGE
    writer = HistoryWriter(tmp_path / "history", 10**9, lambda: now + 1000.0)
    watch, server, random = ScriptedWatch(writer=writer), Server(2, 4), Random(1)

    def slow(number: int, each: float = 0.16) -> None:
        for _ in range(5):
            server.serve(1 + number % 2, 1, random.expovariate(1 / each), 0.05)

    for day in range(4):
        watch.now = day * 86_400.0 + CHANGE
        watch.seconds(server, 240, slow)
    watch.now = now - EPOCH - CHANGE
    watch.seconds(server, CHANGE, lambda number: slow(number, 0.1)).seconds(server, 600, slow)
    writer.close(10)
    compared = asyncio.run(compare_times(watch.watch, watch.clock, Times(now, 900.0, 900.0)))
    usual = compared.usual
    assert usual
    assert (compared.deploy.status, usual.days, usual.explains) == ("worse", 4, True)
    assert usual.low == pytest.approx(0.16, rel=0.1)
    assert usual.sentence.startswith("At this hour of the last 4 days a request took 1")
    assert usual.sentence.endswith(" ms). The change is as on other days.")
