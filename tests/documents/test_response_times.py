"""Documents about response times: percentiles, requests compared, their words, the parts of a request's time."""

import asyncio
import functools
import os
from collections.abc import Callable
from pathlib import Path
from random import Random

import msgspec
import pytest
from msgspec.structs import replace

from tests.support.documents_with_times import KNOWN_WAITS, LONG, RESPONSE_TIMES, SHORT, UNSHARP, percentiles, waits
from tests.support.scripted_watch import ScriptedWatch
from tests.support.simulated_server import EPOCH, Server
from uwsgi_headroom.analysis.destinations import DestinationFigures
from uwsgi_headroom.analysis.littles_law import Flow
from uwsgi_headroom.analysis.percentiles import Percentile
from uwsgi_headroom.analysis.wait_states import WaitFigures
from uwsgi_headroom.config.slo import Slo
from uwsgi_headroom.documents import schema
from uwsgi_headroom.documents.deploys import ComparedTimes, ComparisonDocument, compare_times
from uwsgi_headroom.documents.history import ResponseTimeHistory
from uwsgi_headroom.documents.sentences import (
    describe_destinations,
    describe_percentile,
    list_percentiles,
    split_request_time,
)
from uwsgi_headroom.record import STATES
from uwsgi_headroom.store.writer import HistoryWriter
from uwsgi_headroom.words.states import WAITS

SLO = Slo(1.0, 0.95)
PAGE = Path(__file__).with_name("texts.txt")


def second(server: Server, slow: int = 1) -> Callable[[int], None]:
    """In each second: 20 requests of 50 ms, too short for samples, and two at a time on the other worker of which each
    takes 2 s; `slow` of them end in every second second."""

    def each(number: int) -> None:
        server.serve(1, 20, 0.05)
        if number % 2:
            server.serve(2, slow, 2.0)

    return each


def watched(seconds: int = 120, slo: Slo | None = SLO, server: Server | None = None) -> ScriptedWatch:
    server = server or Server(2, 8)
    return ScriptedWatch(slo=slo).seconds(server, seconds, second(server), samples=2)


def test_percentiles_of_a_document():
    """Below 0.8 sampling intervals it has only a bound, and no number; that of the median is twice the mean."""
    document = watched().document()
    times = document.response_times
    assert times.interval == pytest.approx(0.5, rel=0.05)
    assert times.requests == pytest.approx(60 * 20.5, rel=0.1)
    assert [percentile.share for percentile in times.percentiles] == [0.5, 0.9, 0.95, 0.99]
    for percentile in times.percentiles:
        assert percentile.seconds is None
        least = 0.19 if percentile.share == 0.5 else 0.38
        assert least < (percentile.under or 0.0) < 1.4 * least
        assert (percentile.low, percentile.high) == (0.0, percentile.under)


def test_the_objective_of_a_document():
    """With the burn over both windows and the wait; none without what it needs."""
    objective = watched().document().objective
    assert (objective.threshold, objective.objective, objective.unjudged) == (1.0, 0.95, None)
    short, long = objective.windows
    assert short.requests == long.requests
    assert short.lost == 0
    assert short.rate == pytest.approx(short.slow / short.requests / 0.05)
    assert objective.level is None
    assert objective.queue_wait == 0
    assert objective.load_multiple is None
    assert watched(slo=None).document().objective is None
    idle = ScriptedWatch(slo=SLO).seconds(Server(2, 8), 20).document()
    assert idle.response_times is None
    assert [burn.rate for burn in idle.objective.windows] == [None, None]
    blind = watched(20, server=Server(2, 8, cores=False)).document()
    assert blind.response_times is None
    assert "stats-no-cores" in (blind.objective.unjudged or "")
    server = Server(2, 8, queue=90)
    objective = watched(60, server=server).document().objective
    assert objective.unjudged is None
    assert {burn.share for burn in objective.windows} == {1.0}
    assert all(burn.waited == burn.requests > 1000 for burn in objective.windows)
    assert objective.queue_wait
    assert objective.queue_wait > 1


def test_a_history_of_percentiles():
    """Each slice has those of at least 30 s, null where samples show none, and what they show at the least."""
    document = watched(30).document()
    assert msgspec.json.decode(msgspec.json.encode(document), type=schema.ServerDocument) == document
    history = watched(120).history(120, 12)
    times = history.response_times
    assert isinstance(times, ResponseTimeHistory)
    assert times.shares == (0.5, 0.9, 0.95, 0.99)
    assert {len(column) for column in (*times.seconds, times.finest)} == {len(history.time)}
    assert times.finest[-1] == pytest.approx(0.4, rel=0.05)
    assert set(times.seconds[0]) == {None}


def test_history_of_long_requests():
    server = Server(1, 1)
    watch = ScriptedWatch()

    def each(number):
        server[1].request_starts = (1_700_000_000 + number // 3 * 3,)
        if number % 3 == 0:
            server.serve(1, 1, 3.0)

    times = watch.seconds(server, 200, each).history(120, 12).response_times
    assert times.seconds[0][-1] == pytest.approx(3.0, rel=0.1)
    assert times.seconds[3] == [None] * len(times.finest)


BOUND = Percentile(share=0.95, seconds=None, low=0.0, high=0.24, under=0.24)


PERCENTILES = [
    LONG,
    Percentile(share=0.99, seconds=0.91, low=0.8, high=1.2),
    Percentile(share=0.9, seconds=0.2, low=0.0, high=0.35),
    SHORT,
    Percentile(share=0.9, seconds=610.0, low=600.0, high=float("inf")),
    Percentile(share=0.5, seconds=None, low=0.0, high=0.3, under=0.16),
    Percentile(share=0.99, seconds=123.4, low=101.0, high=139.0),
]

SECTIONS = [
    RESPONSE_TIMES,
    percentiles(SHORT, UNSHARP, LONG, requests=70),
    percentiles(requests=1),
    percentiles(BOUND, Percentile(share=0.99, seconds=0.21, low=0.0, high=0.3)),
    percentiles(BOUND, Percentile(share=0.99, seconds=0.21, low=0.19, high=0.3)),
]


CHANGE = 960


@functools.cache
def watched_twice(path: Path | None) -> ScriptedWatch:
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


def compared(path: Path | None, times: ComparedTimes) -> ComparisonDocument:
    """What became of that server between two times."""
    watch = watched_twice(path)
    return asyncio.run(compare_times(watch.watch, watch.clock, times))


@pytest.mark.parametrize("before", [900.0, 7200.0])
def test_both_sides_of_a_moment(tmp_path, before):
    """The hour in memory and the file, which has minutes, find the same change."""
    path = tmp_path / "history.sqlite" if before > 3600 else None
    deploy = compared(path, ComparedTimes(EPOCH + CHANGE, before, 900.0)).deploy
    assert (deploy.status, deploy.reloads) == ("worse", 0)
    (time,) = [change for change in deploy.changes if change.subject == "time"]
    assert (time.before, time.after) == (pytest.approx(0.1, rel=0.05), pytest.approx(0.16, rel=0.05))
    assert deploy.before.requests == pytest.approx(min(before, CHANGE) * 10, rel=0.1)
    assert deploy.after.seconds == pytest.approx(840, abs=70)


def test_a_time_that_nobody_knows():
    """What was before the exporter is unknown, and so is what is to come."""
    for around in (EPOCH - 5000, EPOCH + 9000):
        assert compared(None, ComparedTimes(around, 900.0, 900.0)).deploy.status == "unknown"


def test_the_same_hour_of_other_days(tmp_path):
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
    compared = asyncio.run(compare_times(watch.watch, watch.clock, ComparedTimes(now, 900.0, 900.0)))
    usual = compared.usual
    assert (compared.deploy.status, usual.days, usual.explains) == ("worse", 4, True)
    assert usual.low == pytest.approx(0.16, rel=0.1)
    assert usual.sentence.startswith("At this hour of the last 4 days a request took 1")
    assert usual.sentence.endswith(" ms). The change is as on other days.")


def _described(section: WaitFigures) -> tuple[str, list[str]]:
    time = split_request_time(section)
    return f"{time.whole.size} {time.unit}", [f"{part.size} {part.backend or part.state}" for part in time.parts]


def test_the_parts_of_a_request():
    """The largest comes first; those below 3 % are one, which is last."""
    assert _described(KNOWN_WAITS) == (
        "89 ms per request",
        ["41 ms postgres", "22 ms interpreter_lock", "18 ms cpu", "5.0 ms cpu_wait", "3.0 ms other"],
    )
    parts = _described(waits({"backend": 4.0, "sleep": 3.0}, {"postgres": 1.0}))[1]
    assert parts == ["30 ms backend", "30 ms sleep", "10 ms postgres"]
    described = _described(waits({"backend": 7.9, "cpu": 0.4}, {"postgres": 7.9}, throughput=None))
    assert described == ("8.3 threads, no request completed", ["7.9 postgres", "0.4 cpu"])
    assert split_request_time(waits({})) is None
    assert tuple(WAITS) == STATES
    assert len({state.name for state in WAITS.values()}) == len(STATES)


def test_the_parts_add_up():
    """Static files have no time; requests that last hide those that are completed."""
    for names in ({}, {"postgres": 2.0}, {"postgres": 2.0, "redis": 2.1}):
        time = split_request_time(waits({"cpu": 1.0, "backend": 4.1, "dns": 0.01}, names))
        assert sum(part.threads for part in time.parts) == pytest.approx(5.11)
        assert sum(part.per_request or 0.0 for part in time.parts) == pytest.approx(0.0511)
    flow = Flow(requests=468, throughput=39.1, response_time=None, littles_law=0.0, observed=0.04, queue_wait=0.0)
    few, many = (waits({"pipe": threads}, throughput=None) for threads in (0.04, 4.0))
    assert split_request_time(few, flow) is None
    time = split_request_time(many, flow)
    assert (time.whole.size, time.unit) == ("4.0", "threads, and uWSGI does not time static files")
    flow = Flow(requests=36, throughput=3.0, response_time=0.05, littles_law=0.15, observed=14.2, queue_wait=0.0)
    section = waits({"client": 14.0, "sleep": 0.2}, throughput=None)
    time = split_request_time(replace(section, lasting=14.05), flow)
    assert (time.whole.size, time.unit) == ("14.2", "threads, mostly of requests that last")


def outside(*found: tuple[str, str, str, float], throughput: float | None = 100.0) -> WaitFigures:
    """A section with these destinations: state, name, address and mean threads."""
    threads = sum(each[3] for each in found)
    section = waits({"backend": threads}, throughput=throughput)
    destinations = [
        DestinationFigures(
            state=state,
            name=name,
            address=address,
            threads=number,
            share=0.5,
            per_request=number / throughput if throughput else None,
            connecting=0.0,
        )
        for state, name, address, number in found
    ]
    return replace(section, destinations=tuple(destinations))


POSTGRES, REDIS = ("backend", "postgres", "10.0.0.5:5432"), ("backend", "redis", "10.0.0.6:6379")


OUTSIDE = [
    outside((*POSTGRES, 18.0), (*REDIS, 2.1)),
    outside((*POSTGRES, 18.0)),
    outside((*POSTGRES, 3.0), throughput=None),
    outside((*POSTGRES, 4.0), ("backend", "", "", 1.0), ("dns", "DNS", "10.0.0.2:53", 0.5)),
    outside(*(("backend", "", f"10.0.0.{place}:80", 1.0) for place in range(64))),
    outside(("backend", "", "", 5.0)),
    waits({"backend": 5.0}),
]


def test_texts_read_as_on_their_page():
    """A percentile has two digits, and its unit once; an interval that begins below what samples show has no lower end.
    Of a server, those with the same text are one, and the others say why there is none. Then what requests wait for
    outside. `UPDATE_GOLDEN=1 pytest tests/documents/test_response_times.py` writes the page."""
    texts = [describe_percentile(percentile) for percentile in PERCENTILES]
    texts += ["; ".join(f"{each.value}|{each.range}" for each in list_percentiles(section)) for section in SECTIONS]
    texts += ["; ".join(describe_destinations(section)) or "(nothing)" for section in OUTSIDE]
    page = "".join(f"{text}\n" for text in texts)
    if os.environ.get("UPDATE_GOLDEN"):
        PAGE.write_text(page)
    assert PAGE.read_text() == page
