"""Findings about what requests wait for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pytest
from msgspec import structs

from tests.analysis.simulated_backend import Backend, constant, run, wave
from tests.analysis.test_findings import findings_by_code
from tests.support.simulated_server import Server
from tests.support.windows import the_example, window, worker
from uwsgi_headroom.analysis.figures import compute_figures
from uwsgi_headroom.analysis.findings import Finding, backend_waits, collect_findings, first_act, limits, lock_waits
from uwsgi_headroom.analysis.findings import waits as wait_rows
from uwsgi_headroom.analysis.findings.kind import Kind
from uwsgi_headroom.analysis.findings.waits import (
    CONNECTION_SHARED,
    MANY_SLOW_CLIENTS,
    MANY_STAY_OPEN,
    RESPONSES_MIXED,
)
from uwsgi_headroom.analysis.locks import LockFigures
from uwsgi_headroom.analysis.what_if.measured import CannotPredictError, measure_server
from uwsgi_headroom.history.window import CpuWindow, Window
from uwsgi_headroom.reading import describe_server
from uwsgi_headroom.record import Destination, Holder, LockHolder, Options, Setup, SharedConnection, State, Waits
from uwsgi_headroom.words.formats import rate

WAITS = {
    "slow_clients",
    "application_lock",
    "interpreter_lock_held",
    "backend_saturated",
    "waits_for_backend",
    "computes_outside_the_lock",
}


def of_16_threads(
    waits: Mapping[State, float], *, cpu: float = 0.1, lock: float = 0.0, backends: Mapping[str, float] | None = None
) -> Window:
    """A minute of a 2x8 with 20 requests per second in each worker. cpu: of each worker; lock: threads of each that
    wait for its interpreter lock."""
    busy = sum(waits.values()) / 2
    rows = [
        worker(worker_id, 1200, each=busy / 20, cpu=60 * cpu, busy=60 * busy, lock=60 * lock) for worker_id in (1, 2)
    ]
    return window(60, *rows, waits=waits, backends=backends)


def findings(waits: Window, **changes: object) -> dict[str, Finding]:
    return findings_by_code(waits, Server(processes=2, threads=8, cpus=8.0), **changes)


def test_without_waits_there_is_no_such_finding() -> None:
    """Nothing is concluded from what is not known."""
    known = of_16_threads({"client": 8.0, "lock": 4.0})
    assert WAITS & findings(known).keys()
    assert not WAITS & findings(replace(known, waits=None)).keys()


@pytest.mark.parametrize(
    ("threads", "kind"),
    [(0.9, None), (1.6, wait_rows.SOME_SLOW_CLIENTS), (3.9, wait_rows.SOME_SLOW_CLIENTS), (4.0, MANY_SLOW_CLIENTS)],
)
def test_slow_clients(threads: float, kind: Kind | None) -> None:
    """A tenth of the threads is good to know, a quarter is a warning."""
    finding = findings(of_16_threads({"client": threads, "sleep": 2.0})).get("slow_clients")
    assert (finding.kind if finding else None) is kind


@pytest.mark.parametrize("websockets", [0.95, 0.4, 0.0])
def test_websockets(websockets: float) -> None:
    """Nothing can buffer connections that stay open. They last by nature: none is stuck. Without evidence, the advice
    about slow clients names them."""
    quiet = window(60, *(worker(number, 90, each=0.05, busy=60 * 7.1) for number in (1, 2)), waits={"client": 14.0})
    now = Waits(threads={"client": 14.0}, websockets=14.0 * websockets)
    for age in (100.0, 20.0):
        found = with_waits(quiet, now, {number: dict.fromkeys(range(7), age) for number in (1, 2)})
        by_code = {each.code: each for each in (harm for finding in found for harm in (finding, *finding.harms))}
        assert ("request_stuck" in by_code) == (websockets < 0.9 and age > 60)
    assert by_code["slow_clients"].kind is (MANY_STAY_OPEN if websockets > 0.9 else MANY_SLOW_CLIENTS)
    assert "WebSockets" in by_code["slow_clients"].change + by_code["slow_clients"].title


def test_stuck_requests_beside_websockets() -> None:
    """More requests are old than there are WebSockets: some of them are stuck."""
    ages = {1: dict.fromkeys(range(8), 100.0), 2: dict.fromkeys(range(4), 100.0)}
    busy = of_16_threads({"client": 8.0, "backend": 4.0})
    for threads, is_stuck in ((12.0, False), (8.0, True)):
        found = with_waits(busy, Waits(threads={"client": threads}, websockets=threads), ages)
        codes = {each.code for finding in found for each in (finding, *finding.harms)}
        assert ("request_stuck" in codes) == is_stuck


def test_clients_of_which_none_gets_an_answer() -> None:
    """Slow ones are not the first thing to think of: the web server may speak another protocol."""
    none = window(
        60, *(worker(number, 0, busy=60 * 8.0) for number in (1, 2)), waits={"client": 16.0}, **{"app.sock": 480.0}
    )
    finding = findings(none)["queue_wait"]
    assert finding.kind is MANY_SLOW_CLIENTS
    assert "the protocol of the socket" in first_act(finding.change)


@pytest.mark.parametrize(
    ("waits", "kind"),
    [
        ({"lock": 0.9}, None),
        ({"lock": 1.0, "sleep": 4.0}, None),
        ({"lock": 1.0, "sleep": 3.0}, lock_waits.LOCK_SEEN),
        ({"lock": 4.0, "sleep": 4.0}, lock_waits.LOCK),
    ],
)
def test_a_lock_of_the_application(waits: Mapping[State, float], kind: Kind | None) -> None:
    """From a quarter of the threads' time on, from half on as a warning."""
    finding = findings(of_16_threads(waits)).get("application_lock")
    assert (finding.kind if finding else None) is kind


ADDRESSES = Waits(addresses={"postgres": "10.0.0.5:5432", "redis": "*:6379"})


def test_a_backend_is_named() -> None:
    """The finding says which backend, its address, and its own share."""
    window_ = of_16_threads({"backend": 8.0, "cpu": 2.0}, backends={"postgres": 7.0, "redis": 1.0})
    host = replace(Server(processes=2, threads=8).read(1000.0).host, waits=ADDRESSES)
    finding = findings(window_, host=host)["waits_for_backend"]
    assert finding.kind is backend_waits.BACKEND
    assert "postgres at 10.0.0.5:5432" in finding.title
    assert "postgres at 10.0.0.5:5432 (70 %) and redis at *:6379 (10 %)" in finding.evidence
    assert "200 ms of the 250 ms" in finding.evidence
    assert "10.0.0.5" not in "".join(finding.public)
    unnamed = findings(of_16_threads({"backend": 8.0, "cpu": 3.0}))["waits_for_backend"]
    assert unnamed.title.endswith("waiting for backends.")


def test_a_saturated_backend() -> None:
    """It is named with its address, as the cause of the waiting; neither threads nor processes are advised."""
    reading = Server(processes=2, threads=8).read(1000.0)
    host = replace(reading.host, waits=Waits(addresses={"postgres": "10.0.0.5:5432"}))
    server = describe_server(replace(reading, host=host))
    assert server
    waiting = replace(
        of_16_threads({"backend": 15.5, "cpu": 0.3}, backends={"postgres": 15.5}), queue_seconds={"web": 600.0}
    )
    figures = compute_figures(waiting, server)
    assert [finding.code for finding in collect_findings(figures)] == ["waits_for_backend"]
    found = run(Backend(constant(0.05), servers=2), wave(12, 52, 10), 120, 1).find_saturation()
    assert found
    saturated = replace(figures, saturation=replace(found, name="postgres"))
    block, *_ = collect_findings(saturated)
    assert (block.kind, block.settings) == (backend_waits.SATURATED, ())
    assert "postgres at 10.0.0.5:5432" in block.title
    assert rate(found.high) in block.change
    with pytest.raises(CannotPredictError, match=r"^The backend postgres is saturated: in any other"):
        measure_server(saturated)
    nameless = compute_figures(
        replace(of_16_threads({"backend": 15.5, "cpu": 0.3}), queue_seconds={"web": 600.0}), server
    )
    unnamed, *_ = collect_findings(replace(nameless, saturation=found))
    assert unnamed.kind is backend_waits.SATURATED
    assert "`--backends`" in unnamed.change
    bursts, *_ = collect_findings(replace(figures, saturation=replace(found, many=7.9)))
    assert bursts.kind is backend_waits.SATURATED
    assert rate(found.high) not in bursts.change


def test_a_saturated_backend_while_threads_are_free() -> None:
    """It is good to know if it filled most threads at times; short bursts are not worth a line, until requests wait."""
    found = run(Backend(constant(0.05), servers=2), wave(12, 52, 10), 120, 1).find_saturation()
    server = describe_server(Server(processes=2, threads=8).read(1000.0))
    assert found
    assert server
    figures = compute_figures(of_16_threads({"backend": 5.0}), server)
    finding = next(iter(collect_findings(replace(figures, saturation=found))))
    assert (finding.code, finding.severity) == ("backend_saturated", "info")
    bursts = replace(figures, saturation=replace(found, many=7.9))
    assert not WAITS & {each.code for each in collect_findings(bursts)}


def test_a_backend_that_fills_the_threads_stands_first() -> None:
    """Most threads are in use because of it: one block says both, and does not advise more threads."""
    window_ = of_16_threads({"backend": 9.0, "cpu": 3.0}, backends={"postgres": 7.5, "redis": 1.5})
    host = replace(Server(processes=2, threads=8).read(1000.0).host, waits=ADDRESSES)
    by_code = findings(window_, host=host)
    block = by_code["saturation"]
    assert (block, block.kind, block.severity) == (next(iter(by_code.values())), backend_waits.BACKEND, "warning")
    assert [harm.code for harm in block.harms] == ["saturation"]
    assert block.settings == ()


def outside(waits: Mapping[State, float], seconds: Mapping[Destination, float]) -> dict[str, Finding]:
    """The findings of a 2x8 whose threads wait for these destinations."""
    reading = Server(processes=2, threads=8, cpus=8.0).read(1000.0)
    figures = compute_figures(of_16_threads(waits), describe_server(reading), destinations=seconds)
    return {finding.code: finding for finding in collect_findings(figures)}


SILENT = Destination("backend", ("10.0.0.9:80",), connecting=True)


@pytest.mark.parametrize(("threads", "is_one"), [(3.9, False), (4.0, True), (12.0, True)])
def test_a_backend_that_does_not_answer(threads: float, is_one: bool) -> None:
    """Connections without an answer are a warning from a quarter of the threads on."""
    found = outside({"backend": threads, "sleep": 1.0}, {SILENT: threads}).get("waits_for_backend")
    assert (found.kind if found else None) is (backend_waits.NO_ANSWER if is_one else None)
    assert not found or "10.0.0.9:80" in found.title


@pytest.mark.parametrize(
    ("beside", "is_silent", "kind"),
    [
        (0.1, True, backend_waits.NO_ANSWER),
        (0.1, False, lock_waits.LOCK),
        (1.0, True, lock_waits.LOCK),
    ],
)
def test_the_holder_of_a_lock_waits_for_a_backend(beside: float, is_silent: bool, kind: Kind) -> None:
    """Where hardly any thread does anything else, the holder, which does not wait for the lock, waits for the backend:
    one that does not answer is the cause then, however few threads wait for it, and no lock."""
    host = replace(Server(processes=2, threads=8).read(1000.0).host, waits=Waits(holder="request"))
    reading = replace(Server(processes=2, threads=8, cpus=8.0).read(1000.0), host=host)
    waits = of_16_threads({"lock": 11.0, "backend": 2.0, "sleep": beside})
    place = Destination("backend", ("10.0.0.9:80",), connecting=is_silent)
    figures = compute_figures(waits, describe_server(reading), destinations={place: 2.0})
    by_code = {finding.code: finding for finding in collect_findings(figures)}
    first = next(iter(by_code.values()))
    assert first.kind is kind
    assert ("10.0.0.9:80" in by_code["application_lock"].evidence) == (beside < 0.2)
    if kind is backend_waits.NO_ANSWER:
        assert "11.0" in first.evidence
        assert by_code["application_lock"].kind is lock_waits.LOCK_SEEN


def test_slow_connections_are_no_silence() -> None:
    """A server far away answers after a while: half of the time goes into its connection."""
    answers = Destination("backend", ("10.0.0.9:80",))
    found = outside({"backend": 8.0, "sleep": 1.0}, {SILENT: 4.0, answers: 4.0})["waits_for_backend"]
    assert found.kind is backend_waits.BACKEND


def test_slow_name_servers() -> None:
    """A lookup takes milliseconds: a quarter of the threads in one is a warning."""
    found = outside({"dns": 4.0, "sleep": 2.0}, {Destination("dns", ("10.0.0.1:53",)): 1.0})["waits_for_backend"]
    assert found.kind is backend_waits.NAMES_SLOW
    assert "waits_for_backend" not in outside({"dns": 3.9, "sleep": 2.0}, {Destination("dns"): 1.0})


def test_two_backends_are_both_named() -> None:
    """Neither has most of the time, and the title has no figure that changes."""
    seconds = {Destination("backend", (address,)): 1.0 for address in ("10.0.0.5:5432", "10.0.0.6:6379")}
    for more in (0.7, 1.3):
        found = outside({"backend": 9.0}, seconds | {Destination("backend", ("10.0.0.6:6379",)): more})
        assert "postgres at 10.0.0.5:5432 and redis at 10.0.0.6:6379." in found["waits_for_backend"].title


def test_a_backend_does_not_matter_while_threads_are_free() -> None:
    """With most threads idle, it is no finding where their time goes."""
    assert "waits_for_backend" not in findings(of_16_threads({"backend": 3.0}))


def test_a_lock_that_is_held_asleep() -> None:
    """Threads that wait for the interpreter lock, while the interpreter uses little CPU: its holder waits itself."""
    found = findings(of_16_threads({"interpreter_lock": 8.0, "sleep": 2.0}, cpu=0.05, lock=4.0))
    assert found["interpreter_lock_held"].kind is lock_waits.HELD_ASLEEP
    assert "interpreter_bound" not in found


@pytest.mark.parametrize(("cpu", "computes"), [(0.2, False), (0.4, False), (0.58, True)])
def test_a_lock_that_is_held_by_a_long_call(cpu: float, computes: bool) -> None:
    """Seven other threads wait at most while one computes: 4.0 on average are more than 7 x 0.4, and less than 7 x
    0.58."""
    waits: dict[State, float] = {"interpreter_lock": 8.0, "cpu": 2 * cpu, "sleep": 2.0}
    finding = findings(of_16_threads(waits, cpu=cpu, lock=4.0))["interpreter_lock_held"]
    assert finding.kind is (lock_waits.HELD_COMPUTING if computes else lock_waits.HELD_ASLEEP)


@pytest.mark.parametrize(("each", "held"), [(0.05, False), (0.4, True)])
def test_a_long_wait_for_a_lock_that_is_not_saturated(each: float, held: bool) -> None:
    """Between a saturated interpreter and one that uses little, it counts if users feel it."""
    waits: dict[State, float] = {"interpreter_lock": 8.0, "cpu": 1.4, "sleep": 2.0}
    row = of_16_threads(waits, cpu=0.7, lock=4.0)
    row = replace(row, workers=tuple([structs.replace(one, running_time=one.requests * each) for one in row.workers]))
    assert ("interpreter_lock_held" in findings(row)) == held


def test_a_holder_without_a_cpu_is_not_blamed() -> None:
    """If the holder waits for a CPU, that is the cause, and reported as such."""
    window_ = of_16_threads({"interpreter_lock": 8.0, "cpu_wait": 1.1, "cpu": 0.5}, cpu=0.3, lock=4.0)
    assert "interpreter_lock_held" not in findings(window_)


def test_work_outside_of_the_lock_is_no_saturated_interpreter() -> None:
    """Hashing on eight threads uses a whole CPU and more, and no thread waits for the lock. (Seen on a real uWSGI.)"""
    waits: Mapping[State, float] = {"cpu": 2.0, "cpu_wait": 8.0}
    measured = of_16_threads(waits, cpu=1.0, lock=0.0)
    assert "interpreter_bound" not in findings(measured)
    assert findings(measured)["computes_outside_the_lock"].severity == "info"
    inferred = replace(
        measured,
        waits=None,
        workers=tuple(structs.replace(each, interpreter_lock_seconds=None) for each in measured.workers),
    )
    assert "interpreter_bound" in findings(inferred)
    assert "computes_outside_the_lock" not in findings(inferred)


def test_threads_that_wait_for_a_saturated_interpreter_are_one_block_with_it() -> None:
    """They are all in use because they wait for its lock: no second block advises the same."""
    by_code = findings(of_16_threads({"cpu": 2.0, "interpreter_lock": 14.0}, cpu=0.97, lock=7.0))
    assert by_code["saturation"] is by_code["interpreter_bound"]


def test_the_lock_is_evidence() -> None:
    """A saturated interpreter has the number of threads that wait for its lock as evidence, and so has a hot worker."""
    window_ = of_16_threads({"cpu": 1.9, "interpreter_lock": 9.0}, cpu=0.95, lock=4.5)
    assert "at most 4.5 wait" in findings(window_)["interpreter_bound"].evidence
    example = the_example()
    workers = tuple(
        structs.replace(each, interpreter_lock_seconds=60 * (5.0 if each.worker_id == 2 else 0.5))
        for each in example.workers
    )
    story = replace(example, workers=workers, waits=window(60, waits={"interpreter_lock": 6.5}).waits)
    assert "5.0 of its threads wait" in findings_by_code(story, Server(cpus=4.0))["unevenness_hurts"].evidence


def test_a_single_thread_saturates_its_interpreter_without_waiting() -> None:
    """In prefork nothing can wait for the lock, and a worker that computes all the time is saturated."""
    rows = [worker(worker_id, 600, each=0.095, cpu=57.0, busy=57.0, lock=0.0) for worker_id in (1, 2)]
    by_code = findings_by_code(window(60, *rows, waits={"cpu": 1.9}), Server(processes=2, threads=1, cpus=8.0))
    assert "interpreter_bound" in by_code
    assert "computes_outside_the_lock" not in by_code


@pytest.mark.parametrize(
    ("waits", "kind"),
    [
        ({"backend": 15.0, "cpu": 0.5}, backend_waits.BACKEND),
        ({"client": 15.0, "cpu": 0.5}, MANY_SLOW_CLIENTS),
        ({"lock": 15.0, "sleep": 0.5}, lock_waits.LOCK),
        ({"sleep": 15.5}, limits.MOST_IN_USE),
    ],
)
def test_what_to_change_follows_from_the_state(waits: Mapping[State, float], kind: Kind) -> None:
    """Waits outside scale with threads, the lock with processes, locks and clients with neither."""
    window_ = of_16_threads(waits, backends={"postgres": waits.get("backend", 0.0)})
    finding = findings(window_)["saturation"]
    assert finding.kind is kind
    assert dict(finding.settings) == ({"threads": 16} if kind is limits.MOST_IN_USE else {})


SHARED = (SharedConnection("10.0.0.5:5432", 2),)


def share(waits: Mapping[State, float], shared: float) -> dict[str, Finding]:
    """The findings where this mean number of threads waits for an answer over a shared connection."""
    window_ = replace(of_16_threads(waits), shared_connection_seconds=60 * shared)
    reading = Server(processes=2, threads=8, cpus=8.0).read(1000.0)
    return findings(window_, host=replace(reading.host, shared_connections=SHARED))


@pytest.mark.parametrize(
    ("waits", "shared", "kind", "is_cause"),
    [
        ({"sleep": 6.0}, 0.0, wait_rows.CONNECTION_INHERITED, False),
        ({"sleep": 6.0, "backend": 0.5}, 0.5, CONNECTION_SHARED, False),
        ({"sleep": 2.0, "backend": 6.0}, 5.0, RESPONSES_MIXED, True),
        ({"sleep": 2.0, "backend": 6.0}, 3.0, RESPONSES_MIXED, False),  # another backend is the slow one
        ({"lock": 6.0, "backend": 1.0}, 1.0, CONNECTION_SHARED, True),  # kept apart by a lock of all processes
        ({"lock": 6.0, "backend": 2.0}, 2.0, RESPONSES_MIXED, True),  # one of each worker, others behind its lock
        ({"lock": 6.0, "backend": 6.0}, 0.8, CONNECTION_SHARED, False),
    ],
)
def test_a_shared_connection(waits: Mapping[State, float], shared: float, kind: Kind, is_cause: bool) -> None:
    """Good to know while nobody uses it; the cause if requests mostly wait in it, or behind those that do."""
    finding = share(waits, shared)["connection_shared"]
    assert finding.kind is kind
    assert bool(finding.clause) == is_cause
    assert "10.0.0.5:5432" in finding.title
    assert "10.0.0.5" not in "".join(finding.public)


def test_without_a_shared_connection_none_is_reported() -> None:
    """Waiting for a backend is no evidence of sharing."""
    assert "connection_shared" not in findings(of_16_threads({"backend": 12.0}))


def write(waits: Mapping[State, float], output: float, **changes: object) -> dict[str, Finding]:
    """The findings where this mean number of threads writes to a pipe that takes nothing."""
    window_ = replace(of_16_threads(waits), output_blocked_seconds=60 * output, **changes)
    reading = Server(processes=2, threads=8, cpus=8.0).read(1000.0)
    waits_now = Waits(threads=waits, output=output, output_name="standard output and error")
    return findings(window_, host=replace(reading.host, waits=waits_now))


@pytest.mark.parametrize(
    ("waits", "output", "found"),
    [
        ({"lock": 6.0, "pipe": 2.0}, 2.0, True),  # one of each worker, the others behind Python's lock
        ({"sleep": 1.0, "pipe": 7.0}, 7.0, True),
        ({"lock": 6.0, "pipe": 2.0}, 0.0, False),  # another pipe, such as that of a child
        ({"sleep": 6.0, "pipe": 1.0}, 1.0, False),
        ({"pipe": 0.5}, 0.5, False),
    ],
)
def test_a_pipe_that_takes_nothing(waits: Mapping[State, float], output: float, found: bool) -> None:
    """It is the cause if requests mostly wait in a write to it, or for the lock that such a thread holds."""
    by_code = write(waits, output)
    finding = by_code.get("output_blocked")
    assert (finding.kind if finding else None) is (wait_rows.OUTPUT_SLOWS if found else None)
    assert not finding or ("application_lock" not in by_code and "standard output and error" in finding.title)


def test_a_pipe_at_which_nothing_completes() -> None:
    """It is critical, and comes before the requests that are stuck because of it."""
    rows = [worker(worker_id, 0, busy=240.0) for worker_id in (1, 2)]
    by_code = write({"lock": 6.0, "pipe": 2.0}, 2.0, workers=tuple(rows))
    assert by_code["output_blocked"].kind is wait_rows.OUTPUT_STOPS
    assert next(iter(by_code)) == "output_blocked"


@pytest.mark.parametrize(("lock", "kind"), [(3.0, lock_waits.POOL_SEEN), (9.0, lock_waits.POOL)])
def test_a_pool_that_is_too_small(lock: float, kind: Kind) -> None:
    """It is named with its size, and nobody is sent to look for a lock."""
    window_ = of_16_threads({"lock": lock, "backend": 5.0})
    reading = Server(processes=2, threads=8, cpus=8.0).read(1000.0)
    by_code = findings(window_, host=replace(reading.host, waits=Waits(pools={1: 5, 2: 5})))
    finding = by_code["pool_exhausted"]
    assert finding.kind is kind
    assert "one of the 5 places" in finding.title
    assert "16 connections" in finding.change
    assert "from 5 to 8" in finding.change
    assert "application_lock" not in by_code


@pytest.mark.parametrize(("connected", "room"), [(10.0, 1.0), (8.0, 1.25)])
def test_a_pool_is_a_limit(connected: float, room: float) -> None:
    """Of two workers, each with five connections, so many are in use."""
    reading = Server(processes=2, threads=8, cpus=8.0).read(1000.0)
    host = replace(reading.host, waits=Waits(pools={1: 5, 2: 5}))
    window_ = of_16_threads({"lock": 4.0, "backend": connected})
    figures = compute_figures(window_, describe_server(replace(reading, host=host)))
    assert figures.headroom.by_limit["lock"] == pytest.approx(room)
    assert figures.headroom.first == "lock"


def with_waits(waits: Window, now: Waits, ages: Mapping[int, Mapping[int, float]] | None = None) -> list[Finding]:
    """The findings of a 2x8 whose last sample is this one. ages: of the requests in service, by worker and thread."""
    server = Server(processes=2, threads=8, cpus=8.0)
    reading = server.read(1000.0)
    record = describe_server(replace(reading, host=replace(reading.host, waits=now)))
    assert record
    workers = tuple(structs.replace(each, ages=(ages or {}).get(each.worker_id, {})) for each in record.workers)
    return collect_findings(compute_figures(waits, structs.replace(record, workers=workers)))


@pytest.mark.parametrize(("threads", "kind"), [(8.0, lock_waits.WAIT), (12.0, lock_waits.WAIT_SCARCE)])
def test_threads_that_serve_no_request(threads: float, kind: Kind) -> None:
    """If no request holds what others wait for, a thread of the application has to do something for them. That is how
    some client libraries work, so it is a warning only where it fills threads."""
    first, *_ = with_waits(of_16_threads({"lock": threads, "cpu": 1.0}), Waits(holder="thread"))
    assert (first.kind, first.settings) == (kind, ())


def test_requests_that_wait_for_each_other() -> None:
    """If those of a worker do not end either, they are in a deadlock, or the thread hangs."""
    busy = of_16_threads({"lock": 8.0})
    dead, alive = {1: dict.fromkeys(range(8), 6.0)}, {1: {0: 6.0, 1: 0.1}}
    first, *_ = with_waits(busy, Waits(holder="thread"), dead)
    assert first.kind is lock_waits.NO_END
    assert "worker 1 have lasted 5.0 s" in first.evidence
    assert with_waits(busy, Waits(holder="thread"), alive)[0].kind is lock_waits.WAIT


def test_waits_that_no_other_thread_ends() -> None:
    """A worker without other threads has none that its requests could wait for: a timeout is a sleep."""
    busy = of_16_threads({"lock": 12.0, "cpu": 1.0})
    for number, kind in ((8, lock_waits.WAIT_ALONE_SCARCE), (9, lock_waits.WAIT_SCARCE)):
        workers = tuple([structs.replace(each, process_threads=number) for each in busy.workers])
        assert with_waits(replace(busy, workers=workers), Waits(holder="thread"))[0].kind is kind


@pytest.mark.parametrize(("age", "completed", "is_dead"), [(6.0, 1200, False), (61.0, 1200, True), (6.0, 0, True)])
def test_long_polls_are_no_deadlock(age: float, completed: int, is_dead: bool) -> None:
    """Half of a worker's threads are free, and serve others: what lasts may be meant to, up to the time of --stuck."""
    busy = of_16_threads({"lock": 8.0})
    busy = replace(busy, workers=tuple([structs.replace(each, requests=completed) for each in busy.workers]))
    found = {each.code: each for each in with_waits(busy, Waits(holder="thread"), {1: dict.fromkeys(range(4), age)})}
    assert (found["waits_for_threads"].kind is lock_waits.NO_END) == is_dead


@pytest.mark.parametrize(("pipe", "is_known"), [(1.9, True), (1.5, False)])
def test_a_lock_before_a_pipe(pipe: float, is_known: bool) -> None:
    """What its holder waits for, each process may have to wait for."""
    first, *_ = with_waits(of_16_threads({"lock": 8.0, "pipe": pipe, "other": 2 - pipe}), Waits(holder="request"))
    assert first.kind is lock_waits.LOCK
    assert ("a pipe" in first.evidence) == ("a pipe" in first.change) == is_known


def test_what_if_knows_nothing_of_other_threads() -> None:
    """How much they do at once, in another setting, is not known; that of a lock that is known is."""
    record = describe_server(Server(processes=2, threads=8, cpus=8.0).read(1000.0))
    assert record
    figures = compute_figures(of_16_threads({"lock": 8.0}), record)
    with pytest.raises(CannotPredictError, match=r"^Requests wait for a lock, or for threads that serve no request:"):
        measure_server(figures)
    lock = LockFigures("worker", 0.02, 0.8, 0.8, 50.0, 50.0, 50.0)
    assert measure_server(replace(figures, lock=lock)).lock == lock


@pytest.mark.parametrize(
    ("holder", "kind"),
    [("processes", lock_waits.LOCK_OF_ALL), ("request", lock_waits.LOCK), (None, lock_waits.LOCK)],
)
def test_a_lock_of_all_processes(holder: Holder | None, kind: Kind) -> None:
    """More processes wait for it as well; where each has its own, they help."""
    assert with_waits(of_16_threads({"lock": 8.0}), Waits(holder=holder))[0].kind is kind


@pytest.mark.parametrize(
    ("holder", "first"),
    [
        (101, "Run `py-spy dump --pid 101` to see what worker 1 does"),
        (7, "Run `ps -fp 7` "),
        (0, "Run `lsof FILE` "),
        (None, "Run `for pid in 101 102; do "),
    ],
)
def test_who_holds_a_lock_of_all_processes(holder: int | None, first: str) -> None:
    """The process that holds a file's lock is named; the holder of any other may be in each worker."""
    found, *_ = with_waits(of_16_threads({"lock": 8.0}), Waits(holder="processes", file_lock_holder=holder))
    assert first_act(found.change).startswith(first)
    assert "10" not in found.public.act


@pytest.mark.parametrize(("lock", "name"), [(0, "`uwsgi.lock()`"), (2, "`uwsgi.lock(2)`")])
def test_a_mule_that_holds_a_lock(lock: int, name: str) -> None:
    """No worker holds it, so no dump of the workers shows what it does; and no request holds up another one."""
    held = Waits(holder="processes", uwsgi_lock_holder=LockHolder(7, lock, 0.89))
    busy = of_16_threads({"lock": 8.0})
    found, *others = with_waits(busy, held, ages={1: {0: 200.0}})
    assert "mule" in found.title
    assert first_act(found.change).startswith("Run `py-spy dump --pid 7` ")
    assert f"the mule holds {name}" in found.evidence
    assert "89 %" in found.evidence
    assert "request_stuck" not in [each.code for each in others]
    assert "mule" not in with_waits(busy, replace(held, holder="request"))[0].title


@pytest.mark.parametrize("router", [False, True])
def test_requests_that_call_their_own_server(router: bool) -> None:
    """They are no requests that wait for a backend, and a warning once they hold a quarter of the threads. They may go
    through uWSGI's own router."""
    server = Server(processes=2, threads=8, cpus=8.0, socket="/run/shop" if router else "127.0.0.1:8000")
    record = describe_server(server.read(1000.0))
    assert record
    if router:
        record = structs.replace(record, setup=Setup(Options(http=(":8000",)), 4096, "threads", None, False))
    for threads, kind in ((3.0, backend_waits.CALLS_SEEN), (4.0, backend_waits.CALLS_ITSELF)):
        busy = of_16_threads({"backend": threads, "sleep": threads})
        waited = {Destination("backend", ("127.0.0.1:8000",)): 60 * threads}
        assert collect_findings(compute_figures(busy, record, destinations=waited))[0].kind is kind


@pytest.mark.parametrize(
    ("cpu", "waits", "code"),
    [
        (0.95, {"interpreter_lock": 8.0, "cpu": 0.2}, "interpreter_bound"),
        (0.4, {"interpreter_lock": 8.0, "cpu": 0.1}, "interpreter_lock_held"),
    ],
)
def test_a_thread_that_serves_no_request_computes(cpu: float, waits: Mapping[State, float], code: str) -> None:
    """The workers use CPU, and their request threads hardly any: another process would have such a thread, too. If the
    request threads use it, nothing else does."""
    finding = findings(of_16_threads(waits, cpu=cpu, lock=4.0))[code]
    assert "Background threads" in finding.evidence
    assert (finding.settings, finding.serves) == ((), None)
    own = findings(of_16_threads({**waits, "cpu": 2 * cpu}, cpu=cpu, lock=4.0))[code]
    assert "Background threads" not in own.evidence


@pytest.mark.parametrize(("others", "is_first"), [(0.3, True), (1.2, False)])
def test_threads_that_serve_no_request_beside_other_programs(others: float, is_first: bool) -> None:
    """Which of the two uses more of the CPUs is to be seen first, such as the threads of numpy's library."""
    server = Server(processes=2, threads=8, cpus=2.0)
    busy = of_16_threads({"cpu_wait": 6.0, "cpu": 0.1}, cpu=(2.0 - others) / 2)
    busy = replace(busy, cpu=CpuWindow(60.0, 60 * (2.0 - others), 0.0, 60 * others))
    change = findings_by_code(busy, server)["cpu_bound"].change
    assert change.startswith("Run `top -H -p") == is_first
    assert "OMP_NUM_THREADS" in change


def test_requests_of_which_some_never_have_their_turn() -> None:
    """Those that are completed had to try only once, and the mean of them says nothing of the others, which are in
    service for long."""
    busy = of_16_threads({"sleep": 14.0})
    ages = {1: {0: 9.0, 1: 0.1}}
    assert with_waits(busy, Waits(nap=0.1), ages)[0].code == "sleeps_again"
    assert with_waits(busy, Waits(nap=float("inf")), ages)[0].code != "sleeps_again"
    assert with_waits(busy, Waits(nap=0.1))[0].code != "sleeps_again"


def test_programs_may_wait_for_each_other() -> None:
    """What a server with more threads serves is not known: the programs that requests start may take turns."""
    waits: dict[State, float] = {"pipe": 10.0, "child": 2.0, "unknown": 3.5}
    saturated = findings(of_16_threads(waits))["saturation"]
    assert saturated.settings
    assert saturated.serves is None
