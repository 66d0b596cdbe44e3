"""Writes parts of a server's document for people: times, percentiles, first acts, code, routes."""

from __future__ import annotations

import re
import time
from collections.abc import Iterable, Iterator, Sequence
from math import isinf
from statistics import median
from typing import Literal, NamedTuple

from msgspec import Struct
from msgspec.structs import asdict, replace

from uwsgi_headroom.analysis.destinations import DestinationFigures
from uwsgi_headroom.analysis.findings import WAITED, first_act
from uwsgi_headroom.analysis.littles_law import Flow
from uwsgi_headroom.analysis.objective import Burn, Objective
from uwsgi_headroom.analysis.percentiles import SHARES, Percentile, ResponseTimes, find_percentile
from uwsgi_headroom.analysis.shortages import is_hardly_any_idle
from uwsgi_headroom.analysis.wait_states import MOSTLY, WaitFigures
from uwsgi_headroom.documents.schema import FindingSection, ServerDocument
from uwsgi_headroom.documents.subjects import Code, CodeLine, Route
from uwsgi_headroom.record import State
from uwsgi_headroom.words.formats import code_place, counted, duration, mean_count, percent, significant
from uwsgi_headroom.words.states import WAITS
from uwsgi_headroom.words.template import Facts, fill

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
    of_files = flow is not None and flow.completed > 0 and flow.littles_law is not None
    if waits.total <= 0 or (of_files and waits.total < _LEAST_OF_FILES and waits.states[0].per_request is None):
        return None
    every = list(_list_parts(waits))
    whole = sum(map(_weight, every))
    parts = [part for part in every if _weight(part) >= _NEGLIGIBLE * whole]
    large = [part for part in parts if _weight(part) >= _LEAST_SHARE * whole and part.state != "other"]
    rest = [part for part in parts if part not in large]
    named = sorted(large, key=lambda part: -_weight(part))
    time = RequestTime(_add(every), (*named, _add(rest)) if rest else tuple(named))
    if flow is not None and flow.requests is None:
        return replace(time, why="as requests are not counted")
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


_HOUR = 3600.0


def describe_percentile(percentile: Percentile, *, interval: bool = True) -> str:
    """Write a percentile: `480 ms (450 to 520)`, or `under 160 ms` if samples show no more. interval: with the range
    that contains it in 19 of 20 cases."""
    value, span = _write_percentile(percentile)
    return f"{value}{span * interval}"


def _write_percentile(percentile: Percentile) -> tuple[str, str]:
    """Write a percentile, and the range in brackets that contains it in 19 of 20 cases."""
    low, high = _rounded(percentile.low), "" if isinf(percentile.high) else _rounded(percentile.high)
    if percentile.seconds is None:
        bound = _rounded(percentile.under or percentile.high)
        return f"under {bound}", fill("[wide?  (up to {high})]", {"wide": high != bound, "high": high})
    value = _rounded(percentile.seconds)
    if isinf(percentile.high):
        return value, f" ({low} or more)"
    if not percentile.low:
        return value, f" (up to {high})"
    number, _, unit = low.partition(" ")
    if " " not in unit and value.endswith(f" {unit}") and high.partition(" ")[2] == unit:
        low, high = number, high.removesuffix(f" {unit}")
    return value, f" ({low} to {high})"


class PercentileText(NamedTuple):
    """Percentiles with the same figure. value: such as `p95 480 ms`; range: such as ` (450 to 520)`, may be empty;
    has_95: whether the 95th is one of them."""

    value: str
    range: str
    has_95: bool


def list_percentiles(section: ResponseTimes) -> Iterator[PercentileText]:
    """Write the percentiles, the smallest first. Beside a lower percentile that is only known to be below a bound, a
    higher one has no estimate below that bound, but its range."""
    texts: dict[tuple[str, str], list[float]] = {}
    bound = 0.0
    for share in sorted(SHARES):
        percentile = find_percentile(section, share)
        if percentile is None:
            text = "-", f" (only {counted(section.requests, 'request')})"
        elif percentile.seconds is None or percentile.seconds >= bound:
            text = _write_percentile(percentile)
        else:
            low, high = _rounded(percentile.low), _rounded(percentile.high)
            text = f"{low} to {high}" if percentile.low else f"under {high}", ""
        if percentile is not None and percentile.seconds is None:
            bound = max(bound, percentile.under or percentile.high)
        texts.setdefault(text, []).append(share)
    for (value, span), shares in texts.items():
        names = " to ".join(dict.fromkeys(f"p{100 * share:g}" for share in (shares[0], shares[-1])))
        yield PercentileText(f"{names} {value}", span, 0.95 in shares)


def describe_first_act(server: ServerDocument) -> list[str]:
    """Write the first thing to do about a server, and what it promises, such as `Raise threads from 4 to 7` and `; at
    least 65.1/s are served then`; empty if nothing has to be done."""
    problem = _find_first_problem(server)
    promise = fill(
        "[serves? ; at least {serves:rate} are served then]", {"serves": problem.serves if problem else None}
    )
    return [find_first_act(server), promise]


def describe_since(server: ServerDocument) -> str:
    """Write since when a server has been as it is, such as `16:16:02 UTC (4 min)`; empty if that is not known, or
    if it is ok. Only an exporter knows it."""
    if server.state == "down":
        since = next((event.time for event in server.events if event.kind == "server_down"), None)
        since = None if since is not None and server.time - since < _NEW else since
    else:
        is_bad = server.findings and server.status in ("warning", "critical")
        since = find_since(server, server.findings[0]) if is_bad else None
    return "" if since is None else write_moment(since, server.time)


def find_since(server: ServerDocument, finding: FindingSection) -> float | None:
    """The epoch seconds from which on a finding has held; None if that is not known, as if it has since the server is
    watched: then it most likely began before."""
    watched = server.sampling.observed_seconds + server.sampling.gap_seconds
    if finding.since is None or server.time - finding.since > watched - _FIRST_JUDGED:
        return None
    return finding.since


def write_moment(moment: float, now: float) -> str:
    """Write a time of day and how long ago it is, such as `16:16:02 UTC (4 min)`; of another day with its date."""
    form = "%H:%M:%S %Z" if now - moment < _HALF_A_DAY else "%d %b %H:%M %Z"
    return f"{time.strftime(form, time.localtime(moment))} ({duration(max(0.0, now - moment))})"


_HALF_A_DAY = 43_200.0

_FIRST_JUDGED = 60.0
"""Seconds of a server's history, at most, after which its findings are judged for the first time."""

_NEW = 1.0
"""Seconds: `check` itself sees a server go down when it first reads it, which says nothing of since when it is."""


def describe_why_unjudged(objective: Objective) -> str:
    """Say why the burn rate is not known, as the end of a sentence; empty if it is known."""
    if objective.unjudged:
        return objective.unjudged.removeprefix("not judged: ")
    if not objective.windows:
        return "no window is full yet"
    window = objective.windows[-1]
    if window.rate is not None:
        return ""
    return f"only {window.requests} requests in the last {write_span(window.seconds)}"


def list_causes(burn: Burn) -> list[str]:
    """Say why requests missed the objective other than by being slow in service, such as `3 lost with their worker`."""
    causes = (round(burn.waited), WAITED), (burn.lost, "lost with their worker"), (burn.refused, "refused")
    return [f"{number} {what}" for number, what in causes if number]


def write_span(seconds: float) -> str:
    """Write the length of a window of an objective: `hour`, `5 min`."""
    return "hour" if round(seconds, -2) == _HOUR else duration(seconds)


def _rounded(seconds: float) -> str:
    """Write seconds with two digits: estimates have no more."""
    return duration(float(significant(seconds, 2)))


_LEAST_PART = 0.2
"""Share of the time of a line of code from which on what it waits for is named."""


def describe_code_line(line: CodeLine) -> str:
    """Write where a line of code is and what it waits for: `get (shop/orders.py:3), in execute: backend
    10.0.0.5:5432`."""
    where = "".join(f" {address}" for address in line.addresses[:1])
    waits = ", ".join(
        f"{WAITS[each.state].name}{where * (each.state in OUTSIDE)}"
        for each in line.states
        if each.share >= _LEAST_PART * line.share
    )
    if not line.line:
        return f"outside of Python code: {waits}"
    facts: Facts = {"place": code_place(line.function, line.file, line.line), "callee": line.callee, "waits": waits}
    return fill("{place}[callee? , in {callee}]: {waits}", facts)


_LEAST_REST = 0.005


def describe_code_rest(code: Code, shown: int) -> str:
    """Write what is not in the first lines of code, such as `12 % in other lines, 3.0 % not readable`, if anything."""
    known = sum(line.share for line in code.lines[:shown])
    rest = [(1 - known - code.unread, "in other lines"), (code.unread, "not readable"), (code.changed, "dropped")]
    return ", ".join(f"{percent(part)} {what}" for part, what in rest if part > _LEAST_REST)


_MOST = 3

_LEAST_ROUTE_SHARE = 0.03


def list_routes(routes: Sequence[Route]) -> list[str]:
    """Write the routes with the most busy threads, such as `POST /export 61 % of the busy threads, oldest 14 s` and
    `GET / 20 %`; empty if no thread was busy. The names are not escaped."""
    shown = [route for route in routes if route.share >= _LEAST_ROUTE_SHARE][:_MOST]
    more = len(routes) - len(shown)
    template = "{route} {share:percent}[first?  of the busy threads][oldest? , oldest {oldest:duration}]"
    parts = [
        fill(template, {**asdict(route), "first": route is shown[0], "oldest": route.oldest_seconds}) for route in shown
    ]
    return [*parts, f"{more} more"] if shown and more else parts


def list_problems(server: ServerDocument) -> list[FindingSection]:
    """The findings that make the status of a server, worst first; none for one that is not read."""
    return [finding for finding in server.findings if finding.severity != "info"] if server.state == "up" else []


_NO_ROOM = 1.15
"""Headroom below which it reads 1.1x or less. Without a finding, others use the CPUs."""


def lacks_host_only(server: ServerDocument) -> bool:
    """Whether what a server lacks is the host's, and nothing else, so that no setting of its uWSGI helps."""
    if problems := list_problems(server):
        return all(problem.of_host for problem in problems)
    room, host = server.headroom, server.host
    is_last = room is not None and room.first == "cpu" and room.factor is not None and room.factor < _NO_ROOM
    return server.state == "up" and is_last and host is not None and host.limited_by == "host"


def find_first_act(server: ServerDocument) -> str:
    """The first thing to do about a server, without its full stop, maybe with backticks; empty if there is nothing."""
    if server.state == "down":
        return first_act(server.error.change) if server.error else ""
    problem = _find_first_problem(server)
    return shorten_act(first_act(problem.change)) if problem else ""


def _find_first_problem(server: ServerDocument) -> FindingSection | None:
    """Of what is equally severe, what its own settings can solve comes before what its host lacks."""
    problems = [problem for problem in list_problems(server) if problem.change]
    return min(problems, key=lambda each: (each.severity != "critical", each.of_host), default=None)


def shorten_act(act: str) -> str:
    """Leave out reasons and examples at the end of an act that is long, but no part of a command."""
    while len(act) > _LONGEST_ACT and (ends := list(_END.finditer(act))):
        act = act[: ends[-1].start()]
    return act


_LONGEST_ACT = 100
"""Characters, which are hardly more than a line of a terminal."""

_END = re.compile(r"(?:: |\. | \(| to (?:see|find) )(?=[^`]*(?:`[^`]*`[^`]*)*$)")


def describe_full_host(servers: Iterable[ServerDocument]) -> str | None:
    """What the host lacks whose CPUs are all in use, who uses them, and what to do: said once for all servers on it.
    None while CPUs are idle, or if fewer than two servers can use all of them."""
    found = [
        (server, server.host.cpus, server.cpu)
        for server in servers
        if server.state == "up" and server.cpu and server.host and server.host.cpus and server.host.limited_by == "host"
    ]
    if len(found) < _LEAST_SERVERS or len({cpus for _, cpus, _ in found}) > 1:
        return None
    cpus, idle = found[0][1], median(cpu.idle for *_, cpu in found)
    if not is_hardly_any_idle(idle, cpus):
        return None
    own = sum(cpu.own for *_, cpu in found)
    names = {server.identity.host for server, *_ in found if server.identity}
    waiting = sum(any(problem.of_host for problem in list_problems(server)) for server, *_ in found)
    facts: Facts = {"name": len(names) == 1 and names.pop(), "waiting": waiting or None, "servers": len(found)}
    return fill(
        "[name? {name}: ]CPUs are full[waiting? : {waiting:server} {waiting:waits|wait} for a CPU]. Of {cpus:CPU}, the "
        "workers of these {servers:plain} servers use {own:mean}, and other programs {others:mean}.[waiting?  Add "
        "CPUs, or move load to another host.]",
        {**facts, "cpus": round(cpus), "own": own, "others": max(0.0, cpus - own - idle)},
    )


_LEAST_SERVERS = 2
