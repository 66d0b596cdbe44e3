"""Workers that end: by `harakiri`, a limit, a reload or cheaper mode, or for a reason that nothing explains."""

import pytest
from msgspec.structs import replace

from tests.analysis.judging import (
    AT,
    change_workers,
    describe,
    findings_by_code,
    idle,
    judge,
    row,
    said,
    setup,
)
from tests.support.simulated_server import EPOCH, Server
from tests.support.windows import window, worker
from uwsgi_headroom.analysis.findings import Finding, recycling, workers
from uwsgi_headroom.history.window import Window
from uwsgi_headroom.record import Destination, LogMessage, LogRecord

KNOWN = {"complete": True}
SEEN = {"workers_respawned": "info"}
EACH_ONCE = change_workers(idle(), respawns=1)


@pytest.mark.parametrize(
    ("of", "options", "expected"),
    [
        # One harakiri is a warning, a hundredth of the requests is critical; its respawns are not reported again.
        (replace(change_workers(idle(), 1, respawns=1), harakiris=1), {}, {"harakiri": "warning"}),
        (replace(change_workers(idle(), 1, respawns=2), harakiris=2), {}, {"harakiri": "warning"}),
        (replace(change_workers(idle(), 1, respawns=30), harakiris=30), {}, {"harakiri": "critical"}),
        # Requests in service of a worker that ends are lost.
        (change_workers(idle(), 2, respawns=1, lost=1), {}, {"requests_lost": "warning", **SEEN}),
        (change_workers(idle(), 2, respawns=1, lost=3), {}, {"requests_lost": "warning", **SEEN}),
        (change_workers(idle(), 2, respawns=1, lost=40), {}, {"requests_lost": "critical", **SEEN}),
        # Repeated respawns with few requests are a warning in one worker, and critical in half of them.
        (change_workers(idle(), 3, respawns=3, requests=30), {}, {"respawn_loop": "warning"}),
        (change_workers(idle(), 1, 3, respawns=3, requests=30), {}, {"respawn_loop": "critical"}),
        (change_workers(idle(), 3, respawns=24, requests=6), KNOWN, {"respawn_loop": "warning"}),  # as it starts
        # Recycling without loss, and a reload, are good to know.
        (change_workers(idle(), 3, respawns=3, requests=450), {}, SEEN),
        (replace(EACH_ONCE, reloads=1), {}, {"reloaded": "info"}),
        # Each end that no option explains most likely lost a request, even if it was too short for a sample.
        (change_workers(idle(), 3, respawns=1), KNOWN, {"workers_ended": "warning"}),
        (change_workers(idle(), 3, respawns=3, requests=150), KNOWN, {"workers_ended": "warning"}),
        (change_workers(idle(), 3, respawns=40, requests=2000), KNOWN, {"workers_ended": "critical"}),
        # `touch-workers-reload` ends each worker equally often, however often it is used.
        (change_workers(idle(), respawns=2), KNOWN, SEEN),
    ],
)
def test_workers_that_end(of, options, expected):
    """One finding says it, and how bad it is follows from the requests that were lost."""
    found = findings_by_code(of, setup=setup(**options))
    assert {code: each.severity for code, each in found.items() if code != "uneven"} == expected


@pytest.mark.parametrize(
    ("of", "options", "expected"),
    [
        (change_workers(idle(), 3, respawns=1), KNOWN, {"workers_ended": "warning"}),
        (change_workers(idle(), 3, respawns=4), KNOWN, {"respawn_loop": "warning"}),
        (change_workers(idle(), 3, respawns=4), {}, SEEN),  # a limit of requests may end them as often
    ],
)
def test_workers_that_end_where_no_request_is_counted(of, options, expected):
    """A finding names ends that no known option explains, without a number of requests, and never says that none was
    lost."""
    found = findings_by_code(replace(change_workers(of, requests=0), is_counted=False), setup=setup(**options))
    assert {code: each.severity for code, each in found.items() if code != "uneven"} == expected
    assert not any("request was lost" in each.meaning or "served" in each.evidence for each in found.values())


def test_a_harakiri_and_its_options():
    """`harakiri` comes with its value if that is known; threads of a worker share one timer."""
    killed = replace(change_workers(idle(), 1, respawns=1), harakiris=1)
    known, unknown = (findings_by_code(killed, setup=setup(harakiri=value))["harakiri"] for value in (5, None))
    assert [each.title.count("(5 s)") + each.public.title.count("5 s") for each in (known, unknown)] == [1, 0]
    single = judge(killed, Server(threads=1))["harakiri"]
    assert ["one timer" in each.meaning for each in (unknown, single)] == [True, False]


@pytest.mark.parametrize(
    ("threads", "named"),
    [
        (1.0, True),  # 12 kills after 5 s are 1.0 threads
        (0.4, False),  # most were doing something else
        (None, False),
    ],
)
def test_the_backend_of_a_harakiri(threads, named):
    """It is named if it accounts for most of the time of the requests that were killed."""
    waits = None if threads is None else {"backend": threads, "cpu": 0.1}
    of = window(60, worker(1, 600, each=0.01, busy=6.0 + 60 * (threads or 0.0)), waits=waits)
    killed, backend = replace(of, harakiris=12), {Destination("backend", ("10.0.0.5:5432",)): threads or 0.0}
    record = describe(Server(threads=1, processes=1), setup=setup(harakiri=5))
    finding = judge(killed, record, destinations=backend)["harakiri"]
    assert ("10.0.0.5:5432" in finding.change) == named
    assert ("a backend" in finding.public.act) == named


def test_a_worker_that_lives_for_seconds_is_recycled_too_early():
    """With `max-requests` of 150 at 19 requests per second there is no loop, and the advice is to raise it."""
    finding = judge(change_workers(idle(), respawns=3, requests=450))["workers_respawned"]
    assert finding.severity == "info"
    assert "a worker lives for 20 s" in finding.evidence
    assert finding.change.startswith("Raise `max-requests`")


def recycled(respawns: int, requests: int, up: float, queue: float = 0.0) -> Window:
    """A minute of four workers, each with this many respawns and requests, and up for this many seconds."""
    rows = (worker(number, requests, busy=6.0, up=up, respawns=respawns) for number in range(1, 5))
    return window(60, *rows, app=queue)


@pytest.mark.parametrize(
    ("most", "of", "expected"),
    [
        (8, recycled(12, 100, 58.0), "warning"),  # a new worker for every eight requests
        (200, recycled(6, 1250, 58.0), None),  # the cost is negligible
        (200, recycled(6, 1250, 48.0), "warning"),  # it costs a fifth of the capacity
        (5, recycled(30, 150, 30.0, 5400.0), "critical"),  # and requests wait for it
        (5000, recycled(6, 1250, 48.0), None),  # other reasons end them
    ],
)
def test_recycling_that_costs(most, of, expected):
    """A `max-requests` that is too low is reported as the cause, before its consequences. An hour's is enough."""
    found = findings_by_code(of, setup=setup(max_requests=most, min_worker_lifetime=1, complete=True))
    if expected is None:
        assert row(found, "respawn_loop") is not recycling.LIMIT_TOO_LOW
        return
    first, finding = next(iter(found.items()))
    ((option, enough),) = finding.settings
    assert (first, option) == ("respawn_loop", "max-requests")
    assert (finding.kind, finding.severity) == (recycling.LIMIT_TOO_LOW, expected)
    assert enough >= 60 * of.workers[0].requests
    assert "workers_missing" not in found
    assert of.workers[0].up_seconds > 50 or not any("Raise `processes`" in each.change for each in found.values())


@pytest.mark.parametrize(("most", "named"), [(8, True), (200, False)])
def test_recycling_where_options_may_be_hidden(most, named):
    """Cheaper mode may be why workers are down; a worker that serves eight requests is recycled too early in any
    case."""
    found = findings_by_code(recycled(12, 12 * most, 40.0), setup=setup(max_requests=most))
    assert ("respawn_loop" in found) == named
    assert not named or "workers are down for" not in found["respawn_loop"].evidence


@pytest.mark.parametrize(("served", "is_recycled"), [(500, True), (120, False)])
def test_requests_that_outlive_max_requests(served, is_recycled):
    """A worker that reaches `max-requests` ends its last requests within `worker-reload-mercy`, or they are lost. It is
    no crash, unless its processes ended earlier than that."""
    server = Server()
    server[2].requests, server[2].before_spawn, server[2].respawns = 4 * served + 40, 4 * served, 5
    known, of = setup(max_requests=500, worker_reload_mercy=3), change_workers(idle(), 2, respawns=1, lost=2)
    finding = findings_by_code(of, server, setup=known)["requests_lost"]
    assert ("`worker-reload-mercy`" in finding.public.act) == is_recycled
    assert ("crashed" in finding.meaning) != is_recycled


@pytest.mark.parametrize(
    ("of", "workers"),
    [
        (change_workers(idle(), 1, 2, respawns=9, requests=9), "Workers 1 and 2"),
        (change_workers(idle(workers=4096), respawns=9, requests=9), "Workers 1, 2, 3, 4, 5, 6, 7, 8 and 4,088 more"),
    ],
)
def test_several_workers_are_named_in_the_plural(of, workers):
    """Of 4,096 workers a sentence lists eight."""
    assert judge(of)["respawn_loop"].title.startswith(f"{workers} keep")


NOW = int(AT)


def ended(times: tuple[int, ...], requests: int = 500, lost: int = 0) -> Window:
    """A quiet minute in which each worker ended this often; the first one that did so lost `lost` requests."""
    of = change_workers(idle(workers=len(times)), requests=requests)
    for number, count in enumerate(times, 1):
        of = change_workers(of, number, respawns=count, lost=lost if count and not of.respawns else 0)
    return of


def judged(window: Window, spawned: tuple[int, ...] = (), reserve: int = 0, **options: object) -> dict[str, Finding]:
    """The findings about a server whose workers were spawned at these seconds; the last ones are in reserve."""
    server = Server(processes=len(window.workers))
    for slot, second in zip(server.slots, spawned, strict=False):
        slot.last_spawn = EPOCH + second
    for slot in server.slots[len(server.slots) - reserve :]:
        slot.state, slot.pid = "cheap", None
    return findings_by_code(window, server, setup=setup(complete=True, **options))


@pytest.mark.parametrize(
    ("times", "spawned"),
    [
        ((0, 1, 1, 1), (1, 60, 65, 70)),  # the window began after the first
        ((1, 1, 1, 0), (60, 65, 70, 1)),  # the last one is still to come
        ((1, 0, 1, 1), (70, 1, 60, 65)),  # the end of one, the beginning of the next
        ((2, 2, 1, 1), (70, 75, 55, 60)),
        ((1, 0, 1, 1), (60, 1, 61, 60)),  # at once, but one has a request in service
        ((0, 0, 0, 1), (40, 45, 50, 60)),  # the window has the last one
        ((0, 0, 1, 1), (1, 20, 70, 75)),
        ((1, 1, 0, 0), (NOW - 10, NOW - 5, 1, 1)),  # it goes on
        ((0, 1), (40, 60)),
        ((1, 0), (NOW - 3, 1)),
        ((1,), (60,)),  # the only one
    ],
)
def test_a_reload_that_the_window_has_a_part_of(times, spawned):
    """Workers that are replaced at once or in the order of their numbers, without a loss, are reloaded."""
    by_code = judged(ended(times), spawned, can_reload_workers=True)
    assert [finding.kind for finding in by_code.values()] == [workers.RESPAWNED]


@pytest.mark.parametrize(
    ("times", "spawned", "lost", "can_reload_workers"),
    [
        ((0, 1, 1, 1), (1, 65, 60, 70), 0, True),  # another order
        ((0, 1, 1, 1), (1, 60, 65, 70), 0, False),  # no option for it
        ((0, 1, 1, 1), (1, 60, 65, 70), 1, True),  # a request was lost
        ((0, 1, 2, 1), (1, 60, 65, 70), 0, True),  # one ended twice
        ((1, 1, 0, 0), (60, 65, 1, 1), 0, True),  # it should have gone on
        ((0, 1, 0, 0), (1, NOW - 3, 1, 1), 0, True),  # not the first
        ((0, 0, 0, 1), (1, 1, 1, 200), 0, True),  # the others are old
        ((0, 0, 1, 0), (40, 45, 50, 1), 0, True),
        ((1,), (60,), 1, True),
        ((2,), (60,), 0, True),
    ],
)
def test_no_reload(times, spawned, lost, can_reload_workers):
    """Whatever differs from a reload may be a crash."""
    by_code = judged(ended(times, lost=lost), spawned, can_reload_workers=can_reload_workers)
    assert {"workers_ended", "requests_lost"} & set(by_code)


def test_an_option_that_ends_workers():
    """It may be the reason, so nothing is unexplained, and it is the first thing to check."""
    known = {"ends_workers": ("reload-on-exception", "reload-on-pss")}
    assert "workers_ended" not in judged(ended((0, 1, 1, 1)), (1, 65, 60, 70), **known)
    lost = judged(ended((0, 3, 1, 1), lost=1), **known)["requests_lost"]
    assert "In total" not in lost.evidence
    assert "`reload-on-exception` and `reload-on-pss`" in lost.public.act


@pytest.mark.parametrize(
    ("times", "requests", "kind"),
    [
        ((1, 1), 500, None),
        ((4, 5), 60, None),  # however often
        ((9, 9), 100, None),
        ((10, 10), 100, workers.KEEPS_RESTARTING),  # cheaper mode does not end a worker that often
        ((9, 9), 0, workers.KEEPS_RESTARTING),  # without one request in between, it cannot start
    ],
)
@pytest.mark.parametrize("reserve", [0, 2])
def test_cheaper_mode_ends_workers(times, requests, kind, reserve):
    """Also when all of its workers happen to be up at the end of the window. Those that end too often are in a loop."""
    found = judged(ended((0, 0, *times), requests=requests), reserve=reserve if kind is None else 0, cheaper=2)
    loops = [(each.kind, each.severity) for each in found.values() if each.severity != "info"]
    assert loops == [(kind, "critical")] * bool(kind)


def test_requests_wait_for_workers_that_cannot_start():
    """More workers would not start either. That it is down at the moment is no cause of its own."""
    rows = (worker(1, 200, busy=60.0), worker(2, 0, up=0.0, respawns=35))
    server = Server(processes=2, threads=1)
    server[2].state = "starting"
    server.kill(2)
    found = findings_by_code(window(60, *rows, app=300.0), server)
    assert said(found, "queue_wait") == (workers.KEEPS_RESTARTING, "critical")
    assert found["queue_wait"].worker_id == 2
    assert "workers_missing" not in found


def test_ends_that_lost_no_request_count_as_well():
    """Two requests were seen in service. If workers ended more often, the evidence says so, which the severity is
    about. A worker that ends again and again is the cause of both."""
    loop = judged(ended((0, 30, 1, 0), lost=2))["respawn_loop"]
    (finding,) = loop.harms
    assert finding.code == "requests_lost"
    assert finding.severity == loop.severity == "critical"
    assert "workers ended 31 times" in finding.evidence
    assert "31" not in finding.public.evidence
    assert "In total" not in judged(ended((0, 1, 0, 0), lost=2))["requests_lost"].evidence


@pytest.mark.parametrize(("requests", "severity"), [(247, "critical"), (248, "warning")])
def test_one_request_of_a_hundred_is_critical(requests, severity):
    """Lost requests are not counted by uWSGI, so they are added to those of the four workers: 10 of 998, 10 of 1002."""
    assert judged(ended((0, 1, 0, 0), requests=requests, lost=10))["requests_lost"].severity == severity


@pytest.mark.parametrize(
    ("times", "kills", "found"),
    [((0, 2, 0, 1), 3, True), ((2, 2, 2, 2), 8, True), ((0, 2, 0, 1), 1, False), ((0, 2, 0, 1), 0, False)],
)
def test_workers_that_the_kernel_killed(times, kills, found):
    """If it killed about as many processes for lack of memory, that is the reason, and nothing else is guessed."""
    codes = judged(replace(ended(times, lost=2), oom_kills=kills)).keys()
    others = codes & {"requests_lost", "workers_ended", "workers_respawned", "respawn_loop"}
    assert ("out_of_memory" in codes, bool(others)) == (found, not found)


def test_a_killed_worker_is_named():
    """The worker, how often, and the requests that it had."""
    finding = judged(replace(ended((0, 1, 0, 0), lost=1), oom_kills=1))["out_of_memory"]
    assert (finding.kind, finding.severity, finding.worker_id) == (workers.OUT_OF_MEMORY, "warning", 2)
    assert "killed 1 process" in finding.evidence
    assert "1 worker ended, with at least 1 request in service" in finding.evidence
    assert "cgroup" in finding.public.act, "whose memory ran out is not known"


IN_ORDER, AT_ONCE = (950, 953, 956, 959), (950, 950, 951, 950)
CRASH = LogRecord(messages={"segmentation_fault": LogMessage(4, 4)})


def waiting(
    spawned: tuple[int, ...] = IN_ORDER,
    up: float = 17.0,
    busy: float = 15.0,
    lost: int = 0,
    reloads: int = 0,
    log: LogRecord | None = None,
    **options: object,
) -> Finding:
    """What is said of 20 s in which each of the workers was replaced, with one thread each, and requests waited."""
    server = Server(processes=len(spawned), threads=1)
    for slot, second in zip(server.slots, spawned, strict=True):
        slot.last_spawn, slot.requests, slot.respawns, slot.state = EPOCH + second, 150, 2, "idle"
    numbers = range(1, len(spawned) + 1)
    rows = (worker(number, 150, each=busy / 150, busy=busy, up=up, respawns=1, lost=lost) for number in numbers)
    record = describe(server, setup=setup(**{"complete": True, "can_reload_workers": True, **options}), log=log)
    return next(iter(judge(replace(window(20, *rows, app=180.0), reloads=reloads), record).values()))


@pytest.mark.parametrize(
    ("known", "act"),
    [
        # During a chain reload one worker after another is away, and the others are too few.
        ({}, "Raise `processes` from 4 to 5 ("),
        ({"up": 17.2, "busy": 13.0}, "Raise `processes` from 4 to 5 ("),
        ({"busy": 17.0}, "Raise `processes` from 4 to 5 ("),
        ({"spawned": (950,)}, "Raise `processes` from 1 to 2 ("),
        # With threads to spare while one is away, or with none at any time, that is no cause.
        ({"up": 17.2, "busy": 5.0}, "Run `"),
        ({"up": 17.2, "busy": 19.0}, "Run `"),
        # `max-requests-delta` lets workers end in their order, unless they serve far too little to reach the limit.
        ({"up": 17.2, "busy": 13.0, "max_requests": 150}, "Raise `max-requests` from 150, so"),
        ({"up": 17.2, "busy": 13.0, "max_requests": 5000}, "Raise `processes` from 4 to 5 ("),
        ({"spawned": AT_ONCE}, "Use a chain reload ("),
        ({"reloads": 1}, "If requests waited while a full reload loaded"),
        ({"idle": 3}, "Remove `idle`, or raise it: after 3 s without a "),
        ({"cheap": True}, "Remove `cheap`, so that the workers"),
        # The log is the place to look only where nothing that is set or seen explains it.
        ({"lost": 1}, "Check uWSGI's log for the reason why workers are down 15 %"),
        ({"spawned": (959, 950, 956, 953)}, "Check uWSGI's log for the reason"),
        ({"idle": 3, "lost": 1}, "Check uWSGI's log for the reason"),
        ({"log": CRASH}, "Check uWSGI's log for the reason"),
    ],
)
def test_requests_that_wait_for_workers_that_are_down(known, act):
    """The first act is about why they are down; the log is quoted where it says that."""
    change = waiting(**known).change
    assert change.startswith(act)
    assert ("uWSGI's log says" in change) == ("log" in known)


@pytest.mark.parametrize(("times", "loops"), [(11, False), (12, True)])
def test_workers_that_idle_stops_are_in_no_loop(times, loops):
    """uWSGI stops all workers after `idle` seconds without a request, and a request starts all of them: no crash. It
    does not do so more often than these seconds allow for."""
    rows = [worker(number, 1, each=0.02, busy=0.1, up=6.0, respawns=times) for number in (1, 2)]
    known = {"complete": True, "cheap": True, "idle": 3}
    found = judge(window(30, *rows, app=12.0), describe(Server(processes=2, threads=1), setup=setup(**known)))
    assert ("respawn_loop" in found) == loops
    assert "workers_ended" not in found
    assert loops or "Remove `idle`, or raise it: after 3 s" in found["queue_wait"].change


@pytest.mark.parametrize(("queued", "idle", "waits"), [(3.0, 25, False), (6.0, 25, True), (3.0, None, True)])
def test_the_first_request_after_a_rest_waits(queued, idle, waits):
    """It waits for a worker, as the operator of `idle` chose; a mean wait of half a second is another matter."""
    rows = [worker(number, 5, each=0.05, busy=0.3, up=20.0, respawns=1) for number in (1, 2)]
    known = {"complete": True, "idle": idle}
    found = judge(window(60, *rows, app=queued), describe(Server(processes=2, threads=1), setup=setup(**known)))
    assert ("queue_wait" in found) == waits
    assert ("workers_respawned" in found) == (idle is None)


@pytest.mark.parametrize("lazy", [True, None])
def test_workers_that_load_before_they_serve_on_demand(lazy):
    """Without `lazy-apps`, a start takes next to nothing."""
    assert ("`lazy-apps`" in waiting(idle=3, lazy_apps=lazy).change) == bool(lazy)
