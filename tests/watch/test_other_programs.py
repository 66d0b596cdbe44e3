"""An hour of samples shows whether other programs follow its load."""

from __future__ import annotations

import random

from tests.support.scripted_watch import ScriptedWatch
from tests.support.simulated_server import Server
from uwsgi_headroom.analysis.capacity import LEAST_SLICES
from uwsgi_headroom.watch.judging import LimitHour, OtherPrograms


def watched(minutes: int, cost: float) -> ScriptedWatch:
    """A server whose load changes each minute, beside a proxy with so many CPU seconds per request, and a job."""
    rng = random.Random(5)
    server, watch = Server(processes=1, idle=0.5, others=0.5), ScriptedWatch()

    def minute(second: int) -> None:
        if second % 60 == 0:
            server.others = 0.5 + cost * (rate := rng.choice([20, 50, 80]))
            rates[:] = [rate]
        server.serve(1, rates[0], each=0.001, cpu=0.001)

    rates: list[int] = []
    return watch.seconds(server, minutes * 60, minute)


def test_proxy_is_found_after_some_minutes() -> None:
    """There is no judgement before enough slices; then document and headroom show that others follow."""
    assert watched(LEAST_SLICES, cost=0.02).watch.other_programs.others_follow is None
    watch = watched(LEAST_SLICES + 2, cost=0.02)
    assert watch.watch.other_programs.others_follow is True
    document = watch.document(60.0)
    assert document.cpu
    assert document.headroom
    cpu = document.cpu
    assert cpu.others
    assert cpu.others_follow is True
    factor = (cpu.own + cpu.others + cpu.idle) / (cpu.own + cpu.others)
    assert document.headroom.by_limit.cpu is not None
    assert abs(document.headroom.by_limit.cpu - factor) < 1e-9
    assert watch.history().headroom.cpu[-1] is not None


def test_job_that_runs_anyway_does_not_follow() -> None:
    """The load is the same, and another program uses half a CPU all the time."""
    assert watched(LEAST_SLICES + 2, cost=0.0).watch.other_programs.others_follow is False


def test_slices_are_taken_once() -> None:
    """Each slice of the history counts once, for any number of calls; an hour of slices is kept."""
    watch = watched(LEAST_SLICES + 2, cost=0.0).watch
    again = OtherPrograms()
    again.update(watch.history)
    again.update(watch.history)
    assert list(again._pairs) == list(watch.other_programs._pairs)
    assert again._pairs.maxlen == 60


def test_what_limited_the_server_is_known_for_an_hour() -> None:
    """At each time it is what the last judgement said; what is older than an hour is forgotten."""
    hour = LimitHour()
    assert hour.at(5.0) is None
    for at, code in ((10.0, None), (20.0, "errors"), (25.0, "errors"), (30.0, None)):
        hour.note(at, code)
    assert [hour.at(time) for time in (5.0, 19.0, 20.0, 29.0, 31.0)] == [None, None, "errors", "errors", None]
    hour.note(3700.0, "loop_held")
    assert (hour.at(25.0), hour.at(3699.0), hour.at(3701.0)) == (None, None, "loop_held")
