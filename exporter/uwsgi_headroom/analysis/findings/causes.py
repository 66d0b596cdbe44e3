"""Findings about workers that cannot serve: they explain other findings, and so come before them."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from math import inf

from uwsgi_headroom.analysis.bottlenecks import spawn_earlier
from uwsgi_headroom.analysis.capacity import REACHED
from uwsgi_headroom.analysis.figures import RELOAD_WAITS, Figures, mean_handlers
from uwsgi_headroom.analysis.findings.finding import Finding, add_wait
from uwsgi_headroom.analysis.findings.recycling import find_recycled_together, find_recycling
from uwsgi_headroom.analysis.findings.workers import find_looping
from uwsgi_headroom.analysis.littles_law import STANDING, shows_a_limit
from uwsgi_headroom.analysis.log_words import ENDS, STARTS, proven_place, see_log
from uwsgi_headroom.analysis.settings import DEFAULT_MERCY
from uwsgi_headroom.analysis.worker_states import (
    RESUME,
    after_deploy,
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
from uwsgi_headroom.words.formats import counted, duration, mean_count, numbered, percent
from uwsgi_headroom.words.states import name_activity

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


def find(figures: Figures) -> Iterator[Finding]:
    """The findings about workers that cannot serve."""
    yield from _outage(figures)
    yield from _paused(figures)
    yield from _no_application(figures)
    recycling = list(find_recycled_together(figures)) or list(find_recycling(figures))
    reason = _ending(figures) or recycling or _reload_waits(figures) or _scaling_slowly(figures)
    yield from reason or [*_hanging(figures), *_missing(figures)]
    yield from _handling(figures)


def _outage(figures: Figures) -> Iterator[Finding]:
    outage = figures.outage
    if outage is None:
        return
    until = time.strftime("%H:%M:%S %Z", time.localtime(outage.until))
    yield Finding(
        code="was_down",
        severity="warning",
        title=f"uWSGI was down for {duration(outage.seconds)}, until {until}.",
        evidence="uWSGI now has another master process, which started after the outage. All figures are from the "
        f"{duration(figures.window.seconds)} since then.",
        meaning="uWSGI served no request while it was down. The requests that were in service when uWSGI ended are "
        "lost.",
        change=see_log(
            figures.server,
            "the reason why uWSGI ended",
            OUTAGES,
            "Find out why uWSGI exited: check uWSGI's log, and the log of its service manager.",
        ),
    )


def _paused(figures: Figures) -> Iterator[Finding]:
    up = [worker for worker in figures.server.workers if worker.state != "reserve"]
    paused = find_paused(up)
    if not paused:
        return
    every, waiting = len(paused) == len(up), figures.flow.queue_length
    numbers = [worker.worker_id for worker in paused]
    yield Finding(
        code="workers_paused",
        severity="critical" if every and (waiting or 0.0) >= STANDING else "warning",
        title=f"{'All workers are' if every else numbered('Worker', numbers) + (' are' if len(paused) > 1 else ' is')} "
        "paused.",
        evidence=f"{len(paused)} of {counted(len(up), 'worker')} {'is' if len(paused) == 1 else 'are'} paused"
        + (f"; {mean_count(waiting)} requests wait in the listen queue on average." if waiting else "."),
        meaning="A paused worker takes no requests until it is resumed.",
        clause="all workers are paused"
        if every
        else f"{numbered('worker', numbers)} {'is' if len(paused) == 1 else 'are'} paused",
        change=RESUME,
    )


def _no_application(figures: Figures) -> Iterator[Finding]:
    known = find_without_application(figures.server)
    if not known or not known[1]:
        return
    accepting, without = known[0], [worker.worker_id for worker in known[1]]
    place = proven_place(figures.server, STARTS)
    raised = f": {place}." if place else "."
    see = see_log(figures.server, "the reason why the import fails", STARTS)
    first = after_deploy(figures, known[1], see, ", and then reload uWSGI")
    need = " Set `need-app`, so that uWSGI does not start without an application."
    yield Finding(
        code="no_application",
        severity="critical" if len(without) == len(accepting) else "warning",
        title=f"No worker has loaded its application{raised}"
        if len(without) == len(accepting)
        else f"{numbered('Worker', without)} {'has not loaded its' if len(without) == 1 else 'have not loaded their'} "
        f"application{raised}",
        evidence="The configuration names an application, but uWSGI has not loaded it.",
        meaning="If a worker has no application, uWSGI itself answers every request to this worker with status 500 "
        "(`no python application found`).",
        change=f"{first} When the import works, reload uWSGI.{need}" if first == see else f"{first}{need}",
    )


def _reload_waits(figures: Figures) -> list[Finding]:
    """A full reload, or a stop, that waits for requests."""
    found = figures.reload_wait
    if found is None:
        return []
    numbers, options = [worker.worker_id for worker in found.left], figures.server.setup.options
    which, gone = numbered("worker", numbers), found.gone
    requests = sum(len(worker.ages) for worker in found.left)
    mercy = options.worker_reload_mercy or (DEFAULT_MERCY if options.complete else None)
    completed = "has completed its requests" if len(found.left) == 1 else "have completed their requests"
    return [
        Finding(
            code="reload_waits",
            severity="critical" if (figures.flow.queue_length or 0.0) >= STANDING else "warning",
            title=f"No new request is served, because a reload waits until {which} {completed}.",
            evidence=f"{counted(gone, 'worker')} of {len(figures.server.workers)} ended {duration(found.away)} ago, "
            f"and uWSGI has not replaced {'it' if gone == 1 else 'them'}; the oldest request in {which} has been in "
            f"service for {duration(found.oldest)}.",
            meaning="In a full reload, uWSGI stops every idle worker at once, but starts new workers only when all "
            "old workers have completed their requests"
            f"{f', or {mercy} s after the reload began, whichever comes first' if mercy else ''}.",
            clause=f"a reload waits until {which} {completed}",
            change=f"Run {show_calls(figures.server, numbers[0])} to see what the request waits for, then end {which} "
            f"with {end(figures.server, found.left)}: uWSGI then starts all workers, but "
            f"{counted(requests, 'request')} {'is' if requests == 1 else 'are'} lost. Then set `worker-reload-mercy`"
            + (f" (now {mercy})" if mercy else "")
            + " to the longest time, in seconds, that a request may take: after this time, uWSGI kills the worker. "
            "Alternatively, use a chain reload (`lazy-apps` and `touch-chain-reload`), which replaces one worker after "
            "another.",
        )
    ]


def _ending(figures: Figures) -> list[Finding]:
    """Workers that take no other request, and do not end because of requests that take long, or of exit handlers."""
    workers = [worker for worker in figures.server.workers if worker.state == "accepting" and not worker.ended]
    ending = [worker for worker in workers if worker.ending]
    requests = sum(len(worker.ages) for worker in ending)
    oldest = max((age or 0.0 for worker in ending for age in worker.ages.values()), default=0.0)
    waits = (figures.flow.queue_length or 0.0) >= STANDING
    if not ending or figures.reload_wait or (oldest < RELOAD_WAITS if requests else not waits):
        return []
    numbers, every, one = [worker.worker_id for worker in ending], len(ending) == len(workers), len(ending) == 1
    which, it, options = numbered("worker", numbers), "it" if one else "them", figures.server.setup.options
    mercy = options.worker_reload_mercy or DEFAULT_MERCY
    why, remedy = _why_ending(figures, ending)
    running = f"{'its' if one else 'their'} running {'request is' if requests == 1 else 'requests are'} completed"
    until = f"until {running}" if requests else "during exit handlers"
    return [
        Finding(
            code="workers_ending",
            severity="critical" if every and waits else "warning" if every or waits else "info",
            title=f"{numbered('Worker', numbers)} {'takes' if one else 'take'} no new request {until}.",
            evidence=f"uWSGI is ending {len(ending)} of {counted(len(workers), 'worker')}{why}; "
            + (
                f"the {'only' if requests == 1 else f'oldest of {requests}'} running "
                f"{'request' if requests == 1 else 'requests'} there has been in service for {duration(oldest)}."
                if requests
                else f"no request is in service there, but {'it does' if one else 'they do'} not exit."
            ),
            meaning="A worker that is to end takes no new request, and uWSGI starts its successor only when it has "
            f"ended, or kills it after {mercy} s (`worker-reload-mercy`).",
            clause=f"{which} {'takes' if one else 'take'} no new request {until}",
            change=f"To have {which} replaced at once, end {it} with {end(figures.server, ending)}: "
            f"{counted(requests, 'request')} {'is' if requests == 1 else 'are'} lost. Then {remedy}"
            if requests
            else f"Run {show_calls(figures.server, numbers[0])} to see which exit handler runs (such as one of "
            "`atexit`), and shorten it or give it a timeout.",
        )
    ]


def _why_ending(figures: Figures, ending: Sequence[WorkerRecord]) -> tuple[str, str]:
    """Why uWSGI ends these workers, to follow in a sentence; and what to do about it."""
    options, apart = figures.server.setup.options, "serve requests that take long from a uWSGI of their own."
    reasons = {worker.ending for worker in ending}
    for reason, option, value in (
        ("max_requests", "`max-requests`", f"{options.max_requests}"),
        ("max_worker_lifetime", "`max-worker-lifetime`", f"{options.max_worker_lifetime} s"),
    ):
        if reasons == {reason}:
            return (
                f", which reached {option} ({value})",
                f"remove {option}, or raise it so that workers rarely reach it; or {apart}",
            )
    return (
        ", as a reload, `max-requests` or `reload-on-rss` does",
        f"set `worker-reload-mercy` to the longest time, in seconds, that a request may take; or {apart}",
    )


def _scaling_slowly(figures: Figures) -> list[Finding]:
    """Cheaper mode that starts workers when requests already wait, of an application that is slow to load. Workers that
    are forked with the application loaded (without `lazy-apps`) start within milliseconds."""
    window, workers = figures.window, figures.server.workers
    seconds, observed = window.starting_seconds or 0.0, window.observed_seconds
    if (
        not scales(figures)
        or starts_on_demand(figures.server.setup.options)
        or any(_hangs(worker) for worker in workers)
        or not shows_a_limit(figures.flow)
    ):
        return []
    if seconds < LOADING[0] or seconds < LOADING[1] * observed or window.full_seconds < FULL * observed:
        return []
    loading = [worker.worker_id for worker in workers if worker.starting is not None]
    longest = max((worker.starting or 0.0 for worker in workers), default=0.0)
    still = (
        f"; {numbered('worker', loading)} {'is' if len(loading) == 1 else 'are'} still loading it" if loading else ""
    )
    options, step = figures.server.setup.options, spawn_earlier(figures)
    lazy = " Alternatively, remove `lazy-apps`: uWSGI then loads the application once, before it forks the workers."
    return [
        Finding(
            code="cheaper_starts_slowly",
            severity="warning",
            title="Cheaper mode starts workers too late: the application takes a long time to load.",
            **add_wait(
                f"In the last {duration(observed)}, workers spent {duration(seconds)} loading the application"
                + (f"{still}, after {duration(longest)}" if loading else "")
                + f". All threads of the running workers were busy for {percent(window.full_seconds / observed)} of "
                "the time",
                figures.flow,
            )._asdict(),
            meaning="When no worker is idle, cheaper mode spawns one worker. It spawns another one only when the "
            "first one has loaded the application. Until then, requests wait.",
            clause="cheaper mode starts workers too late, and the application takes a long time to load",
            change=(step.change if step else "Raise `cheaper` and `cheaper-initial`, or turn cheaper mode off.")
            + (lazy if options.lazy_apps else ""),
            settings=step.settings if step else (),
        )
    ]


def _handling(figures: Figures) -> Iterator[Finding]:
    """Timers, cron jobs and other handlers of uWSGI's signals, which run in a worker instead of requests."""
    handlers, threads = mean_handlers(figures.window, figures.server), figures.ceiling or 0
    if not threads or handlers < HANDLING * threads:
        return
    is_reached = figures.headroom.by_limit.get("threads", inf) <= 1 / REACHED
    yield Finding(
        code="signal_handlers",
        severity="warning" if is_reached or shows_a_limit(figures.flow) else "info",
        title="Timers or cron jobs of the application keep threads from serving requests.",
        **add_wait(
            "On average, timers, cron jobs and other handlers of uWSGI's signals occupy "
            f"{mean_count(handlers)} of {counted(threads, 'thread')}",
            figures.flow,
        )._asdict(),
        meaning="uWSGI runs each handler in a free worker, unless the handler has another target. The thread that runs "
        "it takes no request until the handler ends.",
        change="Let a mule run the handlers: set `mules = 1` in uWSGI's configuration, and add `target='mule'` to the "
        "application's decorators, as in `@timer(60, target='mule')`. Alternatively, make the handlers shorter.",
        clause="timers or cron jobs of the application occupy workers",
    )


def _hangs(worker: WorkerRecord) -> bool:
    """Whether a worker has been starting for long, and waits for something that may never come."""
    wait = worker.start_wait
    return (worker.starting or 0.0) >= HANGS and wait is not None and wait.state in ("backend", "dns", "lock", "pipe")


def _hanging(figures: Figures) -> Iterator[Finding]:
    """Workers that have been starting for long, and what they wait for."""
    workers = figures.server.workers
    hanging = _find_hanging(workers)
    if not hanging:
        return
    numbers, longest = [worker.worker_id for worker in hanging], max(worker.starting or 0.0 for worker in hanging)
    wait = next((worker.start_wait for worker in hanging if worker.start_wait), None)
    what = name_activity(*wait) if wait else None
    works = wait is not None and wait.state in ("cpu", "cpu_wait", "disk")
    is_one = len(numbers) == 1
    hangs = "hangs at the start" if is_one else "hang at the start"
    takes_long = "takes a long time to start" if is_one else "take a long time to start"
    how = takes_long if works else hangs
    names = numbered("Worker", numbers)
    see = f"Run {show_calls(figures.server, numbers[0])} to see at which line the import waits"
    and_end = f", and end {numbered('worker', numbers)} with {kill('KILL', hanging)}"
    they_are = "it is" if is_one else "they are"
    why = (f" because {they_are} {what}" if works else f", {what}") if what else ""
    yield Finding(
        code="start_hangs",
        severity="critical" if len(hanging) == len(workers) else "warning",
        title=f"{names} {how}{why}.",
        evidence=f"{len(hanging)} of {counted(len(workers), 'worker')} {'accepts' if is_one else 'accept'} no requests "
        f"yet, {duration(longest)} after the spawn.",
        meaning="A worker accepts requests only after it has imported the application. Until this import is complete, "
        "the worker serves nothing.",
        clause=f"{names[0].lower()}{names[1:]} {how}{why}",
        change=after_deploy(figures, hanging, f"{see}. ", and_end, f"{see[0].lower()}{see[1:]}{and_end}. ")
        + "Neither a reload nor SIGTERM ends a worker that is still importing the application. Set a timeout on the "
        "calls that the application makes while it is imported, or make these calls after the import.",
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
    window = figures.window
    up = {worker.worker_id: worker.up_seconds for worker in window.workers}
    seconds = window.observed_seconds
    allowed = (1 - UP) * seconds if len(absent) == len(workers) else max((1 - UP) * seconds, START_SECONDS)
    how = [
        f"{counted(len(ended), 'worker')} ended, and uWSGI has not noticed this yet" if ended else "",
        f"{counted(len(missing), 'worker')} {'has ended or is' if len(missing) == 1 else 'have ended or are'} still "
        "starting"
        if missing
        else "",
    ]
    replaced = {
        worker.worker_id
        for worker in workers
        if (worker.starting or inf) <= START_SECONDS and up.get(worker.worker_id, 0.0) >= MOSTLY_UP * seconds
    }
    counts = [] if are_stopped_when_idle(figures) else [each for each in absent if each not in replaced]
    longer = [each for each in counts if seconds - up.get(each, 0.0) > allowed]
    yield Finding(
        code="workers_missing",
        severity="critical" if len(longer) == len(workers) else "warning" if longer else "info",
        title=f"{numbered('Worker', absent)} {'is' if len(absent) == 1 else 'are'} down or starting.",
        evidence=f"{', and '.join(filter(None, how))}.",
        meaning="Until the workers are up, uWSGI serves fewer requests at once. During a reload or a worker restart, "
        "it is normal for workers to be missing for a moment.",
        change=after_deploy(
            figures,
            [worker for worker in workers if worker.worker_id in longer],
            see_log(figures.server, "the reason why the workers do not start", (*STARTS, *ENDS)),
        )
        if longer
        else "",
        clause=f"{numbered('worker', absent)} {'is' if len(absent) == 1 else 'are'} down" if longer else "",
    )
