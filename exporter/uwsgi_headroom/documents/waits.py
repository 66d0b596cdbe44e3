"""Builds the sections about what requests spend their time on: states and backends, routes, and lines of code."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TypeVar

from msgspec import Struct

from uwsgi_headroom.analysis.littles_law import ratio
from uwsgi_headroom.analysis.routes import RouteFigures, find_ages, oldest
from uwsgi_headroom.history.window import CodeWindow
from uwsgi_headroom.record import ServerRecord, State
from uwsgi_headroom.same_fields import copy_fields

Key = TypeVar("Key")


def _sort(numbers: Mapping[Key, float]) -> list[tuple[Key, float]]:
    """The largest first."""
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
    return Code(
        why=None,
        samples=use.looks,
        threads=use.threads,
        lines=tuple(_list_lines(use, response_time)),
        unread=ratio(use.unread, use.threads) or 0.0,
        changed=ratio(use.changed, use.changed + use.threads) or 0.0,
        cpu_seconds=ratio(use.cpu_seconds, use.looks) or 0.0,
        seconds=use.seconds,
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
