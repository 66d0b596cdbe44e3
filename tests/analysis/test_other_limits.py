"""The headroom of a server that something other than its resources limits: what that is, and what it can take."""

from __future__ import annotations

from dataclasses import replace

import pytest
from msgspec import structs

from tests.support.simulated_server import Server
from tests.support.windows import window, worker
from uwsgi_headroom.analysis.backends import Saturation
from uwsgi_headroom.analysis.figures import Figures, compute_figures
from uwsgi_headroom.analysis.findings import collect_findings
from uwsgi_headroom.analysis.findings.other_limits import correct_headroom
from uwsgi_headroom.analysis.verdict import verdict_sentence
from uwsgi_headroom.history.window import Window
from uwsgi_headroom.reading import describe_server
from uwsgi_headroom.record import Holder, LoopHold, LoopUse, Options, Setup, SharedConnection, State, Waits

SATURATION = Saturation("", few=1.0, few_seconds=0.05, low=13.0, many=12.0, many_seconds=0.3, high=38.0)
"""Of a backend that most of 16 threads wait for at 38 requests a second."""


def minute(busy: float, state: State = "sleep", *, share: float = 1.0, cpu: float = 0.0) -> Window:
    """A minute of 4x4, with 32 requests a second and so many busy threads, for a share of their time in a state."""
    rows = [worker(number, 480, each=busy / 32, cpu=cpu * 15, busy=15 * busy) for number in range(1, 5)]
    rest = {"other": busy * (1 - share)} if share < 1 else {}
    return window(60, *rows, waits={state: busy * share, **rest}, cpu=(cpu, 8.0 - cpu, 0.0))


def figures(of: Window, *, waits: Waits | None = None, **server: object) -> Figures:
    reading = Server(processes=4, threads=4, cpus=8.0).read(1000.0)
    record = describe_server(replace(reading, host=replace(reading.host, waits=waits or Waits())))
    assert record
    return compute_figures(of, structs.replace(record, **server))


def sentence(found: Figures) -> str:
    """The verdict that has nothing to say but the headroom."""
    return verdict_sentence(found.headroom, [], usable=found.usable)


def test_a_server_whose_requests_wait_for_nothing_scarce_keeps_its_headroom() -> None:
    """Nothing limits it but its threads."""
    found = figures(minute(4.0))
    assert correct_headroom(found) is found
    assert found.headroom.first == "threads"


def test_a_saturated_backend_leaves_what_it_was_seen_to_complete() -> None:
    """38 requests a second, of which 32 come now: the free threads would wait for it as well."""
    found = correct_headroom(replace(figures(minute(10.0, "backend")), saturation=SATURATION))
    assert found.headroom.factor == pytest.approx(38 / 32)
    assert (found.headroom.first, found.headroom.ceiling, found.headroom.by_limit["threads"]) == ("other", "other", 1.6)
    assert found.usable is not None
    assert found.usable.factor <= 38 / 32
    assert sentence(found) == "Headroom 1.2x: a backend is saturated."


def test_bursts_that_hardly_fill_the_threads_leave_no_figure() -> None:
    """What the backend completed then is a mean of bursts and the time between them, and no limit."""
    bursts = replace(SATURATION, many=3.0)
    found = correct_headroom(replace(figures(minute(10.0, "backend")), saturation=bursts))
    assert (found.headroom.factor, found.headroom.first, found.headroom.by_limit, found.usable) == (
        None,
        None,
        {},
        None,
    )
    assert sentence(found) == "Headroom not known: a backend is saturated."


@pytest.mark.parametrize(
    ("busy", "factor", "first"), [(6.0, None, None), (15.0, 16 / 15, "lock")], ids=["threads are free", "all are busy"]
)
def test_a_lock_of_which_nothing_is_known_but_who_waits(busy: float, factor: float | None, first: str | None) -> None:
    """While all threads wait for it, it is at its limit with them; else its limit is not known."""
    found = correct_headroom(figures(minute(busy, "lock"), waits=Waits(holder="processes")))
    assert (found.headroom.factor, found.headroom.first) == (pytest.approx(factor) if factor else None, first)
    assert found.headroom.unknown == ()
    assert found.headroom.other is not None
    assert found.headroom.other.code == "application_lock"


@pytest.mark.parametrize("holder", ["thread", "nobody"])
def test_threads_that_wait_for_answers_are_no_limit_while_others_are_free(holder: Holder) -> None:
    """As those of gRPC: a free thread serves as many requests as a busy one; once hardly any is free, it is not known
    whether more would."""
    room = correct_headroom(figures(minute(6.0, "lock"), waits=Waits(holder=holder))).headroom
    assert (room.first, room.unknown, room.other) == ("threads", (), None)
    full = correct_headroom(figures(minute(13.0, "lock"), waits=Waits(holder=holder))).headroom
    assert full.factor is None
    assert full.other is not None


def test_a_shared_connection_and_one_that_no_request_uses() -> None:
    """Requests take turns on it, however many threads are free."""
    shared = (SharedConnection("10.0.0.5:5432", 4),)
    of = replace(minute(6.0, "backend"), shared_connection_seconds=60 * 5.0)
    room = correct_headroom(figures(of, shared_connections=shared)).headroom
    assert room.factor is None
    assert room.other is not None
    assert room.other.why == "the workers share one connection to 10.0.0.5:5432"
    assert correct_headroom(figures(minute(6.0, "backend"), shared_connections=shared)).headroom.first == "threads"


@pytest.mark.parametrize(("part", "factor"), [(0.5, 2.0), (1.0, 1.0)])
def test_a_loop_that_calls_hold_is_used_for_that_part_of_the_time(part: float, factor: float) -> None:
    """By the utilization law, as an interpreter; async cores are free, and serve nothing meanwhile."""
    of = minute(2.0)
    rows = tuple(structs.replace(each, loop_held_seconds=60 * part) for each in of.workers)
    waits = Waits(off="one thread", loops={number: LoopUse(LoopHold("sleep"), True, 0.5) for number in range(1, 5)})
    setup = Setup(Options(gevent=4, complete=True), 4096, "async", None, False)
    room = correct_headroom(figures(replace(of, workers=rows, waits=None), waits=waits, setup=setup)).headroom
    assert (room.factor, room.first) == (pytest.approx(factor), "other")


def test_under_a_rate_limit_threads_are_no_headroom() -> None:
    """Requests that mostly sleep fill half of the threads or more: more load may only sleep as well."""
    half = correct_headroom(figures(minute(10.0, "sleep")))
    assert half.headroom.sleeps
    assert "rate limit" not in sentence(half)  # the line about headroom says it
    assert not correct_headroom(figures(minute(6.0, "sleep"))).headroom.sleeps
    assert not correct_headroom(figures(minute(10.0, "backend"))).headroom.sleeps


def test_errors_leave_no_headroom_that_is_known() -> None:
    """A request that fails at once takes next to nothing, and one that is served takes more."""
    failing = correct_headroom(figures(replace(minute(0.5), exceptions=1000)))
    assert sentence(failing) == "Headroom not known: most requests raise exceptions."
    assert correct_headroom(figures(replace(minute(0.5), exceptions=900))).headroom.first == "threads"
    workers = tuple(structs.replace(each, write_errors=250, read_errors=0) for each in minute(0.5).workers)
    left = replace(minute(0.5), workers=workers, exceptions=1000)
    assert correct_headroom(figures(left)).headroom.first == "threads", "their clients have gone"
    closed = correct_headroom(figures(replace(minute(0.5), unanswered=1900)))
    assert sentence(closed) == "Headroom not known: uWSGI closes most requests without a response."


def test_a_resource_that_is_used_up_is_the_reason_for_what_follows() -> None:
    """Requests that wait for a saturated CPU also take long in a backend."""
    found = replace(figures(minute(10.0, "backend", cpu=8.0)), saturation=SATURATION)
    assert correct_headroom(found) is found
    assert found.headroom.first in ("cpu", "interpreters")


def test_no_request_leaves_it_as_it_is() -> None:
    """Nothing that fails, and nothing that waits."""
    found = figures(window(60, *[worker(number, 0, busy=0.0) for number in range(1, 5)], waits={}))
    assert correct_headroom(found) is found
    assert not [each for each in collect_findings(found) if each.severity != "info"]
