"""Builds the section about what requests spend their time on."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

from uwsgi_headroom.analysis.wait_states import WaitFigures
from uwsgi_headroom.record import State
from uwsgi_headroom.record import Waits as WaitsNow
from uwsgi_headroom.same_fields import copy_fields


class WaitState(Struct, frozen=True, kw_only=True):
    """A state of threads with a request in service. threads: their mean number; per_request: seconds of a mean request,
    null without completed requests."""

    state: State
    threads: float
    per_request: float | None


class Backend(Struct, frozen=True, kw_only=True):
    """A backend that is named in the configuration. address: `10.0.0.5:5432`, `*:5432` or the path of a UNIX socket;
    threads: mean number of threads that wait for it; per_request: as in `WaitState`."""

    name: str
    address: str
    threads: float
    per_request: float | None


class Destination(Struct, frozen=True, kw_only=True):
    """What threads wait for outside of the server. state: of these threads; name: the one in the configuration, or of
    the service with that well-known port or socket; empty if neither is known. address: `10.0.0.5:5432` or the path of
    a UNIX socket, empty if it is not known or if there are several; threads, per_request: as in `WaitState`;
    connecting: the part of the time in which the connection was not made yet."""

    state: Literal["backend", "dns"]
    name: str
    address: str
    threads: float
    per_request: float | None
    connecting: float


class Waits(Struct, frozen=True, kw_only=True):
    """What requests spend their time on, over the window. states: those that were seen, most threads first; total: the
    sum of their threads, which is the observed concurrency but for the disagreement; disagreement: mean difference, in
    threads, between the kernel and uWSGI at one instant. backends: parts of the state `backend` that are named in the
    configuration. destinations: all of the states `backend` and `dns`, by address, most threads first. stuck: mean
    number of threads with stuck requests; they are in `threads`, but not in `per_request`, whose sum over the states is
    the mean response time."""

    states: tuple[WaitState, ...]
    backends: tuple[Backend, ...]
    total: float
    disagreement: float
    stuck: float = 0.0
    destinations: tuple[Destination, ...] = ()


def build_waits(waits: WaitFigures, now: WaitsNow | None) -> Waits:
    """Build the section from the figures of a window. now: at its end."""
    addresses = now.addresses if now else {}
    states = sorted(waits.threads.items(), key=lambda item: -item[1])
    backends = sorted(waits.backends.items(), key=lambda item: -item[1])
    return Waits(
        states=tuple(
            WaitState(state=state, threads=threads, per_request=waits.per_request[state] if waits.per_request else None)
            for state, threads in states
        ),
        backends=tuple(
            Backend(
                name=name,
                address=addresses.get(name, ""),
                threads=threads,
                per_request=waits.backends_per_request[name] if waits.backends_per_request else None,
            )
            for name, threads in backends
        ),
        total=waits.total,
        disagreement=waits.disagreement,
        stuck=waits.stuck,
        destinations=tuple(copy_fields(Destination, each) for each in waits.destinations),
    )
