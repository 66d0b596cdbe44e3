"""Computes offered work: how many requests are in the system at once, in service and in the listen queues.

It is measured as the mean of the busy threads and the mean length of the queues, so it needs no rate.

In an overload the number is a floor. A full queue turns clients away, and these are in no queue; and clients who wait
for an answer before they ask again ask more often once they get it sooner.

Refused attempts at a UNIX socket are counted nowhere. Those at TCP sockets are counted for all of a network namespace,
again with each SYN that is sent again: they are kept apart, from windows in which a TCP queue of this server was full.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence

from msgspec import Struct
from msgspec.structs import replace

from uwsgi_headroom.analysis.littles_law import WAITINGS, Flow, compute_flow, judge_waiting, ratio, shows_a_limit
from uwsgi_headroom.history.counts import sum_if_all_known
from uwsgi_headroom.history.window import Window
from uwsgi_headroom.record import Backlog, ServerRecord, SocketHolders, is_tcp
from uwsgi_headroom.words.formats import fixed

SATURATED = 0.97
"""At or above this mean fraction of busy threads, the threads cut the completed rate off."""

RETRY_SECONDS = 1.0
"""The least time after which a client whose SYN was dropped sends the next one (RFC 6298, section 2: initial timeout
of a retransmission; Linux: TCP_TIMEOUT_INIT)."""


class SocketDemand(Struct, frozen=True):
    """The offered work of one socket that only some of the workers serve (`map-socket`)."""

    socket: str
    workers: tuple[int, ...]
    """The ids of these workers."""
    threads: int
    busy: float
    """The mean number of their busy threads."""
    waiting: float | None
    """The mean length of the socket's own queue; None if it is not measured."""
    is_floor: bool
    flow: Flow | None = None
    """Of this socket's requests; None if its queue is not measured, or a worker of it serves another socket as well."""

    @property
    def used(self) -> float:
        """The mean fraction of these workers' threads that are busy."""
        return self.busy / self.threads

    @property
    def at_once(self) -> float:
        """The mean number of requests in service in these workers, and in the socket's queue."""
        return self.busy + (self.waiting or 0.0)


class Demand(Struct, frozen=True):
    """The offered work of a server in a window."""

    at_once: float | None
    """The mean number of requests in the system; None if the number of busy threads is unknown."""
    is_floor: bool
    """Whether more was offered than was seen: a queue was full, or all threads were busy."""
    queue_was_full: bool
    """Whether a queue turned clients away for a part of the window."""
    retrying: float = 0.0
    """The mean number of refused clients that wait to try again, at least, by Little's law: as far as the attempts that
    found a TCP queue full are counted, retries included."""
    by_socket: tuple[SocketDemand, ...] = ()
    """Of the sockets that only some of the workers serve."""


def compute_demand(window: Window, server: ServerRecord, flow: Flow, threads: int | None) -> Demand:
    """The offered work in a window. threads: the most that can serve, `count_ceiling`; None if unknown."""
    busy, setup = flow.concurrency, server.setup
    full = [name for name in window.queue_full_seconds if was_full(window, name)]
    accepting = {worker.worker_id: worker.threads for worker in server.workers if worker.state == "accepting"}
    holders = (setup.mapped and setup.socket_holders) or {}
    by_socket = split_by_socket(window, holders, accepting, server.queues)
    may_wait = flow.queue_length is None or shows_a_limit(flow)
    cut_off = bool(threads) and busy is not None and busy >= SATURATED * (threads or 0) and may_wait
    refused = any(map(is_tcp, full)) and ratio(count_dropped(window), window.seconds)
    return Demand(
        at_once=sum_if_all_known([busy, flow.queue_length or 0.0]),
        is_floor=bool(full) or cut_off or any(socket.is_floor for socket in by_socket),
        queue_was_full=bool(full),
        retrying=(refused or 0.0) * RETRY_SECONDS,
        by_socket=by_socket,
    )


def was_full(window: Window, socket: str) -> bool:
    """Whether a socket's queue was at its limit for a part of the window, and turned clients away."""
    return window.queue_full_seconds.get(socket, 0.0) > 0 and not (is_tcp(socket) and count_dropped(window) == 0)


def count_dropped(window: Window) -> int | None:
    """Connections that the kernel dropped at this server's TCP queues; Prometheus has only those of all listeners."""
    return window.overflows if window.refused is None else window.refused


def count_refused(window: Window, sockets: Collection[str]) -> float | None:
    """Connections per second that were refused at these sockets, with retries; None if unknown, as at UNIX sockets."""
    is_uncounted = any(not is_tcp(name) and was_full(window, name) for name in sockets)
    if window.refused is None or is_uncounted or not any(map(is_tcp, sockets)):
        return None
    return ratio(window.refused, window.seconds)


def split_by_socket(
    window: Window,
    holders: SocketHolders,
    threads: Mapping[int, int | None],
    queues: Mapping[str, Backlog] | None = None,
) -> tuple[SocketDemand, ...]:
    """The offered work of each socket that some of the accepting workers do not serve. threads: by worker."""
    busy_seconds = {worker.worker_id: worker.busy_seconds for worker in window.workers}
    sockets_of = Counter(worker_id for workers in holders.values() for worker_id in workers)
    found = []
    for socket, workers in holders.items():
        able = sum_if_all_known([threads.get(worker_id) for worker_id in workers])
        busy = sum_if_all_known([busy_seconds.get(worker_id) for worker_id in workers])
        mean = ratio(busy, window.observed_seconds)
        if len(workers) == len(threads) or not able or mean is None:
            continue
        area = window.queue_seconds.get(socket)
        flow, waiting = None, ratio(area, window.observed_seconds)
        is_floor = was_full(window, socket) or (mean >= SATURATED * able and (waiting is None or waiting >= WAITING))
        if area is not None and all(sockets_of[worker_id] == 1 for worker_id in workers):
            own = tuple([worker for worker in window.workers if worker.worker_id in workers])
            flow = compute_flow(replace(window, workers=own, queue_seconds={socket: area}), queues)
        found.append(SocketDemand(socket, tuple(workers), able, mean, waiting, is_floor, flow))
    return tuple(found)


def find_longest_wait(flow: Flow, by_socket: Sequence[SocketDemand]) -> tuple[Flow, str]:
    """The flow whose requests wait the longest, and the name of its socket, empty for that of the whole server."""
    flows = [(flow, ""), *[(each.flow, each.socket) for each in by_socket if each.flow]]
    return max(flows, key=lambda each: (WAITINGS.index(judge_waiting(each[0])), each[0].queue_wait or 0.0))


WAITING = 0.1
"""Below this mean length of a queue, simultaneous arrivals explain it, not a lack of threads."""


def write_at_once(number: float) -> str:
    """How many requests are there at once, on average: from 10 on without decimals."""
    return "under 0.1" if 0 < number < 0.05 else fixed(number, 0 if number >= 9.95 else 1)
