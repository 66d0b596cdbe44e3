"""Findings about workers that end: killed, lost, respawned, reloaded."""

from __future__ import annotations

from collections.abc import Iterator
from math import inf
from signal import SIGKILL, SIGSEGV

from msgspec.structs import replace

from uwsgi_headroom.analysis.advice import AGAIN_AND_AGAIN, killed_fill_threads
from uwsgi_headroom.analysis.advice import RELOADED_AGAIN as RELOADS
from uwsgi_headroom.analysis.destinations import join_labels, list_main
from uwsgi_headroom.analysis.figures import Figures
from uwsgi_headroom.analysis.findings import recycling
from uwsgi_headroom.analysis.findings.kind import Finding, Kind
from uwsgi_headroom.analysis.log_words import ENDS, LOG, is_proven, proven_signal
from uwsgi_headroom.analysis.wait_states import MOSTLY
from uwsgi_headroom.analysis.worker_states import (
    RECYCLED,
    are_stopped_when_idle,
    count_lost,
    count_respawns,
    find_ends,
    find_unexplained_ends,
    mean_life,
    scales,
)
from uwsgi_headroom.record import ServerRecord, State
from uwsgi_headroom.uwsgi_log.messages import name_signal
from uwsgi_headroom.words.template import Private

SMALL_STACK = 1024
"""In kB. Threads have 8 MB unless `threads-stacksize` is set."""

MANY_LOST = (3, 0.01)
"""At or above this number of lost requests, and this fraction of all requests, the loss is critical."""

LOOP = (recycling.OFTEN, 1.0)
"""This many respawns of one worker per window, and per minute, are a loop if the worker serves little in between."""

LOOP_CHEAPER = (10, 4.0)
"""The same while cheaper mode may end and spawn workers, hardly every 15 s. A worker that serves nothing in between is
in a loop from `LOOP` on: cheaper mode spawns it because requests need it."""

KILLED = 0.5
"""The part of the workers that ended which the kernel must have killed for lack of memory, for this to be the reason.
Its counts are read a few seconds later."""

RELOAD_SECONDS = 60.0
"""Full reloads that follow each other so closely are no deploys."""

HARAKIRI = Kind(
    code="harakiri",
    severity="critical or warning",
    title="uWSGI kills workers whose requests exceed `harakiri`[limit?  ({limit} s)].",
    evidence="uWSGI killed a worker {harakiris:times} in the last {seconds:duration}. The killed workers were serving "
    "at least {lost:request}[other? ; workers also ended {other:times} for other reasons].",
    meaning="All requests in a killed worker are lost, and uWSGI counts none of them.[threads?  With `threads`, a "
    "worker has only one timer, and each further request resets it: a slow one may run longer.]",
    act="[backend? Find out why {backend} does not answer in time: most of these requests wait for it.]"
    "[clients? Put a web server that buffers in front: most of these requests wait for slow clients.]"
    "[not backend, not clients? Find the slow request in uWSGI's log, in lines with `HARAKIRI`.]",
    then="[turn_on? `{turn_on}` shows these lines here. ][not clients? Then set timeouts on the calls that this "
    "request makes. ]If such requests are expected to take longer than `harakiri`, raise `harakiri`.",
    clause="[fills? slow requests hold the threads until `harakiri` kills the workers]",
    page_after=60,
    runbook="UwsgiRequestsLost",
    fills_threads=True,
    event="worker_ended",
)

OUT_OF_MEMORY = Kind(
    code="out_of_memory",
    severity="critical or warning",
    title="{ids:Worker} {ids:was|were} killed because memory ran out.",
    evidence="In the last {seconds:duration}, the kernel killed {oom_kills} {oom_kills:process|processes} for lack of "
    "memory, and {ends:worker} ended, with at least {lost:request} in service.[each?  A worker takes {each:bytes}.]",
    meaning="The kernel kills a process without warning (signal 9) when its cgroup, or the host, has no memory left.",
    act="[cgroup? Raise the memory limit of the cgroup][not cgroup? Add memory to the host, or to its cgroup], or use "
    "fewer `processes`.",
    then="[cgroup? The limit is MemoryMax of a unit, --memory of Docker, resources.limits.memory of a pod. ]If the "
    "memory of the workers grows, set `reload-on-rss`, and `min-worker-lifetime` to 0: uWSGI then replaces a worker "
    "that has grown too large, however young.",
    clause="{ids:worker} {ids:was|were} killed because memory ran out",
    page_after=60,
    runbook="UwsgiRequestsLost",
    event="worker_ended",
)

RELOAD_LOST_REQUESTS = Kind(
    code="requests_lost",
    role="harm",
    severity="critical or warning",
    title="A reload or restart lost requests[not die_on_term? , most likely because of SIGTERM without `die-on-term`].",
    evidence="uWSGI started anew {reloads:times} in the last {seconds:duration}, with at least {lost:request} in "
    "service ({part:fine_percent} of all requests).",
    meaning="[not die_on_term? Without `die-on-term`, SIGTERM does not stop uWSGI: it makes uWSGI reload, and requests "
    "are lost. ]At a graceful reload, uWSGI waits for requests, for {mercy} s at most (`worker-reload-mercy`).",
    act="[not die_on_term? Set `die-on-term` if a service manager sends SIGTERM to stop uWSGI.]"
    "[die_on_term? Raise `worker-reload-mercy` above the duration of the longest request.]",
    then="To reload uWSGI, send SIGHUP: SIGTERM and SIGINT end its requests at once.",
    page_after=60,
    runbook="UwsgiRequestsLost",
    explained_by="respawn_loop",
    event="worker_ended",
)

LOST = replace(
    RELOAD_LOST_REQUESTS,
    title="Workers ended[killed? , killed{killed},] while they served requests.",
    evidence="{ids:Worker} lost at least {lost:request} in the last {seconds:duration} ({part:fine_percent} of all "
    "requests), and `harakiri` was not the cause.[ends?  In total, workers ended {ends} times, and no uWSGI option "
    "that is set explains this.]",
    meaning="[crashed? The workers crashed, exited, or were killed. The kernel kills a process if memory runs "
    "out.][late? When workers reach `max-requests`, uWSGI gives their requests {mercy} s (`worker-reload-mercy`) "
    "before it kills them.][evil? uWSGI kills a worker that exceeds `evil-reload-on-rss` immediately, with all of its "
    "requests.]",
    act="[crashed, options? Check whether you want {options} to end workers.][crashed, not options, fix? "
    "{fix}][crashed, not options, look? Look for `died, killed by signal` in uWSGI's log, and for `Out of memory` in "
    "`dmesg`.][late? Raise `worker-reload-mercy` above the duration of the longest request, or give it a "
    "timeout.][evil? Set `reload-on-rss` instead of `evil-reload-on-rss`, as high as the memory allows.]",
    then=LOG + "[evil? Also set `min-worker-lifetime` to 0, so that `reload-on-rss` replaces young workers, too.]",
    log=ENDS,
)

KEEPS_RESTARTING = Kind(
    code="respawn_loop",
    severity="critical or warning",
    title="{ids:Worker} {ids:keeps|keep} restarting[killed? , killed{killed}][not killed, place? : {place}].",
    evidence="{ended:Worker} ended {respawns:times} in {seconds:duration}[counted? , and served {served:request} "
    "meanwhile].",
    meaning="Until a new worker has started, it serves nothing. With `lazy-apps`, it first loads the application.",
    act="[not works? If this began with a deploy, roll the deploy back.]"
    "[works, not options, stack? Raise `threads-stacksize` ({stack} kB), to 8192 for example.]"
    "[works, not options, not stack? Find out from uWSGI's log why {ids:worker} {ids:ends|end}.]"
    "[works, options? Check whether you want {options} to end workers: the configuration sets this.]",
    then="[stack? A thread whose stack is full ends with signal 11. ][look, not stack? Look in uWSGI's log for an "
    "import error, `died, killed by signal`, or an exit of the application itself. ][fix? {fix} ]"
    + LOG
    + "[not works, options? Also check whether you want {options} to end workers.]",
    clause="{ids:worker} {ids:keeps|keep} restarting[killed? , killed{killed}][not killed, place? : {place}]",
    page_after=60,
    runbook="UwsgiRequestsLost",
    limits="waits",
    keeps_from_serving=True,
    log=ENDS,
    event="worker_ended",
)

RESPAWNED = Kind(
    code="workers_respawned",
    severity="info",
    title="Workers were restarted.",
    evidence="{ended:Worker} ended {respawns:times} in the last {seconds:duration}[life? ; on average over "
    "all workers, a worker lives for {life:duration}].",
    meaning="uWSGI replaces workers that exit or reach a limit, at a reload, and with `idle`.[counted?  No request "
    "was lost.]",
    act="[life? Raise `max-requests`: each worker lives for less than a minute.]",
    event="worker_ended",
)

ENDED = Kind(
    code="workers_ended",
    role="harm",
    severity="critical or warning",
    title="Workers ended unexpectedly[killed? , killed{killed}].",
    evidence="{ended:Worker} ended {respawns:times} in the last {seconds:duration}[not harakiri? , and no uWSGI option "
    "explains why].",
    meaning="It was a chain reload, or the workers crashed, exited, or were killed, as when memory runs "
    "out[not counted?  or by `harakiri`].",
    act="[harakiri? Look for `HARAKIRI` in uWSGI's log: uWSGI kills workers whose requests take over {harakiri}.]"
    "[not harakiri, fix? {fix}][not harakiri, look? Look for `died, killed by signal` in uWSGI's log, and for `Out of "
    "memory` in `dmesg`.]",
    then=LOG,
    page_after=60,
    runbook="UwsgiRequestsLost",
    log=ENDS,
    event="worker_ended",
)

RELOADED = Kind(
    code="reloaded",
    role="harm",
    severity="warning or info",
    title="[info? uWSGI was reloaded or restarted.][warning? uWSGI is reloaded again and again.]",
    evidence="uWSGI started anew {reloads:times} in the last {seconds:duration}[counted? , and its counters began "
    "again at 0].",
    act=f"[warning? {RELOADS.act}]",
    then=f"[warning? {RELOADS.then}]",
    event="reload",
)


def find(figures: Figures) -> Iterator[Finding]:
    """The findings about workers that end, except for costly recycling, which `causes` reports."""
    times, seconds = figures.window.reloads, figures.window.seconds
    are_many = times >= AGAIN_AND_AGAIN and seconds <= times * RELOAD_SECONDS
    if are_many or (times and not lost_in_a_reload(figures)):
        yield RELOADED.found(figures, worse=are_many)
    yield from _harakiri(figures)
    killed = list(_out_of_memory(figures))
    yield from killed or _lost(figures)
    if not killed and not list(recycling.find_recycling(figures)):
        yield from list(_looping(figures)) or _respawns(figures)
    if not find_looping(figures):
        yield from recycling.find_memory_recycled(figures)


def _are_many(figures: Figures, lost: int) -> bool:
    least, part = MANY_LOST
    return lost >= least and lost >= part * (figures.flow.completed + lost)


def _harakiri(figures: Figures) -> Iterator[Finding]:
    window = figures.window
    if window.harakiris:
        lost = max(count_lost(figures), window.harakiris)
        yield HARAKIRI.found(
            figures,
            window,
            worse=_are_many(figures, lost),
            limit=Private(str(figures.server.setup.options.harakiri or "")),
            lost=lost,
            other=max(0, window.respawns - window.harakiris) or None,
            threads=(figures.configured or 0) > len(window.workers),
            turn_on=getattr(figures.server.log, "turn_on", ""),
            fills=killed_fill_threads(figures),
            backend=_did_wait(figures, "backend", "dns")
            and Private(join_labels(list_main(figures.destinations)), "a backend"),
            clients=_did_wait(figures, "client"),
        )


def _did_wait(figures: Figures, *states: State) -> bool:
    """Whether most of the requests that `harakiri` ended waited in these states."""
    waits, harakiri, window = figures.waits, figures.server.setup.options.harakiri or 0, figures.window
    if waits is None:
        return False
    of_completed = sum((waits.each(state) or 0.0) * figures.flow.completed for state in states)
    lost = sum(waits.share(state) for state in states) * waits.total * window.seconds - of_completed
    return lost >= MOSTLY * window.harakiris * harakiri > 0


def _out_of_memory(figures: Figures) -> Iterator[Finding]:
    kills, ends = figures.window.oom_kills, find_ends(figures)
    number = sum(times for _, times, _ in ends) - figures.window.harakiris
    if not kills or number <= 0 or kills < KILLED * number:
        return
    often = any(_is_loop(figures, times, requests) for _, times, requests in ends)
    yield OUT_OF_MEMORY.found(
        figures,
        worse=often or _are_many(figures, max(count_lost(figures), number)),
        ids=[worker_id for worker_id, _, _ in ends],
        oom_kills=kills,
        ends=number,
        each=getattr(figures.server.memory, "per_worker", None),
    )


def lost_in_a_reload(figures: Figures) -> bool:
    """Whether requests were lost, and only full reloads ended workers: a graceful one waits for them."""
    window = figures.window
    return bool(window.reloads and not window.harakiris and not find_ends(figures)) and count_lost(figures) > 0


def _lost(figures: Figures) -> Iterator[Finding]:
    lost, options = count_lost(figures), figures.server.setup.options
    if not lost or figures.window.harakiris:
        return
    part = lost / (figures.flow.completed + lost)
    if lost_in_a_reload(figures):
        yield RELOAD_LOST_REQUESTS.found(figures, options, part=part, worse=_are_many(figures, lost))
        return
    leak, unexplained = recycling.find_leak(figures), find_unexplained_ends(figures)
    ends = sum(times for _, times, _ in unexplained)
    others = {worker_id for worker_id, _, _ in unexplained if ends > lost}
    is_evil = leak is not None and leak.evil
    ended = {worker.worker_id for worker in figures.window.workers if worker.lost}
    lives = [each.requests_per_life or 0.0 for each in figures.server.workers if each.worker_id in ended]
    are_recycled = min(lives, default=0.0) >= RECYCLED * (options.max_requests or inf)
    may_be_killed = proven_signal(figures.server) in ("", f" by signal {name_signal(SIGKILL)}")
    is_late = not is_evil and ((are_recycled and may_be_killed) or is_proven(figures.server, "mercy_kill"))
    yield LOST.found(
        figures,
        worse=_are_many(figures, max(lost, ends)),
        ids=sorted(others | ended),
        part=part,
        ends=Private(f"{ends:,}" * (ends > lost)),
        crashed=not (is_evil or is_late),
        late=is_late,
        evil=is_evil,
    )


def find_looping(figures: Figures) -> list[int]:
    """The workers that end again and again, and serve little in between, or, where that is not counted, for no known
    reason."""
    if are_stopped_when_idle(figures):
        return []
    ends = find_ends(figures) if figures.window.is_counted else find_unexplained_ends(figures)
    return [number for number, respawns, requests in ends if _is_loop(figures, respawns, requests)]


def _looping(figures: Figures) -> Iterator[Finding]:
    ended, looping = find_ends(figures), find_looping(figures)
    if not looping or count_respawns(figures) <= 0:
        return
    # A worker that serves nothing in between (its import fails, for example) loses no requests.
    lost = sum(times for _, times, requests in find_unexplained_ends(figures) if requests >= times)
    is_many = _are_many(figures, lost) or 2 * len(looping) >= len(figures.window.workers)
    if leak := recycling.find_leak(figures):
        yield recycling.LEAK_ENDS_WORKERS.found(figures, leak, worse=is_many)
        return
    yield KEEPS_RESTARTING.found(
        figures,
        worse=is_many,
        ids=looping,
        ended=[worker_id for worker_id, _, _ in ended],
        served=sum(requests for _, _, requests in ended),
        stack=_find_small_stack(figures.server),
        works=not figures.window.is_counted
        or any(requests >= times for worker_id, times, requests in ended if worker_id in looping),
    )


def _find_small_stack(server: ServerRecord) -> int | None:
    """The size of threads' stacks in kB, where it may end workers."""
    size = server.setup.options.threads_stacksize or SMALL_STACK
    return size * (size < SMALL_STACK and name_signal(SIGSEGV) in proven_signal(server)) or None


def _respawns(figures: Figures) -> Iterator[Finding]:
    ended, unexplained = find_ends(figures), find_unexplained_ends(figures)
    respawns = count_respawns(figures)
    if respawns <= 0 or scales(figures) or are_stopped_when_idle(figures) or (unexplained and count_lost(figures)):
        return
    ids, life = [worker_id for worker_id, _, _ in unexplained or ended], mean_life(figures)
    if unexplained:
        seconds = not figures.window.is_counted and figures.server.setup.options.harakiri
        harakiri = seconds and Private(f"{seconds} s", "that time")
        yield ENDED.found(figures, ended=ids, harakiri=harakiri, worse=_are_many(figures, respawns))
    else:
        is_short = life < recycling.SHORT_LIFE and any(times >= LOOP[0] for _, times, _ in ended)
        yield RESPAWNED.found(figures, ended=ids, life=is_short and life)


def _is_loop(figures: Figures, respawns: int, requests: int) -> bool:
    """Whether a worker with these respawns and requests in the window is in a loop, and not recycled."""
    least, a_minute = LOOP_CHEAPER if scales(figures) and requests >= respawns else LOOP
    most = figures.server.setup.options.max_requests
    enough = min(recycling.SERVED, RECYCLED * (most or inf))
    return respawns >= max(least, a_minute * figures.window.seconds / 60) and requests < enough * respawns
