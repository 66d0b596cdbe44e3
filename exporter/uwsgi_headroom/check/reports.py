"""Writes verdicts as text of 80 columns without colour, as JSON, and as the line of a monitoring plugin.

The text of one server begins with what is wrong, what to do and what users feel, then has the figures behind it and
each finding; of several servers, it has a line for each, worst first, with what to do first below it, then the details
of any problem. The JSON is each server's document, as in the exporter's API, over the time that it was watched.
"""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Iterator, Sequence

import msgspec

from uwsgi_headroom import __version__
from uwsgi_headroom.analysis.capacity import LIMITS
from uwsgi_headroom.analysis.littles_law import NOTICED
from uwsgi_headroom.analysis.shortages import UNLESS_LIMITED
from uwsgi_headroom.analysis.verdict import ALREADY, WITH_MORE, gives_out, name_other
from uwsgi_headroom.analysis.worker_states import ASYNC
from uwsgi_headroom.check.failure import Performance, render_label, render_line
from uwsgi_headroom.check.request import WORST_FIRST, Threshold, Thresholds, find_worst
from uwsgi_headroom.documents.request_time import describe_destinations, describe_stuck, split_request_time
from uwsgi_headroom.documents.response_times import ResponseTimes, find_percentile
from uwsgi_headroom.documents.schema import Finding, Flow, Headroom, Server
from uwsgi_headroom.documents.sentences import (
    describe_code_line,
    describe_code_rest,
    describe_first_act,
    describe_full_host,
    describe_objective,
    describe_queue_wait,
    describe_routes,
    describe_served,
    describe_since,
    describe_total_time,
    find_first_act,
    find_since,
    lacks_host_only,
    list_percentiles,
    percentile_name,
    write_moment,
)
from uwsgi_headroom.documents.waits import Code, Waits
from uwsgi_headroom.documents.what_if import PredictedLoad, PredictedSetting, WhatIf
from uwsgi_headroom.documents.workers import Worker
from uwsgi_headroom.terminal_text import bar, cut_lines, escape_text, wrap
from uwsgi_headroom.words.formats import (
    amount,
    byte_size,
    counted,
    duration,
    factor,
    fit_duration,
    in_queue,
    mean_count,
    percent,
    rate,
    significant,
)
from uwsgi_headroom.words.states import LIMITS as LIMIT_WORDS
from uwsgi_headroom.words.states import WAITS, WORKERS

WIDTH = 80


def render_lines(server: Server) -> Iterator[str]:
    """Write the whole report; for a server that was not judged, the reason. Its first eight lines are enough to act:
    what is wrong and since when, what to do, what users wait, and where the time goes."""
    yield from _wrap(_identify(server), indent=("", "  "))
    yield from _wrap(f"{' '.join(filter(None, (server.status.upper(), describe_since(server))))}  {server.verdict}")
    if act := describe_first_act(server):
        yield from _section("DO", act)
    if server.state != "up":
        return
    if server.flow and server.headroom:
        yield from _felt(server, server.flow)
        yield ""
        yield from _figures(server, server.flow, server.headroom)
        yield ""
        yield from _workers(server)
    if server.code:
        yield ""
        yield from _code(server.code)
    yield from _emperor(server)
    for place, finding in enumerate(server.findings, 1):
        yield ""
        yield from _finding(place, finding, server)
    if not_known := [each for each in server.unknown if each.what not in _NO_LOSS]:
        yield ""
        for each in not_known:
            of = f" of {each.socket}" if each.socket else ""
            yield from _section("not known", f"{each.what}{of}: {each.why}")
    if server.what_if:
        yield ""
        yield from _what_if(server.what_if)


_NO_LOSS = ("figures", "residency")
"""What is not known and no reader of a report misses."""


def _identify(server: Server) -> str:
    """Say which server it is, and for how long it was watched."""
    if not server.version or server.state != "up":
        return f"{server.name}  {server.address}"
    host = f" on {server.identity.host}" if server.identity and server.identity.host else ""
    window = f"watched for {duration(server.window.seconds)}" if server.window else server.kind
    return f"{server.name}  uWSGI {server.version}{host}, {server.address}, {window}"


def _felt(server: Server, flow: Flow) -> Iterator[str]:
    """Write what users feel, and where the time of a request goes."""
    for name, text in (("users wait", describe_total_time(server)), ("served", describe_served(server))):
        yield from _section(name, text or "not known")
    if server.waits:
        yield from _time(server.waits, flow)


def _figures(server: Server, flow: Flow, room: Headroom) -> Iterator[str]:
    slots = ASYNC if server.setup and server.setup.concurrency_kind == "async" else "threads"
    if server.response_times:
        yield from _response_times(server.response_times, flow.response_time)
    if wait := describe_queue_wait(server):
        yield from _section("queue wait", wait)
    if server.objective:
        yield from _section("objective", describe_objective(server.objective))
    if routes := describe_routes(server.routes or ()):
        yield from _section("routes", "; ".join(route.replace(" ", "\u00a0") for route in routes))
    if server.threads and server.threads.configured is not None:
        capacity = counted(server.threads.configured, slots[:-1])
        held = "; kept connections hold some of these between requests" if server.threads.held else ""
        yield from _section("capacity", f"{capacity} configured, {server.threads.available} available{held}")
    ways = [(flow.observed, "observed"), (flow.littles_law, "by Little's law")]
    known = ", ".join(f"{mean_count(value)} {how}" for value, how in ways if value is not None)
    yield f"  concurrency  {known or 'not known'}"
    if headroom := _headroom(room, slots):
        yield from _section("headroom", headroom)
    values = {limit: getattr(room.by_limit, limit) for limit in LIMITS}
    others = [f"{LIMIT_WORDS[limit].name} {factor(value)}" for limit, value in values.items() if value is not None]
    others += [f"{LIMIT_WORDS[limit].name} >100x" for limit in room.far]
    others += [f"{LIMIT_WORDS[limit].name} seen, its limit is not known yet" for limit in room.unknown]
    if others:
        others = [limit.replace(" ", "\u00a0") for limit in others]
        yield from _wrap(", ".join(others), indent=(" " * 15, " " * 15))
    if room.usable is not None:
        yield f"  usable       {_usable(room.usable, waiting=flow.waiting in NOTICED)}"
    for socket in server.sockets:
        if socket.mean_queue is not None:
            waiting = f"{in_queue(socket.mean_queue, socket.limit)} waiting on average, {socket.limit} fit"
            yield f"  queue        {waiting}   {socket.name}"


def _headroom(room: Headroom, slots: str) -> str | None:
    if room.other and room.first in (None, "other"):
        return name_other(room.factor, room.other)
    if room.first and room.factor is not None:
        most = "at most " if room.is_upper_bound else ""
        unless = UNLESS_LIMITED if room.sleeps else ""
        return f"{most}{factor(room.factor)}, then {gives_out(room.first, slots)}{unless}"
    if room.no_requests:
        return "not known: no requests yet"
    return "nearly idle" if room.far else None


def _usable(factor_: float, *, waiting: bool) -> str:
    """The usable headroom, as the end of a line. waiting: whether requests wait noticeably now."""
    if factor_ > 1:
        return f"{factor(factor_)}, then requests begin to wait"
    return f"none: {ALREADY if waiting else WITH_MORE}"


def _response_times(section: ResponseTimes, mean: float | None) -> Iterator[str]:
    parts = [] if mean is None else [f"mean {duration(mean)}"]
    parts = [part.replace(" ", "\u00a0") for part in (*parts, *list_percentiles(section))]
    pace = significant(1 / section.interval, 2) if section.interval > 0 else ""
    samples = f"{pace} {'sample' if pace == '1' else 'samples'} a second" if pace else "samples"
    yield from _section("response", f"{', '.join(parts)}; inside uWSGI, percentiles estimated from {samples}")


def _section(name: str, text: str) -> list[str]:
    return _wrap(text, indent=(f"  {name:13}", " " * 15))


def _time(waits: Waits, flow: Flow) -> Iterator[str]:
    time = split_request_time(waits, flow)
    if time:
        parts = [f"{part.size} {part.backend or WAITS[part.state].name}".replace(" ", "\u00a0") for part in time.parts]
        stuck = describe_stuck(waits, time)
        yield from _section("time", f"{time.whole.size} {time.unit}: {', '.join(parts)}{f'; {stuck}' if stuck else ''}")
        if outside := describe_destinations(waits):
            yield from _wrap("; ".join(outside), indent=(" " * 15, " " * 15))


def _workers(server: Server) -> Iterator[str]:
    workers = server.workers
    even = (server.balance and server.balance.even_share) or 0.0
    longest = max((worker.response_time or 0.0 for worker in workers), default=0.0)
    largest = max([worker.share or 0.0 for worker in workers] + [even or 1.0])
    yield "  worker  share of requests    response time        interpreter load"
    for worker in workers:
        yield (
            f"  {worker.worker_id:>6}  "
            + "  ".join(
                (
                    _column(worker.share, largest, percent(worker.share or 0.0)),
                    _column(worker.response_time, longest, fit_duration(worker.response_time or 0.0, 7)),
                    _column(worker.interpreter_load, 1.0, f"{worker.interpreter_load or 0.0:.2f}"),
                    _state(worker),
                )
            ).rstrip()
        )
    if server.balance and server.balance.active > 1:
        others = any(worker.share and not worker.active for worker in workers)
        yield f"          (even: {percent(even)} each{', of those up all the time' if others else ''})"
    if any(_state(worker) == _PARTLY for worker in workers):
        yield f"          ({_PARTLY}: not up all the time)"


_PARTLY = "partly"


def _state(worker: Worker) -> str:
    """Why a worker cannot be compared with the others, in at most seven letters: the line has no room for more."""
    if worker.active:
        return ""
    return _PARTLY if worker.accepting else WORKERS[worker.state].short


def _column(value: float | None, of: float, text: str) -> str:
    return f"{'-':>7} {'':11}" if value is None else f"{text:>7} {bar(value, of, 11):11}"


_MOST_CODE_LINES = 5


def _code(code: Code) -> Iterator[str]:
    """Write the lines of code that take the most time."""
    if code.why is not None:
        yield from _wrap(f"Code: not known. {code.why[:1].upper()}{code.why[1:]}.")
        return
    if not code.threads:
        yield f"Code: no thread was busy in {counted(code.samples, 'sample')}."
        return
    yield from _wrap(f"Code, by {counted(round(code.threads), 'sample')} of busy threads:")
    for line in code.lines[:_MOST_CODE_LINES]:
        time = "" if line.per_request is None else fit_duration(line.per_request, 8)
        yield from _wrap(describe_code_line(line), indent=(f"  {time:>8} {percent(line.share):>6}  ", " " * 19))
    if rest := describe_code_rest(code, _MOST_CODE_LINES):
        yield from _wrap(f"{rest}.", indent=("  ", "  "))


def _emperor(server: Server) -> Iterator[str]:
    if not server.emperor or not server.emperor.throttled:
        return
    yield ""
    for vassal in server.emperor.throttled:
        attempts = "" if vassal.attempts is None else f", {counted(vassal.attempts, 'attempt')}"
        delay = "" if vassal.delay is None else f", the next in {duration(vassal.delay)}"
        yield from _wrap(f"throttled  {vassal.name}{attempts}{delay}", indent=("  ", "    "))


def _finding(place: int, finding: Finding, server: Server) -> Iterator[str]:
    yield from _wrap(f"{place}. {finding.severity.upper()}: {finding.title}", indent=("", "   "))
    since = find_since(server, finding)
    if since is not None:
        yield f"   Since {write_moment(since, server.time)}."
    for text in (*[harm.evidence for harm in finding.harms], finding.evidence, finding.meaning):
        yield from _wrap(text, indent=("   ", "   "))
    if finding.change:
        yield from _wrap(finding.change, indent=("   -> ", "      "))


def _wrap(text: str, indent: tuple[str, str] = ("", "")) -> list[str]:
    return wrap(text, WIDTH, *indent)


_TOO_MUCH = "too much"
_NOT_KNOWN = "unknown"
_HEAD = "  {:<10}{:>9}  {:<12}"
_TIME = "{:>14}"
_MEMORY = "{:>9}"


def _what_if(document: WhatIf) -> Iterator[str]:
    """Write the section; for a refusal, its reason."""
    if document.refusal is not None:
        yield from _wrap(f"What if: not known. {document.refusal}")
        return
    today = [document.today] if document.today and not any(each.is_observed for each in document.predictions) else []
    rows = [*today, *document.predictions]
    loads = rows[0].loads if rows else ()
    yield "What if (mean times with the wait in the listen queue; *: the observed setting)"
    yield (
        _HEAD.format("", "most", "limited")
        + "".join(_TIME.format(f"at {rate(at.throughput)}") for at in loads)
        + _MEMORY.format("")
    ).rstrip()
    yield _HEAD.format("setting", "req/s", "by") + _TIME.format("time") * len(loads) + _MEMORY.format("memory")
    for row in rows:
        yield _row(row).rstrip()
    yield ""
    sentences = [document.check.sentence] if document.check else []
    sentences += [row.memory_sentence for row in rows if row.memory_sentence]
    for sentence in (*sentences, *document.cautions):
        yield from _wrap(sentence, ("  ", "  "))


def _row(row: PredictedSetting) -> str:
    name = f"{row.setting}{'*' if row.is_observed else ''}"
    memory = "-" if row.memory is None else byte_size(row.memory)
    times = "".join(_TIME.format(_total_time(at)) for at in row.loads)
    return (
        _HEAD.format(name, amount(row.most_throughput), LIMIT_WORDS[row.limit].short) + times + _MEMORY.format(memory)
    )


def _total_time(at: PredictedLoad) -> str:
    if not at.sustained:
        return _TOO_MUCH
    return _NOT_KNOWN if at.total_time is None else fit_duration(at.total_time, 7)


def count_statuses(judged: Sequence[Server]) -> str:
    """Return such as `4 servers: 1 critical, 1 unknown, 2 ok`."""
    count = Counter(server.status for server in judged)
    parts = ", ".join(f"{count[status]} {status}" for status in WORST_FIRST if count[status])
    return f"{counted(len(judged), 'server')}: {parts}"


def describe_headroom(server: Server) -> str:
    """Return `1.2x`, `>100x`, or `-` if headroom is unknown."""
    if server.state != "up" or server.headroom is None:
        return "-"
    if server.headroom.factor is None:
        return ">100x" if server.headroom.far else "-"
    return factor(server.headroom.factor)


_LONGEST_NAME = 24


def render_list(judged: Sequence[Server]) -> Iterator[str]:
    """Write the whole report."""
    yield f"{find_worst(server.status for server in judged).upper()}  {count_statuses(judged)}"
    full = _describe_full_hosts(judged)
    for sentence in full.values():
        yield from _wrap(sentence, indent=("", "  "))
    yield ""
    names = [escape_text(server.name) for server in judged]
    width = min(_LONGEST_NAME, max(map(len, names)))
    for name, server in zip(names, judged, strict=True):
        yield from _line(name, server, width)
        act = "" if lacks_host_only(server) and _host_of(server) in full else find_first_act(server)
        if act and server.status != "ok":
            yield from cut_lines(_wrap(act, indent=(f"{'':8}  DO  ", "")), 1)
    for server in judged:
        if (
            server.status != "ok" or server.what_if
        ) and server.state == "up":  # for the others, the line above is complete
            yield ""
            yield "-" * WIDTH
            yield from render_lines(server)


def _describe_full_hosts(judged: Sequence[Server]) -> dict[str | None, str]:
    """What each host lacks whose CPUs are all in use, by its name: said once for all servers on it."""
    hosts: dict[str | None, list[Server]] = {}
    for server in judged:
        hosts.setdefault(_host_of(server), []).append(server)
    found = ((host, describe_full_host(servers)) for host, servers in hosts.items())
    return {host: sentence for host, sentence in found if sentence}


def _host_of(server: Server) -> str | None:
    return server.identity.host if server.identity else None


def _line(name: str, server: Server, width: int) -> Iterator[str]:
    begin = f"{server.status.upper():8}  {name:{width}}  {describe_headroom(server):>5}  "
    indent = " " * (8 + 2 + width + 2 + 5 + 2)
    if len(name) > width:
        yield f"{server.status.upper():8}  {name}"
        begin = f"{'':8}  {'':{width}}  {describe_headroom(server):>5}  "
    yield from wrap(server.verdict, WIDTH, begin, indent)


def render_json(judged: Sequence[Server], *, single: bool) -> str:
    """Write one JSON document in ASCII: the server's own if the request names a single server, else a list with the
    worst status."""
    if single:
        return json.dumps(_to_builtins(judged[0]), indent=2)
    whole = {
        "time": time.time(),
        "version": __version__,
        "status": find_worst(server.status for server in judged),
        "verdict": count_statuses(judged),
        "host": " ".join(_describe_full_hosts(judged).values()) or None,
        "servers": [_to_builtins(server) for server in judged],
    }
    return json.dumps(whole, indent=2)


def _to_builtins(server: Server) -> object:
    return msgspec.to_builtins(server, str_keys=True)


_MOST_NAMED = 3
"""How many servers' verdicts the line contains; a pager shows no more."""


def render_report(judged: Sequence[Server], thresholds: Thresholds) -> str:
    """Write the line. With several servers, labels begin with the server's name: `shop.headroom`."""
    several = len(judged) > 1
    figures = [
        figure
        for server in judged
        for figure in _list_figures(server, thresholds, f"{render_label(server.name)}." if several else "")
    ]
    status = find_worst(server.status for server in judged)
    return render_line(status, _summarize(judged) if several else f"{judged[0].name}: {judged[0].verdict}", figures)


def _summarize(judged: Sequence[Server]) -> str:
    troubled = [server for server in judged if server.status != "ok"]
    named = [f"{server.name}: {server.verdict.removesuffix('.')}" for server in troubled[:_MOST_NAMED]]
    more = [f"and {len(troubled) - _MOST_NAMED} more"] if len(troubled) > _MOST_NAMED else []
    return "; ".join((count_statuses(judged), *named, *more))


def _list_figures(server: Server, thresholds: Thresholds, prefix: str) -> Iterator[Performance]:
    """List the figures of a readable server: always the same ones, since a graph's file has a fixed number."""
    if server.state != "up":
        return
    if server.emperor:
        yield Performance(f"{prefix}vassals", len(server.emperor.vassals))
        yield Performance(f"{prefix}throttled_vassals", len(server.emperor.throttled))
    elif server.router:
        yield Performance(f"{prefix}active_sessions", server.router.active_sessions)
    else:
        yield from _list_flow(server, thresholds, prefix)


def _list_flow(server: Server, thresholds: Thresholds, prefix: str) -> Iterator[Performance]:
    flow, room, threads = server.flow, server.headroom, server.threads
    yield Performance(
        f"{prefix}headroom", room.factor if room else None, "", *_ranges(thresholds.min_headroom, "{:g}:")
    )
    yield Performance(f"{prefix}throughput", flow.throughput if flow else None)
    yield Performance(
        f"{prefix}response_time",
        flow.response_time if flow else None,
        "s",
        *_ranges(thresholds.max_response_time, "{:g}"),
    )
    yield Performance(
        f"{prefix}queue_wait", flow.queue_wait if flow else None, "s", *_ranges(thresholds.max_queue_wait, "{:g}")
    )
    yield Performance(
        f"{prefix}concurrency", flow.observed if flow else None, most=threads.available if threads else None
    )
    yield Performance(f"{prefix}interpreter_lock_waiters", _count_lock_waiters(server))
    for share, limits in ((0.95, thresholds.max_p95), (0.99, thresholds.max_p99)):
        percentile = find_percentile(server.response_times, share)
        seconds = percentile.seconds if percentile else None
        yield Performance(f"{prefix}response_time_{percentile_name(share)}", seconds, "s", *_ranges(limits, "{:g}"))
    if server.objective:
        burn = server.objective.windows[-1] if server.objective.windows and not server.objective.unjudged else None
        yield Performance(f"{prefix}objective_missed_share", burn.share if burn else None, most=1)
        yield Performance(f"{prefix}objective_burn_rate", burn.rate if burn else None)


def _count_lock_waiters(server: Server) -> float | None:
    """Return the mean number of threads that wait for the interpreter lock of their worker."""
    if server.waits is None:
        return None
    return sum(state.threads for state in server.waits.states if state.state == "interpreter_lock")


def _ranges(limits: Threshold, form: str) -> tuple[str, str]:
    """Return the ok ranges for warning and for critical."""
    warning, critical = ("" if limit is None else form.format(limit) for limit in (limits.warning, limits.critical))
    return warning, critical
