"""Findings about what requests wait for."""

from collections.abc import Mapping

import pytest
from msgspec.structs import replace

from tests.analysis.judging import by_code, describe, figures_of
from tests.analysis.simulated_backend import Backend, constant, run, wave
from tests.support.simulated_server import Server
from tests.support.windows import window, worker
from uwsgi_headroom.analysis.findings import collect_findings
from uwsgi_headroom.analysis.findings import waits as wait_rows
from uwsgi_headroom.analysis.locks import LockFigures
from uwsgi_headroom.analysis.what_if.measured import CannotPredictError, measure_server
from uwsgi_headroom.history.window import Window
from uwsgi_headroom.record import State, Waits
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


@pytest.mark.parametrize(("connected", "room"), [(10.0, 1.0), (8.0, 1.25)])
def test_a_pool_is_a_limit(connected, room):
    """Of two workers, each with five connections, so many are in use."""
    record = describe(the_server(), waits=Waits(pools={1: 5, 2: 5}))
    headroom = figures_of(of_16_threads({"lock": 4.0, "backend": connected}), record).headroom
    assert (headroom.first, headroom.by_limit["lock"]) == ("lock", pytest.approx(room))


BUSY = of_16_threads({"lock": 8.0})


def test_what_if_knows_nothing_of_other_threads():
    """How much they do at once, in another setting, is not known; that of a lock that is known is."""
    figures = figures_of(BUSY, the_server())
    with pytest.raises(CannotPredictError, match=r"^Requests wait for a lock, or for threads that serve no request:"):
        measure_server(figures)
    lock = LockFigures("worker", 0.02, 0.8, 0.8, 50.0, 50.0, 50.0)
    assert measure_server(replace(figures, lock=lock)).lock == lock
