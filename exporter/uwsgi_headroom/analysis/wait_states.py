"""Computes what requests spend their time on, and judges whether they wait for their interpreter's lock.

Where the kernel does not show what the threads wait for, the wait for the lock is inferred: an interpreter that uses
nearly a whole CPU is saturated. That is wrong for work that a library does without the lock.
"""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct

from uwsgi_headroom.analysis.balance import WorkerFigures
from uwsgi_headroom.analysis.destinations import DestinationFigures
from uwsgi_headroom.analysis.littles_law import Flow, ratio
from uwsgi_headroom.history.window import Window
from uwsgi_headroom.record import NO_WAITS, ServerRecord, State, Waits
from uwsgi_headroom.words.formats import duration


class WaitState(Struct, frozen=True, kw_only=True):
    """A state of threads with a request in service. threads: their mean number; per_request: seconds of a mean request
    in this state, null without completed requests, and if it is not known."""

    state: State
    threads: float
    per_request: float | None


class Backend(Struct, frozen=True):
    """A backend that is named in the configuration. address: `10.0.0.5:5432`, `*:5432` or the path of a UNIX socket;
    threads: mean number of threads that wait for it; per_request: as in `WaitState`."""

    name: str
    address: str
    threads: float
    per_request: float | None


class WaitFigures(Struct, frozen=True, kw_only=True):
    """What requests spend their time on, over the window. states: those that were seen, most threads first; total: the
    sum of their threads, which is the observed concurrency but for the disagreement; disagreement: mean difference, in
    threads, between the kernel and uWSGI at one instant. backends: parts of the state `backend` that are named in the
    configuration. destinations: all of the states `backend` and `dns`, by address, most threads first. stuck: mean
    number of threads with stuck requests; lasting: the same of all requests that were not completed, such as
    WebSockets. They are in `threads`, but not in `per_request`, whose sum over the states is the mean response time
    (uWSGI's own, or else L/λ). shared: mean number of threads that wait over a connection that workers share; output:
    for a pipe to take their output. nap: seconds that threads in `sleep` do so at a time; null if once, or unknown."""

    states: tuple[WaitState, ...] = ()
    backends: tuple[Backend, ...] = ()
    total: float
    disagreement: float
    stuck: float = 0.0
    lasting: float = 0.0
    destinations: tuple[DestinationFigures, ...] = ()
    shared: float = 0.0
    output: float = 0.0
    nap: float | None = None

    @property
    def threads(self) -> dict[State, float]:
        """The mean number of threads in each state that was seen."""
        return {row.state: row.threads for row in self.states}

    @property
    def per_request(self) -> dict[State, float] | None:
        """Seconds of a mean request in each state; None if unknown."""
        return {row.state: row.per_request for row in self.states if row.per_request is not None} or None

    @property
    def outside(self) -> float:
        """The share of the threads' time that goes into waiting for other servers, name servers included."""
        return self.share("backend") + self.share("dns")

    def each(self, state: State) -> float | None:
        """Seconds of a mean request in a state; None if unknown."""
        return (self.per_request or {}).get(state)

    def share(self, state: State) -> float:
        """The share of the threads' time in a state, 0 to 1."""
        return ratio(self.threads.get(state), self.total) or 0.0


def of_request(waits: WaitFigures, seconds: float | None) -> str:
    """How much of a mean request a wait takes: ` (75 ms of the 200 ms that a request takes)`; empty if unknown."""
    if waits.per_request is None or seconds is None:
        return ""
    return f" ({duration(seconds)} of the {duration(sum(waits.per_request.values()))} that a request takes)"


def list_gaps(server: ServerRecord) -> tuple[str, ...]:
    """Why it is unknown, at all or in part, what the threads wait for, as sentences; empty if it is known."""
    if server.waits is None:
        return (server.processes_off or "off: run the exporter with --waits true",)
    return (*filter(None, [server.waits.off]), *server.waits.gaps)


def compute_waits(
    window: Window, flow: Flow, stuck: float = 0.0, old: int = 0, sample: Waits = NO_WAITS
) -> WaitFigures | None:
    """The figures of a window; None unless the kernel said for all of it what the threads wait for. stuck: mean number
    of threads with stuck requests; old: the threads whose requests last; sample: at its end."""
    waits = window.waits
    if waits is None:
        return None
    seconds, requests = waits.observed_seconds, flow.completed
    threads = {state: area / seconds for state, area in waits.seconds.items()}
    total = sum(threads.values())
    stuck = lasting = min(stuck, total)
    # What the threads do may be mostly that of static files, which have no part in the mean response time.
    files = sum(worker.static_requests for worker in window.workers)
    is_timed = flow.littles_law is not None and flow.littles_law < (1 - MOSTLY_FILES) * (flow.observed or 0.0)
    are_files = is_timed and files >= max(1, MOSTLY_FILES * requests)
    if not are_files:
        lasting = min(total, max(stuck, _count_lasting(flow, total, old)))
    moving = _without_lasting(threads, lasting)
    is_hidden = lasting > 0 and total - lasting <= _LEAST_MOVING * total
    loses_many = sum(worker.lost for worker in window.workers) >= MANY_LOST * requests
    each = within = None
    if flow.throughput and not is_hidden and not are_files and not (lasting > stuck and loses_many):
        each = ratio(flow.response_time, sum(moving.values()))
        each = 1 / flow.throughput if each is None else each
        # Of the backends, the same part is without stuck requests as of all threads that wait for one.
        within = each * (ratio(moving.get("backend"), threads.get("backend", 0.0)) or 0.0)
    states = [
        WaitState(state=state, threads=number, per_request=each and moving[state] * each)
        for state, number in threads.items()
    ]
    backends = [
        Backend(name, sample.addresses.get(name, ""), area / seconds, within and area / seconds * within)
        for name, area in waits.backends.items()
    ]
    return WaitFigures(
        states=tuple(sorted(states, key=lambda each: -each.threads)),
        backends=tuple(sorted(backends, key=lambda each: -each.threads)),
        total=total,
        disagreement=ratio(waits.disagreement_seconds, seconds) or 0.0,
        stuck=stuck,
        lasting=lasting,
        shared=(window.shared_connection_seconds or 0.0) / seconds,
        output=(window.output_blocked_seconds or 0.0) / seconds,
        nap=sample.nap,
    )


MANY_LOST = 0.05
"""From this many lost requests for each completed one on, most threads may serve them."""

LASTING = 2.0
"""If so many times as many threads are busy as the completed requests occupied, most serve requests that last."""


def _count_lasting(flow: Flow, threads: float, old: int) -> float:
    """The mean number of threads whose requests were not completed; those are certain that lasted all the time."""
    if flow.littles_law is None:
        return 0.0
    either = float(old), max(0.0, threads - flow.littles_law)
    return max(either) if threads >= LASTING * flow.littles_law else min(either)


MOSTLY_FILES = 0.5
"""From this share of the requests, and of the threads' time, on, the threads mostly serve static files."""


_LEAST_MOVING = 0.02
"""The share of the threads' time that is not that of requests that last, from which on it is known what the others do:
the age of a stuck request is known to the second, and a WebSocket takes a moment for each message."""


def _without_lasting(threads: Mapping[State, float], lasting: float) -> dict[State, float]:
    """The threads in each state without those of requests that last, most likely in the states with most threads."""
    left = {}
    for state, number in sorted(threads.items(), key=lambda item: -item[1]):
        left[state] = number - min(lasting, number)
        lasting -= min(lasting, number)
    return left


MOSTLY = 0.5
"""The share of the threads' time from which on one state is what requests mostly wait for."""


def wait_for_websockets(server: ServerRecord) -> bool:
    """Whether most of the threads that serve clients which stay wait for what these send after a request, as
    WebSockets, or go on, as event streams."""
    streams, sample = count_streams(server), server.sample
    waiting = sample.websockets + streams
    return waiting > 0 and waiting >= MOSTLY * (sample.threads.get("client", 0.0) + streams)


AT_WORK = 0.1
"""The part of the WebSockets whose threads may go on at the moment of a sample."""


def count_websockets(server: ServerRecord, stuck: int) -> int:
    """The number of requests that last because their clients stay, at most. stuck: the number that lasts."""
    return 0 if hang(server, stuck) else int((1 + AT_WORK) * server.sample.websockets)


def hang(server: ServerRecord, stuck: int) -> bool:
    """Whether so many stuck requests, on all threads, wait for their clients and wake up for no ping, as WebSockets do:
    most likely their clients wait, too."""
    threads = sum(worker.available_threads or 0 for worker in server.workers)
    return stuck >= threads > 0 and server.sample.endless >= (1 - AT_WORK) * threads


def list_ages(server: ServerRecord) -> list[tuple[float, int]]:
    """Age and worker id of the requests in service, but for those that go on, as event streams do."""
    ages = {(each.worker_id, number): age for each in server.workers for number, age in each.ages.items()}
    return [(age, at[0]) for at, age in ages.items() if age is not None and at not in server.sample.streams]


def count_streams(server: ServerRecord) -> float:
    """The requests that last and go on, other than those whose clients are slow."""
    return max(0.0, len(server.sample.streams) - server.sample.threads.get("client", 0.0))


LOCK_SEEN = 0.05
"""The share of the threads' time in locks of the application from which on one may limit the load."""

LOCK_WAIT = 1.0
"""At or above this mean number of waiting threads, requests queue for the interpreter. Where that is not measured, it
is the number of requests in service beyond the one that the interpreter runs."""

CONTENDED = 0.05
"""The share of a worker's requests in service below which hardly any waits for the lock."""

BEYOND_ONE = 1.2
"""CPU seconds per second that no interpreter uses alone: at or above, a worker computes without its lock as well."""


def is_contended(worker: WorkerFigures) -> bool | None:
    """Whether the lock limits a worker that uses nearly a whole CPU; None if unknown."""
    waiting, load = worker.lock_waiters, worker.interpreter_load or 0.0
    if waiting is None or (worker.concurrency or 0.0) < load + LOCK_WAIT:
        return None
    if load >= BEYOND_ONE and waiting < LOCK_WAIT:
        return False
    if (worker.lock_waited or 0.0) >= MOSTLY:
        return None  # who computes under a lock of the application does so alone, and none waits for the interpreter's
    return waiting >= CONTENDED * (worker.concurrency or 0.0)


def queues_for_lock(worker: WorkerFigures) -> bool:
    """Whether requests queue for the worker's interpreter lock."""
    if worker.lock_waiters is not None:
        return worker.lock_waiters >= LOCK_WAIT
    return (worker.concurrency or 0.0) >= (worker.interpreter_load or 0.0) + LOCK_WAIT
