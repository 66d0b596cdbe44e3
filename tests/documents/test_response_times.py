"""The sections about response times and the objective in the document of a server, and their history."""

from __future__ import annotations

from collections.abc import Callable

import msgspec
import pytest

from tests.support.scripted_watch import ScriptedWatch
from tests.support.simulated_server import Server
from uwsgi_headroom.config.slo import Slo
from uwsgi_headroom.documents import schema
from uwsgi_headroom.documents.history import ResponseTimeHistory

SLO = Slo(1.0, 0.95)


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


def test_percentiles_of_a_document() -> None:
    """Below 0.8 sampling intervals it has only a bound, and no number; that of the median is twice the mean."""
    document = watched().document()
    times = document.response_times
    assert times
    assert times.interval == pytest.approx(0.5, rel=0.05)
    assert times.requests == pytest.approx(60 * 20.5, rel=0.1)
    assert [percentile.share for percentile in times.percentiles] == [0.5, 0.9, 0.95, 0.99]
    for percentile in times.percentiles:
        assert percentile.seconds is None
        least = 0.19 if percentile.share == 0.5 else 0.38
        assert least < (percentile.under or 0.0) < 1.4 * least
        assert (percentile.low, percentile.high) == (0.0, percentile.under)


def test_the_objective_of_a_document() -> None:
    """It has the threshold, the burn over both windows, and the wait beside it."""
    objective = watched().document().objective
    assert objective
    assert (objective.threshold, objective.objective, objective.unjudged) == (1.0, 0.95, None)
    short, long = objective.windows
    assert short.requests == long.requests
    assert short.lost == 0
    assert short.rate == pytest.approx(short.slow / short.requests / 0.05)
    assert objective.level is None
    assert objective.queue_wait == 0
    assert objective.load_multiple is None


def test_none_without_what_they_need() -> None:
    """No objective is configured; no request was completed; uWSGI lists no threads."""
    assert watched(slo=None).document().objective is None
    idle = ScriptedWatch(slo=SLO).seconds(Server(2, 8), 20).document()
    assert idle.response_times is None
    assert idle.objective
    assert [burn.rate for burn in idle.objective.windows] == [None, None]
    blind = watched(20, server=Server(2, 8, cores=False)).document()
    assert blind.response_times is None
    assert blind.objective
    assert "stats-no-cores" in (blind.objective.unjudged or "")


def test_a_wait_beyond_the_threshold() -> None:
    """Requests that wait in the queue for longer than the threshold have missed it, each of them."""
    server = Server(2, 8, queue=90)
    objective = watched(60, server=server).document().objective
    assert objective
    assert objective.unjudged is None
    assert {burn.share for burn in objective.windows} == {1.0}
    assert all(burn.waited == burn.requests > 1000 for burn in objective.windows)
    assert objective.queue_wait
    assert objective.queue_wait > 1


def test_it_is_json() -> None:
    """The document is decoded as it was encoded; every number is finite, as JSON needs."""
    document = watched(30).document()
    assert msgspec.json.decode(msgspec.json.encode(document), type=schema.Server) == document


def test_history() -> None:
    """Each slice has the percentiles of at least 30 s, null where samples show none, and what they show at the
    least."""
    history = watched(120).history(120, 12)
    times = history.response_times
    assert isinstance(times, ResponseTimeHistory)
    assert times.shares == (0.5, 0.9, 0.95, 0.99)
    assert {len(column) for column in (*times.seconds, times.finest)} == {len(history.time)}
    assert times.finest[-1] == pytest.approx(0.4, rel=0.05)
    assert set(times.seconds[0]) == {None}


def test_history_of_long_requests() -> None:
    """Percentiles of long requests are numbers."""
    server = Server(1, 1)
    watch = ScriptedWatch()

    def each(number: int) -> None:
        server[1].request_starts = (1_700_000_000 + number // 3 * 3,)
        if number % 3 == 0:
            server.serve(1, 1, 3.0)

    times = watch.seconds(server, 200, each).history(120, 12).response_times
    assert times.seconds[0][-1] == pytest.approx(3.0, rel=0.1)
    assert times.seconds[3] == [None] * len(times.finest)
