"""Records merge into longer ones."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.store.test_codec import full_record
from tests.support import windows
from uwsgi_headroom.config.slo import Slo
from uwsgi_headroom.store.record import Record, RunningMerge, merge_records


def test_sums_and_last_levels() -> None:
    """Counts and times add up; threads and memory are those at the end."""
    first, second = full_record(), full_record()
    second = replace(
        second, until=120.0, levels=replace(second.levels, cpus=8.0), window=replace(second.window, configured=16)
    )
    merged = merge_records([first, second])
    assert merged.until == 120.0
    assert merged.levels.cpus == 8.0
    assert merged.window.configured == 16
    assert merged.window.seconds == 120.0
    assert [worker.requests for worker in merged.window.workers] == [2000, 4000]
    assert merged.window.workers[0].cpu_seconds == 6.5
    assert merged.window.workers[1].cpu_seconds is None
    assert merged.window.queue_seconds == {"socket": 5.0}
    assert merged.window.waits is not None
    assert merged.window.waits.seconds == {"cpu": 60.0, "sleep": 360.0}
    assert merged.routes is not None
    assert merged.routes.seconds == {"GET /": 24.0, "other": 3.0}
    assert merged.response_times is not None
    assert merged.response_times.requests == 228
    assert sum(merged.response_times.counts) == pytest.approx(227.5)


def test_what_is_known_of_a_part() -> None:
    """Waits are known for the time that was measured; a worker's time is known only if it always was."""
    known = Record(60.0, windows.window(60.0, windows.worker(1, 10, busy=30.0, up=60.0), waits={"cpu": 1.0}))
    unknown = Record(120.0, windows.window(60.0, windows.worker(1, 10, busy=None, up=60.0)))
    merged = merge_records([known, unknown])
    assert merged.window.waits is not None
    assert merged.window.waits.observed_seconds == 60.0
    assert merged.window.workers[0].busy_seconds is None
    assert merged.window.workers[0].requests == 20


def test_a_minute_without_the_use_by_others() -> None:
    """A quarter of an hour has the use of CPUs in the minutes in which all of it was known."""
    known = Record(60.0, windows.window(60.0, cpu=(1.0, 2.0, 0.5)))
    unknown = Record(120.0, windows.window(60.0, cpu=(1.5, 2.5, None)))
    assert merge_records([known, unknown]).window.cpu == known.window.cpu
    both = merge_records([unknown, unknown]).window.cpu
    assert both is not None
    assert (both.measured_seconds, both.own_seconds, both.others_seconds) == (120.0, 180.0, None)


def test_workers_and_sockets_that_come_and_go() -> None:
    """A worker of one part has its own work; a socket of one part is not known for the whole time."""
    merged = merge_records(
        [
            Record(60.0, windows.window(60.0, windows.worker(1, 10, up=60.0), old=5.0)),
            Record(120.0, windows.window(60.0, windows.worker(1, 10, up=60.0), windows.worker(2, 7, up=60.0), new=1.0)),
        ]
    )
    assert [(worker.worker_id, worker.requests) for worker in merged.window.workers] == [(1, 20), (2, 7)]
    assert merged.window.queue_seconds == {}


def test_an_objective_that_changed() -> None:
    """Requests move to the bins of the last part, and none is lost."""
    merged = merge_records([full_record(None), full_record(Slo(0.7, 0.9))])
    assert merged.response_times is not None
    assert sum(merged.response_times.counts) == pytest.approx(227.5)
    assert 0.7 in merged.response_times.bins.edges


def test_one_by_one() -> None:
    """Records that are merged as they come are the same as together, and few are kept."""
    records = [replace(full_record(), until=60.0 * number) for number in range(1, 1001)]
    merge = RunningMerge()
    for record in records:
        merge.add(record)
        assert len(merge.records) <= 64
    one, other = merge_records(merge.records), merge_records(records)
    assert one.response_times is not None
    assert other.response_times is not None
    assert one.response_times.interval == pytest.approx(other.response_times.interval)
    assert replace(one, response_times=None) == replace(other, response_times=None)
    assert one.response_times.counts == other.response_times.counts


def test_of_nothing() -> None:
    """There is no record without parts, and one part is itself."""
    record = full_record()
    assert merge_records([record]) is record
    with pytest.raises(ValueError, match="no records"):
        merge_records([])
