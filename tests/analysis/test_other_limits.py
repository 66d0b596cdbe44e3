"""The headroom of a server that something other than its resources limits: what that is, and what it can take."""

import pytest
from msgspec.structs import replace

from tests.analysis import judging
from tests.analysis.judging import change_workers, describe, setup
from tests.support.simulated_server import Server
from tests.support.windows import window, worker
from uwsgi_headroom.analysis.backends import Saturation
from uwsgi_headroom.analysis.figures import Figures
from uwsgi_headroom.analysis.findings import collect_findings, correct_headroom
from uwsgi_headroom.analysis.verdict import verdict_sentence
from uwsgi_headroom.history.window import Window
from uwsgi_headroom.record import Blocker, LoopUse, State, Waits
from uwsgi_headroom.surroundings import SharedConnection

SATURATION = Saturation("", few=1.0, few_seconds=0.05, low=13.0, many=12.0, many_seconds=0.3, high=38.0)
"""Of a backend that most of 16 threads wait for at 38 requests a second."""


def minute(busy: float, state: State = "sleep", *, cpu: float = 0.0, **more: object) -> Window:
    """A minute of 4x4, with 32 requests a second and so many busy threads, all in one state."""
    rows = [worker(number, 480, each=busy / 32, cpu=cpu * 15, busy=15 * busy) for number in range(1, 5)]
    return replace(window(60, *rows, waits={state: busy}, cpu=(cpu, 8.0 - cpu, 0.0)), **more)


def figures(of: Window, saturation: Saturation | None = None, **known: object) -> Figures:
    server = describe(Server(processes=4, threads=4, cpus=8.0), **{"waits": Waits(), **known})
    return replace(judging.figures_of(of, server), saturation=saturation)


LEFT = change_workers(minute(0.5, exceptions=1000), write_errors=250, read_errors=0)
SHARED = (SharedConnection("10.0.0.5:5432", 4),)
HELD = setup("async", gevent=4, complete=True)
LOOPS = Waits(off="one thread", loops={number: LoopUse(Blocker("sleep"), True, 0.5) for number in range(1, 5)})


def held(part: float) -> Figures:
    of = replace(change_workers(minute(2.0), loop_held_seconds=60 * part), waits=None)
    return figures(of, waits=LOOPS, setup=HELD)


@pytest.mark.parametrize(
    ("found", "factor", "first", "other"),
    [
        # 38 requests a second, of which 32 come now: the free threads would wait for the backend as well.
        (figures(minute(10.0, "backend"), SATURATION), 38 / 32, "other", "backend_saturated"),
        # What it completed in bursts that hardly fill the threads is a mean of bursts and the time between them.
        (figures(minute(10.0, "backend"), replace(SATURATION, many=3.0)), None, None, "backend_saturated"),
        # While all threads wait for a lock, it is at its limit with them; else its limit is not known.
        (figures(minute(6.0, "lock"), waits=Waits(holder="processes")), None, None, "application_lock"),
        (figures(minute(15.0, "lock"), waits=Waits(holder="processes")), 16 / 15, "lock", "application_lock"),
        # As those of gRPC: a free thread serves as many requests as a busy one. Once hardly any is free, it is not
        # known whether more would.
        (figures(minute(6.0, "lock"), waits=Waits(holder="thread")), 16 / 6, "threads", None),
        (figures(minute(6.0, "lock"), waits=Waits(holder="nobody")), 16 / 6, "threads", None),
        (figures(minute(13.0, "lock"), waits=Waits(holder="thread")), None, None, "waits_for_threads"),
        (figures(minute(13.0, "lock"), waits=Waits(holder="nobody")), None, None, "application_lock"),
        # Requests take turns on a shared connection, however many threads are free, unless none uses it.
        (
            figures(minute(6.0, "backend", shared_connection_seconds=300.0), shared_connections=SHARED),
            None,
            None,
            "connection_shared",
        ),
        (figures(minute(6.0, "backend"), shared_connections=SHARED), 16 / 6, "threads", None),
        # By the utilization law, as an interpreter: async cores are free, and serve nothing while a loop is held.
        (held(0.5), 2.0, "other", "loop_held"),
        (held(1.0), 1.0, "other", "loop_held"),
        # A request that fails at once takes next to nothing, and one that is served takes more.
        (figures(minute(0.5, exceptions=1000)), None, None, "errors"),
        (figures(minute(0.5, exceptions=900)), 32, "threads", None),
        (figures(LEFT), 32, "threads", None),  # their clients have gone
        (figures(minute(0.5, unanswered=1900)), None, None, "errors"),
    ],
)
def test_the_headroom_that_is_left(found, factor, first, other):
    """It is that of what limits the server, or not known."""
    room = correct_headroom(found).headroom
    assert (room.factor, room.first) == (factor and pytest.approx(factor), first)
    assert (room.other and room.other.code) == other


@pytest.mark.parametrize(
    ("found", "sentence"),
    [
        (figures(minute(10.0, "backend"), SATURATION), "Headroom 1.2x: a backend is saturated."),
        (figures(minute(0.5, exceptions=1000)), "Headroom not known: most requests raise exceptions."),
    ],
)
def test_the_sentence_names_it(found, sentence):
    """The verdict has nothing to say but the headroom; what is usable is no more than that."""
    corrected = correct_headroom(found)
    assert verdict_sentence(corrected.headroom, []) == sentence
    assert (corrected.headroom.usable or 0) <= (corrected.headroom.factor or 0)


@pytest.mark.parametrize(
    "found",
    [
        figures(minute(4.0)),  # nothing limits it but its threads
        # Requests that wait for a saturated CPU also take long in a backend.
        figures(minute(10.0, "backend", cpu=8.0), SATURATION),
        figures(window(60, *[worker(number, 0, busy=0.0) for number in range(1, 5)], waits={})),
    ],
)
def test_a_headroom_that_stays(found):
    """Nothing scarce is waited for, or a resource that is used up is the reason for what follows."""
    assert correct_headroom(found) == found
    assert found.flow.requests or not [each for each in collect_findings(found) if each.severity != "info"]


@pytest.mark.parametrize(("of", "sleeps"), [(minute(10.0), True), (minute(6.0), False), (minute(10.0, "dns"), False)])
def test_under_a_rate_limit_threads_are_no_headroom(of, sleeps):
    """Requests that mostly sleep fill half of the threads or more: more load may only sleep as well."""
    assert correct_headroom(figures(of)).headroom.sleeps == sleeps
