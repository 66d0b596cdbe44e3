"""Findings about what requests wait for."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace

import pytest
from msgspec import structs

from tests.analysis.simulated_backend import Backend, constant, run, wave
from tests.analysis.test_findings import findings_by_code
from tests.support.simulated_server import Server
from tests.support.windows import the_example, window, worker
from uwsgi_headroom.analysis.figures import compute_figures
from uwsgi_headroom.analysis.findings import Finding, collect_findings, first_act
from uwsgi_headroom.analysis.locks import LockFigures
from uwsgi_headroom.analysis.what_if import CannotPredictError
from uwsgi_headroom.analysis.what_if.measured import measure_server
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


@pytest.mark.parametrize(("threads", "severity"), [(0.9, None), (1.6, "info"), (3.9, "info"), (4.0, "warning")])
def test_slow_clients(threads: float, severity: str | None) -> None:
    """A tenth of the threads is good to know, a quarter is a warning; the remedy is a proxy that buffers."""
    finding = findings(of_16_threads({"client": threads, "sleep": 2.0})).get("slow_clients")
    assert (finding.severity if finding else None) == severity
    if finding:
        assert finding.title == "Threads wait for slow clients."
        assert finding.evidence.startswith(f"On average, {threads:.1f} of 16 threads wait for clients: ")
        assert "in front of uWSGI buffer" in finding.change


@pytest.mark.parametrize(
    ("websockets", "title", "act"),
    [
        (0.95, "Threads wait for connections that stay open.", "Serve these connections from a uWSGI of their own"),
        (0.4, "Threads wait for slow clients.", "Let the web server in front of uWSGI buffer"),
        (0.0, "Threads wait for slow clients.", "Let the web server in front of uWSGI buffer"),
    ],
)
def test_websockets(websockets: float, title: str, act: str) -> None:
    """Nothing can buffer connections that stay open. They last by nature: none is stuck. Without
    evidence, the advice about slow clients names them."""
    quiet = window(60, *(worker(number, 90, each=0.05, busy=60 * 7.1) for number in (1, 2)), waits={"client": 14.0})
    ages = {number: dict.fromkeys(range(7), 100.0) for number in (1, 2)}
    now = Waits(threads={"client": 14.0}, websockets=14.0 * websockets)
    found = with_waits(quiet, now, ages)
    by_code = {each.code: each for each in (harm for finding in found for harm in (finding, *finding.harms))}
    assert ("request_stuck" in by_code) == (websockets < 0.9)
    young = with_waits(quiet, now, {number: dict.fromkeys(range(7), 20.0) for number in (1, 2)})
    finding = next(each for each in young if each.change.startswith(act))
    assert "WebSockets" in finding.change + finding.title
    assert title == "Threads wait for slow clients." or "WebSockets, hold the threads" in found[0].title
    server = Server(processes=2, threads=8, cpus=8.0)
    some = Waits(threads={"client": 4.0}, websockets=4.0 * websockets)
    host = replace(server.read(1000.0).host, waits=some)
    few = findings_by_code(of_16_threads({"client": 4.0, "sleep": 6.0}), server, host=host)["slow_clients"]
    assert (few.title, few.change[: len(act)]) == (title, act)


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
    assert finding.title == "Requests wait, and no request is completed: the threads wait for their clients."
    assert finding.change.startswith("Check that the web server in front, or uWSGI's router, speaks the protocol ")


@pytest.mark.parametrize(
    ("waits", "severity"),
    [
        ({"lock": 0.9}, None),
        ({"lock": 1.0, "sleep": 4.0}, None),
        ({"lock": 1.0, "sleep": 3.0}, "info"),
        ({"lock": 4.0, "sleep": 4.0}, "warning"),
    ],
)
def test_a_lock_of_the_application(waits: Mapping[State, float], severity: str | None) -> None:
    """From a quarter of the threads' time on, from half on as a warning; it is not called the interpreter's."""
    finding = findings(of_16_threads(waits)).get("application_lock")
    assert (finding.severity if finding else None) == severity
    if finding:
        assert "This lock is not Python's interpreter lock." in finding.evidence


ADDRESSES = Waits(addresses={"postgres": "10.0.0.5:5432", "redis": "*:6379"})


def test_a_backend_is_named() -> None:
    """The finding says which backend, its address, its own share, and that CPU does not help."""
    window_ = of_16_threads({"backend": 8.0, "cpu": 2.0}, backends={"postgres": 7.0, "redis": 1.0})
    server = Server(processes=2, threads=8)
    host = replace(server.read(1000.0).host, waits=ADDRESSES)
    finding = findings(window_, host=host)["waits_for_backend"]
    assert finding.severity == "info"
    assert finding.title == "Requests spend most of their time waiting for postgres at 10.0.0.5:5432."
    assert finding.evidence.startswith(
        "7.0 of 10.0 busy threads (70 %) wait for postgres at 10.0.0.5:5432 (175 ms of the 250 ms that a request "
        "takes); 1.0 (10 %) wait for redis at *:6379 (25 ms "
    )
    assert "More CPU does not help" in finding.change
    unnamed = findings(of_16_threads({"backend": 8.0, "cpu": 3.0}))["waits_for_backend"]
    assert unnamed.title == "Requests spend most of their time waiting for backends."


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
    slices = run(Backend(constant(0.05), servers=2), wave(12, 52, 10), 120, 1)
    found = slices.find_saturation()
    assert found
    saturated = replace(figures, saturation=replace(found, name="postgres"))
    block, *others = collect_findings(saturated)
    assert block.code == "backend_saturated"
    assert block.title.endswith(": the backend postgres at 10.0.0.5:5432 is saturated.")
    assert re.search(
        r"At \d\d\.\d/s, the backend worked on \d\.\d requests at a time, and each took 1?\d\d ms", block.evidence
    )
    assert "More threads or processes would also wait" in block.change
    assert f"uWSGI can hardly serve more than {rate(found.high)}." in block.change
    assert block.settings == ()
    assert not any("more `threads`" in finding.change or "Raise `" in finding.change for finding in (block, *others))
    with pytest.raises(CannotPredictError, match=r"^The backend postgres is saturated: in any other"):
        measure_server(saturated)
    nameless = compute_figures(
        replace(of_16_threads({"backend": 15.5, "cpu": 0.3}), queue_seconds={"web": 600.0}), server
    )
    unnamed, *_ = collect_findings(replace(nameless, saturation=found))
    assert unnamed.title.endswith(": a backend is saturated.")
    assert "`--backends`" in unnamed.change
    bursts, *_ = collect_findings(replace(figures, saturation=replace(found, many=7.9)))
    assert bursts.code == "backend_saturated"
    assert "can hardly serve more" not in bursts.change


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
    assert (block, block.code, block.severity) == (next(iter(by_code.values())), "waits_for_backend", "warning")
    assert block.title == "Most threads are in use: the threads wait for postgres at 10.0.0.5:5432."
    assert [harm.code for harm in block.harms] == ["saturation"]
    assert block.settings == ()
    assert "More `threads` help only if postgres at 10.0.0.5:5432 can take more requests at once" in block.change


def outside(waits: Mapping[State, float], seconds: Mapping[Destination, float]) -> dict[str, Finding]:
    """The findings of a 2x8 whose threads wait for these destinations."""
    reading = Server(processes=2, threads=8, cpus=8.0).read(1000.0)
    figures = compute_figures(of_16_threads(waits), describe_server(reading), destinations=seconds)
    return {finding.code: finding for finding in collect_findings(figures)}


SILENT = Destination("backend", ("10.0.0.9:80",), connecting=True)


@pytest.mark.parametrize(("threads", "is_one"), [(3.9, False), (4.0, True), (12.0, True)])
def test_a_backend_that_does_not_answer(threads: float, is_one: bool) -> None:
    """Connections without an answer are a warning from a quarter of the threads on, and the change is a timeout."""
    found = outside({"backend": threads, "sleep": 1.0}, {SILENT: threads}).get("waits_for_backend")
    assert bool(found) == is_one
    if found:
        assert found.severity == "warning"
        assert "wait for a connection to 10.0.0.9:80, which does not answer." in found.title
        assert "connect timeout" in found.change


@pytest.mark.parametrize(
    ("beside", "is_silent", "cause"),
    [(0.1, True, "waits_for_backend"), (0.1, False, "application_lock"), (1.0, True, "application_lock")],
)
def test_the_holder_of_a_lock_waits_for_a_backend(beside: float, is_silent: bool, cause: str) -> None:
    """Where hardly any thread does anything else, the holder, which does not wait for the lock, waits for the backend:
    one that does not answer is the cause then, however few threads wait for it, and no lock."""
    host = replace(Server(processes=2, threads=8).read(1000.0).host, waits=Waits(holder="request"))
    reading = replace(Server(processes=2, threads=8, cpus=8.0).read(1000.0), host=host)
    waits = of_16_threads({"lock": 11.0, "backend": 2.0, "sleep": beside})
    place = Destination("backend", ("10.0.0.9:80",), connecting=is_silent)
    figures = compute_figures(waits, describe_server(reading), destinations={place: 2.0})
    by_code = {finding.code: finding for finding in collect_findings(figures)}
    assert next(iter(by_code.values())).code == cause
    known = " The thread that holds the lock waits for 10.0.0.9:80." in by_code["application_lock"].evidence
    assert known == (beside < 0.2)
    if cause == "waits_for_backend":
        assert by_code[cause].title.endswith("wait for a connection to 10.0.0.9:80, which does not answer.")
        assert by_code[cause].change.startswith("Find out why 10.0.0.9:80 does not answer")
        assert by_code[cause].evidence.endswith(" 11.0 wait for a lock that one of these threads holds.")
        assert by_code["application_lock"].severity == "info"


def test_slow_connections_are_no_silence() -> None:
    """A server far away answers after a while: half of the time goes into its connection."""
    answers = Destination("backend", ("10.0.0.9:80",))
    found = outside({"backend": 8.0, "sleep": 1.0}, {SILENT: 4.0, answers: 4.0})["waits_for_backend"]
    assert (found.severity, found.title) == (
        "info",
        "Requests spend most of their time waiting for 10.0.0.9:80.",
    )


def test_slow_name_servers() -> None:
    """A lookup takes milliseconds: a quarter of the threads in one is a warning."""
    found = outside({"dns": 4.0, "sleep": 2.0}, {Destination("dns", ("10.0.0.1:53",)): 1.0})["waits_for_backend"]
    assert (found.severity, found.title) == ("warning", "Requests wait for DNS at 10.0.0.1:53.")
    assert "cache" in found.change
    assert "waits_for_backend" not in outside({"dns": 3.9, "sleep": 2.0}, {Destination("dns"): 1.0})


def test_two_backends_are_both_named() -> None:
    """Neither has most of the time, and the title has no figure that changes."""
    seconds = {Destination("backend", (address,)): 1.0 for address in ("10.0.0.5:5432", "10.0.0.6:6379")}
    for more in (0.7, 1.3):
        found = outside({"backend": 9.0}, seconds | {Destination("backend", ("10.0.0.6:6379",)): more})
        assert found["waits_for_backend"].title.startswith(
            "Requests spend most of their time waiting for postgres at 10.0.0.5:5432 and redis at 10.0.0.6:6379."
        )


def test_a_backend_does_not_matter_while_threads_are_free() -> None:
    """With most threads idle, it is no finding where their time goes."""
    assert "waits_for_backend" not in findings(of_16_threads({"backend": 3.0}))


def test_a_lock_that_is_held_asleep() -> None:
    """Threads that wait for the interpreter lock, while the interpreter uses little CPU: its holder waits itself."""
    window_ = of_16_threads({"interpreter_lock": 8.0, "sleep": 2.0}, cpu=0.05, lock=4.0)
    finding = findings(window_)["interpreter_lock_held"]
    assert finding.severity == "warning"
    assert finding.title == "Threads wait for the interpreter lock of a worker that uses little CPU."
    assert finding.evidence.startswith(
        "In worker 1, 4.0 threads wait for the lock, and the worker uses 0.05 of a CPU; "
    )
    assert "interpreter_bound" not in findings(window_)


@pytest.mark.parametrize(("cpu", "computes"), [(0.2, False), (0.4, False), (0.58, True)])
def test_a_lock_that_is_held_by_a_long_call(cpu: float, computes: bool) -> None:
    """Seven other threads wait at most while one computes: 4.0 on average are more than 7 x 0.4, and less than 7 x
    0.58."""
    waits: dict[State, float] = {"interpreter_lock": 8.0, "cpu": 2 * cpu, "sleep": 2.0}
    finding = findings(of_16_threads(waits, cpu=cpu, lock=4.0))["interpreter_lock_held"]
    assert ("while calls of other requests compute" in finding.title) == computes
    assert ("find the call that computes" in finding.change) == computes
    assert ("extension module" in finding.change) != computes


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
    assert by_code["saturation"].title.startswith("Most threads are in use: the interpreter")


def test_the_lock_is_evidence() -> None:
    """A saturated interpreter has the number of threads that wait for its lock as evidence, and so has a hot worker."""
    window_ = of_16_threads({"cpu": 1.9, "interpreter_lock": 9.0}, cpu=0.95, lock=4.5)
    assert "at most 4.5 of these wait for the interpreter lock" in findings(window_)["interpreter_bound"].evidence
    example = the_example()
    workers = tuple(
        structs.replace(each, interpreter_lock_seconds=60 * (5.0 if each.worker_id == 2 else 0.5))
        for each in example.workers
    )
    story = replace(example, workers=workers, waits=window(60, waits={"interpreter_lock": 6.5}).waits)
    evidence = findings_by_code(story, Server(cpus=4.0))["unevenness_hurts"].evidence
    assert "5.0 of this worker's threads wait for the interpreter lock" in evidence


def test_a_single_thread_saturates_its_interpreter_without_waiting() -> None:
    """In prefork nothing can wait for the lock, and a worker that computes all the time is saturated."""
    rows = [worker(worker_id, 600, each=0.095, cpu=57.0, busy=57.0, lock=0.0) for worker_id in (1, 2)]
    by_code = findings_by_code(window(60, *rows, waits={"cpu": 1.9}), Server(processes=2, threads=1, cpus=8.0))
    assert "interpreter_bound" in by_code
    assert "computes_outside_the_lock" not in by_code


@pytest.mark.parametrize(
    ("waits", "word"),
    [
        ({"backend": 15.0, "cpu": 0.5}, "More `threads` help only if postgres can take more requests at once"),
        ({"client": 15.0, "cpu": 0.5}, "in front of uWSGI buffer"),
        ({"lock": 15.0, "sleep": 0.5}, "Run `py-spy dump"),
        ({"sleep": 15.5}, "Raise `threads` from 8 to 16"),
    ],
)
def test_what_to_change_follows_from_the_state(waits: Mapping[State, float], word: str) -> None:
    """Waits outside scale with threads, the lock with processes, locks and clients with neither."""
    window_ = of_16_threads(waits, backends={"postgres": waits.get("backend", 0.0)})
    assert word in findings(window_)["saturation"].change


SHARED = (SharedConnection("10.0.0.5:5432", 2),)


def share(waits: Mapping[State, float], shared: float) -> dict[str, Finding]:
    """The findings where this mean number of threads waits for an answer over a shared connection."""
    window_ = replace(of_16_threads(waits), shared_connection_seconds=60 * shared)
    reading = Server(processes=2, threads=8, cpus=8.0).read(1000.0)
    return findings(window_, host=replace(reading.host, shared_connections=SHARED))


@pytest.mark.parametrize(
    ("waits", "shared", "severity", "is_cause"),
    [
        ({"sleep": 6.0}, 0.0, "info", False),  # inherited, and not used
        ({"sleep": 6.0, "backend": 0.5}, 0.5, "warning", False),
        ({"sleep": 2.0, "backend": 6.0}, 5.0, "critical", True),
        ({"sleep": 2.0, "backend": 6.0}, 3.0, "critical", False),  # another backend is the slow one
        ({"lock": 6.0, "backend": 1.0}, 1.0, "warning", True),  # one at a time, kept apart by a lock of all processes
        ({"lock": 6.0, "backend": 2.0}, 2.0, "critical", True),  # one of each worker, the others behind its lock
        ({"lock": 6.0, "backend": 6.0}, 0.8, "warning", False),
    ],
)
def test_a_shared_connection(waits: Mapping[State, float], shared: float, severity: str, is_cause: bool) -> None:
    """Good to know while nobody uses it; the cause if requests mostly wait in it, or behind those that do."""
    finding = share(waits, shared)["connection_shared"]
    assert finding.severity == severity
    assert bool(finding.clause) == is_cause
    mixes = ", and mix up responses" if severity == "critical" else ""
    assert finding.title == f"Workers share one connection to 10.0.0.5:5432{mixes}."
    assert "lazy-apps" in finding.change


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
    assert ("output_blocked" in by_code) == found
    assert not found or "application_lock" not in by_code
    if found:
        assert by_code["output_blocked"].severity == "warning", "requests are completed"
        assert "a pipe (their standard output and error)" in by_code["output_blocked"].title


def test_a_pipe_at_which_nothing_completes() -> None:
    """It is critical, and comes before the requests that are stuck because of it."""
    rows = [worker(worker_id, 0, busy=240.0) for worker_id in (1, 2)]
    by_code = write({"lock": 6.0, "pipe": 2.0}, 2.0, workers=tuple(rows))
    assert by_code["output_blocked"].severity == "critical"
    assert next(iter(by_code)) == "output_blocked"


@pytest.mark.parametrize(
    ("lock", "severity", "title"),
    [
        (3.0, "info", "Threads wait for one of the 5 places in a pool."),
        (9.0, "warning", "Most threads are in use: the threads wait for one of the 5 places in a pool."),
    ],
)
def test_a_pool_that_is_too_small(lock: float, severity: str, title: str) -> None:
    """It is named with its size, and nobody is sent to look for a lock."""
    window_ = of_16_threads({"lock": lock, "backend": 5.0})
    reading = Server(processes=2, threads=8, cpus=8.0).read(1000.0)
    by_code = findings(window_, host=replace(reading.host, waits=Waits(pools={1: 5, 2: 5})))
    assert by_code["pool_exhausted"].severity == severity
    assert by_code["pool_exhausted"].title.startswith(title)
    assert by_code["pool_exhausted"].meaning.startswith(
        "Only 5 requests of a worker run at once, and the other requests wait"
    )
    assert "from 5 to 8, so that it equals the `threads`" in by_code["pool_exhausted"].change
    assert "16 connections" in by_code["pool_exhausted"].change
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


@pytest.mark.parametrize(("threads", "severity"), [(8.0, "info"), (12.0, "warning")])
def test_threads_that_serve_no_request(threads: float, severity: str) -> None:
    """If no request holds what others wait for, a thread of the application has to do something for them. That is how
    some client libraries work, so it is a warning only where it fills threads; no lock is to be held for less time."""
    first, *_ = with_waits(of_16_threads({"lock": threads, "cpu": 1.0}), Waits(holder="thread"))
    assert (first.code, first.severity) == ("waits_for_threads", severity)
    assert "max_workers" in first.change
    assert "the lock" not in first.change + first.meaning
    assert first.settings == ()


def test_requests_that_wait_for_each_other() -> None:
    """If those of a worker do not end either, they are in a deadlock, or the thread hangs."""
    busy = of_16_threads({"lock": 8.0})
    dead, alive = {1: dict.fromkeys(range(8), 6.0)}, {1: {0: 6.0, 1: 0.1}}
    first, *_ = with_waits(busy, Waits(holder="thread"), dead)
    assert (first.code, first.severity) == ("waits_for_threads", "warning")
    assert "deadlock" in first.meaning
    assert (
        "In worker 1, all requests that are in service now have been in service for 5.0 s or longer." in first.evidence
    )
    assert "deadlock" not in with_waits(busy, Waits(holder="thread"), alive)[0].meaning


def test_waits_that_no_other_thread_ends() -> None:
    """A worker without other threads has none that its requests could wait for: a timeout is a sleep, or a thread was
    lost at the fork."""
    busy = of_16_threads({"lock": 12.0, "cpu": 1.0})
    alone, more = (
        replace(busy, workers=tuple([structs.replace(each, process_threads=number) for each in busy.workers]))
        for number in (8, 9)
    )
    first, *_ = with_waits(alone, Waits(holder="thread"))
    assert first.title.endswith("the threads wait on locks or events that no other thread of their worker can release.")
    assert "raise `threads`" in first.change
    assert "background" in with_waits(more, Waits(holder="thread"))[0].title
    dead = {1: dict.fromkeys(range(8), 6.0)}
    lost, *_ = with_waits(alone, Waits(holder="thread"), dead)
    assert lost.meaning.startswith("These workers have no threads but those that serve requests. So the requests wait")
    assert lost.change.index("`lazy-apps`") < lost.change.index("in the same order")
    hangs, *_ = with_waits(more, Waits(holder="thread"), dead)
    assert hangs.change.index("`lazy-apps`") > hangs.change.index("in the same order")


@pytest.mark.parametrize(("age", "completed", "is_dead"), [(6.0, 1200, False), (61.0, 1200, True), (6.0, 0, True)])
def test_long_polls_are_no_deadlock(age: float, completed: int, is_dead: bool) -> None:
    """Half of a worker's threads are free, and serve others: what lasts may be meant to, up to the time of --stuck."""
    busy = of_16_threads({"lock": 8.0})
    busy = replace(busy, workers=tuple([structs.replace(each, requests=completed) for each in busy.workers]))
    found = {each.code: each for each in with_waits(busy, Waits(holder="thread"), {1: dict.fromkeys(range(4), age)})}
    assert ("deadlock" in found["waits_for_threads"].meaning) == is_dead


@pytest.mark.parametrize(
    ("waits", "more"),
    [
        (
            {"lock": 8.0, "pipe": 1.9, "other": 0.1},
            "help only if each process has its own lock, and if a pipe does not limit them all.",
        ),
        ({"lock": 8.0, "pipe": 1.5, "other": 0.5}, "More `processes` help if each process has its own lock."),
    ],
)
def test_a_lock_before_a_pipe(waits: Mapping[State, float], more: str) -> None:
    """What its holder waits for, each process may have to wait for."""
    first, *_ = with_waits(of_16_threads(waits), Waits(holder="request"))
    assert first.code == "application_lock"
    assert more in first.change
    assert ("The thread that holds the lock waits for a pipe." in first.evidence) == ("only if" in more)


def test_what_if_knows_nothing_of_other_threads() -> None:
    """How much they do at once, in another setting, is not known; that of a lock that is known is."""
    record = describe_server(Server(processes=2, threads=8, cpus=8.0).read(1000.0))
    assert record
    figures = compute_figures(of_16_threads({"lock": 8.0}), record)
    with pytest.raises(CannotPredictError, match=r"^Requests wait for a lock, or for threads that serve no request:"):
        measure_server(figures)
    lock = LockFigures("worker", 0.02, 0.8, 0.8, 50.0, 50.0, 50.0)
    assert measure_server(replace(figures, lock=lock)).lock == lock


@pytest.mark.parametrize(("holder", "helps"), [("processes", False), ("request", True), (None, True)])
def test_a_lock_of_all_processes(holder: Holder | None, helps: bool) -> None:
    """More processes wait for it as well; where each has its own, they help."""
    first, *_ = with_waits(of_16_threads({"lock": 8.0}), Waits(holder=holder))
    assert first.code == "application_lock"
    assert ("More `processes` help" in first.change) == helps
    assert ("all processes" in first.title) == (not helps)


@pytest.mark.parametrize(
    ("holder", "first"),
    [
        (101, "Run `py-spy dump --pid 101` to see what worker 1 does: this worker holds the lock now"),
        (
            7,
            "Run `ps -fp 7` to see which process holds the lock now: it is not a worker of this uWSGI, and ",
        ),
        (None, "Run `for pid in 101 102; do py-spy dump --pid $pid; done` to see at which line the threads wait, and "),
    ],
)
def test_who_holds_a_lock_of_all_processes(holder: int | None, first: str) -> None:
    """The process that holds a file's lock is named; the holder of any other may be in each worker."""
    found, *_ = with_waits(of_16_threads({"lock": 8.0}), Waits(holder="processes", file_lock_holder=holder))
    assert first_act(found.change).startswith(first)


@pytest.mark.parametrize(("lock", "name"), [(0, "`uwsgi.lock()`"), (2, "`uwsgi.lock(2)`")])
def test_a_mule_that_holds_a_lock(lock: int, name: str) -> None:
    """No worker holds it, so no dump of the workers shows what it does; and no request holds up another one."""
    held = Waits(holder="processes", uwsgi_lock_holder=LockHolder(7, lock, 0.89))
    busy = of_16_threads({"lock": 8.0})
    found, *others = with_waits(busy, held, ages={1: {0: 200.0}})
    assert "a lock that a mule holds" in found.title
    assert first_act(found.change) == f"Run `py-spy dump --pid 7` to see what the mule does while it holds {name}"
    assert f"In 89 % of the samples in which requests wait for it, mule 7 holds {name}." in found.evidence
    assert "Requests wait for each other" not in found.meaning
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
    for threads, severity in ((3.0, "info"), (4.0, "warning")):
        busy = of_16_threads({"backend": threads, "sleep": threads})
        waited = {Destination("backend", ("127.0.0.1:8000",)): 60 * threads}
        first, *_ = collect_findings(compute_figures(busy, record, destinations=waited))
        assert (first.code, first.severity) == ("waits_for_backend", severity)
        assert first.title == "Requests call the uWSGI that serves them, and wait for the response."
        assert "Instead of making these second requests" in first.change


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
    assert "background threads, which serve no requests, use" in finding.evidence
    assert "mule" in finding.change
    assert finding.settings == ()
    assert finding.serves is None
    own = findings(of_16_threads({**waits, "cpu": 2 * cpu}, cpu=cpu, lock=4.0))[code]
    assert "serve no request" not in own.evidence + own.change


@pytest.mark.parametrize(("others", "is_first"), [(0.3, True), (1.2, False)])
def test_threads_that_serve_no_request_beside_other_programs(others: float, is_first: bool) -> None:
    """Which of the two uses more of the CPUs is to be seen first, such as the threads of numpy's library."""
    server = Server(processes=2, threads=8, cpus=2.0)
    busy = of_16_threads({"cpu_wait": 6.0, "cpu": 0.1}, cpu=(2.0 - others) / 2)
    busy = replace(busy, cpu=CpuWindow(60.0, 60 * (2.0 - others), 0.0, 60 * others))
    change = findings_by_code(busy, server)["cpu_bound"].change
    assert change.startswith("Run `top -H -p") == is_first
    assert "OMP_NUM_THREADS" in change
    assert "other programs to another host" in change


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
    assert saturated.change.startswith("Raise `threads` from ")
    assert "After this step, uWSGI can serve" not in saturated.change
    assert "For 77 % of their time, threads wait for programs that they start, or for a pipe." in saturated.change
    assert saturated.serves is None
