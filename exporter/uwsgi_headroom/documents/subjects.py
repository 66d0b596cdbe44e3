"""Builds the parts of a document with types of their own: routes, lines of code, vassals, backends, workers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TypeVar

import msgspec
from msgspec import Struct

from uwsgi_headroom.analysis.balance import WorkerFigures
from uwsgi_headroom.analysis.figures import Figures
from uwsgi_headroom.analysis.littles_law import ratio
from uwsgi_headroom.analysis.routes import RouteFigures, find_ages, oldest
from uwsgi_headroom.history.totals import Totals
from uwsgi_headroom.history.window import CodeWindow, Window
from uwsgi_headroom.reading import Reading
from uwsgi_headroom.record import ServerRecord, State, WorkerRecord
from uwsgi_headroom.same_fields import copy_fields, given
from uwsgi_headroom.stats.raw import EmperorSnapshot, RouterSnapshot, is_set
from uwsgi_headroom.stats.raw import ListedVassal as VassalStats
from uwsgi_headroom.stats.server import Snapshot
from uwsgi_headroom.stats.server import State as WorkerState
from uwsgi_headroom.stats.server import Worker as Stats

Key = TypeVar("Key")


def _sort(numbers: Mapping[Key, float]) -> list[tuple[Key, float]]:
    return sorted(numbers.items(), key=lambda item: -item[1])


class Route(Struct, frozen=True, kw_only=True):
    """A route: a method and a path in which values are placeholders, such as `POST /orders/{id}`; or `other`. threads:
    mean number of busy threads with its requests, over the window; share: of all busy threads; in_service: its requests
    in service at the last reading; oldest_seconds: the age of the oldest of these, null if there is none or uWSGI does
    not report it. The share of the requests is not known."""

    route: str
    threads: float
    share: float
    in_service: int
    oldest_seconds: float | None


def build_routes(figures: RouteFigures, server: ServerRecord) -> tuple[Route, ...]:
    """Build the section from the figures of a window, which ends with this record: routes that have busy threads in it
    or now, most busy threads first."""
    ages = find_ages(server)
    routes = sorted(figures.threads, key=lambda route: (-figures.threads[route], route))
    return tuple(
        Route(
            route=route,
            threads=figures.threads[route],
            share=figures.share(route),
            in_service=len(ages.get(route, ())),
            oldest_seconds=oldest(ages.get(route, [])),
        )
        for route in routes
        if figures.threads[route] or route in ages
    )


MOST_LINES = 20
"""How many lines a document has."""


class CodeState(Struct, frozen=True, kw_only=True):
    """What threads in a line wait for. share: of all busy threads, from 0 to 1."""

    state: State
    share: float


class CodeLine(Struct, frozen=True, kw_only=True):
    """A line of code. function, file, line: of the application's frame, empty and 0 for threads outside of Python code.
    callee: the function of a library that it has called, empty if there is none. samples: how often a thread was seen
    in it; share: of all busy threads; per_request: seconds of a mean request in it, null without completed requests.
    states: what threads wait for in it, most first; addresses: the backends and name servers among that, most first."""

    function: str
    file: str
    line: int
    callee: str
    samples: float
    share: float
    per_request: float | None
    states: tuple[CodeState, ...]
    addresses: tuple[str, ...]


class Code(Struct, frozen=True, kw_only=True):
    """Where the busy threads of a server were. why: the reason if nothing is known. samples: of the server; threads:
    samples of busy threads. lines: 20 at most, those with most samples first. unread: the share of samples without a
    line, because the stack could not be read. changed: the share of samples that were dropped, because the thread went
    on meanwhile. cpu_seconds: CPU time that one sample of the server costs uwsgi-headroom itself. seconds: the part of
    the window that was sampled."""

    why: str | None
    samples: int = 0
    threads: float = 0.0
    lines: tuple[CodeLine, ...] = ()
    unread: float = 0.0
    changed: float = 0.0
    cpu_seconds: float = 0.0
    seconds: float = 0.0


def build_code(use: CodeWindow, response_time: float | None) -> Code:
    """Build the section. response_time: seconds of a mean request, None without completed requests."""
    if use.off is not None:
        return Code(why=use.off)
    return copy_fields(
        Code,
        use,
        why=None,
        samples=use.looks,
        lines=tuple(_list_lines(use, response_time)),
        unread=ratio(use.unread, use.threads) or 0.0,
        changed=ratio(use.changed, use.changed + use.threads) or 0.0,
        cpu_seconds=ratio(use.cpu_seconds, use.looks) or 0.0,
    )


def _list_lines(use: CodeWindow, response_time: float | None) -> Iterator[CodeLine]:
    for each in use.lines[:MOST_LINES]:
        share = each.looks / use.threads
        states = _sort(each.states)
        yield copy_fields(
            CodeLine,
            each.line,
            samples=each.looks,
            share=share,
            per_request=None if response_time is None else share * response_time,
            states=tuple(CodeState(state=state, share=number / use.threads) for state, number in states),
            addresses=tuple(address for address, _ in _sort(each.addresses)),
        )


class Vassal(Struct, frozen=True, kw_only=True):
    """A uWSGI that an emperor runs. ready: its workers are started; loyal: it has served a request; cursed: the
    emperor is ending it. age: since its start; heartbeat_age: since its last heartbeat, null without any."""

    name: str
    pid: int
    ready: bool | None
    accepting: bool | None
    loyal: bool | None
    cursed: bool | None
    respawns: int | None
    age: float | None
    heartbeat_age: float | None


class Throttled(Struct, frozen=True, kw_only=True):
    """A vassal that the emperor throttles after failed starts. delay: seconds before the next attempt."""

    name: str
    delay: float | None
    attempts: int | None


class Emperor(Struct, frozen=True, kw_only=True):
    """The vassals that an emperor runs, and those that it throttles."""

    vassals: tuple[Vassal, ...]
    throttled: tuple[Throttled, ...]


class Node(Struct, frozen=True, kw_only=True):
    """A backend that subscribed to a router. Counts are since the subscription; dead: the router marked it as dead."""

    name: str
    requests: int | None
    transmitted_bytes: int | None
    received_bytes: int | None
    load: int | None
    weight: int | None
    failures: int | None
    dead: bool | None


class Subscription(Struct, frozen=True, kw_only=True):
    """A key (usually a host name), the requests for that key, and its backends."""

    key: str
    hits: int | None
    nodes: tuple[Node, ...]


class StaticNode(Struct, frozen=True, kw_only=True):
    """A backend named in the router's configuration, and the requests sent to it."""

    name: str
    hits: int | None


class Router(Struct, frozen=True, kw_only=True):
    """The stats of an http, fastrouter, rawrouter or sslrouter process. active_sessions: connections in service."""

    active_sessions: int
    subscriptions: tuple[Subscription, ...]
    static_nodes: tuple[StaticNode, ...]


def build_emperor(snapshot: EmperorSnapshot, time: float) -> Emperor:
    """Build an emperor's section. time: of the reading, in epoch seconds."""
    return Emperor(
        vassals=tuple(_build_vassal(vassal, time) for vassal in snapshot.vassals),
        throttled=tuple(
            Throttled(
                name=vassal.name,
                delay=None if vassal.throttle_level is None else vassal.throttle_level / 1000,
                attempts=vassal.attempt,
            )
            for vassal in snapshot.blacklist
        ),
    )


def _build_vassal(vassal: VassalStats, time: float) -> Vassal:
    flags = {name: is_set(getattr(vassal, name)) for name in ("ready", "accepting", "loyal", "cursed")}
    ages = {"age": _age(vassal.born, time), "heartbeat_age": _age(vassal.last_heartbeat, time)}
    return copy_fields(Vassal, vassal, **flags, **ages)


def _age(since: int | None, time: float) -> float | None:
    return max(0.0, time - since) if since else None


def build_router(snapshot: RouterSnapshot) -> Router:
    return Router(
        active_sessions=snapshot.active_sessions,
        subscriptions=tuple(
            Subscription(
                key=key.key,
                hits=key.hits,
                nodes=tuple(
                    copy_fields(
                        Node, node, transmitted_bytes=node.tx, received_bytes=node.rx, dead=is_set(node.death_mark)
                    )
                    for node in key.nodes
                ),
            )
            for key in snapshot.subscriptions
        ),
        static_nodes=msgspec.convert(snapshot.static_nodes, tuple[StaticNode, ...], from_attributes=True),
    )


class WorkerSection(Struct, frozen=True, kw_only=True):
    """A worker slot.

    worker_id: position in uWSGI's list, from 1. pid: in the master's PID namespace; local_pid: in the exporter's.
    accepting: accepts requests now.
    Over the window: active (accepted requests for 90 % of it, so that it can be compared with others), window_requests,
    throughput (requests per second), share of the requests, response_time, interpreter_load (CPU seconds per second, of
    the one CPU that one interpreter can use), lock_waiters (mean threads that wait for the interpreter lock),
    concurrency (mean busy threads), resident_growth.
    Since uWSGI's last full reload: requests, lifetime_share, running_time, exceptions, harakiris, respawns, signals,
    transmitted_bytes.
    age: since last_spawn. oldest_request_age, request_ages: of requests in service, oldest first, precise to about a
    second. thread_requests: of each thread, since the last full reload; serving: threads that serve a request, with the
    age of the request, null if uWSGI does not report it; both null with stats-no-cores. Threads are numbered from 0, as
    in uWSGI's log ("core 3").
    unique_bytes: the most memory unique to the worker's process in any sample; null if not measured.
    affinity: the CPUs that the worker's mask allows. last_cpu: the CPU on which its main thread last ran. residency:
    CPU seconds by CPU since the exporter's start; null unless enabled.
    """

    worker_id: int
    pid: int | None = None
    local_pid: int | None = None
    state: WorkerState
    accepting: bool
    active: bool | None = None
    threads: int | None = None
    busy_threads: int | None = None
    window_requests: int | None = None
    throughput: float | None = None
    share: float | None = None
    response_time: float | None = None
    interpreter_load: float | None = None
    concurrency: float | None = None
    requests: int | None = None
    lifetime_share: float | None = None
    running_time: float | None = None
    exceptions: int | None = None
    harakiris: int | None = None
    respawns: int | None = None
    signals: int | None = None
    transmitted_bytes: int | None = None
    resident_bytes: int | None = None
    resident_growth: int | None = None
    unique_bytes: int | None = None
    last_spawn: int | None = None
    age: float | None = None
    oldest_request_age: float | None = None
    request_ages: tuple[float, ...]
    thread_requests: tuple[int, ...] | None = None
    serving: dict[int, float | None] | None = None
    affinity: tuple[int, ...] | None = None
    last_cpu: int | None = None
    residency: dict[int, float] | None = None
    lock_waiters: float | None = None


def build_workers(
    reading: Reading, record: ServerRecord, figures: Figures | None, totals: Totals
) -> Iterator[WorkerSection]:
    snapshot = reading.snapshot
    assert isinstance(snapshot, Snapshot)
    served = sum(worker.requests or 0 for worker in snapshot.workers)
    for index, worker in enumerate(snapshot.workers):
        known = figures if figures and index < len(figures.workers) else None
        yield _build_worker(
            reading,
            worker,
            record.workers[index],
            served,
            known.workers[index] if known else None,
            known.window if known else None,
            totals.workers[index].residency if index < len(totals.workers) else {},
        )


def _build_worker(
    reading: Reading,
    worker: Stats,
    record: WorkerRecord,
    served: int,
    figures: WorkerFigures | None,
    window: Window | None,
    residency: dict[int, float],
) -> WorkerSection:
    process = reading.host.processes.get(worker.pid or 0)
    memory = reading.host.memory
    ages = sorted((age for age in record.ages.values() if age is not None), reverse=True)
    return copy_fields(
        WorkerSection,
        worker,
        figures,
        process,
        local_pid=reading.host.local_pid(worker.pid or 0),
        busy_threads=reading.busy_threads(worker),
        window_requests=figures.requests if figures and window and window.is_counted else None,
        throughput=ratio(figures.requests, window.seconds) if figures and window and window.is_counted else None,
        lifetime_share=ratio(worker.requests, served),
        resident_bytes=(process or worker).resident_bytes,
        resident_growth=given(window, lambda known: known.workers[worker.worker_id - 1].resident_growth),
        unique_bytes=memory.worker.unique.get(worker.pid or 0) if memory and memory.worker else None,
        age=max(0.0, reading.time - worker.last_spawn) if worker.last_spawn and worker.pid else None,
        oldest_request_age=next(iter(ages), None),
        request_ages=tuple(ages),
        thread_requests=worker.thread_requests or None,
        serving=dict(record.ages) if worker.thread_requests else None,
        residency=dict(residency) if reading.host.threads else None,
    )
