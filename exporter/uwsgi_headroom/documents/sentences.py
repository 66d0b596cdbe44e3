"""Writes sections of a server's document for people: percentiles, waits, the objective, code and routes.

`top` and `check` show these texts, so that they are the same everywhere.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Iterable, Iterator, Sequence
from statistics import median

from uwsgi_headroom.analysis.demand import write_at_once
from uwsgi_headroom.analysis.findings import WAITED, first_act
from uwsgi_headroom.analysis.littles_law import EMPTY
from uwsgi_headroom.analysis.percentiles import SHARES
from uwsgi_headroom.analysis.shortages import is_hardly_any_idle
from uwsgi_headroom.analysis.worker_states import ASYNC
from uwsgi_headroom.documents.request_time import OUTSIDE
from uwsgi_headroom.documents.response_times import Burn, Objective, Percentile, ResponseTimes, find_percentile
from uwsgi_headroom.documents.schema import Finding, Server
from uwsgi_headroom.documents.waits import Code, CodeLine, Route
from uwsgi_headroom.words.formats import (
    chosen,
    code_place,
    counted,
    duration,
    factor,
    fine_percent,
    mean_count,
    mean_threads,
    percent,
    rate,
    significant,
)
from uwsgi_headroom.words.states import WAITS
from uwsgi_headroom.words.template import Facts, fill

POINT_INTERVALS = 2.0
"""Times between two samples from which on an estimate may be shown without its interval."""

_HOUR = 3600.0

_NO_BREAK = "\u00a0"  # for `terminal_text.wrap`, which turns it into a space


def percentile_name(share: float) -> str:
    """Return the name of a percentile: 0.95 is `p95`."""
    return f"p{100 * share:g}"


def describe_percentile(percentile: Percentile, *, interval: bool = True, to: str = " to ") -> str:
    """Write a percentile: `480 ms (450 to 520)`, or `under 160 ms` if samples show no more. interval: with the range
    that contains it in 19 of 20 cases; to: between the ends of that range."""
    low, high = _rounded(percentile.low), _rounded(percentile.high)
    if percentile.seconds is None:
        bound = _rounded(percentile.under or percentile.high)
        return f"under {bound} (up to {high})" if interval and high != bound else f"under {bound}"
    value = _rounded(percentile.seconds)
    if not interval:
        return value
    if not percentile.low:
        return f"{value} (up to {high})"
    number, _, unit = low.partition(" ")
    if " " not in unit and value.endswith(f" {unit}") and high.partition(" ")[2] == unit:
        low, high = number, high.removesuffix(f" {unit}")
    return f"{value} ({low}{to}{high})"


def list_percentiles(
    section: ResponseTimes, shares: Collection[float] = SHARES, *, short: bool = False
) -> Iterator[str]:
    """Write these percentiles, such as `p95 480 ms (450 to 520)`. Neighbours with the same text are one. short: without
    the interval of those that are long enough for a point estimate, and with the others as `300-360`. Beside a lower
    percentile that is only known to be below a bound, a higher one has no estimate below that bound, but its range."""
    texts: list[tuple[str, list[str]]] = []
    bound = 0.0
    for share in sorted(shares):
        percentile = find_percentile(section, share)
        if percentile is None:
            text = f"- (only {counted(section.requests, 'request')})"
        elif percentile.seconds is None or percentile.seconds >= bound:
            text = _describe(percentile, section, short)
        else:
            text = _describe_range(percentile, short)
        if percentile is not None and percentile.seconds is None:
            bound = max(bound, percentile.under or percentile.high)
        if texts and texts[-1][0] == text:
            texts[-1][1].append(percentile_name(share))
        else:
            texts.append((text, [percentile_name(share)]))
    for text, names in texts:
        yield f"{' to '.join(dict.fromkeys((names[0], names[-1])))} {text}"


def describe_queue_wait(server: Server) -> str:
    """Write how long requests wait, such as `507 ms in the listen queue, p50 498 ms (490 to 512), ...; the oldest has
    waited for 812 ms`; empty if it is not known, or if the queue is empty. Percentiles are left out where samples show
    none of them."""
    flow, known = server.flow, server.queue_waits
    oldest = max([socket.oldest_wait or 0.0 for socket in server.sockets], default=0.0)
    waited = [f"the oldest has waited for {duration(oldest)}"] if oldest else []
    if flow is None or flow.queue_wait is None:
        return "".join(waited)
    parts = list(list_percentiles(known)) if known and any(each.seconds for each in known.percentiles) else []
    if flow.queue_wait < EMPTY and not oldest and not parts:
        return ""
    left = parts[: flow.wait_is_floor]  # the clients that gave up are among them
    facts: Facts = {"floor": flow.wait_is_floor, "wait": flow.queue_wait, "several": len(server.sockets) > 1}
    wait = fill(
        "[floor? at least ]{wait:duration} in the listen queue[several? , over all sockets][floor?  up to now, on "
        "average over those served and waiting][left? ; of those that have left it {left}]",
        facts | {"left": "".join(left)},
    )
    return "; ".join([", ".join([wait, *parts[len(left) :]]), *waited])


def describe_total_time(server: Server) -> str:
    """Write what users wait, in the order in which they do, such as `690 ms = 508 ms in the listen queue + 182 ms in
    service`, or for how long the oldest has waited if no request was completed; empty if nothing is known."""
    flow = server.flow
    if flow is None or flow.response_time is None:
        return _describe_untimed(server)
    if flow.queue_wait is None:
        return f"{duration(flow.response_time)} in service; the wait in the listen queue is not known"
    if flow.queue_wait < EMPTY:
        return f"{duration(flow.response_time)} in service; the listen queue is empty"
    served, queued = duration(flow.response_time), f"{duration(flow.queue_wait)} in the listen queue"
    total = duration(flow.response_time + flow.queue_wait)  # documents of 1.0.0 have no `total_time`
    if flow.wait_is_floor:
        return f"at least {total} = {queued} up to now + {served} in service"
    return f"{total} = {queued} + {served} in service"


def _describe_untimed(server: Server) -> str:
    """What is known of how long users wait, if no request has a time in service."""
    flow = server.flow
    if flow and flow.requests and flow.littles_law is not None:
        is_empty = flow.queue_wait is not None and flow.queue_wait < EMPTY
        queued = "the listen queue is empty" if is_empty else describe_queue_wait(server)
        return "; ".join(filter(None, ["uWSGI does not time static files", queued]))
    ages = [worker.oldest_request_age or 0.0 for worker in server.workers]
    oldest = max([*ages, *[socket.oldest_wait or 0.0 for socket in server.sockets]], default=0.0)
    is_seen = oldest and flow and not flow.requests
    return f"over {duration(oldest)} up to now; no request was completed" if is_seen else ""


def describe_served(server: Server) -> str:
    """Write what is served and what is not, such as `37.0/s; 48 at once for 8 threads; 43.0/s turned away with
    retries`; empty if it is not known."""
    flow, threads = server.flow, server.threads
    if flow is None or flow.throughput is None:
        return ""
    parts = [rate(flow.throughput)]
    available = (threads.available if threads.mean is None else threads.mean) if threads else None
    if flow.observed is not None and available:
        slots = ASYNC if server.setup and server.setup.concurrency_kind == "async" else "threads"
        waiting = sum(socket.mean_queue or 0.0 for socket in server.sockets)
        # Short requests are hardly ever seen, and long ones end in bunches.
        busy = max(flow.observed, min(flow.littles_law or 0.0, available))
        parts.append(f"{write_at_once(busy + waiting)} at once for {mean_threads(available)} {slots}")
    full = max(server.sockets, key=lambda socket: socket.full or 0.0, default=None)
    if flow.refused:
        parts.append(f"{rate(flow.refused)} turned away with retries")
    elif full and full.full:
        parts.append(f"queue full {percent(full.full)} of the time")
    elif flow.refused == 0:
        parts.append("none turned away")
    return "; ".join(parts)


def describe_first_act(server: Server) -> str:
    """Write the first thing to do about a server, and what it promises, such as `Raise threads from 4 to 7: there are
    7.7 requests at once for 8 threads; at least 65.1/s are served then`; empty if nothing has to be done."""
    act = find_first_act(server)
    promised = (each.serves for each in list_problems(server) if each.change and first_act(each.change) == act)
    serves = next(promised, None)
    return fill("{act}[serves? ; at least {serves:rate} are served then]", {"act": act, "serves": serves})


def describe_since(server: Server) -> str:
    """Write since when a server has been as it is, such as `since 16:16:02 UTC (4 min)`; empty if that is not known, or
    if it is ok. Only an exporter knows it."""
    if server.state == "down":
        since = next((event.time for event in server.events if event.kind == "server_down"), None)
    else:
        worst = server.findings[0] if server.findings and server.status in ("warning", "critical") else None
        since = find_since(server, worst) if worst else None
    if since is None or (server.state == "down" and server.time - since < _NEW):
        return ""
    return f"since {write_moment(since, server.time)}"


def find_since(server: Server, finding: Finding) -> float | None:
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


def describe_objective(objective: Objective) -> str:
    """Write how the objective is kept, such as `99 % within 1 s: 1.8 % missed it in the last hour (burn rate 1.8),
    queue wait 2.0 ms; p95 reaches 1 s at 1.6x today's load`, or why it is not judged."""
    aim = f"{fine_percent(objective.objective, 5)} within {chosen(objective.threshold)}"
    unjudged = objective.unjudged or _why_too_few(objective)
    if unjudged:
        return f"{aim}, {unjudged}"
    wait = fill("[wait? , queue wait {wait:duration}]", {"wait": objective.queue_wait})
    return f"{aim}: {_describe_burn(objective.windows)}{wait}{_describe_load(objective)}"


def _describe(percentile: Percentile, section: ResponseTimes, short: bool) -> str:
    is_point = percentile.seconds is None or percentile.seconds >= POINT_INTERVALS * section.interval
    return describe_percentile(percentile, interval=not (short and is_point), to="-" if short else " to ")


def _describe_range(percentile: Percentile, short: bool) -> str:
    low, high = _rounded(percentile.low), _rounded(percentile.high)
    return f"{low}{'-' if short else ' to '}{high}" if percentile.low else f"under {high}"


def _why_too_few(objective: Objective) -> str:
    """Return why the burn rate is not known, as the end of a sentence; empty if it is known."""
    if not objective.windows:
        return "not judged yet"
    window = objective.windows[-1]
    if window.rate is not None:
        return ""
    return f"not judged: only {window.requests} requests in the last {_span(window.seconds)}"


def _describe_burn(windows: tuple[Burn, ...]) -> str:
    """Write the burn over the long window, and the rate over the short one where it is another."""
    short, long = windows[0], windows[-1]
    rate = f"burn rate {mean_count(long.rate or 0.0)}".replace(" ", _NO_BREAK)
    if short.rate is not None and long.seconds > 1.2 * short.seconds:
        rate += f", {mean_count(short.rate)} in the last {_span(short.seconds)}"
    missed = fine_percent(long.share) if long.share else "none"
    parts = [f"{missed} missed it in the last {_span(long.seconds)}", *list_causes(long)]
    return f"{', '.join(parts)} ({rate})"


def list_causes(burn: Burn) -> list[str]:
    """Say why requests missed the objective other than by being slow in service, such as `3 lost with their worker`."""
    causes = (round(burn.waited), WAITED), (burn.lost, "lost with their worker"), (burn.refused, "refused")
    return [f"{number} {what}" for number, what in causes if number]


def _describe_load(objective: Objective) -> str:
    if objective.load_multiple is None:
        return ""
    threshold, load = chosen(objective.threshold), f"{factor(objective.load_multiple)} today's load"
    if objective.load_multiple_reached:
        return f"; p95 reaches {threshold} at {load}"
    return f"; p95 stays under {threshold} up to {load} (the most seen in the last hour)"


def _span(seconds: float) -> str:
    return "hour" if round(seconds, -2) == _HOUR else duration(seconds)


def _rounded(seconds: float) -> str:
    """Write seconds with two digits: estimates have no more."""
    return duration(float(significant(seconds, 2)))


_LEAST_PART = 0.2
"""Share of the time of a line of code from which on what it waits for is named."""


def describe_code_line(line: CodeLine) -> str:
    """Write where a line of code is and what it waits for, such as `query_orders (shop/orders.py:3), in execute:
    backend 10.0.0.5:5432`."""
    where = f" {line.addresses[0]}" if line.addresses else ""
    waits = ", ".join(
        f"{WAITS[each.state].name}{where if each.state in OUTSIDE else ''}"
        for each in line.states
        if each.share >= _LEAST_PART * line.share
    )
    if not line.line:
        return f"outside of Python code: {waits}"
    callee = f", in {line.callee}" if line.callee else ""
    return f"{code_place(line.function, line.file, line.line)}{callee}: {waits}"


_LEAST_REST = 0.005


def describe_code_rest(code: Code, shown: int) -> str:
    """Write what is not in the first lines of code, such as `12 % in other lines, 3.0 % not readable`; empty if there
    is nothing."""
    known = sum(line.share for line in code.lines[:shown])
    rest = [(1 - known - code.unread, "in other lines"), (code.unread, "not readable"), (code.changed, "dropped")]
    return ", ".join(f"{percent(part)} {what}" for part, what in rest if part > _LEAST_REST)


_MOST = 3

_LEAST_ROUTE_SHARE = 0.03


def describe_routes(routes: Sequence[Route]) -> list[str]:
    """Write the routes with the most busy threads, such as `POST /export 61 % of the busy threads, oldest 14 s` and
    `GET / 20 %`; empty if no thread was busy. The names are not escaped."""
    shown = [route for route in routes if route.share >= _LEAST_ROUTE_SHARE][:_MOST]
    more = len(routes) - len(shown)
    parts = [_describe_route(route, " of the busy threads" if route is shown[0] else "") for route in shown]
    return [*parts, f"{more} more"] if shown and more else parts


def _describe_route(route: Route, of: str) -> str:
    oldest = "" if route.oldest_seconds is None else f", oldest {duration(route.oldest_seconds)}"
    return f"{route.route} {percent(route.share)}{of}{oldest}"


def list_problems(server: Server) -> list[Finding]:
    """The findings that make the status of a server, worst first; none for one that is not read."""
    return [finding for finding in server.findings if finding.severity != "info"] if server.state == "up" else []


_NO_ROOM = 1.15
"""Headroom below which it reads 1.1x or less. Without a finding, others use the CPUs."""


def lacks_host_only(server: Server) -> bool:
    """Whether what a server lacks is the host's, and nothing else, so that no setting of its uWSGI helps."""
    if problems := list_problems(server):
        return all(problem.of_host for problem in problems)
    room, host = server.headroom, server.host
    is_last = room is not None and room.first == "cpu" and room.factor is not None and room.factor < _NO_ROOM
    return server.state == "up" and is_last and host is not None and host.limited_by == "host"


def find_first_act(server: Server) -> str:
    """The first thing to do about a server, without its full stop, maybe with backticks; empty if there is nothing.
    Of what is equally severe, what its own settings can solve comes before what its host lacks."""
    if server.state == "down":
        return first_act(server.error.change) if server.error else ""
    acts = sorted(
        (problem for problem in list_problems(server) if problem.change),
        key=lambda each: (each.severity != "critical", each.of_host),
    )
    return first_act(acts[0].change) if acts else ""


def describe_full_host(servers: Iterable[Server]) -> str | None:
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
