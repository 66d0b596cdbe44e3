"""Splits the time of a request into what requests spend it on, for people: the line `time` of `check` and `top`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

from uwsgi_headroom.analysis.destinations import DestinationFigures
from uwsgi_headroom.analysis.littles_law import Flow
from uwsgi_headroom.analysis.wait_states import MOSTLY, WaitFigures
from uwsgi_headroom.record import State
from uwsgi_headroom.words.formats import duration, mean_count
from uwsgi_headroom.words.states import WAITS

_LEAST_SHARE, _NEGLIGIBLE = 0.03, 0.001
"""Parts below the first are summed as "other"; parts below the second, such as rounding errors, are left out."""


class TimePart(Struct, frozen=True):
    """A part of the time of requests. backend: what it waits for, or None; threads: the mean number; per_request:
    seconds, None without completed requests."""

    state: State
    threads: float
    per_request: float | None
    backend: str | None = None

    @property
    def size(self) -> str:
        """The seconds of a request, such as `41 ms`; without completed requests the threads, such as `7.9`."""
        return mean_count(self.threads) if self.per_request is None else duration(self.per_request)


class RequestTime(Struct, frozen=True):
    """What requests spend their time on. whole: the sum of all parts; unit: of what its size is; parts: largest first,
    the sum of small ones last. why: why there is no time of a request."""

    whole: TimePart
    parts: tuple[TimePart, ...]
    why: str = "no request completed"

    @property
    def unit(self) -> str:
        if self.whole.per_request is not None:
            return "per request"
        return f"threads, {self.why}"


def split_request_time(waits: WaitFigures, flow: Flow | None = None) -> RequestTime | None:
    """Split the time of requests into named parts; None if no request was in service, or hardly any, for static files,
    which uWSGI does not time: nothing is left to say then."""
    of_files = flow is not None and flow.requests > 0 and flow.littles_law is not None
    if waits.total <= 0 or (of_files and waits.total < _LEAST_OF_FILES and waits.states[0].per_request is None):
        return None
    every = list(_list_parts(waits))
    whole = sum(map(_weight, every))
    parts = [part for part in every if _weight(part) >= _NEGLIGIBLE * whole]
    large = [part for part in parts if _weight(part) >= _LEAST_SHARE * whole and part.state != "other"]
    rest = [part for part in parts if part not in large]
    named = sorted(large, key=lambda part: -_weight(part))
    time = RequestTime(_add(every), (*named, _add(rest)) if rest else tuple(named))
    if not of_files:
        return time
    lasts = waits.lasting >= MOSTLY * waits.total
    return replace(time, why="mostly of requests that last" if lasts else "and uWSGI does not time static files")


_LEAST_OF_FILES = 0.05
"""Mean threads that serve files below which the number would be written as 0."""


LEAST_STUCK, LEAST_LASTING = 0.05, 1.0
"""Mean threads with stuck requests, and with others that last, below which they are not named."""


def describe_stuck(waits: WaitFigures, time: RequestTime) -> str:
    """Write which threads stand beside the time of a request: `0.5 threads hold requests that are stuck, not counted
    here`; empty if there are none, or the parts are of threads."""
    if time.whole.per_request is None or (waits.stuck < LEAST_STUCK and waits.lasting < LEAST_LASTING):
        return ""
    threads, kind = (waits.stuck, "are stuck") if waits.stuck >= LEAST_STUCK else (waits.lasting, "last")
    return f"{mean_count(threads)} threads hold requests that {kind}, not counted here"


def _weight(part: TimePart) -> float:
    """The seconds of a request, without stuck ones; without completed requests the threads."""
    return part.threads if part.per_request is None else part.per_request


def _list_parts(waits: WaitFigures) -> Iterator[TimePart]:
    """List the configured backends, and the states without them."""
    for backend in waits.backends:
        yield TimePart("backend", backend.threads, backend.per_request, backend.name)
    for state in waits.states:
        threads, per_request = state.threads, state.per_request
        if state.state == "backend":
            threads -= sum(backend.threads for backend in waits.backends)
            if per_request is not None:
                per_request -= sum(backend.per_request or 0.0 for backend in waits.backends)
        yield TimePart(state.state, threads, per_request)


def _add(parts: list[TimePart]) -> TimePart:
    times = [part.per_request for part in parts if part.per_request is not None]
    return TimePart("other", sum(part.threads for part in parts), sum(times) if len(times) == len(parts) else None)


_MOST_DESTINATIONS = 3
"""More of one state are summed as "others"."""


def describe_destinations(waits: WaitFigures) -> list[str]:
    """Write what requests wait for outside of the server, state by state: `backend 201 ms: postgres at 10.0.0.5:5432
    180 ms, redis at 10.0.0.6:6379 21 ms`. Empty if no name or address is known. The names are not escaped."""
    texts = []
    for state in OUTSIDE:
        found = [each for each in waits.destinations if each.state == state]
        parts = [TimePart(state, each.threads, each.per_request, _call(each)) for each in found]
        whole = _add(parts)
        parts = [part for part in parts if _weight(part) > _NEGLIGIBLE * _weight(whole)]
        if not any(part.backend for part in parts):
            continue
        named = [f"{part.backend or 'not known'} {part.size}" for part in parts[:_MOST_DESTINATIONS]]
        if rest := parts[_MOST_DESTINATIONS:]:
            named.append(f"others {_add(rest).size}")
        one = parts[0].backend if len(parts) == 1 else None
        texts.append(f"{WAITS[state].short} {whole.size}: {one or ', '.join(named)}")
    return texts


OUTSIDE: tuple[Literal["backend", "dns"], ...] = ("backend", "dns")
"""The states in which threads wait for what is outside of the server."""


def _call(destination: DestinationFigures) -> str:
    """The name and the address of a destination; of a name server, the address."""
    name, address = destination.name, destination.address
    if destination.state == "dns":
        return address or name
    return f"{name} at {address}" if name and address else name or address
