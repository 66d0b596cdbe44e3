"""Composes the lines about a server that every face shows: `check` prints them, `top` fits them, the page has them too.

Pure: a line is made of the server's document alone. Its parts follow each other, so that the first ones are a text by
themselves where there is no room for all.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from time import localtime, strftime

from msgspec.structs import asdict

from uwsgi_headroom.analysis.capacity import LIMITS, Headroom
from uwsgi_headroom.analysis.demand import write_at_once
from uwsgi_headroom.analysis.littles_law import EMPTY, NOTICED, stands_uncounted, waiting_clause
from uwsgi_headroom.analysis.objective import FAST_BURN, NOT_YET, Burn
from uwsgi_headroom.analysis.verdict import gives_out, usable_clause
from uwsgi_headroom.analysis.worker_states import ASYNC
from uwsgi_headroom.documents.schema import ServerDocument, Socket, TextLine, Threads, Tone
from uwsgi_headroom.documents.sentences import (
    describe_destinations,
    describe_first_act,
    describe_since,
    describe_stuck,
    describe_why_unjudged,
    list_causes,
    list_percentiles,
    list_routes,
    split_request_time,
    write_span,
)
from uwsgi_headroom.same_fields import given
from uwsgi_headroom.words.formats import chosen, duration, factor, fine_percent, in_queue, significant, whole
from uwsgi_headroom.words.states import LIMITS as LIMIT_WORDS
from uwsgi_headroom.words.states import STATUSES, WAITS
from uwsgi_headroom.words.template import Facts, fill

MATTERS = 4
"""The largest rank of a line that a person reads first; `check` prints the others only if they have a tone."""

_LEAST_SHARE, _NO_THREADS = 0.005, "0.0"
"""A share below which it reads 0 %, and a mean number that reads as none."""

_NONE = "1.0x"
"""A factor that is no headroom."""

_WAITING: dict[str | None, Tone] = {"noticed": "warning", "severe": "critical"}


def list_lines(server: ServerDocument) -> tuple[TextLine, ...]:
    """The lines in their order. Those of a server that is down have none of its old figures."""
    return tuple(filter(None, _list_lines(server)))


def _line(
    code: str, label: str, rank: int, parts: Sequence[str], facts: Facts | None = None, tone: Tone | None = None
) -> TextLine | None:
    """A line of the parts that are not empty. facts: fill the parts, which are texts without them."""
    known = tuple(filter(None, parts if facts is None else (fill(part, facts) for part in parts)))
    return TextLine(code=code, label=label, parts=known, tone=tone, rank=rank) if known else None


def _list_lines(server: ServerDocument) -> Iterator[TextLine | None]:
    yield _verdict(server)
    yield _line("act", "DO", 0, describe_first_act(server))
    yield from _list_notes(server)
    if server.state == "down" and server.kind == "server":
        parts = ("nothing", ": the server is down", "[before? ; {before:rate} before]")
        yield _line("served", "served", 1, parts, {"before": server.flow.throughput if server.flow else None})
    if server.state != "down" and server.kind == "server" and server.flow:
        yield from _list_figures(server)
    yield from _throttled(server)
    yield _line("source", "source", 4, _describe_source(server)) if server.source == "kernel" else None
    yield _identity(server)
    for unknown in server.unknown:
        yield _line("unknown", "not known", 30, ("{what}[socket?  of {socket}]", ": {why}"), asdict(unknown))


_NOTED = (
    *("client_errors", "redirects", "routing_ends_requests", "requests_rejected", "web_server_fails"),
    *("socket_gone", "socket_refuses", "socket_replaced", "server_errors", "exceptions", "waits_for_files"),
)
"""Findings that a person reads first where nothing is proven to be wrong: users may be hurt."""


def _list_notes(server: ServerDocument) -> Iterator[TextLine | None]:
    for finding in server.findings:
        if server.status == "ok" and finding.code in _NOTED:
            yield _line("note", "NOTE", 0, (finding.title, f" {finding.evidence}"))


_NO_STATS = (
    "the kernel alone",
    "; only uWSGI's stats count requests, their time, errors and lost workers",
    ": `uwsgi-headroom discover` prints how to turn them on",
)


def _describe_source(server: ServerDocument) -> Sequence[str]:
    if server.silent_since is None:
        return _NO_STATS
    return "the kernel", f": stats have not answered since {strftime('%H:%M:%S', localtime(server.silent_since))}"


def _list_figures(server: ServerDocument) -> Iterator[TextLine | None]:
    yield _users_wait(server)
    yield _served(server)
    yield from _time(server)
    yield _headroom(server)
    yield _limits(server)
    yield _objective(server)
    yield from map(_queue, sorted(server.sockets, key=lambda socket: -1 if socket.queue is None else -socket.queue))
    yield _response(server)
    yield _in_service(server)
    yield _line("routes", "routes", 7, _list_apart(list_routes(server.routes or ())))
    yield _line("queue_wait", "queue wait", 12, _list_queue_wait(server))
    yield _balance(server)
    yield _cpu(server)
    yield _memory(server)


def _verdict(server: ServerDocument) -> TextLine | None:
    words = STATUSES[server.status]
    label = words.word if server.state == "up" else server.state.upper()
    message = server.error.message if server.error and server.state == "down" else server.verdict
    tone: Tone = "critical" if server.state == "down" else server.status
    facts: Facts = {"message": message, "since": describe_since(server)}
    return _line("verdict", label, 0, ("{message}", "[since?  Since {since}.]"), facts, tone)


def _users_wait(server: ServerDocument) -> TextLine | None:
    flow = server.flow
    assert flow
    if flow.response_time is None:
        tone = _WAITING.get(flow.waiting) or _tone_of_standing(server)
        return _line("users_wait", "users wait", 0, _list_untimed(server), tone=tone)
    served, queued = flow.response_time, flow.queue_wait
    facts: Facts = {"served": served, "queued": queued, "floor": flow.wait_is_floor}
    facts["after"] = any(each.code == "works_after_response" for each in server.findings)
    in_service = "{served:duration}", " in service[after? , with the work after the response]"
    if queued is None or queued < EMPTY:
        queue = "; the [queued? listen queue is empty][not queued? wait in the listen queue is not known]"
        return _line("users_wait", "users wait", 0, (in_service[0], in_service[1] + queue), facts)
    facts["whole"] = whole([queued, served])
    sum_of = " = {queued:duration} in the listen queue[floor?  up to now] + "
    parts = ("[floor? at least ]{whole}", sum_of + "".join(in_service))
    return _line("users_wait", "users wait", 0, parts, facts, _WAITING.get(flow.waiting))


def _list_untimed(server: ServerDocument) -> list[str]:
    flow = server.flow
    assert flow
    if flow.requests is None and flow.queue_wait is not None:
        facts: Facts = {"floor": flow.wait_is_floor, "wait": flow.queue_wait}
        return [
            fill("[floor? at least ]{wait:duration} in the listen queue", facts),
            ", if they wait there; the time in service is unknown",
        ]
    if stands_uncounted(flow):
        return ["not known", f": {waiting_clause(flow)}"]
    if flow.requests and flow.littles_law is not None:
        is_empty = flow.queue_wait is not None and flow.queue_wait < EMPTY
        queued = ["the listen queue is empty"] if is_empty else ["".join(_list_queue_wait(server))]
        return ["not known: uWSGI does not time static files", *(f"; {each}" for each in queued if each)]
    ages = [worker.oldest_request_age or 0.0 for worker in server.workers]
    oldest = max([*ages, *[socket.oldest_wait or 0.0 for socket in server.sockets]], default=0.0)
    if oldest and flow.requests == 0:
        return [f"over {duration(oldest)}", " up to now; no request was completed"]
    return ["not known"]


def _tone_of_standing(server: ServerDocument) -> Tone | None:
    flow, threads = server.flow, server.threads
    is_standing = flow and flow.throughput == 0 and threads and threads.busy
    return server.status if is_standing and server.status in ("warning", "critical") else None


def _served(server: ServerDocument) -> TextLine | None:
    """What is served and what is not. Short requests are hardly ever seen, and long ones end in bunches."""
    flow, threads, window = server.flow, server.threads, server.window
    assert flow
    if flow.throughput is None and flow.requests is not None:
        return _line("served", "served", 1, ["not known"])
    available = _available(threads)
    full = max([socket.full or 0.0 for socket in server.sockets], default=0.0)
    waiting = sum(socket.mean_queue or 0.0 for socket in server.sockets)
    busy = max(flow.observed or 0.0, min(flow.littles_law or 0.0, available or 0.0))
    facts: Facts = {
        "rate": flow.throughput,
        "made": flow.connections,
        "at_once": flow.observed is not None and bool(available) and write_at_once(busy + waiting),
        "threads": available,
        "slots": _slots(server).removesuffix("s" * (available == 1)),
        "refused": flow.refused or None,
        "none": flow.refused == 0 and not full,
        "full": full or None,
        **{name: (window and getattr(window, name)) or None for name in ("exceptions", "harakiris", "reloads")},
    }
    parts = (
        "[rate? {rate:rate}][made? {made:rate} TCP connections; ][not rate? requests are not counted]",
        "[at_once? ; {at_once} at once for {threads:threads} {slots}]",
        "[refused? ; {refused:rate} turned away with retries]",
        "[full, not refused? ; queue full {full:percent} of the time]",
        "[none? ; none dropped at the queue]",
        "[exceptions? ; {exceptions:exception}]",
        "[harakiris? ; {harakiris} harakiri]",
        "[reloads? ; {reloads:reload}]",
    )
    return _line("served", "served", 1, parts, facts, _tone_of_refusal(server) or _tone_of_standing(server))


def _tone_of_refusal(server: ServerDocument) -> Tone | None:
    causes = {finding.code: finding.severity for finding in server.findings}
    harms = {harm.code: harm.severity for finding in server.findings for harm in finding.harms}
    severity = (causes | harms).get("clients_refused")
    return severity if severity in ("warning", "critical") else None


def _available(threads: Threads | None) -> float | None:
    if threads is None:
        return None
    return threads.available if threads.mean is None else threads.mean


def _slots(server: ServerDocument) -> str:
    return ASYNC if server.setup and server.setup.concurrency_kind == "async" else "threads"


def _time(server: ServerDocument) -> Iterator[TextLine | None]:
    waits = server.waits
    if waits is None:
        yield _line("time", "time", 12, _why_no_time(server))
        return
    time = split_request_time(waits, server.flow)
    if time is None:
        return
    sizes = [(part.size, part.backend or WAITS[part.state].name) for part in time.parts]
    named = [f"{size} {name}" for size, name in sizes if size != _NO_THREADS]
    if not named:
        return
    unit = " per request" if time.whole.per_request is not None else f" (mean {time.unit})"
    yield _line("time", "time", 2, [*_list_apart(named, ", "), unit])
    yield _line("stuck", "", 4, [describe_stuck(waits, time)])
    yield _line("outside", "", 4, _list_apart(describe_destinations(waits)))


def _why_no_time(server: ServerDocument) -> list[str]:
    """The first clause of the reason why the time is not known; none if the settings switch it off."""
    why = next((unknown.why for unknown in server.unknown if unknown.what == "waits"), "off:")
    return [] if why.startswith("off:") else ["not known", f": {why.partition(': ')[0]}"]


def _list_apart(texts: Sequence[str], mark: str = "; ") -> list[str]:
    return [text if place == 0 else f"{mark}{text}" for place, text in enumerate(texts)]


def _headroom(server: ServerDocument) -> TextLine | None:
    room, flow = server.headroom, server.flow
    if room is None or flow is None:
        return None
    waiting = flow.waiting in NOTICED
    usable = usable_clause(room.usable, room.factor, waiting=waiting)
    if room.other and room.first in (None, "other"):
        known = "not known" if room.factor is None else factor(room.factor)
        is_said = room.factor is not None and room.other.why in server.verdict
        why = f", then {LIMIT_WORDS['other'].outcome}" if is_said else f": {room.other.why}"
        return _line("headroom", "headroom", 3, [known, why])
    if room.first is None or room.factor is None:
        return _line("headroom", "headroom", 3, _why_no_headroom(room))
    facts: Facts = {
        "most": room.is_upper_bound,
        "factor": room.factor,
        "then": gives_out(room.first, _slots(server)),
        "usable": usable,
        "sleeps": room.sleeps and factor(room.factor) != _NONE,
    }
    parts = (
        "[most? at most ]{factor:factor}",
        ", then {then}",
        "[usable? ; {usable}]",
        "[sleeps? ; none if a rate limit or retries make requests wait]",
    )
    return _line("headroom", "headroom", 3, parts, facts)


def _why_no_headroom(room: Headroom) -> list[str]:
    if room.far and not room.no_requests:
        return ["over 100x", ": nearly idle"]
    return ["not known", fill("[none? : no requests yet]", {"none": room.no_requests})]


def _limits(server: ServerDocument) -> TextLine | None:
    room = server.headroom
    if room is None:
        return None
    known = sorted((room.by_limit[limit], limit) for limit in LIMITS if limit in room.by_limit)
    texts = [f"{LIMIT_WORDS[limit].name} {factor(value)}" for value, limit in known]
    texts += [f"{LIMIT_WORDS[limit].name} >100x" for limit in room.far]
    texts += [f"{LIMIT_WORDS[limit].name} seen, its limit is not known yet" for limit in room.unknown]
    return _line("limits", "limits", 10, _list_apart(texts, ", "))


def _objective(server: ServerDocument) -> TextLine | None:
    """Whether the objective is met, how much of the error budget burns, and at what load it is missed."""
    objective = server.objective
    if objective is None:
        return None
    unjudged = describe_why_unjudged(objective)
    missed = not unjudged and any((burn.rate or 0.0) > 1 for burn in objective.windows)
    facts: Facts = {
        "missed": missed,
        "unjudged": unjudged,
        "yet": unjudged == NOT_YET,
        "share": fine_percent(objective.objective, 5),
        "threshold": chosen(objective.threshold),
        "burn": "" if unjudged else _describe_burn(objective.windows),
        "wait": objective.queue_wait,
        "load": objective.load_multiple,
        "reached": objective.load_multiple_reached,
    }
    parts = (
        "[missed? missed][unjudged? not judged][yet?  yet][not missed, not unjudged? met]",
        ": {share} within {threshold}[unjudged, not yet? ; {unjudged}]",
        "[burn? ; {burn}]",
        "[burn, wait? ; queue wait {wait:duration}]",
        "[burn, load, reached? ; p95 reaches {threshold} at {load:factor} today's load]",
        "[burn, load, not reached? ; p95 stays under {threshold} up to {load:factor} today's load (the most seen in "
        "the last hour)]",
    )
    return _line("objective", "objective", 4, parts, facts, _tone_of_objective(server))


def _tone_of_objective(server: ServerDocument) -> Tone | None:
    """Where something is wrong, an objective that is missed now is a part of it: a budget that burns fast is critical,
    also in windows that are not full."""
    objective = server.objective
    if objective is None or describe_why_unjudged(objective):
        return None
    now = (objective.windows[0].rate or 0.0) if server.status != "ok" else 0.0
    if objective.level == "fast" or now >= FAST_BURN:
        return "critical"
    return "warning" if objective.level or now > 1 else None


def _describe_burn(windows: Sequence[Burn]) -> str:
    short, long = windows[0], windows[-1]
    facts: Facts = asdict(long) | {
        "missed": long.share or None,
        "span": write_span(long.seconds),
        "causes": "".join(f", {cause}" for cause in list_causes(long)),
        "rate": long.rate or 0.0,
        "recent": long.seconds > 1.2 * short.seconds and short.rate,
        "recently": write_span(short.seconds),
    }
    return fill(
        "[missed? {missed:fine_percent}][not missed? none] of {requests:request} missed it in the last {span}{causes} "
        "(burn rate {rate:mean}[recent? , {recent:mean} in the last {recently}])",
        facts,
    )


def _queue(socket: Socket) -> TextLine | None:
    if socket.queue is None:
        return _line("queue", "queue", 11, ("not known", ": {reason}", "  {name}"), asdict(socket))
    is_full = socket.limit is not None and socket.queue >= socket.limit
    facts: Facts = asdict(socket) | {
        "now": in_queue(socket.queue, socket.limit),
        "mean": given(socket.mean_queue, lambda mean: in_queue(mean, socket.limit)),
        "full": socket.full or None,
        "is_full": is_full,
        "oldest": socket.oldest_wait or None,
        "wait": socket.queue_wait or None,
    }
    parts = (
        "{now}[limit?  of {limit}]",
        "[mean?  ({mean} on average)]",
        "[full? , full {full:percent} of the time][is_full, not full? , full]",
        "[oldest? , oldest {oldest:duration}]",
        "[wait? , mean wait ][wait, wait_is_floor? at least ][wait? {wait:duration}]",
        "  {name}",
    )
    tone: Tone | None = "critical" if is_full else "warning" if socket.full else None
    return _line("queue", "queue", 5, parts, facts, tone)


def _response(server: ServerDocument) -> TextLine | None:
    """The percentiles, the 95th first."""
    section = server.response_times
    if section is None:
        return None
    texts = list(list_percentiles(section))
    texts.sort(key=lambda text: not text.has_95)
    parts = [part for place, text in enumerate(texts) for part in (f"{', ' if place else ''}{text.value}", text.range)]
    pace = section.interval > 0 and significant(1 / section.interval, 2)
    how = "; inside uWSGI, percentiles estimated from [pace? {pace} ]samples[pace?  a second]"
    return _line("response", "response", 5, [*parts, fill(how, {"pace": pace})])


def _in_service(server: ServerDocument) -> TextLine | None:
    flow, threads = server.flow, server.threads
    assert flow
    if threads is None:
        return None
    stuck = threads.stuck or None
    full = (server.occupancy.full if server.occupancy else None) or 0.0
    facts: Facts = asdict(threads) | {
        "observed": flow.observed,
        "mean": _available(threads),
        "slots": _slots(server),
        "law": flow.littles_law,
        "stuck": stuck,
        "full": full >= _LEAST_SHARE and full,
        "configured": threads.configured != threads.available and threads.configured,
    }
    parts = (
        "[observed? {observed:mean}][not observed? not known]",
        "[observed, mean?  of {mean:threads} {slots}]",
        "[law? , {law:mean} by Little's law]",
        "[busy? , {busy} now]",
        "[stuck? , {stuck} for over {stuck_seconds:chosen}]",
        "[full? ; all busy {full:percent} of the time]",
        "[held? ; kept connections hold more]",
        "[configured? ; {configured} configured]",
    )
    is_alarm = stuck and _slots(server) != ASYNC
    return _line("in_service", "in service", 5, parts, facts, "critical" if is_alarm else None)


def _list_queue_wait(server: ServerDocument) -> list[str]:
    flow, known = server.flow, server.queue_waits
    oldest = max([socket.oldest_wait or 0.0 for socket in server.sockets], default=0.0)
    waited = fill("[oldest? ; the oldest has waited for {oldest:duration}]", {"oldest": oldest or None})
    if flow is None or flow.queue_wait is None:
        return [waited.removeprefix("; ")]
    shown = known if known and any(each.seconds for each in known.percentiles) else None
    percentiles = [f"{text.value}{text.range}" for text in list_percentiles(shown)] if shown else []
    if flow.queue_wait < EMPTY and not oldest and not percentiles:
        return []
    left = percentiles[: flow.wait_is_floor]  # the clients that gave up are among them
    facts: Facts = {"floor": flow.wait_is_floor, "wait": flow.queue_wait, "several": len(server.sockets) > 1}
    parts = (
        "[floor? at least ]{wait:duration}",
        " in the listen queue[several? , over all sockets][floor?  up to now, on average over those served and "
        "waiting][left? ; of those that have left it {left}]",
    )
    first = [fill(part, facts | {"left": "".join(left)}) for part in parts]
    return [*first, *(f", {each}" for each in percentiles[len(left) :]), waited]


def _balance(server: ServerDocument) -> TextLine | None:
    balance = server.balance
    if balance is None or not balance.hot_ratio or balance.hottest is None:
        return None
    facts: Facts = {
        "id": balance.hottest,
        "ratio": f"{balance.hot_ratio:.2f}",
        "even": balance.even_share,
        "chance": balance.noise_floor and f"{balance.noise_floor:.2f}",
        "partly": [worker.worker_id for worker in server.workers if worker.accepting and not worker.active],
    }
    parts = (
        "worker {id}",
        " takes {ratio}x an even share of the requests[even?  ({even:percent})]",
        "[chance? ; chance alone explains up to {chance}x]",
        "[partly? ; {partly:worker} {partly:was|were} not up all the time]",
    )
    return _line("balance", "busiest", 13, parts, facts)


def _cpu(server: ServerDocument) -> TextLine | None:
    used, host = server.cpu, server.host
    if used is None:
        return None
    facts: Facts = asdict(used) | {"cpus": host and host.cpus}
    parts = (
        "{idle:cpu}[cpus?  of {cpus:threads}] idle",
        ", {own:cpu} used by the workers",
        "[others? , {others:cpu} by other programs]",
    )
    return _line("cpu", "CPUs", 14, parts, facts)


def _memory(server: ServerDocument) -> TextLine | None:
    room = server.host.memory if server.host else None
    if room is None or room.more_workers is None:
        return None
    parts = ("{more_workers:more worker}", " would fit: {available:bytes} available, {per_worker:bytes} each")
    return _line("memory", "memory", 15, parts, asdict(room))


def _throttled(server: ServerDocument) -> Iterator[TextLine | None]:
    for vassal in server.emperor.throttled if server.emperor else ():
        parts = ("{name}", "[attempts? , {attempts:attempt}]", "[delay? , the next in {delay:duration}]")
        yield _line("throttled", "throttled", 1, parts, asdict(vassal), "warning")


def _identity(server: ServerDocument) -> TextLine | None:
    identity = server.identity
    if identity is None:
        return None
    facts: Facts = asdict(identity) | {"up": server.state == "up" and identity.uptime}
    parts = (
        "[pid? master PID {pid:plain}]",
        "[up? , up {up:duration}]",
        "[host? , on {host}]",
        "[application? , app {application}]",
        "[configuration_file? , config {configuration_file}]",
        "[working_directory? , directory {working_directory}]",
        "[emperor_pid? , vassal of PID {emperor_pid:plain}]",
    )
    known = [text for part in parts if (text := fill(part, facts))]
    return _line("identity", "uWSGI", 9, [known[0].removeprefix(", "), *known[1:]]) if known else None
