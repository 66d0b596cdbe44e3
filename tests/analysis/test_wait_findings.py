"""Findings about what requests wait for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pytest
from msgspec import structs

from tests.analysis.test_findings import findings_by_code
from tests.support.windows import the_example, window, worker
from tools.support.simulated_server import Server
from uwsgi_headroom.analysis.findings import Finding
from uwsgi_headroom.history.window import Window
from uwsgi_headroom.record import State, Waits

WAITS = {
    "slow_clients",
    "application_lock",
    "interpreter_lock_held",
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
        assert finding.title == f"{threads:.1f} of 16 threads wait for slow clients."
        assert "in front buffer" in finding.change


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
        assert "It is not the interpreter lock." in finding.evidence


def test_a_backend_is_named() -> None:
    """The finding says which backend, its address, and that CPU does not help."""
    window_ = of_16_threads({"backend": 9.0, "cpu": 3.0}, backends={"postgres": 7.5, "redis": 1.5})
    reading = Server(processes=2, threads=8).read(1000.0)
    host = replace(reading.host, waits=Waits(addresses={"postgres": "10.0.0.5:5432", "redis": "*:6379"}))
    finding = findings(window_, host=host)["waits_for_backend"]
    assert finding.severity == "info"
    assert finding.title == "63 % of the threads' time is spent waiting for postgres (10.0.0.5:5432)."
    assert "not more CPU" in finding.change
    unnamed = findings(of_16_threads({"backend": 9.0, "cpu": 3.0}))["waits_for_backend"]
    assert unnamed.title == "75 % of the threads' time is spent waiting for backends."


def test_a_backend_does_not_matter_while_threads_are_free() -> None:
    """With most threads idle, it is no finding where their time goes."""
    assert "waits_for_backend" not in findings(of_16_threads({"backend": 3.0}))


def test_a_lock_that_is_held_asleep() -> None:
    """Threads that wait for the interpreter lock, while the interpreter uses little CPU: its holder waits itself."""
    window_ = of_16_threads({"interpreter_lock": 8.0, "sleep": 2.0}, cpu=0.05, lock=4.0)
    finding = findings(window_)["interpreter_lock_held"]
    assert finding.severity == "warning"
    assert finding.title == "4.0 threads of worker 1 wait for its interpreter lock, but it uses only 0.05 of a CPU."
    assert "interpreter_bound" not in findings(window_)


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


def test_the_lock_is_evidence() -> None:
    """A saturated interpreter has the number of threads that wait for its lock as evidence, and so has a hot worker."""
    window_ = of_16_threads({"cpu": 1.9, "interpreter_lock": 9.0}, cpu=0.95, lock=4.5)
    assert "up to 4.5 of them wait for the interpreter lock" in findings(window_)["interpreter_bound"].evidence
    example = the_example()
    workers = tuple(
        structs.replace(each, interpreter_lock_seconds=60 * (5.0 if each.worker_id == 2 else 0.5))
        for each in example.workers
    )
    story = replace(example, workers=workers, waits=window(60, waits={"interpreter_lock": 6.5}).waits)
    evidence = findings_by_code(story, Server(cpus=4.0))["unevenness_hurts"].evidence
    assert "5.0 of its threads wait for the interpreter lock" in evidence


def test_a_single_thread_saturates_its_interpreter_without_waiting() -> None:
    """In prefork nothing can wait for the lock, and a worker that computes all the time is saturated."""
    rows = [worker(worker_id, 600, each=0.095, cpu=57.0, busy=57.0, lock=0.0) for worker_id in (1, 2)]
    by_code = findings_by_code(window(60, *rows, waits={"cpu": 1.9}), Server(processes=2, threads=1, cpus=8.0))
    assert "interpreter_bound" in by_code
    assert "computes_outside_the_lock" not in by_code


@pytest.mark.parametrize(
    ("waits", "word"),
    [
        ({"backend": 15.0, "cpu": 0.5}, "postgres: faster queries help as much"),
        ({"client": 15.0, "cpu": 0.5}, "in front buffer"),
        ({"lock": 15.0, "sleep": 0.5}, "which lock of the application"),
        ({"sleep": 15.5}, "Raise `threads` from 8 to 12"),
    ],
)
def test_what_to_change_follows_from_the_state(waits: Mapping[State, float], word: str) -> None:
    """Waits outside scale with threads, the lock with processes, locks and clients with neither."""
    window_ = of_16_threads(waits, backends={"postgres": waits.get("backend", 0.0)})
    assert word in findings(window_)["saturation"].change
