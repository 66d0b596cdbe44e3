"""The minutes of a server: where they end, that they add up to the totals, and what they say."""

from typing import Any

import pytest

from tests.support.scripted_watch import ScriptedWatch
from tests.support.simulated_server import EPOCH, Server
from tests.watch.sampling import Written
from uwsgi_headroom.config.slo import Slo
from uwsgi_headroom.errors import ReadError
from uwsgi_headroom.store.record import Minute, merge_records

FIRST = EPOCH // 60  # EPOCH is 20 s after the end of this minute


def busy(server: Server) -> None:
    server.serve(1, 3, each=0.5, cpu=0.01)
    server.serve(2, 1, each=0.5, cpu=0.01)
    server.busy(2, 1)


class Watched(ScriptedWatch):
    def __init__(self, seconds: int = 0, writer: Written | None = None, slo: Slo | None = None) -> None:
        self.writer = writer or Written()
        super().__init__(writer=self.writer, slo=slo)
        self.server = Server(2, 4)
        if seconds:
            self.go_on(seconds)

    @property
    def records(self) -> list[tuple[int, Any]]:
        return [(minute - FIRST, record) for minute, record in self.writer.of("shop")]

    def go_on(self, seconds: int) -> None:
        self.seconds(self.server, seconds, lambda _: busy(self.server))


def test_minutes_end_with_the_clock():
    """A record ends with the first sample of the next minute; the first one is shorter."""
    records = Watched(170).records
    expected = [(1, 40.0, 40.0), (2, 60.0, 100.0), (3, 60.0, 160.0)]
    assert [(minute, record.window.seconds, record.until - EPOCH) for minute, record in records] == expected
    _, record = records[1]
    assert [worker.requests for worker in record.window.workers] == [180, 60]
    assert [worker.busy_seconds for worker in record.window.workers] == [120.0, 60.0]
    assert record.levels.cpus == 4
    # The rest is written once when the exporter ends, and belongs to the minute that has not ended.
    watch = Watched(50)
    watch.watch.finish_minute()
    watch.watch.finish_minute()
    assert [(minute, record.window.seconds) for minute, record in watch.records] == [(1, 40.0), (2, 10.0)]


def test_all_minutes_together_are_the_totals():
    """Over reloads, outages and restarts of workers, nothing is missing and nothing counts twice."""
    watch = Watched(100, slo=Slo(0.25, 0.9))
    watch.read(ReadError("refused", "nothing listens"), at=watch.now + 1)
    watch.read(ReadError("refused", "nothing listens"), at=watch.now + 150)
    watch.server.serve(1, 50, each=0.5)
    watch.go_on(75)
    watch.watch.finish_minute()
    totals = watch.watch.integrals.totals
    merged = merge_records([record for _, record in watch.records])
    assert [worker.requests for worker in merged.window.workers] == [worker.requests for worker in totals.workers]
    assert merged.window.observed_seconds == pytest.approx(totals.observed_seconds)
    assert merged.window.gap_seconds == pytest.approx(totals.gap_seconds)
    assert totals.gap_seconds > 150
    assert merged.window.workers[0].busy_seconds == pytest.approx(totals.workers[0].busy_seconds)
    assert merged.levels.slo == Slo(0.25, 0.9)


def test_what_was_seen_before_an_outage_belongs_to_its_own_minute():
    watch = Watched(50)
    for second in range(1, 200):
        watch.read(ReadError("refused", "nothing listens"), at=50.0 + second)
    records = watch.records
    assert [minute for minute, _ in records] == [1, 2, 3, 4]
    assert [record.window.observed_seconds for _, record in records] == pytest.approx([40.0, 10.0, 0.0, 0.0], abs=0.6)


def test_records_begin_anew_with_another_number_of_workers():
    watch, smaller = Watched(70), Server(1, 4)
    watch.seconds(smaller, 90, lambda _: smaller.serve(1, 1, each=0.1))
    records = watch.records
    assert [len(record.window.workers) for _, record in records] == [2, 1, 1]
    assert records[-1][1].window.workers[0].requests <= 90


def test_no_time_is_lost_if_the_clock_is_set_back():
    watch = Watched(110)
    object.__setattr__(watch.clock, "epoch", lambda: EPOCH + watch.now - 3600)
    watch.go_on(120)
    watch.watch.finish_minute()
    records = watch.records
    assert sum(record.window.seconds for _, record in records) == pytest.approx(230.0)
    assert all(record.window.seconds > 0 for _, record in records)
    assert min(minute for minute, _ in records) < -50


def test_events_go_with_the_next_minute():
    watch = Watched(50)
    watch.server.reload(at=50.5)
    watch.go_on(130)
    writer = watch.writer
    events = [event for minute in writer.minutes for event in minute.events]
    assert "reload" in {event.kind for event in events}
    assert events[0].kind == "exporter_started"
    assert len({event.id for event in events}) == len(events) >= 2
    assert {minute.server for minute in writer.minutes} == {"shop"}


def test_a_server_that_was_never_read_costs_nothing(monkeypatch):
    watch = Watched()
    cutter, cuts = watch.watch._minutes, list[float]()
    cut = cutter._cut
    monkeypatch.setattr(cutter, "_cut", lambda at, *rest: (cuts.append(at), cut(at, *rest)))
    for second in range(1, 181):
        watch.read(ReadError("refused", "nothing listens"), at=float(second))
    assert len(cuts) == 4
    kinds = [event.kind for minute in watch.writer.minutes for event in minute.events]
    assert sorted(kinds) == ["exporter_started", "server_down"]
    assert watch.records == []


def test_a_failing_writer_loses_no_sample():
    class Failing(Written):
        def put(self, minute: Minute) -> None:
            raise RuntimeError("a bug")

    assert Watched(170, Failing()).watch.integrals.totals.samples == 171
