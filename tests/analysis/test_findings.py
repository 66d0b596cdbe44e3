"""Findings about uneven workers, threads in use, listen queues, stuck requests and what else a window shows."""

import pytest
from msgspec.structs import replace

from tests.analysis.judging import (
    AT,
    by_code,
    change_workers,
    describe,
    figures_of,
    findings_by_code,
    idle,
    judge,
    row,
    setup,
    severity,
)
from tests.support.simulated_server import EPOCH, Server
from tests.support.windows import the_example, the_harmless_one, window, worker
from uwsgi_headroom.analysis.findings import (
    RULES,
    Finding,
    collect_findings,
    evenness,
    limits,
    load,
    queue,
    waits,
)
from uwsgi_headroom.analysis.verdict import verdict_sentence, worst_status
from uwsgi_headroom.history.window import Window
from uwsgi_headroom.record import Backlog
from uwsgi_headroom.stats.raw import App


def alone(of: Window, server: Server | None = None, **known: object) -> dict[str, Finding]:
    """The findings about a window before harms are joined to their causes."""
    figures = figures_of(of, describe(server, **known))
    return by_code(finding for rule in RULES for finding in rule(figures))


def test_a_hot_worker_is_reported_in_one_sentence():
    """43 % in one worker with a saturated interpreter, while threads in other workers are idle, is critical; the
    finding has the cost and the remedy. If no CPU is idle, all workers are slow for that reason."""
    found = findings_by_code(the_example(), Server(cpus=4.0))
    finding = found["unevenness_hurts"]
    assert (finding.kind, finding.severity, finding.worker_id) == (evenness.HURTS, "critical", 2)
    assert "125 ms (25 %) shorter" in finding.meaning
    assert "8x4 instead of 4x8" in finding.change
    assert "interpreter_bound" not in found, "the same problem is reported once"
    full = judge(replace(the_example(), cpu=window(60, cpu=(2.3, 0.0, 1.7)).cpu), Server(cpus=4.0))
    assert (next(iter(full)), full["unevenness_hurts"].severity) == ("cpu_bound", "warning")


def four(first: tuple[float, ...], *others: tuple[float, ...]) -> Window:
    """A minute of workers with these requests, seconds of each, CPU seconds and busy seconds; those of the last one are
    those of further workers up to four."""
    rows = (first, *others, *[others[-1]] * (3 - len(others)))
    return window(
        60,
        *(worker(n, int(count), each=each, cpu=cpu, busy=busy) for n, (count, each, cpu, busy) in enumerate(rows, 1)),
    )


CHANCE = [(5 * share, 0.05, 3.0, 10.0) for share in (17, 10, 12, 13, 12, 13, 12, 11)]
LONG = [(80, 0.68, 20.0, 54.4)] * 4 + [(95, 0.85, 29.0, 80.8)] * 3 + [(105, 1.2, 45.0, 126.0)]


@pytest.mark.parametrize(
    ("of", "server", "expected"),
    [
        # Requests that take twice as long are no harm that needs somebody at once, if users do not notice it.
        (four((3000, 0.038, 55.0, 114.0), (600, 0.019, 3.0, 11.4)), {}, {"unevenness_hurts": "warning"}),
        (four((3000, 0.042, 55.0, 126.0), (600, 0.021, 3.0, 12.6)), {}, {"unevenness_hurts": "critical"}),
        # A slow worker is blamed on unevenness if its interpreter is used half of the time or more.
        (four((1000, 0.2, 30.0, 200.0), (200, 0.05, 3.0, 10.0)), {}, {"unevenness_hurts": "warning"}),
        (four((1000, 0.2, 29.4, 200.0), (200, 0.05, 3.0, 10.0)), {}, {"uneven": "info"}),
        (the_harmless_one(), {}, {"unevenness_harmless": "info"}),
        (four(*CHANCE), {"processes": 8, "threads": 1}, {}),
        # One of eight has long requests by chance: no other split of processes and threads would change that.
        (four(*LONG), {"processes": 8, "cpus": 8.0}, {}),
        (four((10, 0.1, None, None), (10, 0.1, None, None)), {}, {}),
        (four((40, 0.1, None, None), (0, 0.1, None, None)), {}, {"uneven": "info"}),
        # Without the load of interpreters, the cost is unknown.
        (four((2000, 0.1, None, None), (300, 0.1, None, None)), {"host": False}, {"uneven": "info"}),
    ],
)
def test_uneven_workers(of, server, expected):
    """What chance explains is no finding, what costs nothing is harmless, and what users notice is critical."""
    found = findings_by_code(of, Server(**server))
    assert {code: severity(found, code) for code in found if code.startswith("uneven")} == expected


@pytest.mark.parametrize(("each", "kind"), [(0.001, evenness.ONE_FAST), (0.05, None)])
def test_a_worker_that_answers_at_once_takes_most_requests(each, kind):
    """It may fail each of them, which uWSGI does not count."""
    found = findings_by_code(four((900, each, 0.5, 900 * each), (300, 0.1, 0.5, 30.0)))
    assert row(found, "uneven") is kind


def loaded(used: float, *, wait: float | None = 0.0, full: float = 0.5) -> Window:
    """A minute of 4x8 with this fraction of the threads busy, and 20 requests per second of `used` * 1.6 s each that
    wait this many seconds."""
    rows = (worker(worker_id, 300, each=used * 32 / 20, cpu=3.0, busy=used * 480) for worker_id in (1, 2, 3, 4))
    queues = {} if wait is None else {"app.sock": wait * 1200}
    return replace(window(60, *rows, **queues), full_seconds=full * 60)


@pytest.mark.parametrize(
    ("used", "wait", "expected"),
    [
        (0.70, 0.0, None),
        (0.70, 2.0, None),
        (0.80, 0.0, "warning"),
        (0.80, 2.0, "warning"),
        (0.95, None, "warning"),
        (0.95, 0.09, "warning"),
        (0.95, 0.1, "critical"),
        (0.95, 0.5, "critical"),
    ],
)
def test_saturation(used, wait, expected):
    """Three quarters of the threads in use are a warning; at the limit, with requests waiting, it is critical."""
    assert severity(alone(loaded(used, wait=wait)), "saturation") == expected


def test_a_blocked_queue():
    """If every thread is held and requests wait, but none is completed, that is critical, although no wait can be
    computed."""
    held = window(60, *(worker(number, 0, each=None, cpu=0.0, busy=480.0) for number in (1, 2, 3, 4)), app=300.0)
    first, *_ = judge(replace(held, full_seconds=60.0)).values()
    assert [each.kind for each in (first, *first.harms)] == [limits.IN_USE, queue.NOTHING_COMPLETED]
    assert ": all threads are busy." in first.title


def test_cheaper_counts_the_reserve():
    """If two of eight workers are up and both are busy, a quarter of the threads is in use, as long as no request
    waits."""
    rows = (worker(number, 300, each=0.2, cpu=3.0, busy=58.0) for number in (1, 2))
    rest = (worker(number, 0, cpu=0.0, busy=0.0, up=0.0) for number in range(3, 9))
    reserve = replace(window(60, *rows, *rest, app=1.0), full_seconds=55.0)
    assert judge(reserve, Server(processes=8, threads=1, spawned=2)) == {}


@pytest.mark.parametrize(
    ("saturated", "kind", "worker_id"),
    [([1], load.SOME_SATURATED, 1), ([1, 2], load.SOME_SATURATED, None), ([1, 2, 3], load.ALL_SATURATED, None)],
)
def test_saturated_interpreters_are_named(saturated, kind, worker_id):
    """A single interpreter is named by its worker; of several, the evidence names the workers. If every one is
    saturated and users feel it, the remedy is more processes."""
    rows = [worker(n, 500, each=0.1, cpu=59.0 if n in saturated else 1.0, busy=10.0) for n in (1, 2, 3)]
    finding = judge(window(60, *rows), Server(processes=3, cpus=8.0))["interpreter_bound"]
    assert (finding.kind, finding.worker_id) == (kind, worker_id)
    assert ("of worker 1 is saturated" in finding.title) == (saturated == [1])
    assert ("workers 1 and 2" in finding.evidence) == (saturated == [1, 2])
    felt = window(60, *(worker(number, 600, each=0.2, cpu=57.0, busy=120.0) for number in (1, 2)))
    finding = judge(felt, Server(processes=2, cpus=8.0))["interpreter_bound"]
    assert (finding.kind, finding.severity) == (load.ALL_SATURATED, "critical")
    assert finding.settings == (("processes", 4),)


def queued(waiting: float, full: float = 0.0, name: str = "app.sock", **changes: object) -> Window:
    """A minute with this many requests waiting on average, and the queue at its limit for this fraction of the time."""
    queues = {"queue_seconds": {name: waiting * 60}, "queue_full_seconds": {name: full * 60}}
    return replace(idle(), **queues, **changes)


def test_a_queue_that_fills():
    """A half-full queue is a warning. Where requests wait, it is one problem with one advice."""
    filling = alone(queued(60), Server(queue=60))["queue_filling"]
    block, *_ = judge(queued(60), Server(queue=60)).values()
    assert filling.kind is queue.QUEUE_FILLS
    assert (block.kind, block.severity) == (queue.LONG_WAIT, "critical")
    assert [each.code for each in block.harms] == ["queue_filling"]
    assert all("net.core.somaxconn" in each.change for each in (filling, block))


@pytest.mark.parametrize(("full", "expected"), [(0.0, None), (0.01, "warning"), (0.04, "warning"), (0.06, "critical")])
def test_a_full_queue_refuses_clients(full, expected):
    """Refused clients are the first finding, and the queue is not reported as filling as well."""
    found = alone(queued(60, full), Server(queue=101))
    assert severity(found, "clients_refused") == expected
    assert ("queue_filling" in found) == (expected is None)
    assert (next(iter(judge(queued(60, full), Server(queue=101)))) == "clients_refused") == bool(expected)


@pytest.mark.parametrize("full", [0.0, 30.0])
def test_queues_with_equal_figures_are_told_apart(full):
    """Each is named where its figures are, so that no sentence stands twice."""
    backlogs = dict.fromkeys(("a.sock", "b.sock"), Backlog(60, 100, None))
    queues = {"queue_seconds": dict.fromkeys(backlogs, 3600.0), "queue_full_seconds": dict.fromkeys(backlogs, full)}
    found = collect_findings(figures_of(replace(idle(), **queues), describe(queues=backlogs)))
    texts = [each.evidence for finding in found for each in (finding, *finding.harms)]
    assert [sum(f"queue of {name}" in text for text in texts) for name in backlogs] == [1, 1]
    assert len(set(texts)) == len(texts)


@pytest.mark.parametrize(
    ("overflows", "refused", "said"),
    [
        (0, None, None),  # nobody was refused
        (7, None, "dropped 7 connections"),
        (7, 5, "dropped 5 connections, and 2 more"),
        (7, 7, "dropped 7 connections"),
        (None, 5, "on average (100 now)."),  # nothing to subtract from
    ],
)
def test_a_full_tcp_queue_counts_only_with_dropped_connections(overflows, refused, said):
    """The kernel counts drops per network namespace, and the finding says so where the server's own are not known."""
    of = replace(queued(60, 0.5, ":8080", overflows=overflows), refused=refused)
    finding = findings_by_code(of, Server(queue=101, socket=":8080")).get("clients_refused")
    assert (finding is not None) == (said is not None)
    assert not finding or said in finding.evidence
    assert not finding or "other" not in finding.evidence or refused != overflows


@pytest.mark.parametrize(
    ("listen", "somaxconn", "words"),
    [(40, 4096, "raise `listen` from 40 (at most to net.core.somaxconn"), (100, 100, "raise net.core.somaxconn")],
)
def test_which_of_the_two_limits_a_queue(listen, somaxconn, words):
    """The kernel caps `listen` at net.core.somaxconn: the smaller one is the limit to raise."""
    known = {"setup": replace(setup(), somaxconn=somaxconn), "backlogs": {"app.sock": Backlog(60, listen, None)}}
    assert words in findings_by_code(queued(60, 0.5), Server(queue=60), **known)["clients_refused"].change


FULL = replace(queued(20), full_seconds=30.0)


@pytest.mark.parametrize(
    ("of", "algorithm", "socket", "kind"),
    [
        (FULL, None, "app.sock", limits.CHEAPER),
        (replace(queued(0.1), full_seconds=30.0), None, "app.sock", None),
        (replace(FULL, respawns=1), None, "app.sock", None),  # one was spawned
        # uWSGI knows the length of TCP queues only.
        (FULL, "backlog", "app.sock", limits.CHEAPER_BLIND),
        (replace(queued(20, name="@app"), full_seconds=30.0), "backlog2", "@app", limits.CHEAPER_BLIND),
        (replace(queued(20, name=":8080"), full_seconds=30.0), "backlog", ":8080", limits.CHEAPER),
        (FULL, "manual", "app.sock", limits.CHEAPER_MANUAL),
        (FULL, "spare", "app.sock", limits.CHEAPER),
    ],
)
def test_cheaper_that_never_scales(of, algorithm, socket, kind):
    """Workers in reserve, while every thread is in use and requests wait, are reported if none was spawned. Each
    algorithm spawns workers for a reason of its own, and some never do."""
    found = alone(of, Server(spawned=2, socket=socket), setup=setup(cheaper_algo=algorithm))
    assert row(found, "cheaper_does_not_scale") is kind


@pytest.mark.parametrize(("resident", "kind"), [(25 << 20, limits.CHEAPER_LIMITED), (24 << 20, limits.CHEAPER)])
def test_cheaper_at_its_limit_of_memory(resident, kind):
    """From `cheaper-rss-limit-soft` on, it spawns no worker: 4 workers of 25 MB reach 100."""
    of = change_workers(FULL, resident_bytes=resident)
    found = findings_by_code(of, Server(spawned=2), setup=setup(cheaper_rss_limit_soft=100 << 20))
    assert row(found, "cheaper_does_not_scale") is kind


@pytest.mark.parametrize(
    ("options", "words", "can_be_lower"),
    [
        ({"cheaper_overload": 1}, "", False),  # what is at its least is not to be lowered
        ({"cheaper_overload": 2}, "", True),
        ({"cheaper_overload": 9}, "9 checks in a row", True),
        ({"cheaper_overload": 30, "cheaper_algo": "busyness"}, "Every 30 seconds", True),
    ],
)
def test_the_overload_of_cheaper_mode(options, words, can_be_lower):
    """It is a number of checks, or of seconds."""
    finding = alone(FULL, Server(spawned=2), setup=setup(**options))["cheaper_does_not_scale"]
    assert words in finding.meaning
    assert ("lower `cheaper-overload`" in finding.change) == can_be_lower


@pytest.mark.parametrize(
    ("options", "words"), [({"cheaper": 1}, "Raise `threads`"), ({}, "Check uWSGI's log for the reason")]
)
def test_workers_that_cheaper_mode_spawned_late_were_not_down(options, words):
    """The advice is to add capacity; if only the workers' absence explains the wait, it is to find its reason."""
    rows = (worker(number, 500, busy=18.0, up=20.0) for number in range(1, 5))
    of = replace(window(60, *rows, waits={"sleep": 1.2}, app=1200.0), full_seconds=18.0)
    known = setup(complete=True, **options)
    assert findings_by_code(of, setup=known)["queue_wait"].change.startswith(words)


def test_an_application_that_is_not_loaded():
    """If the configuration names an application and uWSGI lists none, every request gets status 500."""
    snapshot, names = Server().read(AT).snapshot, setup(names_application=True)

    def found(loaded: int, known: object = names) -> str | None:
        workers = (replace(each, apps=(App(),) * (each.worker_id <= loaded)) for each in snapshot.workers)
        changed = replace(snapshot, workers=tuple(workers))
        return severity(findings_by_code(idle(), snapshot=changed, setup=known), "no_application")

    assert [found(loaded) for loaded in (0, 1, 4)] == ["critical", "warning", None]
    assert found(0, setup()) is None


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        ([(500, 59.0, 60.0), (400, 44.0, 45.0)], "(86 %), and 1.8 are up"),
        ([(500, 59.0, None), (400, 59.0, None)], ""),  # it ended just now
        ([(500, 59.0, None), (400, 55.0, 5.0)], "and 1.9 are up"),  # it serves its last requests
    ],
)
def test_threads_of_a_worker_that_is_gone_count_in_proportion(rows, said):
    """One of two workers is gone at the end of the window: a mean is one of the threads that there were on average."""
    server = Server(processes=2, threads=1)
    server[2].pid, server[2].state = None, "gone"
    of = window(60, *(worker(n, requests, busy=busy, up=up) for n, (requests, busy, up) in enumerate(rows, 1)))
    evidence = findings_by_code(of, server)["saturation"].evidence
    assert said in evidence
    assert ("are up" in evidence) == bool(said)


def test_a_full_machine_beside_a_server_that_needs_little():
    """The server has no finding, and the kernel gives it a part of the CPUs, as of the four here."""
    of = replace(idle(), cpu=window(60, cpu=(0.03, 0.0, 1.97)).cpu)
    findings = list(judge(of).values())
    assert worst_status(findings) == "ok"
    sentence = "Headroom 6.4x until requests wait; 6.7x until CPUs run out."
    assert verdict_sentence(figures_of(of).headroom, findings) == sentence


def stuck(worker_id: int, *ages: int, **server: object) -> Server:
    """A server in which requests of a worker have been in service for so many seconds."""
    made = Server(**server)
    made[worker_id].request_starts = tuple(int(EPOCH + AT) - age for age in ages)
    return made


def test_stuck_requests():
    """Requests older than the limit are stuck; in a killed worker they are lost, not stuck."""
    server = stuck(2, 45, 5)
    finding = findings_by_code(idle(), server)["request_stuck"]
    assert (finding.kind, finding.worker_id) == (waits.STUCK, 2)
    assert finding.evidence.startswith("1 request is stuck in worker 2, in service for 45 s.")
    server.kill(2)
    assert findings_by_code(idle(), server).keys() == {"workers_missing"}


@pytest.mark.parametrize(
    ("ages", "seconds", "which"),
    [((290, 0), 300.0, None), ((290, 0), 290.0, "1"), ((40, 40), 30.0, ""), ((40, 40), 10.0, "1,3")],
)
def test_the_age_of_a_stuck_request_is_a_setting(ages, seconds, which):
    """Long polls on threads are no finding until they last longer than they are meant to. `pids --stuck` knows only the
    usual age, so with another one the numbers of the workers are in the command."""
    server = stuck(1, ages[0], threads=1)
    server[3].request_starts = (int(EPOCH + AT) - ages[1],)
    finding = judge(idle(), server, stuck_seconds=seconds).get("request_stuck")
    assert (finding is None) == (which is None)
    assert not finding or which in finding.change


def streams(streams: int, cores: int = 25, requests: int = 500, queued: float = 0.0) -> dict[str, Finding]:
    """Findings about four gevent workers, of which the first has so many event streams, a minute old; the others have
    none. cores: of each worker, of which all but those of the streams are free."""
    rows = (worker(number, requests, busy=60.0 * (streams if number == 1 else 0)) for number in range(1, 5))
    of = window(60, *rows, app=60 * queued)
    return findings_by_code(of, stuck(1, *[60] * streams, threads=cores), setup=setup("async", gevent=cores))


def test_event_streams_that_leave_no_core():
    """`harakiri` would end all requests of the worker, so it is not advised; where it is not known whether cores are
    threads, neither. Where nothing is served, something does not yield, and more cores do not help."""
    assert "request_stuck" not in (streams(20) | streams(21, cores=6))  # a core that waits takes nothing from others
    finding, standing = streams(23, cores=6)["request_stuck"], streams(20, requests=0, queued=5.0)["request_stuck"]
    assert (finding.kind, finding.severity, standing.severity) == (waits.STUCK, "warning", "warning")
    assert streams(23, cores=6, queued=50.0)["request_stuck"].severity == "critical"
    for each, yields in ((finding, True), (standing, False)):
        assert ("raise `gevent`" in each.change, "does not yield" in each.meaning) == (yields, not yields)
    assert "harakiri" not in finding.change + findings_by_code(idle(), stuck(1, 60))["request_stuck"].change
    threads = findings_by_code(idle(), stuck(1, 60), setup=setup())["request_stuck"]
    assert "`harakiri` as the last resort" in threads.change


GROWN = change_workers(idle(), 1, resident_bytes=200_000_000, resident_growth=40_000_000)


@pytest.mark.parametrize(
    ("of", "low", "is_growing"),
    [
        (GROWN, None, True),
        (replace(GROWN, respawns=1), None, False),  # workers were replaced
        (GROWN, 190_000_000, True),
        (GROWN, 165_000_000, False),  # what it keeps between requests
        (change_workers(GROWN, 1, resident_growth=15_000_000), None, False),
    ],
)
def test_growing_memory(of, low, is_growing):
    """Growth by a tenth and 16 MB within a window is a warning, unless workers were replaced in it."""
    server = Server()
    server[1].low = low
    assert ("memory_growing" in judge(of, server)) == is_growing


@pytest.mark.parametrize(
    ("seconds", "lives", "expected"), [(60.0, 180.0, "warning"), (59.0, 1000.0, "info"), (60.0, 179.0, "info")]
)
def test_a_first_growth_is_no_leak(seconds, lives, expected):
    """Caches fill at the first requests. And users who wait for something else come first."""
    server = Server(born=AT - lives)
    assert judge(replace(GROWN, seconds=seconds), server)["memory_growing"].severity == expected
    first, *rest = judge(replace(GROWN, seconds=seconds, exceptions=300), server).values()
    assert first.code == "exceptions"
    assert "memory_growing" in {each.code for each in rest}


@pytest.mark.parametrize(("up", "is_growing"), [(20.0, True), (58.0, False)])
def test_growing_memory_beside_a_worker_that_started(up, is_growing):
    """Cheaper mode started it, or it replaces one that ended. A limit that bounds the growth is named."""
    server = Server(spawned=3)
    server.respawn(4, AT - 20)
    of = change_workers(GROWN, 4, respawns=1, up_seconds=up, resident_growth=None)
    found = judge(of, describe(server, setup=setup(reload_on_rss=400)))
    assert ("memory_growing" in found) == is_growing
    assert not is_growing or "400 MB" in found["memory_growing"].change


def test_options_that_hide_figures_or_cost():
    """A document larger than a UNIX socket's buffer is good to know."""
    assert "large_document" in findings_by_code(idle(), Server(cores=False), document_bytes=300_000)


def test_async_cores_are_not_called_threads():
    """With gevent and the like there are no threads to raise, and the texts say async cores."""
    rows = (worker(number, 1000, each=2.9, cpu=45.0, busy=2880.0) for number in (1, 2))
    of = replace(window(60, *rows, app=2400.0), full_seconds=30.0)
    finding = findings_by_code(of, Server(processes=2, threads=50), setup=setup("async"))["saturation"]
    assert dict(finding.settings) == {"processes": 5}
    assert "thread" not in finding.title + finding.evidence + finding.meaning + finding.change
