"""Explains a deploy: in which parts of a request time was spent before and after, and what the load explains."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import copysign

from msgspec import Struct
from msgspec.structs import replace

from uwsgi_headroom.analysis.littles_law import compute_flow, ratio
from uwsgi_headroom.analysis.percentiles import ResponseTimes
from uwsgi_headroom.analysis.routes import RouteFigures
from uwsgi_headroom.analysis.wait_states import compute_waits
from uwsgi_headroom.history.window import CodeWindow, Window
from uwsgi_headroom.record import State
from uwsgi_headroom.words.states import WAITS

FULL = 0.2
"""The share of the time with every thread busy from which on a side is overloaded."""

_MOST_OF_PART = 0.5
"""The least share of a part's growth that a function makes which is named."""


class DeployPart(Struct, frozen=True):
    """Seconds of a mean request before and after: of what it waits for, of a backend, or of a route. function: the one
    with most of the change, function_growth: by how many seconds; empty and 0 where that is not known."""

    name: str
    before: float
    after: float
    function: str = ""
    function_growth: float = 0.0

    @property
    def growth(self) -> float:
        """Seconds by which it grew; negative if it shrank."""
        return self.after - self.before


class Side(Struct, frozen=True):
    """What explains one side. routes, code: of the same window, or of its end; None where they are off."""

    window: Window
    response_times: ResponseTimes | None = None
    routes: RouteFigures | None = None
    code: CodeWindow | None = None
    headroom: float | None = None
    """The factor by which the load can grow until a limit, and until requests wait."""
    usable: float | None = None

    @property
    def is_full(self) -> bool:
        """Whether the server was overloaded: every thread was busy for some time."""
        return (ratio(self.window.full_seconds, self.window.observed_seconds) or 0.0) >= FULL


def list_parts(before: Side, after: Side) -> tuple[DeployPart, ...]:
    """What a mean request spends its time on, the part that changed most first; empty if it is not known."""
    functions = _find_functions(before), _find_functions(after)
    parts = _compare(_find_parts(before.window), _find_parts(after.window))
    return tuple(_name_function(part, *functions) for part in parts)


def list_routes(before: Side, after: Side) -> tuple[DeployPart, ...]:
    """By how much each route adds to the time of a mean request; empty where routes are off."""

    def find(side: Side) -> dict[str, float]:
        time = compute_flow(side.window).response_time
        if side.routes is None or time is None:
            return {}
        return {route: time * side.routes.share(route) for route in side.routes.threads}

    return _compare(find(before), find(after))


def _compare(before: dict[str, float], after: dict[str, float]) -> tuple[DeployPart, ...]:
    if not before or not after:
        return ()
    parts = [DeployPart(name, before.get(name, 0.0), after.get(name, 0.0)) for name in {**before, **after}]
    return tuple(sorted(parts, key=lambda part: -abs(part.growth)))


def _find_parts(window: Window) -> dict[str, float]:
    """Seconds of a mean request, by the name of what it waits for; of backends, by their own names."""
    waits = compute_waits(window, compute_flow(window))
    if waits is None or waits.per_request is None:
        return {}
    parts = {WAITS[state].name: seconds for state, seconds in waits.per_request.items()}
    backends = {each.name: each.per_request or 0.0 for each in waits.backends}
    rest = WAITS["backend"].name
    if rest in parts:
        parts[rest] = max(0.0, parts[rest] - sum(backends.values()))
    return {**parts, **backends}


def _find_functions(side: Side) -> dict[tuple[str, str], float]:
    """Seconds of a mean request, by the name of what it waits for and the function of the application."""
    code, time = side.code, compute_flow(side.window).response_time
    seconds: dict[tuple[str, str], float] = {}
    if code is None or code.off is not None or not code.threads or time is None:
        return seconds
    for use in code.lines:
        for state, looks in use.states.items():
            place = WAITS[state].name, use.line.function
            seconds[place] = seconds.get(place, 0.0) + time * looks / code.threads
    return seconds


def _name_function(
    part: DeployPart, before: Mapping[tuple[str, str], float], after: Mapping[tuple[str, str], float]
) -> DeployPart:
    """The part with the function in which most of its growth is; one that makes less than half of it is not named."""
    growths = {
        function: after.get((name, function), 0.0) - before.get((name, function), 0.0)
        for name, function in {**before, **after}
        if name == part.name and function
    }
    function = max(growths, key=lambda each: growths[each] * copysign(1.0, part.growth), default="")
    if not before or not after or not function or growths[function] / (part.growth or 1.0) < _MOST_OF_PART:
        return part
    return replace(part, function=function, function_growth=growths[function])


_CONTENDED: tuple[State, ...] = ("cpu_wait", "interpreter_lock")
_FULLEST = 0.95


def expect_time(before: Window, after: Window) -> float:
    """The factor by which the load alone changes the time of a request; 1 if it is not known what requests wait for.
    Those that compute wait for each other in proportion to u / (1 - u), where u is the share of the CPUs, or of their
    interpreter, that is in use (the M/M/1 queue with processor sharing: Kleinrock 1976)."""
    then, now, cpu = compute_flow(before), compute_flow(after), before.cpu
    waits = compute_waits(before, then)
    if waits is None or not waits.total or not then.throughput or not now.throughput:
        return 1.0
    served = [worker for worker in before.workers if worker.requests and worker.cpu_seconds is not None]
    computed = sum((worker.cpu_seconds or 0.0) * worker.requests for worker in served)  # each by its requests
    uses = [None, ratio(computed, before.seconds * sum(worker.requests for worker in served))]
    if cpu:
        taken = cpu.own_seconds + (cpu.others_seconds or 0.0)
        uses[0] = ratio(taken, taken + cpu.idle_seconds)
    load, factor = now.throughput / then.throughput, 1.0
    for state, use in zip(_CONTENDED, uses, strict=True):
        if use:
            used, later = min(use, _FULLEST), min(use * load, _FULLEST)
            factor += waits.share(state) * (later / (1 - later) * (1 - used) / used - 1)
    return max(0.1, factor)


def name_growth(parts: Sequence[DeployPart], change: float, most: int = 3) -> list[DeployPart]:
    """The parts that make up a change of so many seconds, most first: those that are at least a tenth of it."""
    return [part for part in parts if part.growth * change > 0 and abs(part.growth) >= 0.1 * abs(change)][:most]
