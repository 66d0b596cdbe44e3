"""Limits that are no resource of the machine, such as a lock: where they are, and the headroom that they leave."""

import random
from itertools import accumulate

import pytest
from msgspec.structs import replace

from tests.analysis import judging
from tests.analysis.judging import change_workers, describe, figures_of, setup
from tests.support.simulated_server import Server
from tests.support.windows import window, worker
from uwsgi_headroom.analysis.advice import advise_capacity
from uwsgi_headroom.analysis.backends import Saturation
from uwsgi_headroom.analysis.figures import Figures
from uwsgi_headroom.analysis.findings import collect_findings, correct_headroom
from uwsgi_headroom.analysis.locks import LEAST_USE, compute_lock
from uwsgi_headroom.analysis.verdict import verdict_sentence
from uwsgi_headroom.code_look import Line
from uwsgi_headroom.history.window import CodeWindow, LineUse, Window, WorkerWindow
from uwsgi_headroom.record import Blocker, LoopUse, ServerRecord, State, Waits, WorkerRecord
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
LOOPS = Waits(off="one thread", loops={number: LoopUse(Blocker("sleep"), True, 0.5) for number in range(1, 5)})


def held(part: float, **options: bool) -> Figures:
    of = replace(change_workers(minute(2.0), loop_held_seconds=60 * part), waits=None)
    return figures(of, waits=LOOPS, setup=setup("async", **{"gevent": 4, "complete": True, **options}))


@pytest.mark.parametrize(
    ("options", "is_named"),
    [({}, True), ({"gevent_monkey_patch": True}, False), ({"gevent": None}, False), ({"complete": False}, False)],
)
def test_the_option_that_lets_calls_yield(options, is_named):
    (found,) = [each for each in collect_findings(held(0.5, **options)) if each.code == "loop_held"]
    assert found.change.startswith("Set `gevent-early-monkey-patch`") == is_named


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


SLEEPS, RUNS = Line("find", "/srv/app.py", 7), Line("home", "/srv/app.py", 3)


@pytest.mark.parametrize(
    ("waits", "known", "act"),
    [
        ({"sleep": 13.0, "cpu": 3.0}, {}, "Run `py-spy"),
        ({"sleep": 12.5, "cpu": 3.5}, {}, "Raise `threads`"),
        ({"sleep": 16.0}, {"waits": Waits(streams=((1, 1),) * 9)}, "Raise `threads`"),
        ({"backend": 16.0}, {}, "Raise `threads`"),
    ],
)
def test_who_sleeps_comes_before_more_threads(waits, known, act):
    """Where nearly all of the time is a sleep, unless it is between the events of streams."""
    of = minute(16.0)
    seconds = {state: 60 * threads for state, threads in waits.items()}
    change = advise_capacity(figures(replace(of, waits=replace(of.waits, seconds=seconds)), **known)).change
    assert change.startswith(act)
    assert "Raise `threads`" in change


def test_the_line_that_sleeps_is_named():
    """Where the code is looked at, and most sleep in one line."""
    for lines, act in (
        ((SLEEPS, RUNS), "Look at find (srv/app.py:7)"),
        ((SLEEPS, SLEEPS._replace(line=9)), "Run `py-spy"),
    ):
        states = ({"sleep": 50.0}, {"cpu" if RUNS in lines else "sleep": 50.0})
        code = CodeWindow(lines=tuple(LineUse(*each, {}) for each in zip(lines, (50.0, 50.0), states, strict=True)))
        assert advise_capacity(replace(figures(minute(16.0)), code=code)).change.startswith(act)


def locked(number: int, requests: int, held: float | None, *, waited: float = 0.0, known: float = 60.0) -> WorkerWindow:
    """A worker of a minute whose lock was held and waited for in these parts of the time in which it was known."""
    return replace(
        worker(number, requests, up=60.0),
        lock_seconds=known,
        lock_waited_seconds=waited * known,
        lock_held_seconds=None if held is None else held * known,
    )


def of_file(*workers: WorkerWindow, known: float, held: float) -> Window:
    return replace(window(60, *workers), file_lock_seconds=known, file_lock_held_seconds=held)


def test_each_worker_has_its_own():
    """A request holds it for 48 ms on average: four of them serve 83.3 a second, however uneven."""
    uses = enumerate((0.8, 0.5, 0.4, 0.1), 1)
    lock = compute_lock(window(60, *(locked(number, round(60 * use / 0.048), use) for number, use in uses)))
    assert lock.least_limit == lock.most_limit == lock.limit == pytest.approx(4 / 0.048, rel=0.001)
    assert (lock.use, lock.hottest, lock.scope) == (pytest.approx(0.45, rel=0.001), 0.8, "worker")
    assert lock.is_known


def test_workers_whose_lock_is_not_known():
    """One that hardly serves anything never showed a waiter: its requests need the lock as those of the others do.
    Below 40 % in the worker that uses it most, the limit is not known; where someone always waits, it is reached."""
    known = (locked(1, 600, 0.48), locked(2, 300, 0.24), locked(3, 50, 0.9, known=2.0), worker(4, 10, up=60.0))
    assert compute_lock(window(60, *known)).limit == pytest.approx(4 / 0.048)
    assert not compute_lock(window(60, locked(1, 600, 0.39))).is_known
    assert compute_lock(window(60, locked(1, 600, None, waited=1.0))).limit == pytest.approx(10.0)


@pytest.mark.parametrize(
    "of",
    [
        window(60, locked(1, 600, 0.0)),
        window(60, locked(1, 19, 0.9)),
        window(60, locked(1, 600, 0.9, known=29.0)),
        window(9, locked(1, 600, 0.9, known=9.0)),
        window(60, worker(1, 600)),
        window(60),
        window(60, locked(1, 600, None, waited=0.0)),  # nobody waits
        of_file(worker(1, 600), known=20.0, held=20.0),
    ],
)
def test_too_little_is_known(of):
    """A few requests, or a lock that was seen for a short part of the window, say nothing."""
    assert compute_lock(of) is None


def test_a_lock_of_a_file():
    """All processes share it. Of a worker's and a file's lock, the one whose limit comes first counts."""
    lock = compute_lock(of_file(worker(1, 600), worker(2, 120), known=50.0, held=30.0))
    assert (lock.scope, lock.use, lock.limit) == ("file", 0.6, pytest.approx(20.0))
    both = [compute_lock(of_file(locked(1, 600, 0.5), known=60.0, held=held)).scope for held in (54.0, 27.0)]
    assert both == ["file", "worker"]


def queue(use: float, *, spread: bool) -> tuple[float, float]:
    """The parts of the time in which a lock is held and waited for, if 50,000 requests come at random."""
    chance = random.Random(5)
    arrivals = accumulate(chance.expovariate(use) for _ in range(50_000))
    begins = released = held = waited = 0.0
    for at in arrivals:
        holds = chance.expovariate(1.0) if spread else 1.0
        # The request before waits until `begins`; from then on, this one does until the lock is free.
        waited += max(0.0, released - max(at, begins))
        begins = max(at, released)
        released = begins + holds
        held += holds
    return held / released, waited / released


@pytest.mark.parametrize("use", [0.4, 0.6, 0.8, 0.95])
@pytest.mark.parametrize("spread", [False, True])
def test_a_range_from_those_who_wait(use, *, spread):
    """If it may not be read that the lock is held, the true limit is in the range, and near its middle."""
    held, waited = queue(use, spread=spread)
    lock = compute_lock(window(60, locked(1, 600, None, waited=waited)))
    true = 10.0 / held
    assert lock.least_limit * 0.97 <= true <= lock.most_limit * 1.03
    assert lock.limit == pytest.approx(true, rel=0.25)


@pytest.mark.parametrize(
    ("one", "waits", "unknown"),
    [
        (worker(1, 600), 0.04, ()),
        (worker(1, 600), 0.06, ("lock",)),  # requests wait for one of unknown use
        (locked(1, 600, LEAST_USE / 2), None, ("lock",)),
    ],
)
def test_figures_say_that_there_is_a_lock(one, waits, unknown):
    """Also where its limit is not known."""
    of = window(60, one, waits=waits and {"lock": waits, "sleep": 1 - waits})
    server = ServerRecord(workers=(WorkerRecord(1, "accepting", 8),))
    assert figures_of(of, server).headroom.unknown == unknown
    known = figures_of(window(60, locked(1, 600, 0.8), waits={"lock": 2.0, "sleep": 1.0}), server).headroom
    assert (known.first, known.by_limit["lock"], known.unknown) == ("lock", pytest.approx(1.25), ())
