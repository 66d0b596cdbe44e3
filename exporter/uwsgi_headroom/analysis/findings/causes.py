"""Findings about workers that cannot serve: they explain other findings, and so come before them."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from math import inf

from uwsgi_headroom.analysis.bottlenecks import FORK, spawn_earlier
from uwsgi_headroom.analysis.capacity import REACHED
from uwsgi_headroom.analysis.figures import RELOAD_WAITS as LONG_RELOAD
from uwsgi_headroom.analysis.figures import Figures, mean_handlers
from uwsgi_headroom.analysis.findings.kind import Finding, Kind
from uwsgi_headroom.analysis.findings.recycling import find_recycled_together, find_recycling
from uwsgi_headroom.analysis.findings.workers import find_looping
from uwsgi_headroom.analysis.littles_law import STANDING, shows_a_limit, waiting_clause
from uwsgi_headroom.analysis.log_words import ENDS, LOG, STARTS, proven_place, read_log
from uwsgi_headroom.analysis.settings import DEFAULT_MERCY
from uwsgi_headroom.analysis.worker_states import (
    ANY_CALLS,
    are_stopped_when_idle,
    end,
    find_paused,
    find_without_application,
    kill,
    scales,
    show_calls,
    starts_on_demand,
)
from uwsgi_headroom.record import WorkerRecord
from uwsgi_headroom.words.states import name_activity
from uwsgi_headroom.words.template import Private

HANGS = 10.0
"""Seconds after its spawn from which on a worker that accepts nothing hangs. Raise it for an application whose import
takes longer."""

LOADING = (2.0, 0.25)
"""Cheaper mode starts workers slowly if they were loading for so many seconds, and for this part of the time, while
requests waited and all threads that were up were busy for the part `FULL` of it."""

FULL = 0.2

HANDLING = 0.05
"""The part of the threads from which on handlers of uWSGI's signals are worth a sentence."""

UP = 0.9
"""If a worker was up for at least this fraction of the window, its present absence is only momentary."""

MOSTLY_UP = 0.5
"""Nor is a start that has not lasted for START_SECONDS, of a worker that was up for this fraction of the window, as one
that uWSGI replaces now and then: its earlier absences are over."""

START_SECONDS = 5.0
"""Nor is an absence of so many seconds in a short window more than a start, while others serve."""

OUTAGES = ("bind_failed", "queue_above_somaxconn", "need_app_ends", "unknown_option", "stop_began", "brutal_reload")
"""Messages that say why a whole uWSGI ended."""


WAS_DOWN = Kind(
    code="was_down",
    role="harm",
    severity="warning",
    title="uWSGI was down for {down:duration}, until {until}.",
    evidence="uWSGI now has another master process, which started after the outage. All figures are from the "
    "{seconds:duration} since then.",
    meaning="uWSGI served no request while it was down. The requests that were in service when uWSGI ended are lost.",
    act="[fix? {fix}][look? Find out from uWSGI's log, or that of its service manager, why uWSGI ended.]",
    then=LOG,
    runbook="UwsgiDown",
)

PAUSED = Kind(
    code="workers_paused",
    severity="critical or warning",
    title="[all? All workers are][not all? {ids:Worker} {ids:is|are}] paused.",
    evidence="uWSGI paused {ids:worker} (of {up})[queued? ; {queued:mean} requests wait in the listen queue on "
    "average].",
    meaning="A paused worker takes no requests until it is resumed.",
    act="Resume the workers: write `p` to uWSGI's `master-fifo`, or send SIGTSTP to the master.",
    then="Do this only once: the next `p` or SIGTSTP pauses all workers again.",
    clause="[all? all workers are][not all? {ids:worker} {ids:is|are}] paused",
    page_after=0,
    runbook="UwsgiRequestStuck",
    keeps_from_serving=True,
)

NO_APPLICATION = Kind(
    code="no_application",
    role="harm",
    severity="critical or warning",
    title="[critical? No worker has loaded its application][warning? {ids:Worker} {ids:has not loaded its|have not "
    "loaded their} application][place? : {place}].",
    evidence="The configuration names an application, but {ids:worker} {ids:has|have} not loaded it.",
    meaning="If a worker has no application, uWSGI itself answers every request to this worker with status 500 "
    "(`no python application found`).",
    act="If this began with a deploy, roll the deploy back, and then reload uWSGI.",
    then="[look? Otherwise, check uWSGI's log for the reason why the import fails. ][fix? {fix} ]" + LOG + "When the "
    "import works, reload uWSGI. Set `need-app`, so that uWSGI does not start without an application.",
    page_after=0,
    runbook="UwsgiNoApplication",
)

RELOAD_WAITS = Kind(
    code="reload_waits",
    severity="critical or warning",
    title="No new request is served, because a reload waits until {ids:worker} "
    "{ids:has completed its|have completed their} requests.",
    evidence="{gone:worker} of {workers} ended {away:duration} ago, and uWSGI has not replaced {gone:it|them}; the "
    "oldest request in {ids:worker} has been in service for {oldest:duration}.",
    meaning="In a full reload, uWSGI stops every idle worker at once, but starts new workers only when all old workers "
    "have completed their requests[mercy? , or {mercy} s after the reload began].",
    act="Run {calls} to see what the request waits for.",
    then="Then end {ids:worker} with {end}: uWSGI then starts all workers, but {requests:request} {requests:is|are} "
    "lost. Set `worker-reload-mercy`[mercy?  (now {mercy})] to the longest time that a request may take, or use a "
    "chain reload (`lazy-apps` and `touch-chain-reload`), which replaces one worker after another.",
    clause="a reload waits until {ids:worker} {ids:has completed its|have completed their} requests",
    page_after=0,
    keeps_from_serving=True,
)

ENDING = Kind(
    code="workers_ending",
    severity="critical, warning or info",
    title="{ids:Worker} {ids:takes|take} no new request until {ids:its|their} [requests? running requests are "
    "completed][not requests? exit handlers end].",
    evidence="uWSGI is ending {ids:worker} (of {workers})[reached? , which reached {reached}]"
    "[requests? ; {requests:request} {requests:is|are} in service there, the oldest for {oldest:duration}].",
    meaning="A worker that is to end takes no new request, and uWSGI starts its successor only when it has ended, or "
    "kills it after {mercy} s (`worker-reload-mercy`).",
    act="[requests? To have {ids:worker} replaced at once, end {ids:it|them} with {end}.]"
    "[not requests? Run {calls} to see which exit handler runs (such as one of `atexit`).]",
    then="[requests? {requests:request} {requests:is|are} then lost. ][reached? Raise {reached} so that workers rarely "
    "reach it. ][requests, not reached? Set `worker-reload-mercy` to the longest time that a request may take.]"
    "[not requests? Shorten the exit handler, or give it a timeout.]",
    clause="{ids:worker} {ids:takes|take} no new request until {ids:its|their} [requests? running requests are "
    "completed][not requests? exit handlers end]",
    page_after=0,
    keeps_from_serving=True,
)

CHEAPER_STARTS_SLOWLY = Kind(
    code="cheaper_starts_slowly",
    severity="warning",
    title="Cheaper mode starts workers too late: the application takes a long time to load.",
    evidence="In the last {observed:duration}, workers loaded the application for {seconds:duration}"
    ", and all threads were busy for {full:percent} of the time[wait? ; {wait}].",
    meaning="When no worker is idle, cheaper mode spawns one worker. It spawns another one only when the first one has "
    "loaded the application. Until then, requests wait.",
    act="Raise `cheaper`[initial?  and `cheaper-initial`][count?  to {count}], or turn cheaper mode off.",
    then=FORK,
    clause="cheaper mode starts workers too late, and the application takes a long time to load",
    runbook="UwsgiQueueWaitHigh",
    limits="waits",
)

HANDLERS_OCCUPY = Kind(
    code="signal_handlers",
    severity="warning or info",
    title="Timers or cron jobs of the application keep threads from serving requests.",
    evidence="On average, timers, cron jobs and other handlers of uWSGI's signals occupy {handlers:mean} of "
    "{threads:thread}[wait? ; {wait}].",
    meaning="uWSGI runs each handler in a free worker, unless the handler has another target. The thread that runs it "
    "takes no request until the handler ends.",
    act="Let a mule run the handlers: set `mules = 1`, and add `target='mule'` to their decorators.",
    then="An example is `@timer(60, target='mule')`. Alternatively, make the handlers shorter.",
    clause="timers or cron jobs of the application occupy workers",
    runbook="UwsgiQueueWaitHigh",
)

START_HANGS = Kind(
    code="start_hangs",
    severity="critical or warning",
    title="{ids:Worker} {ids:takes|take} a long time to start[doing? , {doing}].",
    evidence="{ids:Worker} (of {workers}) {ids:accepts|accept} no requests yet, {longest:duration} after the spawn.",
    meaning="A worker accepts requests only after it has imported the application. Until this import is complete, the "
    "worker serves nothing.",
    act="If this began with a deploy, roll the deploy back.",
    then="Run {calls} to see at which line the import waits, and end {ids:worker} with {kill}: neither a reload nor "
    "SIGTERM ends a worker that is still importing the application. Set a timeout on the calls that the application "
    "makes while it is imported, or make these calls after the import.",
    clause="{ids:worker} {ids:takes|take} a long time to start[doing? , {doing}]",
    page_after=60,
    keeps_from_serving=True,
)

MISSING = Kind(
    code="workers_missing",
    severity="critical, warning or info",
    title="{ids:Worker} {ids:is|are} down or starting.",
    evidence="[ended? {ended:worker} ended, and uWSGI has not noticed this yet. ]"
    "[missing? {missing:worker} {missing:has ended or is|have ended or are} still starting.]",
    meaning="Until the workers are up, uWSGI serves fewer requests at once. During a reload or a worker restart, it is "
    "normal for workers to be missing for a moment.",
    act="[not info? If this began with a deploy, roll the deploy back.]",
    then="[look? Otherwise, check uWSGI's log for the reason why the workers do not start. ][fix? {fix} ]" + LOG,
    clause="[not info? {ids:worker} {ids:is|are} down]",
    page_after=60,
    runbook="UwsgiRequestsLost",
)


def find(figures: Figures) -> Iterator[Finding]:
    """The findings about workers that cannot serve."""
    yield from _outage(figures)
    yield from _paused(figures)
    yield from _no_application(figures)
    recycling = list(find_recycled_together(figures)) or list(find_recycling(figures))
    reason = list(_ending(figures)) or recycling or list(_reload_waits(figures)) or list(_scaling_slowly(figures))
    yield from reason or [*_hanging(figures), *_missing(figures)]
    yield from _handling(figures)


def _outage(figures: Figures) -> Iterator[Finding]:
    outage = figures.outage
    if outage is not None:
        yield WAS_DOWN.found(
            figures,
            read_log(figures.server, OUTAGES),
            down=outage.seconds,
            until=time.strftime("%H:%M:%S %Z", time.localtime(outage.until)),
            seconds=figures.window.seconds,
        )


def _paused(figures: Figures) -> Iterator[Finding]:
    up = [worker for worker in figures.server.workers if worker.state != "reserve"]
    paused = [worker.worker_id for worker in find_paused(up)]
    if not paused:
        return
    waiting, are_all = figures.flow.queue_length or 0.0, len(paused) == len(up)
    yield PAUSED.found(
        figures, ids=paused, all=are_all, up=len(up), queued=waiting or None, worse=are_all and waiting >= STANDING
    )


def _no_application(figures: Figures) -> Iterator[Finding]:
    accepting, without = find_without_application(figures.server) or ([], [])
    if without:
        ids = [worker.worker_id for worker in without]
        yield NO_APPLICATION.found(
            figures,
            read_log(figures.server, STARTS),
            worse=len(without) == len(accepting),
            ids=ids,
            place=Private(proven_place(figures.server, STARTS)),
        )


def _reload_waits(figures: Figures) -> Iterator[Finding]:
    """A full reload, or a stop, that waits for requests."""
    found, options = figures.reload_wait, figures.server.setup.options
    if found is None:
        return
    ids = [worker.worker_id for worker in found.left]
    yield RELOAD_WAITS.found(
        figures,
        worse=(figures.flow.queue_length or 0.0) >= STANDING,
        ids=ids,
        gone=found.gone,
        workers=len(figures.server.workers),
        away=found.away,
        oldest=found.oldest,
        mercy=options.worker_reload_mercy or (options.complete and DEFAULT_MERCY) or None,
        calls=Private(show_calls(figures.server, ids[0]), ANY_CALLS),
        end=end(figures.server, found.left),
        requests=sum(len(worker.ages) for worker in found.left),
    )


def _ending(figures: Figures) -> Iterator[Finding]:
    """Workers that take no other request, and do not end because of requests that take long, or of exit handlers."""
    workers = [worker for worker in figures.server.workers if worker.state == "accepting" and not worker.ended]
    ending = [worker for worker in workers if worker.ending]
    requests = sum(len(worker.ages) for worker in ending)
    oldest = max((age or 0.0 for worker in ending for age in worker.ages.values()), default=0.0)
    waits, every = (figures.flow.queue_length or 0.0) >= STANDING, len(ending) == len(workers)
    if not ending or figures.reload_wait or (oldest < LONG_RELOAD if requests else not waits):
        return
    ids, options = [worker.worker_id for worker in ending], figures.server.setup.options
    limits = {f"`{worker.ending.replace('_', '-')}`" for worker in ending if worker.ending}
    reached = "" if "`unknown`" in limits else " or ".join(sorted(limits))
    yield ENDING.found(
        figures,
        worse=every + waits,
        ids=ids,
        workers=len(workers),
        requests=requests or None,
        oldest=oldest,
        reached=reached,
        mercy=options.worker_reload_mercy or DEFAULT_MERCY,
        end=Private(end(figures.server, ending), "`kill`"),
        calls=Private(show_calls(figures.server, ids[0]), ANY_CALLS),
    )


def _scaling_slowly(figures: Figures) -> Iterator[Finding]:
    """Cheaper mode that starts workers when requests already wait, of an application that is slow to load. Workers that
    are forked with the application loaded (without `lazy-apps`) start within milliseconds."""
    window, workers, options = figures.window, figures.server.workers, figures.server.setup.options
    seconds, observed = window.starting_seconds or 0.0, window.observed_seconds
    if not scales(figures) or starts_on_demand(options) or any(map(_hangs, workers)) or not shows_a_limit(figures.flow):
        return
    if seconds < LOADING[0] or seconds < LOADING[1] * observed or window.full_seconds < FULL * observed:
        return
    step = spawn_earlier(figures)
    settings = step.settings if step else ()
    yield CHEAPER_STARTS_SLOWLY.found(
        figures,
        observed=observed,
        seconds=seconds,
        full=window.full_seconds / observed,
        initial=not settings or "cheaper-initial" in dict(settings),
        count=dict(settings).get("cheaper"),
        lazy=options.lazy_apps,
        wait=waiting_clause(figures.flow),
        settings=settings,
    )


def _handling(figures: Figures) -> Iterator[Finding]:
    """Timers, cron jobs and other handlers of uWSGI's signals, which run in a worker instead of requests."""
    handlers, threads = mean_handlers(figures.window, figures.server), figures.ceiling or 0
    if not threads or handlers < HANDLING * threads:
        return
    is_reached = figures.headroom.by_limit.get("threads", inf) <= 1 / REACHED
    worse, wait = is_reached or shows_a_limit(figures.flow), waiting_clause(figures.flow)
    yield HANDLERS_OCCUPY.found(figures, handlers=handlers, threads=threads, wait=wait, worse=worse)


def _hangs(worker: WorkerRecord) -> bool:
    """Whether a worker has been starting for long, and waits for something that may never come."""
    wait = worker.start_wait
    return (worker.starting or 0.0) >= HANGS and wait is not None and wait.state in ("backend", "dns", "lock", "pipe")


def _hanging(figures: Figures) -> Iterator[Finding]:
    """Workers that have been starting for long, and what they wait for."""
    workers = figures.server.workers
    hanging = _find_hanging(workers)
    if hanging:
        ids = [worker.worker_id for worker in hanging]
        yield START_HANGS.found(
            figures,
            worse=len(hanging) == len(workers),
            ids=ids,
            doing=next((name_activity(*each.start_wait) for each in hanging if each.start_wait), ""),
            workers=len(workers),
            longest=max(worker.starting or 0.0 for worker in hanging),
            calls=show_calls(figures.server, ids[0]),
            kill=kill("KILL", hanging),
        )


def _find_hanging(workers: Sequence[WorkerRecord]) -> list[WorkerRecord]:
    return [worker for worker in workers if (worker.starting or 0.0) >= HANGS]


def _missing(figures: Figures) -> Iterator[Finding]:
    workers = figures.server.workers
    ended = [worker.worker_id for worker in workers if worker.ended]
    hanging = {worker.worker_id for worker in _find_hanging(workers)}
    away = [worker.worker_id for worker in workers if worker.state == "down" and worker.worker_id not in hanging]
    missing = [worker_id for worker_id in away if worker_id not in ended]
    absent = sorted({*ended, *missing})
    if set(absent) <= set(find_looping(figures)):
        return  # that finding says it
    longer, known = _find_away_for_long(figures, absent), read_log(figures.server, (*STARTS, *ENDS))
    yield MISSING.found(
        figures,
        known if longer else dict.fromkeys(known),
        worse=(longer > 0) + (longer == len(workers)),
        ids=absent,
        ended=len(ended) or None,
        missing=len(missing) or None,
    )


def _find_away_for_long(figures: Figures, absent: Sequence[int]) -> int:
    """How many of these workers are away for longer than a restart takes."""
    workers, seconds = figures.server.workers, figures.window.observed_seconds
    if are_stopped_when_idle(figures):
        return 0
    up = {worker.worker_id: worker.up_seconds for worker in figures.window.workers}
    allowed = max((1 - UP) * seconds, START_SECONDS * (len(absent) < len(workers)))
    replaced = {
        worker.worker_id
        for worker in workers
        if (worker.starting or inf) <= START_SECONDS and up.get(worker.worker_id, 0.0) >= MOSTLY_UP * seconds
    }
    return sum(each not in replaced and seconds - up.get(each, 0.0) > allowed for each in absent)
