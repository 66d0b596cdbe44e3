"""Builds the documents of a watch from its last reading and its history; does no I/O."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from urllib.parse import quote

import msgspec
from msgspec.structs import replace

from uwsgi_headroom import __version__
from uwsgi_headroom.analysis.figures import Figures
from uwsgi_headroom.analysis.findings import RUNBOOKS, Finding
from uwsgi_headroom.analysis.littles_law import ratio
from uwsgi_headroom.analysis.percentiles import find_percentile
from uwsgi_headroom.analysis.verdict import Status, say_verdict, verdict_sentence, worst_status
from uwsgi_headroom.analysis.wait_states import list_gaps
from uwsgi_headroom.analysis.worker_states import count_workers_sharing_one_cpu
from uwsgi_headroom.clock import Clock
from uwsgi_headroom.config.servers import printable_name
from uwsgi_headroom.documents import schema, sections
from uwsgi_headroom.documents.deploys import build_deploy
from uwsgi_headroom.documents.lines import list_lines
from uwsgi_headroom.documents.sections import build_identity, build_setup
from uwsgi_headroom.documents.sentences import describe_full_host, find_first_act, lacks_host_only
from uwsgi_headroom.documents.subjects import build_code, build_emperor, build_router, build_routes, build_workers
from uwsgi_headroom.errors import BlindError, DamagedError, NoSocketError, NotStartedError, ReadError, StillRunsError
from uwsgi_headroom.history.events import Event
from uwsgi_headroom.history.window import SERVER
from uwsgi_headroom.reading import Reading, describe_server
from uwsgi_headroom.record import ServerRecord
from uwsgi_headroom.same_fields import copy_fields, given
from uwsgi_headroom.stats import EmperorSnapshot, RouterSnapshot, Snapshot
from uwsgi_headroom.watch.observation import WELL, ExporterHealth
from uwsgi_headroom.watch.watch import Watch
from uwsgi_headroom.words.formats import counted
from uwsgi_headroom.words.states import BLIND, DAMAGED, FAILURES, STILL_RUNS

SERVERS_PATH = "/api/v2/servers"

Cursor = tuple[float, int]
"""A place in a journal: the time and the id of an event."""

NEWEST: Cursor = (float("inf"), 0)
"""The place from which a journal begins."""

FindEarlier = Callable[[float, Cursor, int], Awaitable[list[Event]]]
"""Finds the latest events since a time (epoch seconds) and before a place, at most this many, newest first."""

LATEST_EVENTS = 20
"""Number of events in the document of a server."""


def build_server(
    watch: Watch,
    clock: Clock,
    window: float,
    windows: Sequence[float],
    also: Sequence[Finding] = (),
    *,
    with_lines: bool = True,
) -> schema.ServerDocument:
    """Build the document of a server, with figures over its last `window` seconds. windows: those that can be
    requested; also: findings beside those about this window; with_lines: the lines for people cost 0.5 ms.

    If a bug in this package raises an error, the document shows it as a failed read.
    """
    try:
        shown = watch.shown
        server = _build_server(shown, shown.reading, clock, window, windows, also)
        if shown is not watch:
            events = watch.recorder.journal.latest(LATEST_EVENTS)
            server = replace(server, address=printable_name(str(watch.address)), events=events)
        return replace(server, lines=list_lines(server)) if with_lines else server
    except Exception as error:  # noqa: BLE001 - one server's failure must not affect others
        fault = watch.reader.fault(error)
        return replace(
            _build_server(watch, None, clock, window, windows),
            state="down",
            error=_build_error(fault, watch.name),
            status="unknown",
            verdict=describe_trouble(fault),
        )


def _build_server(
    watch: Watch,
    reading: Reading | None,
    clock: Clock,
    window: float,
    windows: Sequence[float],
    also: Sequence[Finding] = (),
) -> schema.ServerDocument:
    figures = next(iter(watch.figures(reading, (window,))), None) if reading else None
    judged = [*watch.judged(figures, reading), *also] if figures and reading else []
    judged += watch.judge_emperor(reading) if reading else []
    status, verdict = _judge(watch, figures, judged)
    document = schema.ServerDocument(
        name=watch.name,
        address=printable_name(str(watch.address)),
        path=server_path(watch.name),
        time=clock.epoch(),
        state=watch.state,
        error=_build_error(watch.error, watch.name),
        status=status,
        verdict=verdict,
        windows=tuple(schema.Covered(asked=length, seconds=watch.history.covered(length)) for length in windows),
        findings=tuple(_build_finding(finding, watch) for finding in judged),
        sampling=copy_fields(
            schema.Sampling,
            *(watch.pace, watch.integrals.totals, watch.reading),
            history_seconds=watch.history.seconds,
        ),
        events=watch.recorder.journal.latest(LATEST_EVENTS),
        kept_history=given(
            watch.writer,
            lambda writer: schema.KeptHistory(since=writer.since.get(watch.name), problem=writer.problem or None),
        ),
        deploy=build_deploy(watch, clock.epoch()),
    )
    if reading:
        document = _add_reading(document, watch, reading, figures, clock.monotonic())
    return _add_figures(document, figures) if figures else document


def build_past(name: str, time: float, figures: Figures) -> schema.ServerDocument:
    """Build the document of a server at the end of a time in the past (epoch seconds) of which only figures are known,
    with its lines. What a reading shows, and findings, are absent."""
    window, samples = figures.window, sum(figures.window.occupancy)
    document = schema.ServerDocument(
        name=name,
        address="",
        path="",
        time=time,
        state="up",
        kind="server",
        status="unknown",
        verdict=verdict_sentence(figures.headroom, ()),
        windows=(),
        findings=(),
        sampling=copy_fields(
            schema.Sampling,
            window,
            interval=ratio(window.observed_seconds, samples) or 0.0,
            samples=samples,
            history_seconds=window.seconds,
        ),
        threads=schema.Threads(
            configured=figures.configured, available=figures.available, busy=None, stuck=None, mean=figures.threads
        ),
        sockets=tuple(
            schema.Socket(name=socket, measurable=True, mean_queue=ratio(area, window.observed_seconds))
            for socket, area in window.queue_seconds.items()
        ),
    )
    document = _add_figures(document, figures)
    return replace(document, lines=list_lines(document))


def _add_reading(
    document: schema.ServerDocument, watch: Watch, reading: Reading, figures: Figures | None, now: float
) -> schema.ServerDocument:
    """Add what the last reading shows, to which the figures belong. now: monotonic."""
    snapshot = reading.snapshot
    document = replace(
        document,
        read_at=reading.time,
        age=max(0.0, now - reading.at),
        kind=snapshot.kind,
        version=snapshot.version,
        setup=given(reading.host.setup, build_setup),
        identity=build_identity(reading),
    )
    if isinstance(snapshot, EmperorSnapshot):
        return replace(document, emperor=build_emperor(snapshot, reading.time))
    if isinstance(snapshot, RouterSnapshot):
        return replace(document, router=build_router(snapshot))
    record = figures.server if figures else describe_server(reading)
    if record is None:
        return document
    totals = watch.integrals.totals
    return replace(
        document,
        source=snapshot.source,
        silent_since=given(record.silence, lambda silence: silence.since),
        threads=sections.build_threads(reading, record, watch.stuck_seconds, figures),
        workers=tuple(build_workers(reading, record, figures, totals)),
        sockets=tuple(sections.build_sockets(record, figures, totals)),
        host=_build_host(reading, record),
        thunder_lock=record.thunder_lock,
        unknown=tuple(_list_unknowns(watch, reading, record, figures)),
    )


def _add_figures(document: schema.ServerDocument, figures: Figures) -> schema.ServerDocument:
    same = ("headroom", "flow", "balance", "cpu", "waits", "response_times", "queue_waits", "objective")
    return replace(
        document,
        **{name: getattr(figures, name) for name in same},
        window=copy_fields(schema.WindowSection, figures.window, **({} if figures.window.is_counted else _UNCOUNTED)),
        occupancy=sections.build_occupancy(figures.window),
        routes=given(figures.routes, lambda routes: build_routes(routes, figures.server)),
        code=given(figures.code, lambda code: build_code(code, figures.flow.response_time)),
    )


_UNCOUNTED = {row.name: None for row in SERVER if row.counter}
"""uWSGI's own counters in a window, where they are not known."""


def explain_failure(error: ReadError) -> tuple[str, str]:
    """What a failed read means for users, and what to do. A path of anything but a socket is a wrong address, although
    its reason is that of a missing file: nothing has to be started."""
    if isinstance(error, NotStartedError) and error.change:
        return FAILURES[error.reason][0], error.change
    if isinstance(error, DamagedError):
        return DAMAGED
    if isinstance(error, BlindError):
        return BLIND
    if isinstance(error, StillRunsError):
        return STILL_RUNS[error.reason]
    return FAILURES["not_uwsgi" if isinstance(error, NoSocketError) else error.reason]


def _build_error(error: ReadError | None, server: str) -> schema.Error | None:
    if error is None:
        return None
    message, (harm, change) = printable_name(str(error)), explain_failure(error)
    runbook = runbook_path("was_down", server)
    return schema.Error(reason=error.reason, message=message, harm=harm, change=change, runbook=runbook)


def _judge(watch: Watch, figures: Figures | None, judged: Sequence[Finding]) -> tuple[Status, str]:
    """A server's status, and its verdict in a sentence. judged: the findings of its last reading, worst first."""
    if trouble := _find_trouble(watch):
        return "unknown", trouble
    if figures:
        return worst_status(judged), say_verdict(figures, judged)
    match watch.reading and watch.reading.snapshot:
        case EmperorSnapshot(vassals=vassals):
            state = "none is throttled" if vassals else "no application runs"
            plain = f"Emperor with {counted(len(vassals), 'vassal')}; {state}."
            return worst_status(judged), judged[0].title if judged else plain
        case RouterSnapshot(lacks_nodes=True):
            return "warning", "Router without a living node: start one, or let it subscribe."
        case RouterSnapshot() as router:
            return "ok", f"Router with {counted(router.active_sessions, 'open connection')}."
    return "unknown", "No figures yet: they need two readings, a second apart."


def _find_trouble(watch: Watch) -> str | None:
    if watch.error:
        return describe_trouble(watch.error)
    if watch.reading is None:
        return "Not read yet: the first reading is under way."
    return "No answer for a while: these are the last figures." if watch.state == "stale" else None


def describe_trouble(error: ReadError) -> str:
    message = printable_name(str(error))
    what = "Down" if error.reason in ("refused", "not_found") else "Cannot be read"
    return f"{what}: {message}{'' if message.endswith('?') else '.'}"


async def build_servers(
    watches: Iterable[Watch], clock: Clock, window: float, windows: Sequence[float]
) -> list[schema.ServerDocument]:
    """Build the documents of several servers, without lines. Lets other tasks run in between."""
    servers = []
    for watch in watches:
        servers.append(build_server(watch, clock, window, windows, with_lines=False))
        await asyncio.sleep(0)  # reads in flight have a deadline
    return servers


def build_server_list(
    documents: Iterable[schema.ServerDocument], clock: Clock, health: ExporterHealth = WELL
) -> schema.Servers:
    documents = list(documents)
    return schema.Servers(
        time=clock.epoch(),
        version=__version__,
        servers=tuple(sorted(map(_build_summary, documents), key=urgency)),
        patterns=tuple(health.patterns),
        not_watched=tuple(health.not_watched or ()),
        host=describe_full_host(documents),
    )


def extract_findings(server: schema.ServerDocument) -> schema.Findings:
    return msgspec.convert(server, schema.Findings, from_attributes=True)


def server_path(name: str) -> str:
    """Return the path of a server's document in the API. The name may itself be a path."""
    return f"{SERVERS_PATH}/{quote(name, safe='')}"


_STATES = ("down", "stale", "up")
_PROBLEMS = ("critical", "warning")


def natural(name: str) -> tuple[tuple[int, str], ...]:
    """Sort key of names in any case: numbers in them by their value, so that shop2 comes before shop10."""
    parts = [part.lstrip("0") if at % 2 else part for at, part in enumerate(re.split("([0-9]+)", name.casefold()))]
    return tuple((len(part) if at % 2 else 0, part) for at, part in enumerate(parts))


def urgency(server: schema.Summary) -> tuple[int, int, int, float, tuple[tuple[int, str], ...], str]:
    """Sort key of lists: servers that are down first, then those with a problem that their own settings can solve, then
    those that only lack what their host lacks, then the others; within each, the worst, then the least headroom first.
    """
    problem = _PROBLEMS.index(server.status) if server.status in _PROBLEMS else None
    return (
        _STATES.index(server.state),
        2 if problem is None else int(server.of_host),
        problem or 0,
        float("inf") if server.headroom is None else server.headroom,
        natural(server.name),
        server.name,
    )


def _build_summary(server: schema.ServerDocument) -> schema.Summary:
    return copy_fields(
        schema.Summary,
        server,
        server.headroom,
        server.flow,
        server.threads,
        server.identity,
        headroom=given(server.headroom, lambda headroom: headroom.factor),
        p95=find_percentile(server.response_times, 0.95),
        threads=given(server.threads, lambda threads: threads.mean),
        act=find_first_act(server),
        of_host=lacks_host_only(server),
    )


def runbook_path(code: str, server: str) -> str | None:
    name = RUNBOOKS.get(code)
    return f"/runbooks/{name}?server={quote(server, safe='')}" if name else None


async def build_journal(
    watch: Watch,
    clock: Clock,
    seconds: float,
    limit: int,
    before: Cursor = NEWEST,
    find_earlier: FindEarlier | None = None,
) -> schema.JournalDocument:
    """Build the document with the latest `limit` events of the last `seconds` that are older than `before`.
    find_earlier: finds those of a history file."""
    now = clock.epoch()
    since = now - seconds
    known = watch.recorder.journal.since(since)
    events = [event for event in known if (event.time, event.id) < before][: limit + 1]
    if find_earlier and len(events) <= limit:
        oldest = min([event.since for event in known], default=now)
        events += await find_earlier(since, min(before, (oldest, 0)), limit + 1 - len(events))
    last = events[limit - 1] if len(events) > limit else None
    return schema.JournalDocument(
        name=watch.name,
        time=now,
        since=since,
        events=tuple(events[:limit]),
        next=f"{last.time!r},{last.id}" if last else None,
    )


def judge_again(document: schema.ServerDocument, figures: Figures, judged: Sequence[Finding]) -> schema.ServerDocument:
    """Judge a document anew by the figures of its window and their findings, worst first. A finding that it has gives
    the new one of its code what a watch remembered: since when, the event, and, as its evidence, how it began."""
    before = {kept.code: (kept.evidence, kept.since, kept.event) for kept in document.findings}
    findings = [_describe_finding(each, document.name, *before.get(each.code, ("", None, None))) for each in judged]
    status, verdict = worst_status(judged), say_verdict(figures, judged)
    document = replace(_add_figures(document, figures), status=status, verdict=verdict, findings=tuple(findings))
    return replace(document, lines=list_lines(document))


def _build_finding(finding: Finding, watch: Watch) -> schema.FindingSection:
    recorder, kind = watch.recorder, finding.kind.event
    beginning, since = recorder.describe_beginning(finding), recorder.hold.since(finding.code)
    return _describe_finding(finding, watch.name, beginning, since, recorder.journal.latest_of(kind) if kind else None)


def _describe_finding(
    finding: Finding, server: str, beginning: str, since: float | None, event: Event | None
) -> schema.FindingSection:
    return copy_fields(
        schema.FindingSection,
        finding,
        evidence=finding.evidence + beginning,
        settings=dict(finding.settings),
        harms=tuple(schema.Harm(harm.code, harm.severity, harm.title, harm.evidence) for harm in finding.harms),
        runbook=runbook_path(finding.code, server),
        since=since,
        event=event,
    )


def _list_unknowns(
    watch: Watch, reading: Reading, record: ServerRecord, figures: Figures | None
) -> Iterator[schema.Unknown]:
    host, setup = reading.host, record.setup
    trouble, path = (watch.log.trouble, watch.log.path) if watch.log else ("", "")
    cut = isinstance(reading.snapshot, Snapshot) and reading.snapshot.cut_texts
    source = getattr(reading.snapshot, "source", "stats")
    rows: list[tuple[schema.UnknownPart, object, str | None]] = [
        ("figures", figures is None, "figures need two readings, a second apart"),
        ("processes", host.off, host.off),
        ("residency", not host.off and not host.threads, "off; enable it with --cpu-residency"),
        ("options", setup.why_unknown, setup.why_unknown),
        ("limits", host.limits_off, host.limits_off),
        *(("waits", not host.off, why) for why in list_gaps(record)),
        ("texts", cut, f"{counted(int(cut), 'text')} in the stats document: too long, so cut or left out"),
        ("log", trouble, f"uWSGI's log is not read: {trouble} ({printable_name(path)})"),
        ("threads", any(worker.threads is None for worker in record.workers), _NO_CORES[source]),
    ]
    for what, holds, why in rows:
        if holds:
            yield schema.Unknown(what=what, why=why or "", socket=None)
    for name, backlog in record.queues.items():
        if backlog.queue is None:
            why = backlog.reason or "the kernel does not report it"
            yield schema.Unknown(what="queue", why=why, socket=name)


_NO_CORES = {
    "stats": "uWSGI runs with stats-no-cores, so busy threads, capacity, ages of requests and percentiles of response "
    "times are unknown",
    "kernel": "a worker serves its requests on one thread, and how many at once is an option that is not known here",
}


def _build_host(reading: Reading, record: ServerRecord) -> schema.HostSection:
    host, cpus, overflows = reading.host, reading.host.cpus, reading.host.overflows
    return copy_fields(
        schema.HostSection,
        cpus,
        cpus=given(cpus, lambda known: known.count),
        host_cpus=given(cpus, lambda known: known.host),
        sharing_one_cpu=count_workers_sharing_one_cpu(record) if host.processes else None,
        listen_overflows=given(overflows, lambda counts: counts.overflows),
        listen_drops=given(overflows, lambda counts: counts.drops),
        memory=given(host.memory, sections.build_memory),
    )
