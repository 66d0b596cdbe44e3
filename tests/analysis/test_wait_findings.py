"""Findings about what requests wait for."""

from collections.abc import Mapping

import pytest
from msgspec.structs import replace

from tests.analysis.judging import (
    by_code,
    change_workers,
    describe,
    figures_of,
    findings_by_code,
    judge,
    row,
    said,
)
from tests.analysis.simulated_backend import Backend, constant, run, wave
from tests.support.simulated_server import Server
from tests.support.windows import the_example, window, worker
from uwsgi_headroom.analysis.findings import (
    Finding,
    collect_findings,
    first_act,
    limits,
    load,
    lock_waits,
)
from uwsgi_headroom.analysis.findings import waits as wait_rows
from uwsgi_headroom.analysis.locks import LockFigures
from uwsgi_headroom.analysis.what_if.measured import CannotPredictError, measure_server
from uwsgi_headroom.history.window import CpuWindow, Window
from uwsgi_headroom.record import Destination, LockHolder, Options, Setup, SharedConnection, State, Waits
from uwsgi_headroom.words.formats import rate

WAITS = {
    "slow_clients",
    "application_lock",
    "interpreter_lock_held",
    "backend_saturated",
    "waits_for_backend",
    "computes_outside_the_lock",
}

States = Mapping[State, float]


def of_16_threads(
    waits: States, *, cpu: float = 0.1, lock: float = 0.0, backends: Mapping[str, float] | None = None
) -> Window:
    """A minute of a 2x8 with 20 requests per second in each worker. cpu: of each worker; lock: threads of each that
    wait for its interpreter lock."""
    busy = sum(waits.values()) / 2
    rows = [worker(number, 1200, each=busy / 20, cpu=60 * cpu, busy=60 * busy, lock=60 * lock) for number in (1, 2)]
    return window(60, *rows, waits=waits, backends=backends)


def the_server(**more: object) -> Server:
    return Server(processes=2, threads=8, cpus=8.0, **more)


def findings(of: Window, **known: object) -> dict[str, Finding]:
    return findings_by_code(of, the_server(), **known)


def held(use: float, **waits: float) -> Window:
    """Four threads of each worker wait for its interpreter lock. use: of a CPU, by each worker."""
    return of_16_threads({"interpreter_lock": 8.0, **waits}, cpu=use, lock=4.0)


HASHING = of_16_threads({"cpu": 2.0, "cpu_wait": 8.0}, cpu=1.0, lock=0.0)
"""Eight threads use a whole CPU and more, and no thread waits for the lock. (Seen on a real uWSGI.)"""

UNSEEN = replace(change_workers(HASHING, interpreter_lock_seconds=None), waits=None)


@pytest.mark.parametrize(
    ("of", "code", "expected"),
    [
        # A tenth of the threads is good to know, a quarter is a warning.
        (of_16_threads({"client": 0.9, "sleep": 2.0}), "slow_clients", None),
        (of_16_threads({"client": 1.6, "sleep": 2.0}), "slow_clients", (wait_rows.WAIT_FOR_CLIENTS, "info")),
        (of_16_threads({"client": 3.9, "sleep": 2.0}), "slow_clients", (wait_rows.WAIT_FOR_CLIENTS, "info")),
        (of_16_threads({"client": 4.0, "sleep": 2.0}), "slow_clients", (wait_rows.WAIT_FOR_CLIENTS, "warning")),
        # From a quarter of the threads' time on, from half on as a warning.
        (of_16_threads({"lock": 0.9}), "application_lock", None),
        (of_16_threads({"lock": 1.0, "sleep": 4.0}), "application_lock", None),
        (of_16_threads({"lock": 1.0, "sleep": 3.0}), "application_lock", (lock_waits.LOCK, "info")),
        (of_16_threads({"lock": 4.0, "sleep": 4.0}), "application_lock", (lock_waits.LOCK, "warning")),
        # With most threads idle, it is no finding where their time goes.
        (of_16_threads({"backend": 3.0}), "waits_for_backend", None),
        (of_16_threads({"backend": 12.0}), "connection_shared", None),
        # While the interpreter uses little CPU, the holder of its lock waits itself. Seven other threads wait at most
        # while one computes: 4.0 on average are more than 7 x 0.4, and less than 7 x 0.58.
        (held(0.05, sleep=2.0), "interpreter_lock_held", (lock_waits.HELD_ASLEEP, "warning")),
        (held(0.05, sleep=2.0), "interpreter_bound", None),
        (held(0.4, cpu=0.8, sleep=2.0), "interpreter_lock_held", (lock_waits.HELD_ASLEEP, "warning")),
        (held(0.58, cpu=1.16, sleep=2.0), "interpreter_lock_held", (lock_waits.HELD_COMPUTING, "warning")),
        # A holder that waits for a CPU is not blamed.
        (held(0.3, cpu_wait=1.1, cpu=0.5), "interpreter_lock_held", None),
        # Work outside of the lock is no saturated interpreter, unless nothing is known of waits.
        (HASHING, "interpreter_bound", None),
        (HASHING, "computes_outside_the_lock", (lock_waits.COMPUTES_OUTSIDE, "info")),
        (UNSEEN, "computes_outside_the_lock", None),
        (UNSEEN, "interpreter_bound", (load.ALL_SATURATED, "critical")),
        # What to change follows from the state.
        (of_16_threads({"backend": 15.0, "cpu": 0.5}), "saturation", (wait_rows.BACKEND, "warning")),
        (of_16_threads({"client": 15.0, "cpu": 0.5}), "saturation", (wait_rows.WAIT_FOR_CLIENTS, "warning")),
        (of_16_threads({"lock": 15.0, "sleep": 0.5}), "saturation", (lock_waits.LOCK, "warning")),
        (of_16_threads({"sleep": 15.5}), "saturation", (limits.IN_USE, "warning")),
    ],
)
def test_what_threads_wait_for(of, code, expected):
    """What a few threads wait for is no finding. Only threads that sleep, or wait outside, are worth more of them."""
    found = findings(of)
    assert said(found, code) == expected
    wants_threads = row(found, code) is limits.IN_USE
    assert code != "saturation" or dict(found[code].settings) == ({"threads": 16} if wants_threads else {})
    assert code != "application_lock" or code not in found or bool(found[code].clause) == (expected[1] == "warning")


@pytest.mark.parametrize("websockets", [0.95, 0.4, 0.0])
def test_websockets(websockets):
    """Nothing can buffer connections that stay open. They last by nature: none is stuck. Without evidence, the advice
    about slow clients names them."""
    quiet = window(60, *(worker(number, 90, each=0.05, busy=60 * 7.1) for number in (1, 2)), waits={"client": 14.0})
    now = Waits(threads={"client": 14.0}, websockets=14.0 * websockets)
    for age in (100.0, 20.0):
        found = with_waits(quiet, now, {number: dict.fromkeys(range(7), age) for number in (1, 2)})
        assert ("request_stuck" in every(found)) == (websockets < 0.9 and age > 60)
    clients = every(found)["slow_clients"]
    assert clients.kind is (wait_rows.STAY_OPEN if websockets > 0.9 else wait_rows.WAIT_FOR_CLIENTS)
    assert "WebSockets" in clients.change + clients.title


@pytest.mark.parametrize(
    ("streams", "stuck", "queued", "severity", "cause"),
    [
        (12, 0, 0.0, None, wait_rows.STAY_OPEN),
        (9, 3, 0.0, "warning", wait_rows.STAY_OPEN),
        (8, 4, 0.0, "warning", wait_rows.STAY_OPEN),
        (2, 12, 0.0, "critical", wait_rows.STUCK),
        (0, 4, 60.0, "critical", wait_rows.STUCK),  # to end these comes before more threads
        (0, 3, 60.0, "warning", None),
    ],
)
def test_event_streams_are_not_stuck(streams, stuck, queued, severity, cause):
    """An old request whose thread still writes goes on: that is a matter of capacity, and never of a restart."""
    old = [(worker_id, number) for number in range(8) for worker_id in (1, 2)][: streams + stuck]
    ages = {worker_id: {number: 100.0 for each, number in old if each == worker_id} for worker_id in (1, 2)}
    waits = {"sleep": 13.0, "cpu": 0.1}
    busy = [worker(number, 300, each=0.1, cpu=1.0, busy=60 * 6.6) for number in (1, 2)]
    of = window(60, *busy, waits=waits, app=queued * 5)
    found = with_waits(of, Waits(threads=waits, streams=tuple(old[:streams]), nap=1.0), ages)
    stuck_one = every(found).get("request_stuck")
    assert (stuck_one and stuck_one.severity) == severity
    causes = [each.kind for each in found if each.clause and each.kind in (wait_rows.STAY_OPEN, wait_rows.STUCK)]
    assert causes[:1] == [cause] * (cause is not None)
    assert "sleeps_again" not in every(found) or streams < 7


@pytest.mark.parametrize(
    ("endless", "threads", "expected"),
    [(16.0, 16, "request_stuck"), (16.0, 15, "slow_clients"), (8.0, 16, "slow_clients")],
)
def test_threads_that_poll_their_clients_without_end(endless, threads, expected):
    """WebSockets wake up to send a ping. If no thread ever does, and all are held, their clients wait as well."""
    ages = {1: dict.fromkeys(range(8), 100.0), 2: dict.fromkeys(range(threads - 8), 100.0)}
    none = window(60, *(worker(number, 0, busy=480.0) for number in (1, 2)), waits={"client": 16.0})
    found = with_waits(none, Waits(threads={"client": 16.0}, websockets=16.0, endless=endless), ages)
    assert found[0].code == expected
    assert ("slow_clients" in every(found)) == (expected == "slow_clients")


MEDIA = ("FUSE", "/srv/media")


@pytest.mark.parametrize(
    ("waits", "where", "kind", "act"),
    [
        ({"disk": 15.0}, MEDIA, wait_rows.FILES, "Find out why the FUSE file system answers slowly"),
        ({"disk": 15.0}, ("", ""), limits.IN_USE, "Raise `threads` from 8 to 15"),  # a local disk
        ({"other": 15.0}, MEDIA, limits.IN_USE, "Run `py-spy dump --pid 101` to see what the threads wait for"),
        ({"other": 4.0, "unknown": 4.0, "sleep": 7.0}, ("", ""), limits.IN_USE, "Run `py-spy dump --pid 101` to see"),
        ({"backend": 7.0, "sleep": 8.0}, ("", ""), limits.IN_USE, "Raise `threads` from 8 to 15"),
    ],
)
def test_an_unknown_wait_calls_for_no_threads(waits, where, kind, act):
    """A file system that another host serves is named. Nothing is promised where the model does not know the wait."""
    first, *_ = with_waits(of_16_threads(waits), Waits(threads=waits, file_system=where))
    assert first.kind is kind
    assert first_act(first.change).startswith(act)
    assert first.serves is None
    assert "/srv/media" not in first.public.title + first.public.clause


def test_a_log_that_nobody_reads():
    """A datagram socket that takes nothing more is the cause, not the lock that its sender holds."""
    waits = {"pipe": 2.0, "lock": 14.0}
    of = replace(of_16_threads(waits), output_blocked_seconds=120.0)
    first, *_ = with_waits(of, Waits(threads=waits, output_name="log socket", output_socket="/dev/log"))
    assert first.kind is wait_rows.LOG_BLOCKED
    assert "/dev/log" in first.change
    assert "/dev/log" not in "".join(first.public)


def test_clients_of_which_none_gets_an_answer():
    """Slow ones are not the first thing to think of: the web server may speak another protocol."""
    none = window(60, *(worker(number, 0, busy=480.0) for number in (1, 2)), waits={"client": 16.0}, app=480.0)
    finding = findings(none)["queue_wait"]
    assert finding.kind is wait_rows.WAIT_FOR_CLIENTS
    assert "the protocol of the socket" in first_act(finding.change)


ADDRESSES = Waits(addresses={"postgres": "10.0.0.5:5432", "redis": "*:6379"})


def test_a_backend_is_named():
    """The finding says which backend, its address, and its own share."""
    of = of_16_threads({"backend": 8.0, "cpu": 2.0}, backends={"postgres": 7.0, "redis": 1.0})
    finding = findings(of, waits=ADDRESSES)["waits_for_backend"]
    assert finding.kind is wait_rows.BACKEND
    assert "postgres at 10.0.0.5:5432" in finding.title
    assert "postgres at 10.0.0.5:5432 (70 %) and redis at *:6379 (10 %)" in finding.evidence
    assert "10.0.0.5" not in "".join(finding.public)


def test_a_backend_that_fills_the_threads_stands_first():
    """Most threads are in use because of it: one block says both, and does not advise more threads."""
    of = of_16_threads({"backend": 9.0, "cpu": 3.0}, backends={"postgres": 7.5, "redis": 1.5})
    block = next(iter(findings(of, waits=ADDRESSES).values()))
    assert (block.kind, block.severity, block.settings) == (wait_rows.BACKEND, "warning", ())
    assert [harm.code for harm in block.harms] == ["saturation"]


FOUND = run(Backend(constant(0.05), servers=2), wave(12, 52, 10), 120, 1).find_saturation()


def test_a_saturated_backend():
    """It is named with its address, as the cause of the waiting; neither threads nor processes are advised."""
    record = describe(the_server(), waits=Waits(addresses={"postgres": "10.0.0.5:5432"}))
    states: States = {"backend": 15.5, "cpu": 0.3}
    figures, nameless = (
        figures_of(replace(of_16_threads(states, backends=backends), queue_seconds={"web": 600.0}), record)
        for backends in ({"postgres": 15.5}, None)
    )
    assert [finding.code for finding in collect_findings(figures)] == ["waits_for_backend"]
    saturated = replace(figures, saturation=replace(FOUND, name="postgres"))
    block, *_ = collect_findings(saturated)
    assert (block.kind, block.settings) == (wait_rows.SATURATED, ())
    assert "postgres at 10.0.0.5:5432" in block.title
    assert rate(FOUND.high) in block.change
    with pytest.raises(CannotPredictError, match=r"^The backend postgres is saturated: in any other"):
        measure_server(saturated)
    unnamed, *_ = collect_findings(replace(nameless, saturation=FOUND))
    bursts, *_ = collect_findings(replace(figures, saturation=replace(FOUND, many=7.9)))
    assert unnamed.kind is bursts.kind is wait_rows.SATURATED
    assert "`--backends`" in unnamed.change
    assert rate(FOUND.high) not in bursts.change


def test_a_saturated_backend_while_threads_are_free():
    """It is good to know if it filled most threads at times; short bursts are not worth a line, until requests wait."""
    figures = figures_of(of_16_threads({"backend": 5.0}), the_server())
    first, *_ = collect_findings(replace(figures, saturation=FOUND))
    assert (first.code, first.severity) == ("backend_saturated", "info")
    assert not WAITS & by_code(collect_findings(replace(figures, saturation=replace(FOUND, many=7.9)))).keys()


SILENT = Destination("backend", ("10.0.0.9:80",), connecting=True)
ANSWERS = Destination("backend", ("10.0.0.9:80",))
DNS = Destination("dns", ("10.0.0.1:53",))


@pytest.mark.parametrize(
    ("waits", "seconds", "kind"),
    [
        # Connections without an answer are a warning from a quarter of the threads on.
        ({"backend": 3.9, "sleep": 1.0}, {SILENT: 3.9}, None),
        ({"backend": 4.0, "sleep": 1.0}, {SILENT: 4.0}, wait_rows.NO_ANSWER),
        ({"backend": 12.0, "sleep": 1.0}, {SILENT: 12.0}, wait_rows.NO_ANSWER),
        # A server far away answers after a while: half of the time goes into its connection.
        ({"backend": 8.0, "sleep": 1.0}, {SILENT: 4.0, ANSWERS: 4.0}, wait_rows.BACKEND),
        # A lookup takes milliseconds: a quarter of the threads in one is a warning.
        ({"dns": 4.0, "sleep": 2.0}, {DNS: 1.0}, wait_rows.NO_ANSWER),
        ({"dns": 3.9, "sleep": 2.0}, {DNS: 1.0}, None),
    ],
)
def test_where_threads_wait(waits, seconds, kind):
    """An address that does not answer is named."""
    found = judge(of_16_threads(waits), the_server(), destinations=seconds)
    assert row(found, "waits_for_backend") is kind
    assert kind is not wait_rows.NO_ANSWER or ("10.0.0.9:80" in found["waits_for_backend"].title) != ("dns" in waits)
    assert "dns" not in waits or not kind or "DNS resolver" in found["waits_for_backend"].change


@pytest.mark.parametrize(
    ("beside", "is_silent", "kind"),
    [(0.1, True, wait_rows.NO_ANSWER), (0.1, False, lock_waits.LOCK), (1.0, True, lock_waits.LOCK)],
)
def test_the_holder_of_a_lock_waits_for_a_backend(beside, is_silent, kind):
    """Where hardly any thread does anything else, the holder, which does not wait for the lock, waits for the backend:
    one that does not answer is the cause then, however few threads wait for it, and no lock."""
    record = describe(the_server(), waits=Waits(holder="request"))
    of = of_16_threads({"lock": 11.0, "backend": 2.0, "sleep": beside})
    found = judge(of, record, destinations={SILENT if is_silent else ANSWERS: 2.0})
    assert next(iter(found.values())).kind is kind
    assert ("10.0.0.9:80" in found["application_lock"].title) == (beside < 0.2)
    assert kind is lock_waits.LOCK or said(found, "application_lock") == (lock_waits.LOCK, "info")


def test_two_backends_are_both_named():
    """Neither has most of the time, and the title has no figure that changes."""
    seconds = {Destination("backend", (address,)): 1.0 for address in ("10.0.0.5:5432", "10.0.0.6:6379")}
    for more in (0.7, 1.3):
        every = seconds | {Destination("backend", ("10.0.0.6:6379",)): more}
        found = judge(of_16_threads({"backend": 9.0}), the_server(), destinations=every)
        assert "postgres at 10.0.0.5:5432 and redis at 10.0.0.6:6379." in found["waits_for_backend"].title


@pytest.mark.parametrize(("each", "is_felt"), [(0.05, False), (0.4, True)])
def test_a_long_wait_for_a_lock_that_is_not_saturated(each, is_felt):
    """Between a saturated interpreter and one that uses little, it counts if users feel it."""
    of = change_workers(held(0.7, cpu=1.4, sleep=2.0), running_time=1200 * each)
    assert ("interpreter_lock_held" in findings(of)) == is_felt


def test_the_lock_is_evidence():
    """A saturated interpreter has the number of threads that wait for its lock as evidence, and so has a hot worker."""
    found = findings(of_16_threads({"cpu": 1.9, "interpreter_lock": 9.0}, cpu=0.95, lock=4.5))
    assert "at most 4.5 wait" in found["interpreter_bound"].evidence
    story = change_workers(the_example(), interpreter_lock_seconds=30.0)
    story = change_workers(story, 2, interpreter_lock_seconds=300.0)
    story = replace(story, waits=window(60, waits={"interpreter_lock": 6.5}).waits)
    assert "5.0 of its threads wait" in findings_by_code(story, Server(cpus=4.0))["unevenness_hurts"].evidence


@pytest.mark.parametrize(
    ("waits", "shared", "expected", "is_cause"),
    [
        ({"sleep": 6.0}, 0.0, "info", False),
        ({"sleep": 6.0, "backend": 0.5}, 0.5, "warning", False),
        ({"sleep": 2.0, "backend": 6.0}, 5.0, "critical", True),
        ({"sleep": 2.0, "backend": 6.0}, 3.0, "critical", False),  # another backend is the slow one
        ({"lock": 6.0, "backend": 1.0}, 1.0, "warning", True),  # kept apart by a lock of all
        ({"lock": 6.0, "backend": 2.0}, 2.0, "critical", True),  # one of each worker, others behind its lock
        ({"lock": 6.0, "backend": 6.0}, 0.8, "warning", False),
    ],
)
def test_a_shared_connection(waits, shared, expected, is_cause):
    """Good to know while nobody uses it; the cause if requests mostly wait in it, or behind those that do."""
    of = replace(of_16_threads(waits), shared_connection_seconds=60 * shared)
    finding = findings(of, shared_connections=(SharedConnection("10.0.0.5:5432", 2),))["connection_shared"]
    assert (finding.kind, finding.severity) == (wait_rows.CONNECTION_SHARED, expected)
    assert bool(finding.clause) == is_cause
    assert ("mix up" in finding.title) == (expected == "critical")
    assert ["10.0.0.5" in text for text in (finding.title, "".join(finding.public))] == [True, False]


def test_a_pipe_at_which_nothing_completes():
    """It is critical, and comes before the requests that are stuck because of it."""
    waits: States = {"lock": 6.0, "pipe": 2.0}
    rows = tuple(worker(number, 0, busy=240.0) for number in (1, 2))
    of = replace(of_16_threads(waits), output_blocked_seconds=120.0, workers=rows)
    first, *_ = findings(of, waits=Waits(threads=waits, output=2.0, output_name="standard output and error")).values()
    assert (first.code, first.severity) == ("output_blocked", "critical")


@pytest.mark.parametrize(("lock", "expected"), [(3.0, "info"), (9.0, "warning")])
def test_a_pool_that_is_too_small(lock, expected):
    """It is named with its size, and nobody is sent to look for a lock."""
    found = findings(of_16_threads({"lock": lock, "backend": 5.0}), waits=Waits(pools={1: 5, 2: 5}))
    assert said(found, "pool_exhausted") == (lock_waits.POOL, expected)
    assert bool(found["pool_exhausted"].clause) == (expected == "warning")
    assert "from 5 to 8" in found["pool_exhausted"].change
    assert "application_lock" not in found


@pytest.mark.parametrize(("connected", "room"), [(10.0, 1.0), (8.0, 1.25)])
def test_a_pool_is_a_limit(connected, room):
    """Of two workers, each with five connections, so many are in use."""
    record = describe(the_server(), waits=Waits(pools={1: 5, 2: 5}))
    headroom = figures_of(of_16_threads({"lock": 4.0, "backend": connected}), record).headroom
    assert (headroom.first, headroom.by_limit["lock"]) == ("lock", pytest.approx(room))


def with_waits(waits: Window, now: Waits, ages: Mapping[int, Mapping[int, float]] | None = None) -> list[Finding]:
    """The findings of a 2x8 whose last sample is this one. ages: of the requests in service, by worker and thread."""
    record = describe(the_server(), waits=now)
    workers = tuple(replace(each, ages=(ages or {}).get(each.worker_id, {})) for each in record.workers)
    return collect_findings(figures_of(waits, replace(record, workers=workers)))


def every(findings: list[Finding]) -> dict[str, Finding]:
    """The findings and their harms, by code."""
    return by_code(each for finding in findings for each in (finding, *finding.harms))


BUSY = of_16_threads({"lock": 8.0})
MOST = of_16_threads({"lock": 12.0, "cpu": 1.0})
DEAD = {1: dict.fromkeys(range(8), 6.0)}


@pytest.mark.parametrize(
    ("of", "now", "ages", "expected"),
    [
        # If no request holds what others wait for, a thread of the application has to do something for them. That is
        # how some client libraries work, so it is a warning only where it fills threads.
        (of_16_threads({"lock": 8.0, "cpu": 1.0}), Waits(holder="thread"), {}, (lock_waits.WAIT, "info")),
        (MOST, Waits(holder="thread"), {}, (lock_waits.WAIT, "warning")),
        # If the requests of a worker do not end either, they are in a deadlock, or the thread hangs.
        (BUSY, Waits(holder="thread"), DEAD, (lock_waits.NO_END, "warning")),
        (BUSY, Waits(holder="thread"), {1: {0: 6.0, 1: 0.1}}, (lock_waits.WAIT, "info")),
        # A worker without other threads has none that its requests could wait for: a timeout is a sleep.
        (change_workers(MOST, process_threads=8), Waits(holder="thread"), {}, (lock_waits.WAIT_ALONE, "warning")),
        (change_workers(MOST, process_threads=9), Waits(holder="thread"), {}, (lock_waits.WAIT, "warning")),
        # More processes wait for a lock of all; where each has its own, they help.
        (BUSY, Waits(holder="processes"), {}, (lock_waits.LOCK_OF_ALL, "warning")),
        (BUSY, Waits(holder="request"), {}, (lock_waits.LOCK, "warning")),
        (BUSY, Waits(holder=None), {}, (lock_waits.LOCK, "warning")),
    ],
)
def test_who_holds_what_is_awaited(of, now, ages, expected):
    """A request, a thread that serves none, or a process; threads and processes are not advised."""
    first, *_ = with_waits(of, now, ages)
    assert (first.kind, first.severity) == expected
    assert now.holder != "thread" or first.settings == ()


@pytest.mark.parametrize(("age", "completed", "is_dead"), [(6.0, 1200, False), (61.0, 1200, True), (6.0, 0, True)])
def test_long_polls_are_no_deadlock(age, completed, is_dead):
    """Half of a worker's threads are free, and serve others: what lasts may be meant to, up to the time of --stuck."""
    ages = {1: dict.fromkeys(range(4), age)}
    found = by_code(with_waits(change_workers(BUSY, requests=completed), Waits(holder="thread"), ages))
    assert (row(found, "waits_for_threads") is lock_waits.NO_END) == is_dead


@pytest.mark.parametrize(("part", "kind"), [(0.3, lock_waits.HANG), (0.9, lock_waits.LOCK), (1.0, lock_waits.LOCK)])
def test_requests_that_hang_at_a_lock(part, kind):
    """As after `sys.exit()`, which waits for threads that do not end: those that are completed do not wait for it."""
    of = change_workers(of_16_threads({"lock": 4.0, "sleep": 2.0}), running_time=part * 180.0)
    assert row(findings(of, waits=Waits(holder="request")), kind.code) is kind


@pytest.mark.parametrize(
    ("changed", "respawns", "kind"),
    [(-60.0, 0, lock_waits.WAIT_ALONE), (-1.0, 0, lock_waits.WAIT), (-1.0, 1, lock_waits.WAIT_ALONE)],
)
def test_threads_that_come_and_go(changed, respawns, kind):
    """One that computes what a cache lacks ends the wait, also if it is over at the end of the window; the threads of a
    new worker are uWSGI's."""
    of = change_workers(MOST, process_threads=8, respawns=respawns)
    record = describe(the_server(), waits=Waits(holder="thread"))
    workers = tuple(replace(each, threads_since=of.until + changed) for each in record.workers)
    assert row(judge(of, replace(record, workers=workers)), "waits_for_threads") is kind


@pytest.mark.parametrize(("threads", "own", "expected"), [(8, 8.0, "warning"), (8, 7.0, "info"), (9, 8.0, "info")])
def test_half_of_the_threads_wait_for_what_nobody_gives_back(threads, own, expected):
    """As with sleeping ones, that is a warning where no other thread could end the wait, such as for a pool's place."""
    of = change_workers(of_16_threads({"lock": own, "cpu": 0.5}), process_threads=threads)
    assert said(findings(of, waits=Waits(holder="thread")), "waits_for_threads")[1] == expected


@pytest.mark.parametrize(
    ("backend", "advised"), [(0.5, "sleeps between calls to 10.0.0.9:80"), (0.0, "Raise `threads`")]
)
def test_what_requests_sleep_for_comes_before_more_threads(backend, advised):
    """Those that call a backend and sleep most likely retry, or poll: more threads would do the same."""
    calls = {ANSWERS: backend} if backend else None
    found = judge(of_16_threads({"sleep": 14.0, "backend": backend}), describe(the_server()), destinations=calls)
    assert advised in first_act(found["saturation"].change)


@pytest.mark.parametrize(("waits", "is_named"), [({"child": 2.0}, True), ({"child": 0.5, "backend": 2.0}, False)])
def test_stuck_requests_that_wait_for_programs(waits, is_named):
    """`ps` then says more than the Python of the worker: what the program does."""
    found = by_code(with_waits(of_16_threads(waits), Waits(), {1: {0: 100.0, 1: 90.0}}))["request_stuck"]
    assert ("ps --ppid" in found.change, "communicate" in found.change) == (is_named, is_named)


def test_a_deadlock_is_more_than_stuck_requests():
    """To know why they are stuck is worth more; as they do not end, their worker is to be ended."""
    found = by_code(with_waits(BUSY, Waits(holder="thread"), {1: {0: 61.0, 1: 61.0}}))
    assert row(found, "waits_for_threads") is lock_waits.NO_END
    assert "request_stuck" not in found
    assert "`kill -TERM" in found["waits_for_threads"].change


@pytest.mark.parametrize(("pipe", "is_known"), [(1.9, True), (1.5, False)])
def test_a_lock_before_a_pipe(pipe, is_known):
    """What its holder waits for, each process may have to wait for."""
    first, *_ = with_waits(of_16_threads({"lock": 8.0, "pipe": pipe, "other": 2 - pipe}), Waits(holder="request"))
    assert first.kind is lock_waits.LOCK
    assert ("a pipe" in first.title) == ("a pipe" in first.change) == is_known


def test_what_if_knows_nothing_of_other_threads():
    """How much they do at once, in another setting, is not known; that of a lock that is known is."""
    figures = figures_of(BUSY, the_server())
    with pytest.raises(CannotPredictError, match=r"^Requests wait for a lock, or for threads that serve no request:"):
        measure_server(figures)
    lock = LockFigures("worker", 0.02, 0.8, 0.8, 50.0, 50.0, 50.0)
    assert measure_server(replace(figures, lock=lock)).lock == lock


@pytest.mark.parametrize(
    ("holder", "first"),
    [
        (101, "Run `py-spy dump --pid 101` "),
        (7, "Run `ps -fp 7` "),
        (0, "Run `lsof FILE` "),
        (None, "Run `for pid in 101 102; do "),
    ],
)
def test_who_holds_a_lock_of_all_processes(holder, first):
    """The process that holds a file's lock is named; the holder of any other may be in each worker."""
    found, *_ = with_waits(BUSY, Waits(holder="processes", file_lock_holder=holder))
    assert first_act(found.change).startswith(first)
    assert "10" not in found.public.act


@pytest.mark.parametrize(("lock", "name"), [(0, "`uwsgi.lock()`"), (2, "`uwsgi.lock(2)`")])
def test_a_mule_that_holds_a_lock(lock, name):
    """No worker holds it, so no dump of the workers shows what it does; and no request holds up another one."""
    held = Waits(holder="processes", uwsgi_lock_holder=LockHolder(7, lock, 0.89))
    found, *others = with_waits(BUSY, held, ages={1: {0: 200.0}})
    assert first_act(found.change).startswith("Run `py-spy dump --pid 7` ")
    assert f"the mule holds {name}" in found.evidence
    assert "request_stuck" not in by_code(others)
    assert "mule" not in with_waits(BUSY, replace(held, holder="request"))[0].title


@pytest.mark.parametrize("router", [False, True])
@pytest.mark.parametrize(("threads", "expected"), [(3.0, "info"), (4.0, "warning")])
def test_requests_that_call_their_own_server(router, threads, expected):
    """They are no requests that wait for a backend, and a warning once they hold a quarter of the threads. They may go
    through uWSGI's own router."""
    known = {"setup": Setup(Options(http=(":8000",)), 4096, "threads", None, False)} if router else {}
    record = describe(the_server(socket="/run/shop" if router else "127.0.0.1:8000"), **known)
    waited = {Destination("backend", ("127.0.0.1:8000",)): 60 * threads}
    first, *_ = judge(of_16_threads({"backend": threads, "sleep": threads}), record, destinations=waited).values()
    assert (first.kind, first.severity) == (wait_rows.CALLS_ITSELF, expected)


@pytest.mark.parametrize(
    ("cpu", "waits", "code"),
    [
        (0.95, {"interpreter_lock": 8.0, "cpu": 0.2}, "interpreter_bound"),
        (0.4, {"interpreter_lock": 8.0, "cpu": 0.1}, "interpreter_lock_held"),
    ],
)
def test_a_thread_that_serves_no_request_computes(cpu, waits, code):
    """The workers use CPU, and their request threads hardly any: another process would have such a thread, too. If the
    request threads use it, nothing else does."""
    finding = findings(of_16_threads(waits, cpu=cpu, lock=4.0))[code]
    own = findings(of_16_threads({**waits, "cpu": 2 * cpu}, cpu=cpu, lock=4.0))[code]
    assert (finding.settings, finding.serves) == ((), None)
    assert ["Background threads" in each.evidence for each in (finding, own)] == [True, False]


@pytest.mark.parametrize(("others", "is_first"), [(0.3, True), (1.2, False)])
def test_threads_that_serve_no_request_beside_other_programs(others, is_first):
    """Which of the two uses more of the CPUs is to be seen first, such as the threads of numpy's library."""
    busy = of_16_threads({"cpu_wait": 6.0, "cpu": 0.1}, cpu=(2.0 - others) / 2)
    busy = replace(busy, cpu=CpuWindow(60.0, 60 * (2.0 - others), 0.0, 60 * others))
    change = judge(busy, Server(processes=2, threads=8, cpus=2.0))["cpu_bound"].change
    assert change.startswith("Run `top -H -p") == is_first
    assert "OMP_NUM_THREADS" in change
    known = Server(processes=2, threads=8, cpus=2.0, waits=Waits(pool_variable="OPENBLAS_NUM_THREADS"))
    change = judge(busy, known)["cpu_bound"].change
    assert change.startswith("Set `OPENBLAS_NUM_THREADS=1`") == is_first


@pytest.mark.parametrize(
    ("nap", "ages", "again"), [(0.1, {0: 9.0, 1: 0.1}, True), (0.1, {}, False), (float("inf"), {0: 9.0, 1: 0.1}, False)]
)
def test_requests_that_never_have_their_turn(nap, ages, again):
    """Those that are completed had to try only once, and the mean of them says nothing of the others, which are in
    service for long."""
    first, *_ = with_waits(of_16_threads({"sleep": 14.0}), Waits(nap=nap), {1: ages})
    assert (first.code == "sleeps_again") == again
