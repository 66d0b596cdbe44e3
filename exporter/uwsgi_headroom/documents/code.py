"""Builds the section about the lines of code in which requests spend their time."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import Struct

from uwsgi_headroom.history.window import CodeWindow, LineUse
from uwsgi_headroom.record import State
from uwsgi_headroom.same_fields import copy_fields

MOST_LINES = 20
"""How many lines a document has."""


class CodeState(Struct, frozen=True, kw_only=True):
    """What threads in a line wait for. share: of all busy threads, from 0 to 1."""

    state: State
    share: float


class CodeLine(Struct, frozen=True, kw_only=True):
    """A line of code. function, file, line: of the application's frame, empty and 0 for threads outside of Python code.
    callee: the function of a library that it has called, empty if there is none. samples: how often a thread was seen
    in it; share: of all busy threads; per_request: seconds of a mean request, null without completed requests. states:
    what threads wait for in it, most first; addresses: the backends and name servers among that, most first."""

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
    samples of busy threads. lines: most of them first, 20 at most. unread: the share of samples without a line, because
    the stack could not be read. changed: the share of samples that were dropped, because the thread went on meanwhile.
    cpu_seconds: of this program, for one sample of the server. seconds: the part of the window that was sampled."""

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
        unread=use.unread / use.threads if use.threads else 0.0,
        changed=use.changed / (use.changed + use.threads) if use.changed else 0.0,
        cpu_seconds=use.cpu_seconds / use.looks if use.looks else 0.0,
        seconds=use.seconds,
    )


def _list_lines(use: CodeWindow, response_time: float | None) -> Iterator[CodeLine]:
    for each in use.lines[:MOST_LINES]:
        share = each.looks / use.threads
        yield copy_fields(
            CodeLine,
            each.line,
            samples=each.looks,
            share=share,
            per_request=None if response_time is None else share * response_time,
            states=_sort_states(each, use.threads),
            addresses=tuple(sorted(each.addresses, key=lambda address: -each.addresses[address])),
        )


def _sort_states(use: LineUse, threads: float) -> tuple[CodeState, ...]:
    states = sorted(use.states.items(), key=lambda item: -item[1])
    return tuple(CodeState(state=state, share=number / threads) for state, number in states)
