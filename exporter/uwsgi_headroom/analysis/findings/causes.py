"""Findings about workers that cannot serve, or are idle while requests wait: they explain others, and so come first.

A free thread takes a waiting request within milliseconds. With `thunder-lock`, one process at a time waits for the next
request and holds a lock meanwhile; if that process is stopped, no other takes a request either.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence
from math import inf

from msgspec.structs import replace

from uwsgi_headroom.analysis.advice import FORK, spawn_earlier, why_free_threads_do_not_serve
from uwsgi_headroom.analysis.capacity import REACHED
from uwsgi_headroom.analysis.figures import RELOAD_WAITS as LONG_RELOAD
from uwsgi_headroom.analysis.figures import Figures, mean_handlers
from uwsgi_headroom.analysis.findings import workers as ended_workers
from uwsgi_headroom.analysis.findings.kind import Finding, Kind
from uwsgi_headroom.analysis.findings.recycling import find_recycled_together, find_recycling
from uwsgi_headroom.analysis.littles_law import STANDING, shows_a_limit, waits_beside_free
from uwsgi_headroom.analysis.log_words import ENDS, LOG, STARTS
from uwsgi_headroom.analysis.setting_facts import DEFAULT_MERCY
from uwsgi_headroom.analysis.shortages import lacks_cpu
from uwsgi_headroom.analysis.wait_states import MOSTLY
from uwsgi_headroom.analysis.worker_states import (
    ASYNC,
    are_stopped_when_idle,
    end,
    fill_cores,
    find_without_application,
    kill,
    name_slots,
    scales,
    see_calls,
    starts_on_demand,
)
from uwsgi_headroom.record import WorkerRecord
from uwsgi_headroom.words.states import name_activity
from uwsgi_headroom.words.template import Facts, Private

HANGS, FOREVER = 10.0, ("backend", "dns", "lock", "pipe")
"""Seconds after its spawn from which on a worker that accepts nothing hangs. Raise it for an application whose import
takes longer. And the states of a wait that may have no end."""

LOADING_SECONDS, LOADING_PART, FULL = 2.0, 0.25, 0.2
"""For so many seconds, and this part of the time, workers were loading while all threads were busy for the last."""

HANDLING = 0.05
"""The part of the threads from which on handlers of uWSGI's signals are worth a sentence."""

UP = 0.9
"""If a worker was up for at least this fraction of the window, its present absence is only momentary."""

MOSTLY_UP = 0.5
"""Nor is a start that has not lasted for START_SECONDS, of a worker that was up for this fraction of the window, as one
that uWSGI replaces now and then."""

START_SECONDS = 5.0
"""Nor is an absence of so many seconds in a short window more than a start, while others serve."""

WAS_DOWN = Kind(
    code="was_down",
    role="harm",
    severity="warning",
    title="uWSGI was down for {down:duration}, until {until}.",
    evidence="uWSGI now has another master process. All figures are from the {seconds:duration} since then.",
    meaning="uWSGI served no request while it was down. The requests that were in service when uWSGI ended are lost.",
    act="[fix? {fix}][look? Find out from uWSGI's log, or that of its service manager, why uWSGI ended.]",
    then=LOG,
    runbook="UwsgiDown",
    log=("bind_failed", "queue_above_somaxconn", "need_app_ends", "unknown_option", "stop_began", "brutal_reload"),
)

PAUSED = Kind(
    code="workers_paused",
    severity="critical or warning",
    title="[all? All workers are][not all? {ids:Worker} {ids:is|are}] paused.",
    evidence="uWSGI paused {ids:worker} (of {up})[queued? ; {queued:mean} requests wait on average].",
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
    meaning="uWSGI itself answers every request to such a worker with status 500 (`no python application found`).",
    act="If this began with a deploy, roll the deploy back, and then reload uWSGI.",
    then="[look? Otherwise, check uWSGI's log for the reason why the import fails. ][fix? {fix} ]" + LOG + "When the "
    "import works, reload uWSGI. Set `need-app`, so that uWSGI does not start without an application.",
    page_after=0,
    runbook="UwsgiNoApplication",
    log=STARTS,
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
    "lost. Set `worker-reload-mercy`[mercy?  (now {mercy})] to the longest time of a request, or use a chain reload "
    "(`lazy-apps` and `touch-chain-reload`).",
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
    meaning="uWSGI starts a successor when the worker has ended, or kills it after {mercy} s (`worker-reload-mercy`).",
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
    meaning="Cheaper mode spawns a worker only when the last one has loaded the application; meanwhile, requests wait.",
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
    meaning="Unless it has another target, each handler runs in a free worker, whose thread then takes no request.",
    act="Let a mule run the handlers: set `mules = 1`, and add `target='mule'` to their decorators.",
    then="An example is `@timer(60, target='mule')`. Or make the handlers shorter.",
    clause="timers or cron jobs of the application occupy workers",
    runbook="UwsgiQueueWaitHigh",
    limits="waits",
)

START_HANGS = Kind(
    code="start_hangs",
    severity="critical or warning",
    title="{ids:Worker} {ids:takes|take} a long time to start[doing? , {doing}].",
    evidence="{ids:Worker} (of {workers}) {ids:accepts|accept} no requests yet, {longest:duration} after the spawn.",
    meaning="A worker accepts requests only after it has imported the application: until then, it serves nothing.",
    act="If this began with a deploy, roll the deploy back.",
    then="Run {calls} to see at which line the import waits, and end {ids:worker} with {kill}: neither a reload nor "
    "SIGTERM ends it. Set a timeout on the calls that the application makes while it is imported, or make them later.",
    clause="{ids:worker} {ids:takes|take} a long time to start[doing? , {doing}]",
    page_after=60,
    keeps_from_serving=True,
)

MISSING = Kind(
    code="workers_missing",
    severity="critical or warning",
    title="{ids:Worker} {ids:is|are} down or starting.",
    evidence="[ended? {ended:worker} ended, and uWSGI has not noticed this yet. ]"
    "[missing? {missing:worker} {missing:has ended or is|have ended or are} still starting.]",
    meaning="Until they are up, uWSGI serves fewer requests at once. For a moment, that is normal at a restart.",
    act="If this began with a deploy, roll the deploy back.",
    then="[look? Otherwise, check uWSGI's log for the reason why the workers do not start. ][fix? {fix} ]" + LOG,
    clause="{ids:worker} {ids:is|are} down",
    page_after=60,
    runbook="UwsgiRequestsLost",
    log=(*STARTS, *ENDS),
    event="worker_ended",
)
MISSING_FOR_A_MOMENT = replace(MISSING, severity="info", act="", then="", clause="", log=())

ACCEPT_NOTHING = Kind(
    code="accept_blocked",
    severity="warning",
    title="Workers are idle while requests wait.",
    evidence="For {idle:duration} of {observed:duration} ({part:percent}), requests waited although a thread was free.",
    meaning="Threads are free, so more threads or processes would not help.",
    act="Find out why the idle workers accept no requests: run `py-spy dump --native` on one of them.",
    then="A worker accepts none while it is suspended, or waits for one of uWSGI's own locks. See also uWSGI's log.",
    clause="workers that are idle accept none of them",
    limits="waits",
)
IDLE_AND_STOPPED = replace(
    ACCEPT_NOTHING,
    act="Resume {ids:worker}, which {ids:is|are} stopped: {resume}.",
    then="",
    clause="{ids:worker} {ids:is|are} stopped",
)
HOLDER_STOPPED = replace(
    ACCEPT_NOTHING,
    act="Resume the stopped worker: {resume}.",
    then="With `thunder-lock`, one process at a time accepts requests: while it holds this lock, no other can.",
    clause="workers are idle, and worker {holder}{pid}, which holds the accept lock, is paused (SIGSTOP)",
)
HOLDER_ACCEPTS_NOTHING = replace(
    ACCEPT_NOTHING,
    act="Kill worker {holder}, which holds the accept lock, with {kill}.",
    then="uWSGI then starts another worker. If the problem comes back, remove `thunder-lock`.",
    clause="workers are idle, and worker {holder}{pid} holds the accept lock and accepts nothing",
)
HOLDER_GONE = replace(
    ACCEPT_NOTHING,
    act="Reload uWSGI: a process exited while it held the accept lock.",
    then="If the problem comes back, remove `thunder-lock`.",
    clause="workers are idle, and a process{pid} that holds the accept lock is no longer a worker",
)

WORKERS_STOPPED = Kind(
    code="workers_stopped",
    severity="warning",
    title="{ids:Worker} {ids:is|are} stopped.",
    evidence="SIGSTOP, a debugger or a cgroup freezer stopped {ids:worker} (of {workers}).",
    meaning="A stopped process serves nothing until you resume it, and its requests wait.",
    act="Resume {ids:worker}: {resume}.",
    clause="[all? all workers are stopped]",
)

WORKERS_TRACED = replace(
    WORKERS_STOPPED,
    severity="warning or info",
    title="{program} traces {ids:worker}.",
    evidence="{program}{pid} is attached to {ids:worker} (of {workers}).",
    meaning="A tracer or a debugger stops a process at each system call or breakpoint, and takes CPU time itself.",
    act="End {program}: {end_it}.",
    clause="{program} traces {ids:worker}",
)

MASTER_SILENT = Kind(
    code="master_silent",
    severity="warning",
    title="uWSGI's master does not answer[changes? ; requests are served].",
    evidence="The stats have not answered since {since}[why? : {why}].[changes?  Threads became idle or busy "
    "{changes:times} in the last minute.]",
    meaning="Until it continues, uWSGI replaces no worker that ends, ends no stuck request, and does not reload. "
    "Figures are the kernel's: requests are not counted.",
    act="[is_stopped? Resume the master: {resume}.]"
    "[not is_stopped? Find what holds the master: read {wchan}, and the end of uWSGI's log.]",
    then="[not is_stopped? A reload is not possible while it hangs: plan a restart.]",
)
UNFINISHED = Kind(
    code="unfinished_requests",
    severity="warning",
    title="Clients that speak HTTP to uWSGI's `socket`, or send no whole request, hold threads.",
    evidence="uWSGI's stats [since? have been empty since {since}][not since? were empty for {empty:duration} "
    "of the last {seconds:duration}]: it writes none while it cannot parse a request.",
    meaning="Each such request holds a thread until `socket-timeout`.[since?  Figures are the kernel's: requests are "
    "not counted.]",
    act="Find the client that sends HTTP to uWSGI's `socket`, such as a health check.",
    then="Let it speak the uwsgi protocol, or give it an `http-socket`. `stats-no-cores` keeps the stats whole.",
    clause="clients that speak HTTP to uWSGI's `socket`, or send no whole request, hold threads",
    replaces=("slow_clients",),
    fills_threads=True,
)

EMPTY = 0.1
"""The part of the time in which empty stats are worth a warning: 6 s in a minute are more than one such request of 4 s,
the usual `socket-timeout`."""


def find(figures: Figures) -> Iterator[Finding]:
    yield from _silent(figures)
    if outage := figures.outage:
        until = time.strftime("%H:%M:%S %Z", time.localtime(outage.until))
        yield WAS_DOWN.found(figures, down=outage.seconds, until=until)
    yield from _paused(figures)
    accepting, without = find_without_application(figures.server) or ([], [])
    if without:
        ids = [worker.worker_id for worker in without]
        yield NO_APPLICATION.found(figures, ids=ids, worse=len(without) == len(accepting))
    recycling = list(find_recycled_together(figures)) or list(find_recycling(figures))
    reason = list(_ending(figures)) or recycling or list(_reload_waits(figures)) or list(_scaling_slowly(figures))
    yield from reason or [*_hanging(figures), *_missing(figures)]
    handlers, threads = mean_handlers(figures.window, figures.server), figures.ceiling or 0
    if threads and handlers >= HANDLING * threads:  # they run in a worker instead of requests
        is_reached = figures.headroom.by_limit.get("threads", inf) <= 1 / REACHED
        worse = is_reached or shows_a_limit(figures.flow)
        yield HANDLERS_OCCUPY.found(figures, handlers=handlers, threads=threads, worse=worse)


def _silent(figures: Figures) -> Iterator[Finding]:
    silence, empty = figures.server.silence, figures.server.empty_seconds
    since = silence is not None and time.strftime("%H:%M:%S", time.localtime(silence.since))
    if silence and silence.reason != "empty":
        yield MASTER_SILENT.found(
            figures,
            silence,
            since=since,
            changes=Private(silence.changes or None),
            why=Private(silence.why),
            resume=Private(f"`kill -CONT {silence.pid}`", "`kill -CONT`"),
            wchan=Private(f"`/proc/{silence.pid}/wchan`", "its `wchan`"),
        )
    elif silence or empty >= EMPTY * figures.window.seconds > 0:
        yield UNFINISHED.found(figures, empty=empty, since=since)


def _stands(figures: Figures) -> bool:
    return (figures.flow.queue_length or 0.0) >= STANDING


def _paused(figures: Figures) -> Iterator[Finding]:
    up = [worker for worker in figures.server.workers if worker.state != "reserve"]
    paused = [worker.worker_id for worker in up if worker.state == "paused"]
    if paused:
        every, queued = len(paused) == len(up), figures.flow.queue_length or None
        worse = every and _stands(figures)
        yield PAUSED.found(figures, ids=paused, all=every, up=len(up), queued=queued, worse=worse)


def _reload_waits(figures: Figures) -> Iterator[Finding]:
    found, options = figures.reload_wait, figures.server.setup.options
    if found is None:
        return
    yield RELOAD_WAITS.found(
        figures,
        found,
        worse=_stands(figures),
        ids=[worker.worker_id for worker in found.left],
        mercy=options.worker_reload_mercy or (options.complete and DEFAULT_MERCY) or None,
        calls=see_calls(figures.server, found.left[0].worker_id),
        end=end(figures.server, found.left),
        requests=sum(len(worker.ages) for worker in found.left),
    )


def _ending(figures: Figures) -> Iterator[Finding]:
    workers = [worker for worker in figures.server.workers if worker.state == "accepting" and not worker.ended]
    ending = [worker for worker in workers if worker.ending]
    requests = sum(len(worker.ages) for worker in ending)
    oldest = max((age or 0.0 for worker in ending for age in worker.ages.values()), default=0.0)
    waits = _stands(figures)
    if not ending or figures.reload_wait or (oldest < LONG_RELOAD and (requests or not waits)):
        return
    ids = [worker.worker_id for worker in ending]
    limits = {f"`{worker.ending.replace('_', '-')}`" for worker in ending if worker.ending}
    yield ENDING.found(
        figures,
        worse=(len(ending) == len(workers)) + waits,
        ids=ids,
        workers=len(workers),
        requests=requests or None,
        oldest=oldest,
        reached=" or ".join(sorted(limits)) * ("`unknown`" not in limits),
        end=Private(end(figures.server, ending), "`kill`"),
        calls=see_calls(figures.server, ids[0]),
    )


def _scaling_slowly(figures: Figures) -> Iterator[Finding]:
    window, workers = figures.window, figures.server.workers
    seconds, observed = window.starting_seconds or 0.0, window.observed_seconds
    hang = any(each.start_wait and each.start_wait.state in FOREVER for each in _find_hanging(workers))
    if not scales(figures) or starts_on_demand(figures.server.setup.options) or hang:
        return
    are_busy = window.full_seconds >= FULL * observed and shows_a_limit(figures.flow)
    if seconds < max(LOADING_SECONDS, LOADING_PART * observed) or not are_busy:
        return
    settings = getattr(spawn_earlier(figures), "settings", ())
    yield CHEAPER_STARTS_SLOWLY.found(
        figures,
        observed=observed,
        seconds=seconds,
        full=window.full_seconds / observed,
        initial=not settings or "cheaper-initial" in dict(settings),
        count=dict(settings).get("cheaper"),
        settings=settings,
    )


def _find_hanging(workers: Sequence[WorkerRecord]) -> list[WorkerRecord]:
    return [worker for worker in workers if (worker.starting or 0.0) >= HANGS]


def _hanging(figures: Figures) -> Iterator[Finding]:
    workers = figures.server.workers
    if hanging := _find_hanging(workers):
        ids = [worker.worker_id for worker in hanging]
        yield START_HANGS.found(
            figures,
            worse=len(hanging) == len(workers),
            ids=ids,
            doing=next((name_activity(*each.start_wait) for each in hanging if each.start_wait), ""),
            longest=max(worker.starting or 0.0 for worker in hanging),
            calls=see_calls(figures.server, ids[0]),
            kill=kill("KILL", hanging),
        )


def _missing(figures: Figures) -> Iterator[Finding]:
    workers = figures.server.workers
    ended = [worker.worker_id for worker in workers if worker.ended]
    hanging = {*ended, *[worker.worker_id for worker in _find_hanging(workers)]}
    missing = [worker.worker_id for worker in workers if worker.state == "down" and worker.worker_id not in hanging]
    absent = sorted([*ended, *missing])
    if set(absent) <= set(ended_workers.find_looping(figures)):
        return  # that finding says it
    if not figures.window.is_counted:  # nor is it known what uWSGI has noticed
        ended, missing = [], absent
    facts: Facts = {"ids": absent, "ended": len(ended) or None, "missing": len(missing) or None}
    if longer := _find_away_for_long(figures, absent):
        yield MISSING.found(figures, facts, worse=longer == len(workers))
    else:
        yield MISSING_FOR_A_MOMENT.found(figures, facts)


def _find_away_for_long(figures: Figures, absent: Sequence[int]) -> int:
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


def find_idle(figures: Figures) -> Iterator[Finding]:
    stopped, window = [each for each in figures.server.workers if each.is_stopped and not each.ended], figures.window
    facts: Facts = {"ids": [worker.worker_id for worker in stopped], "resume": _resume(stopped)}
    if waits_beside_free(window, figures.flow) and _is_unexplained(figures):
        idle, observed = window.idle_queue_seconds or 0.0, window.observed_seconds
        facts |= {"idle": idle, "observed": observed, "part": idle / observed}
        every = [worker.worker_id for worker in figures.workers]
        if figures.server.accept_lock_holder is not None:
            yield _held(figures, figures.server.accept_lock_holder, facts)
        elif stopped:
            yield IDLE_AND_STOPPED.found(figures, facts)
        elif window.is_counted or not _find_away_for_long(figures, every):
            yield ACCEPT_NOTHING.found(figures, facts)  # new workers may still load the application
    elif stopped:
        yield WORKERS_STOPPED.found(figures, facts, all=len(stopped) == len(figures.server.workers))


def find_traced(figures: Figures) -> Iterator[Finding]:
    traced = [each for each in figures.server.workers if each.tracer[0]]
    for pid, program in {each.tracer for each in traced[:1]}:
        facts: Facts = {"program": f"`{program or 'a process'}`", "pid": Private(f" (PID {pid})")}
        facts |= {"ids": [each.worker_id for each in traced], "end_it": Private(f"`kill {pid}`", "`kill`")}
        yield WORKERS_TRACED.found(figures, facts, worse=figures.flow.waiting not in (None, "none"))


def _resume(workers: Iterable[WorkerRecord]) -> Private:
    return Private(kill("CONT", workers), "`kill -CONT`")


def _held(figures: Figures, pid: int, facts: Facts) -> Finding:
    """Of a process that holds the accept lock."""
    worker = next((worker for worker in figures.server.workers if worker.pid == pid), None)
    facts |= {"pid": Private(f" (PID {pid})")}
    if worker is None:
        return HOLDER_GONE.found(figures, facts)
    facts |= {"holder": worker.worker_id}
    if worker.is_stopped:
        return HOLDER_STOPPED.found(figures, facts, resume=_resume([worker]), worker_id=worker.worker_id)
    end_it = Private(kill("KILL", [worker]), "`kill -KILL`")
    return HOLDER_ACCEPTS_NOTHING.found(figures, facts, kill=end_it, worker_id=worker.worker_id)


def _is_unexplained(figures: Figures) -> bool:
    """Whether nothing else is known that keeps free threads from serving."""
    if any(each.kind.keeps_from_serving for each in (*find(figures), *ended_workers.find(figures))):
        return False
    cpus, is_async = figures.server.cpus, name_slots(figures.server) == ASYNC
    if (cpus and lacks_cpu(figures, cpus.count)) or (is_async and not fill_cores(figures)):
        return False
    return figures.share("client") < MOSTLY and why_free_threads_do_not_serve(figures) is None
