"""Findings about workers that hang at the start, wait to end or run handlers, and about a reload that waits."""

import pytest
from msgspec.structs import replace

from tests.analysis import judging
from tests.analysis.judging import AT, by_code, figures_of, judge, said, severity
from tests.support.simulated_server import Server
from tests.support.windows import window, worker
from uwsgi_headroom.analysis.findings import Finding, causes, collect_findings, first_act
from uwsgi_headroom.record import Blocker, Ending, Options, ServerRecord, Setup, WorkerRecord

COMPLETE = judging.setup(complete=True)


def describe(*workers: WorkerRecord, setup: Setup = COMPLETE) -> ServerRecord:
    return replace(judging.describe(Server(processes=len(workers))), workers=workers, setup=setup)


def findings(record: ServerRecord, up: tuple[float, ...], queued: float = 0.0) -> dict[str, Finding]:
    """The findings of 20 s in which each worker accepted requests for some seconds; queued: requests that wait."""
    rows = [worker(number, 5, each=0.02, busy=1.0, up=seconds) for number, seconds in enumerate(up, 1)]
    return judge(window(20, *rows, app=20 * queued), record)


def starting(worker_id: int, seconds: float, wait: Blocker | None = None) -> WorkerRecord:
    return WorkerRecord(worker_id, "down", 2, pid=4000 + worker_id, starting=seconds, start_wait=wait)


def serving(worker_id: int, age: float | None = None) -> WorkerRecord:
    ages = {} if age is None else {0: age}
    return WorkerRecord(worker_id, "accepting", 2, pid=4000 + worker_id, local_pid=5000 + worker_id, ages=ages)


def gone(worker_id: int) -> WorkerRecord:
    return WorkerRecord(worker_id, "down", 2)


@pytest.mark.parametrize(
    ("wait", "what"),
    [
        (Blocker("backend", "10.0.0.5:5432"), ", waiting for 10.0.0.5:5432"),
        (Blocker("lock"), ", waiting for a lock"),
        (Blocker("unknown"), ""),
        (None, ""),
        (Blocker("cpu"), ", computing"),
    ],
)
def test_what_a_hanging_start_waits_for(wait, what):
    """It is named if it is known; a worker that only starts is no finding of this kind."""
    found = findings(describe(starting(1, 12.0, wait), starting(2, 11.0)), (5.0, 5.0))
    assert said(found, "start_hangs") == (causes.START_HANGS, "critical")
    assert found["start_hangs"].title.endswith(f" start{what}.")
    assert "workers_missing" not in found


ONE_OF_THREE = (gone(1), serving(2, 30.0), gone(3))
STARTS = (starting(1, 2.0), serving(2), serving(3))


@pytest.mark.parametrize(
    ("workers", "up", "queued", "expected"),
    [
        # Others serve; a worker that was spawned a moment ago is missing as before.
        (
            (starting(1, 12.0), serving(2), starting(3, 2.0)),
            (5.0, 20.0, 18.5),
            0.0,
            {"start_hangs": ("warning", 1), "workers_missing": ("info", 3)},
        ),
        # The present start counts, not each of the window, unless the worker was away for most of it.
        (STARTS, (13.0, 20.0, 20.0), 0.0, {"workers_missing": ("info", 1)}),
        (STARTS, (9.0, 20.0, 20.0), 0.0, {"workers_missing": ("warning", 1)}),
        ((starting(1, 6.0), *STARTS[1:]), (13.0, 20.0, 20.0), 0.0, {"workers_missing": ("warning", 1)}),
        # In a short window a start of some seconds is a large part of it.
        ((serving(1), gone(2)), (20.0, 16.0), 0.0, {"workers_missing": ("info", 2)}),
        ((serving(1), gone(2)), (20.0, 14.0), 0.0, {"workers_missing": ("warning", 2)}),
        # A reload waits for a request: the others have ended and are not replaced.
        (ONE_OF_THREE, (4.0, 20.0, 4.0), 0.0, {"reload_waits": ("warning", 2)}),
        (ONE_OF_THREE, (4.0, 20.0, 4.0), 4.0, {"reload_waits": ("critical", 2)}),
        # uWSGI replaces a worker at any other time, or nobody is left to wait for.
        (ONE_OF_THREE, (18.0, 20.0, 4.0), 0.0, {"workers_missing": ("warning", None)}),  # worker 1 ended just now
        ((*ONE_OF_THREE[:2], serving(3)), (4.0, 20.0, 20.0), 0.0, {"workers_missing": ("warning", 1)}),
        ((gone(1), serving(2, 1.0), gone(3)), (4.0, 20.0, 4.0), 0.0, {"workers_missing": ("warning", None)}),
        ((gone(1), starting(2, 5.0), serving(3, 30.0)), (4.0, 4.0, 20.0), 0.0, {"workers_missing": ("warning", None)}),
        ((gone(1), gone(2), gone(3)), (4.0, 4.0, 4.0), 0.0, {"workers_missing": ("critical", None)}),
    ],
)
def test_workers_that_are_away(workers, up, queued, expected):
    """They start, hang at the start, or a reload waits for the last request; which worker is meant is said."""
    found = findings(describe(*workers), up, queued)
    said = {code: (each.severity, each.worker_id) for code, each in found.items()}
    assert {code: said[code] for code in ("start_hangs", "workers_missing", "reload_waits") if code in said} == expected


def test_the_request_that_a_reload_waits_for():
    """Its worker has the command that ends it."""
    assert "with `kill -TERM 5002`" in findings(describe(*ONE_OF_THREE), (4.0, 20.0, 4.0))["reload_waits"].change


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


def test_workers_in_exit_handlers():
    """No request is in service there, and yet they do not exit; nothing is said while nobody waits for them."""
    record = describe(ending(1), ending(2))
    finding = findings(record, (20.0, 20.0), 4.0)["workers_ending"]
    assert "py-spy dump --pid 5001" in finding.change
    assert "workers_ending" not in findings(record, (20.0, 20.0))
    assert "workers_ending" not in findings(describe(ending(1, 1.0), ending(2, 2.0)), (20.0, 20.0), 4.0)


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


@pytest.mark.parametrize("wait", [Blocker("lock"), Blocker("backend", "10.0.0.5:5432")])
def test_a_deploy_that_hangs_is_rolled_back(wait):
    """uWSGI was reloaded. No reload and no SIGTERM ends a worker that is importing; the act has what does."""
    hanging = [replace(starting(number, 12.0, wait), local_pid=5000 + number) for number in (1, 2)]
    rows = [worker(number, 5, busy=1.0, up=5.0, respawns=1) for number in (1, 2)]
    change = judge(replace(window(20, *rows), reloads=1), describe(*hanging))["start_hangs"].change
    assert first_act(change) == "If this began with a deploy, roll the deploy back"
    assert "end workers 1 and 2 with `kill -KILL 5001 5002`" in change


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


@pytest.mark.parametrize(
    ("others", "code"), [((gone(2), gone(3)), "reload_waits"), ((serving(2), serving(3)), "accept_blocked")]
)
def test_threads_that_are_free_during_a_reload(others, code):
    """The reload says why no worker takes the requests that wait beside free threads."""
    rows = [worker(number, 5, each=0.02, busy=1.0, up=seconds) for number, seconds in ((1, 20.0), (2, 4.0), (3, 4.0))]
    waiting = replace(window(20, *rows, app=1200.0), idle_queue_seconds=18.0)
    found = judge(waiting, describe(serving(1, age=22.0), *others))
    assert {"reload_waits", "accept_blocked"} & found.keys() == {code}


def scaling(**figures: float) -> dict[str, Finding]:
    """The findings of 20 s of a cheaper pool in which one of two workers loads the application while requests wait."""
    setup = judging.setup(cheaper=1, lazy_apps=True, complete=True)
    record = describe(serving(1), starting(2, 4.0), WorkerRecord(3, "reserve", 2), setup=setup)
    rows = [worker(number, 100 * up, each=0.1, busy=40.0 * up, up=20.0 * up) for number, up in ((1, 1), (2, 0), (3, 0))]
    known = {"queued": 3.0, "starting_seconds": 10.0, "full_seconds": 18.0} | figures
    return judge(replace(window(20, *rows, app=20 * known.pop("queued")), **known), record)


def test_a_cheaper_pool_whose_application_loads_slowly():
    """Requests wait for workers that cheaper mode has started too late: that is said, and not that one is missing."""
    found = scaling()
    block = next(iter(found.values()))
    assert (block.kind, block.severity) == (causes.CHEAPER_STARTS_SLOWLY, "critical")
    assert block.settings
    assert not found.keys() & {"workers_missing", "start_hangs", "cheaper_does_not_scale"}


def handling(seconds: float, *, queued: float) -> tuple[dict[str, Finding], float]:
    """The findings about handlers that took so many thread seconds of 20 s of two workers, and the factor of the
    threads. queued: mean requests in the listen queue."""
    record = describe(*(WorkerRecord(number, "accepting", 1, pid=4000 + number) for number in (1, 2)))
    rows = [worker(number, 1000, each=0.01, busy=10.0) for number in (1, 2)]
    figures = figures_of(replace(window(20, *rows, app=20 * queued), handler_seconds=seconds), record)
    return by_code(collect_findings(figures)), figures.headroom.by_limit["threads"]


@pytest.mark.parametrize(
    ("seconds", "queued", "factor", "expected"),
    [
        (16.0, 0.0, 1.2, "info"),  # four fifths of the time leave 1.2 of 2 threads to requests
        (18.0, 0.0, 1.1, "warning"),  # threads are the limit
        (16.0, 2.0, 1.2, "warning"),
        (1.9, 0.0, 1.905, None),  # a twentieth of the threads is worth no sentence
    ],
)
def test_handlers_of_signals_take_threads(seconds, queued, factor, expected):
    """They leave fewer threads to requests, and are the cause where requests wait."""
    found, left = handling(seconds, queued=queued)
    assert severity(found, "signal_handlers") == expected
    assert left == pytest.approx(factor)
    assert not expected or [harm.code for harm in found["signal_handlers"].harms] == ["queue_wait"] * (queued > 0)


def test_handlers_beside_coroutines():
    """A handler is one more coroutine, and takes no place of a request."""
    record = describe(WorkerRecord(1, "accepting", 4, pid=4001), setup=judging.setup("async", complete=True))
    made = replace(window(20, worker(1, 1000, each=0.01, busy=10.0)), handler_seconds=20.0)
    figures = figures_of(made, record)
    assert "signal_handlers" not in {finding.code for finding in collect_findings(figures)}
    assert figures.headroom.by_limit["threads"] == pytest.approx(8.0)
