"""Findings about what requests wait for."""

from collections.abc import Mapping

import pytest
from msgspec.structs import replace

from tests.analysis.judging import by_code, describe, figures_of, findings_by_code
from tests.analysis.simulated_backend import Backend, constant, run, wave
from tests.support.simulated_server import Server
from tests.support.windows import window, worker
from uwsgi_headroom.analysis.findings import Finding, collect_findings, first_act, limits
from uwsgi_headroom.analysis.findings import waits as wait_rows
from uwsgi_headroom.analysis.locks import LockFigures
from uwsgi_headroom.analysis.what_if.measured import CannotPredictError, measure_server
from uwsgi_headroom.history.window import Window
from uwsgi_headroom.record import LockHolder, State, Waits
from uwsgi_headroom.surroundings import SharedConnection
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


ADDRESSES = Waits(addresses={"postgres": "10.0.0.5:5432", "redis": "*:6379"})


def test_a_backend_is_named():
    """The finding says which backend, its address, and its own share."""
    of = of_16_threads({"backend": 8.0, "cpu": 2.0}, backends={"postgres": 7.0, "redis": 1.0})
    finding = findings(of, waits=ADDRESSES)["waits_for_backend"]
    assert finding.kind is wait_rows.BACKEND
    assert "postgres at 10.0.0.5:5432" in finding.title
    assert "postgres at 10.0.0.5:5432 (70 %) and redis at *:6379 (10 %)" in finding.evidence
    assert "10.0.0.5" not in "".join(finding.public)


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


BUSY = of_16_threads({"lock": 8.0})


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
