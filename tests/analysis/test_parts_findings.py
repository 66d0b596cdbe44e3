"""Findings about the parts of a uWSGI: workers that start and end, caches, spoolers, vassals, static files."""

import socket

import pytest
from msgspec.structs import replace

from tests.analysis import judging
from tests.analysis.judging import AT, figures_of, findings_by_code, idle, judge
from tests.history.watched import Watched
from tests.support.real_uwsgi import uwsgi
from tests.support.simulated_server import Server
from tests.support.windows import window, worker
from tools.scenarios.scenario import APP
from uwsgi_headroom import stats
from uwsgi_headroom.analysis.findings import RUNBOOKS, Finding, collect_emperor_findings, parts
from uwsgi_headroom.history.window import Window
from uwsgi_headroom.kernel.options import read_options
from uwsgi_headroom.reading import Reading, describe_emperor
from uwsgi_headroom.record import UNKNOWN, Ending, Options, ServerRecord, Setup, WorkerRecord
from uwsgi_headroom.stats.raw import Blacklisted, Cache, EmperorSnapshot, ListedVassal, Spooler


def with_parts(reading: Reading, spooled: dict[str, int], **parts: object) -> Reading:
    host = replace(reading.host, spooled=spooled)
    return replace(reading, snapshot=replace(reading.snapshot, **parts), host=host)


def judged(
    of: Window, spooled: dict[str, int] | None = None, options: Options | None = None, **parts: object
) -> dict[str, Finding]:
    snapshot = replace(Server().read(AT).snapshot, **parts)
    setup = replace(UNKNOWN, options=options or Options(complete=True))
    return findings_by_code(of, snapshot=snapshot, spooled=spooled or {}, setup=setup)


def full(*caches: Cache, refused: int | None = 40, options: Options | None = None) -> dict[str, Finding]:
    return judged(replace(idle(), cache_full=refused), options=options, caches=caches)


def sampled(*samples: tuple[tuple[Cache, ...], tuple[Spooler, ...], dict[str, int]]) -> Window:
    """The window of samples, a second apart."""
    server, watched = Server(processes=1), Watched(Server(processes=1))
    for second, (caches, spoolers, spooled) in enumerate(samples):
        reading = with_parts(server.read(float(second)), spooled, caches=caches, spoolers=spoolers)
        watched.integrals.add(reading, 2.0)
        watched.history.add(float(second), watched.integrals.totals)
    return watched.history.window(60)


def test_counters_of_a_window():
    """Growth is added by name; what was there before, and a counter that was reset, add nothing."""
    window = sampled(
        ((Cache("a", full=100), Cache("b", full=5)), (Spooler("/s", tasks=7), Spooler("/s", tasks=1)), {"/s": 3}),
        ((Cache("a", full=110), Cache("b", full=2)), (Spooler("/s", tasks=9), Spooler("/s", tasks=1)), {"/s": 8}),
        ((Cache("c", full=50), Cache("a", full=111)), (Spooler("/s", tasks=9), Spooler("/s", tasks=2)), {"/s": 6}),
    )
    assert (window.cache_full, window.spooler_tasks) == (11, 3)
    assert (window.spooled, window.spooled_growth) == (6, 3)


def test_missing_figures():
    """Without caches and spoolers all is unknown; a counter that is missing adds nothing."""
    window = sampled(((), (), {}), ((), (), {}))
    assert (window.cache_full, window.spooler_tasks, window.spooled, window.spooled_growth) == (None,) * 4
    window = sampled(((Cache("a"),), (Spooler("/s"),), {}), ((Cache("a"),), (Spooler("/s"),), {}))
    assert (window.cache_full, window.spooler_tasks, window.spooled) == (0, 0, None)


@pytest.mark.integration
@pytest.mark.parametrize(
    ("more", "is_full"),
    [("items=10", True), ("items=10,purge_lru=1", False), ("items=10,lru=1", False), ("items=50", False)],
)
def test_the_advice_about_a_full_cache(more, is_full):
    """`purge_lru` and more `items` end what the finding is about, by uWSGI's document and its options."""
    with uwsgi("--processes", "1", "--cache2", f"name=pages,{more}", app=APP) as server:
        for _ in range(20):
            with socket.create_connection(("127.0.0.1", server.http), 10) as client:
                client.sendall(b"GET /cache HTTP/1.0\r\n\r\n")
                assert client.recv(12).endswith(b"200")
        snapshot = stats.decode(server.document())
        options = read_options(server.pid)
    (cache,) = snapshot.caches
    findings = full(cache, refused=cache.full, options=replace(options, complete=True))
    assert ("cache_full" in findings) == is_full


def emperor(*throttled: Blacklisted, vassals: int = 2, start: str = "") -> list[Finding]:
    running = tuple(ListedVassal(name=f"v{number}.ini", pid=number + 10) for number in range(vassals))
    snapshot = EmperorSnapshot(version="2.0.31", pid=9, vassals=running, blacklist=throttled)
    return collect_emperor_findings(describe_emperor(snapshot, start=start))


def test_a_vassal_that_the_tyrant_refuses():
    """The log alone says so, and names it."""
    snapshot = EmperorSnapshot(version="2.0.31", pid=9, vassals=(), blacklist=())
    (finding,) = collect_emperor_findings(describe_emperor(snapshot, "shop.ini"))
    assert (finding.kind, finding.severity) == (parts.VASSAL_REFUSED, "warning")
    assert "shop.ini" in finding.title


def test_a_throttled_vassal_is_a_warning():
    """The finding names the vassal, and how long the emperor waits; there is a runbook."""
    (finding,) = emperor(Blacklisted(name="shop.ini", throttle_level=12_000, attempt=3))
    assert (finding.kind, finding.severity) == (parts.VASSALS_THROTTLED, "warning")
    assert finding.evidence.endswith("start shop.ini, for 12 s at most.")
    (finding,) = emperor(Blacklisted(name="shop.ini", throttle_level=12_000, attempt=3), start="home_wrong")
    assert finding.evidence.endswith("says that Python does not find its standard library, so uWSGI does not start.")
    assert finding.change.startswith("Correct `home`")
    assert RUNBOOKS[finding.code] == "UwsgiVassalThrottled"
    assert [emperor(vassals=number) for number in (0, 2)] == [[], []]


@pytest.mark.parametrize(("count", "end"), [(3, "a, b and c."), (5, "a, b, c and 2 more.")])
def test_only_some_of_many_throttled_vassals_are_listed(count, end):
    """The sentence lists the first three, without figures that uWSGI omits; the document lists all of them."""
    (finding,) = emperor(*(Blacklisted(name=name) for name in "abcde"[:count]), vassals=1)
    assert finding.evidence.endswith(end)


FILES = Server(processes=2, threads=2, cpus=8.0)


def files(held: float | None = 3.8, *, static: int = 450, other: int = 50, queued: float = 0.0) -> Window:
    """A minute of two workers with two threads each, of which files hold so many, and others a few."""
    busy = None if held is None else 60 * held / 2 + other * 0.02
    rows = (worker(number, static + other, each=0.02, static=static, cpu=0.5, busy=busy) for number in (1, 2))
    return window(60, *rows, waits={"client": held or 0.1, "cpu": 0.03}, app=60 * queued)


def test_one_basis_for_a_mean_request():
    """The time of a mean request is that of requests that uWSGI measures: what threads do for files is not in it."""
    hidden, shown = (figures_of(of, FILES) for of in (files(queued=9.0), files(0.001, static=10, other=490)))
    assert hidden.waits.per_request is None
    assert sum(shown.waits.per_request.values()) == pytest.approx(shown.flow.response_time)


COMPLETE = judging.setup(complete=True)


def described(*workers: WorkerRecord, setup: Setup = COMPLETE) -> ServerRecord:
    return replace(judging.describe(Server(processes=len(workers))), workers=workers, setup=setup)


def found_in(record: ServerRecord, up: tuple[float, ...], queued: float = 0.0) -> dict[str, Finding]:
    """The found_in of 20 s in which each worker accepted requests for some seconds; queued: requests that wait."""
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
    record = described(*ONE_OF_THREE)
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
    record = described(ending(1, 30.0, 2.0, why=reason), others, setup=LIMITED)
    finding = found_in(record, (20.0, 20.0), queued)["workers_ending"]
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
    room = figures_of(of, described(*workers)).headroom
    assert (room.factor, bool(room.far)) == (factor, is_far)
