"""Names the parts of a mean request's time for people, from a document's section `waits`."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from uwsgi_headroom.documents.waits import Waits
from uwsgi_headroom.record.waits import State
from uwsgi_headroom.words.formats import duration, mean_count

_LEAST_SHARE, _NEGLIGIBLE = 0.03, 0.001
"""Parts below the first are summed as "other"; parts below the second, such as rounding errors, are left out."""


@dataclass(frozen=True, slots=True)
class TimePart:
    """A part of the time of requests. backend: a configured name, or None; threads: the mean number; per_request:
    seconds, None without completed requests."""

    state: State
    threads: float
    per_request: float | None
    backend: str | None = None

    @property
    def size(self) -> str:
        """The seconds of a request, such as `41 ms`; without completed requests the threads, such as `7.9`."""
        return mean_count(self.threads) if self.per_request is None else duration(self.per_request)


@dataclass(frozen=True, slots=True)
class RequestTime:
    """What requests spend their time on. whole: the sum of all parts; unit: of what its size is; parts: largest first,
    the sum of small ones last."""

    whole: TimePart
    parts: tuple[TimePart, ...]

    @property
    def unit(self) -> str:
        return "per request" if self.whole.per_request is not None else "threads, no request completed"


def split_request_time(waits: Waits) -> RequestTime | None:
    """Split the time of requests into named parts; None if no request was in service."""
    if waits.total <= 0:
        return None
    parts = [part for part in _list_parts(waits) if part.threads >= _NEGLIGIBLE * waits.total]
    large = [part for part in parts if part.threads >= _LEAST_SHARE * waits.total and part.state != "other"]
    rest = [part for part in parts if part not in large]
    named = sorted(large, key=lambda part: -part.threads)
    return RequestTime(_add(parts), (*named, _add(rest)) if rest else tuple(named))


def _list_parts(waits: Waits) -> Iterator[TimePart]:
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
