"""The lines of code that the busy threads of a server are in at one instant, in plain types."""

from __future__ import annotations

from typing import NamedTuple

from msgspec import Struct

from uwsgi_headroom.record import State


class Line(NamedTuple):
    """A line of code that a thread is in. callee: the function of a library that the line has called, such as `psycopg2
    execute`; empty if it called none. All are empty, and the line 0, for a thread that runs no Python code."""

    function: str = ""
    file: str = ""
    line: int = 0
    callee: str = ""


OUTSIDE = Line()


class CodeSight(NamedTuple):
    """A busy thread at one instant: where it is, and what it waits for there."""

    worker_id: int
    thread: int
    """Its id, as the kernel numbers it."""
    line: Line | None
    """None if its stack could not be read."""
    state: State
    address: str
    """Of the backend or name server, as in `ss`; empty if it waits for none, or if unknown."""
    part: float
    """How much of the thread is in this state, as far as is known: the parts of a thread are 1 together."""
    inside: Line | None = None
    """Where it is in a function in which threads of its worker wait for a lock, or did a moment ago; None if its stack
    has no such function."""


class CodeLook(Struct, frozen=True):
    """The lines of code that the busy threads of a server are in at one instant."""

    off: str | None = None
    """Why nothing is known, as a sentence; then there are no sights."""
    sights: tuple[CodeSight, ...] = ()
    changed: int = 0
    """Threads that are left out, because each waited for something else after its stack was read."""
    seconds: float = 0.0
    """Of CPU time, for the look."""
