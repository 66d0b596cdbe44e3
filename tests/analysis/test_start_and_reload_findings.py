"""Findings about workers that hang at the start, wait to end or run handlers, and about a reload that waits."""

import pytest
from msgspec.structs import replace

from tests.analysis import judging
from tests.analysis.judging import AT, figures_of, judge
from tests.support.simulated_server import Server
from tests.support.windows import window, worker
from uwsgi_headroom.analysis.findings import Finding
from uwsgi_headroom.record import Ending, Options, ServerRecord, Setup, WorkerRecord

COMPLETE = judging.setup(complete=True)


def describe(*workers: WorkerRecord, setup: Setup = COMPLETE) -> ServerRecord:
    return replace(judging.describe(Server(processes=len(workers))), workers=workers, setup=setup)


def findings(record: ServerRecord, up: tuple[float, ...], queued: float = 0.0) -> dict[str, Finding]:
    """The findings of 20 s in which each worker accepted requests for some seconds; queued: requests that wait."""
    rows = [worker(number, 5, each=0.02, busy=1.0, up=seconds) for number, seconds in enumerate(up, 1)]
    return judge(window(20, *rows, app=20 * queued), record)


def serving(worker_id: int, age: float | None = None) -> WorkerRecord:
    ages = {} if age is None else {0: age}
    return WorkerRecord(worker_id, "accepting", 2, pid=4000 + worker_id, local_pid=5000 + worker_id, ages=ages)


def gone(worker_id: int) -> WorkerRecord:
    return WorkerRecord(worker_id, "down", 2)


ONE_OF_THREE = (gone(1), serving(2, 30.0), gone(3))


def test_a_worker_that_a_reload_waits_for_takes_no_request():
    """Its other thread is free, and yet nothing is available; in a window of another state of it, it is."""
    record = describe(*ONE_OF_THREE)
    rows = ([worker(number, 5, up=seconds) for number in (1, 2, 3)] for seconds in (4.0, 19.0))
    assert [figures_of(window(20, *each), record).available for each in rows] == [0, 2]


def ending(worker_id: int, *ages: float, why: Ending = "unknown") -> WorkerRecord:
    return replace(serving(worker_id), ages=dict(enumerate(ages)), threads=4, ending=why)


LIMITED = judging.setup(complete=True, max_requests=250, max_worker_lifetime=60)


@pytest.mark.parametrize(
    ("other", "reason", "queued", "severity", "why"),
    [
        ((9.0,), "max_requests", 4.0, "critical", "`max-requests`"),
        ((9.0,), "max_worker_lifetime", 4.0, "critical", "`max-worker-lifetime`"),
        ((9.0,), "unknown", 0.0, "warning", ""),
        (None, "max_requests", 0.0, "info", "`max-requests`"),
    ],
)
def test_workers_ending(other, reason, queued, severity, why):
    """They take no other request: the reason is named where options tell it, and what replaces them at once."""
    others = serving(2) if other is None else ending(2, *other, why=reason)
    record = describe(ending(1, 30.0, 2.0, why=reason), others, setup=LIMITED)
    finding = findings(record, (20.0, 20.0), queued)["workers_ending"]
    assert (finding.severity, why in finding.evidence) == (severity, True)
    assert f"with `kill -TERM {'5001 5002' if others.ending else '5001'}`" in finding.change
    assert figures_of(window(20, worker(1, 5), worker(2, 5)), record).available == (0 if others.ending else 2)


@pytest.mark.parametrize(
    ("kind", "threads", "busy", "age", "served", "options", "is_ending"),
    [
        ("threads", 2, 1, 30.0, 0, Options(), True),  # two of its four threads have ended
        ("threads", 4, 1, 30.0, 500, Options(max_requests=250), False),
        ("threads", 2, 1, 0.9, 0, Options(), False),  # since a moment ago: it starts, or ends as most do
        ("threads", 4, 4, 30.0, 260, Options(max_requests=250), True),  # it has no free one that could have ended
        ("threads", 4, 4, 30.0, 260, Options(max_requests=250, max_requests_delta=20), False),  # at 270: it is worker 2
        ("threads", 4, 4, 5.0, 260, Options(max_requests=250), False),  # `min-worker-lifetime` is 10
        ("async", 1, 1, 30.0, 250, Options(max_requests=250), True),
        ("async", 1, 0, 30.0, 250, Options(max_requests=250), False),
        ("async", 1, 1, 30.0, 0, Options(max_worker_lifetime=25), True),
        ("async", 1, 1, 26.0, 0, Options(max_worker_lifetime=25), False),
        ("single", 1, 1, 30.0, 500, Options(max_requests=250), False),
    ],
)
def test_how_a_worker_shows_that_it_ends(kind, threads, busy, age, served, options, is_ending):
    """Its free threads have ended, or options say so of one that has no free thread of its own."""
    reading = Server(processes=2, threads=4).read(AT)
    workers = [
        replace(
            each,
            serving={thread: int(reading.time) for thread in range(busy)},
            last_spawn=reading.time - age,
            requests_since_spawn=served,
        )
        for each in reading.snapshot.workers
    ]
    processes = {
        pid: replace(process, threads=threads, threads_since=reading.at - age)
        for pid, process in reading.host.processes.items()
    }
    record = judging.describe(
        snapshot=replace(reading.snapshot, workers=tuple(workers)),
        setup=Setup(options, None, kind, None, None),
        processes=processes,
    )
    assert (record.workers[1].ending is not None) == is_ending
    assert record.workers[1].available_threads == (0 if is_ending else 4)


@pytest.mark.parametrize(
    ("rows", "workers", "queued", "factor", "is_far"),
    [
        # One thread of two is busy, and yet no request is served: the headroom is not 2.
        ([(0, 20.0, 20.0), (0, 0.0, 0.0)], (serving(1, 30.0), gone(2)), 3.0, None, False),
        ([(0, 20.0, 20.0), (0, 0.0, 0.0)], (serving(1, 30.0), gone(2)), 0.0, 2.0, False),
        # What ten requests used before all workers went away is no measure while others wait.
        ([(10, 0.2, 2.0)], (gone(1),), 75.0, None, False),
        ([(10, 0.2, 2.0)], (serving(1),), 75.0, None, True),
    ],
)
def test_headroom_while_nothing_completes(rows, workers, queued, factor, is_far):
    """Free threads are none."""
    numbered = enumerate(rows, 1)
    of = window(
        20, *(worker(n, done, each=0.02, busy=busy, up=up) for n, (done, busy, up) in numbered), app=20 * queued
    )
    room = figures_of(of, describe(*workers)).headroom
    assert (room.factor, bool(room.far)) == (factor, is_far)
