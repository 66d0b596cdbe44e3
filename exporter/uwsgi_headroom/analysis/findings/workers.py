"""Findings about workers that end: killed, lost, respawned, recycled, reloaded."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from uwsgi_headroom.analysis.advice import Advice, killed_fill_threads
from uwsgi_headroom.analysis.figures import Figures
from uwsgi_headroom.analysis.findings.finding import Finding, Severity
from uwsgi_headroom.analysis.littles_law import judge_waiting, shows_a_limit, waiting_clause
from uwsgi_headroom.analysis.log_words import ENDS, proven_place, proven_signal, see_log
from uwsgi_headroom.analysis.settings import DEFAULT_MERCY, DEFAULT_MIN_LIFETIME, MAX_REQUESTS_DELTA, parse_version
from uwsgi_headroom.analysis.worker_states import (
    AWAY,
    after_deploy,
    are_reloaded,
    find_ends,
    find_unexplained_ends,
    part_away,
    scales,
)
from uwsgi_headroom.words.formats import (
    byte_size,
    counted,
    counted_or_no,
    duration,
    listed,
    numbered,
    percent,
    repeated,
)

MANY_LOST = (3, 0.01)
"""At or above this number of lost requests, and this fraction of all requests, the loss is critical."""

LOOP = (3, 1.0)
"""This many respawns of one worker per window, and per minute, are a loop if the worker serves little in between."""

LOOP_CHEAPER = (10, 4.0)
"""The same while cheaper mode may end and spawn workers, which it hardly does every 15 s. A worker that serves nothing
in between is in a loop from `LOOP` on: cheaper mode spawns it because requests need it."""

SERVED = 50
"""With at least this many requests between respawns on average, a worker is recycled (`max-requests`, `reload-on-rss`)
and not in a loop."""

RECYCLED = 0.7
"""A worker that served at least this fraction of `max-requests` has reached it: `max-requests-delta` varies it by
worker."""

KILLED = 0.5
"""The part of the workers that ended which the kernel has to have killed for lack of memory, so that this is why they
ended. Its counts are read a few seconds later."""

SHORT_LIFE = 60.0
"""Seconds between respawns of one worker below which recycling costs more than it saves."""


def find(figures: Figures) -> Iterator[Finding]:
    """The findings about workers that end, except for costly recycling, which `causes` reports."""
    yield from _harakiri(figures)
    killed = list(_out_of_memory(figures))
    yield from killed or _lost(figures)
    if not killed and not list(find_recycling(figures)):
        yield from _respawns(figures)
    yield from _memory_recycled(figures)
    if figures.window.reloads and not lost_in_a_reload(figures):
        yield Finding(
            code="reloaded",
            severity="info",
            title="uWSGI was reloaded.",
            evidence=f"This happened {repeated(figures.window.reloads)} in the last "
            f"{duration(figures.window.seconds)}, and uWSGI's counters restarted.",
        )


def _severity(figures: Figures, lost: int) -> Severity:
    least, part = MANY_LOST
    return "critical" if lost >= least and lost >= part * (figures.flow.requests + lost) else "warning"


def _part_of(figures: Figures, lost: int) -> str:
    part = lost / (figures.flow.requests + lost)
    return percent(part) if part >= 0.0005 else "less than 0.1 %"


def _lost_count(figures: Figures) -> int:
    return sum(worker.lost for worker in figures.window.workers)


def _harakiri(figures: Figures) -> Iterator[Finding]:
    window = figures.window
    if not window.harakiris:
        return
    lost = max(_lost_count(figures), window.harakiris)
    threads = (figures.configured or 0) > len(window.workers)
    other = max(0, window.respawns - window.harakiris)
    yield Finding(
        code="harakiri",
        severity=_severity(figures, lost),
        title=f"uWSGI kills workers for requests over `harakiri`{_set_to(figures, 'harakiri', ' s')}.",
        evidence=f"This happened {repeated(window.harakiris)} in the last {duration(window.seconds)}, with at least "
        f"{counted(lost, 'request')} in service"
        + (f"; workers also ended {repeated(other)} for other reasons." if other else "."),
        meaning="All requests in a killed worker are lost, and uWSGI counts none of them."
        + (
            " With `threads`, a worker has only one timer, and every other request of the worker resets it. A slow "
            "request may therefore run longer than `harakiri`. If the timer fires, all requests of the worker are lost."
            if threads
            else ""
        ),
        clause="slow requests hold the threads until `harakiri` kills them" if killed_fill_threads(figures) else "",
        change=f"Find the slow request in uWSGI's log, in lines with `HARAKIRI`{_how_to_read(figures)}. Then set "
        "timeouts on the calls that this request makes. If the request takes so long on purpose, raise `harakiri`.",
    )


def _out_of_memory(figures: Figures) -> Iterator[Finding]:
    """Workers that ended while the kernel killed about as many processes for lack of memory."""
    kills, ends = figures.window.oom_kills, find_ends(figures)
    number = sum(times for _, times, _ in ends) - figures.window.harakiris
    if not kills or number <= 0 or kills < KILLED * number:
        return
    lost, memory = _lost_count(figures), figures.server.memory
    is_cgroup = memory is not None and memory.limited_by == "cgroup"
    numbers = [worker_id for worker_id, _, _ in ends]
    often = any(_is_loop(figures, times, requests) for _, times, requests in ends)
    yield Finding(
        code="out_of_memory",
        severity="critical" if often else _severity(figures, max(lost, number)),
        title=f"{numbered('Worker', numbers)} {'was' if len(numbers) == 1 else 'were'} killed because memory ran out.",
        evidence=f"The kernel killed a process {repeated(kills)} for lack of memory in the last "
        f"{duration(figures.window.seconds)}, and workers ended {repeated(number)}, with at least "
        f"{counted(lost, 'request')} in service."
        + (f" A worker takes {byte_size(memory.per_worker)}." if memory else ""),
        meaning="The kernel kills a process at once (signal 9) when "
        + ("the cgroup reaches its memory limit." if is_cgroup else "the host, or a cgroup, has no memory left."),
        clause=f"{numbered('worker', numbers)} {'was' if len(numbers) == 1 else 'were'} killed because memory ran out",
        change=(
            "Raise the memory limit of the cgroup (MemoryMax, --memory, resources.limits.memory)"
            if is_cgroup
            else "Add memory to the host"
            if memory
            else "Raise the memory limit of the cgroup (MemoryMax, --memory, resources.limits.memory) if it has one, "
            "or add memory to the host"
        )
        + ", or use fewer `processes`. If the memory of the workers grows, set `reload-on-rss`: uWSGI then replaces a "
        f"large worker between two requests.{_say_too_young(figures, number)}",
    )


def _say_too_young(figures: Figures, ends: int) -> str:
    """What else to set, if workers end before `min-worker-lifetime` lets uWSGI replace them; empty if they do not."""
    least, life = _min_lifetime(figures), figures.window.seconds * len(figures.window.workers) / ends
    if life > 2 * least:
        return ""
    return (
        f" Also set `min-worker-lifetime` to 0: uWSGI replaces no worker that is younger than `min-worker-lifetime` "
        f"({least} s), and these workers exit after {duration(life)} on average."
    )


def _min_lifetime(figures: Figures) -> int:
    known = figures.server.setup.options.min_worker_lifetime
    return DEFAULT_MIN_LIFETIME if known is None else known


def lost_in_a_reload(figures: Figures) -> bool:
    """Whether requests were lost, and only full reloads ended workers."""
    window = figures.window
    return bool(window.reloads and not window.harakiris and not find_ends(figures)) and _lost_count(figures) > 0


def _reloaded_brutally(figures: Figures) -> Iterator[Finding]:
    """The one finding about a reload that ended requests in service: a graceful one waits for them."""
    if not lost_in_a_reload(figures):
        return
    options, lost = figures.server.setup.options, _lost_count(figures)
    mercy = options.worker_reload_mercy
    by_signal = not options.die_on_term
    yield Finding(
        code="requests_lost",
        severity=_severity(figures, lost),
        title="uWSGI was reloaded brutally, most likely by SIGTERM without `die-on-term`, and requests were lost."
        if by_signal
        else "uWSGI was reloaded, and requests that were still in service were lost.",
        evidence=f"This happened {repeated(figures.window.reloads)} in the last {duration(figures.window.seconds)}, "
        f"with at least {counted(lost, 'request')} in service: {_part_of(figures, lost)} of all.",
        meaning=(
            "Without `die-on-term`, SIGTERM does not stop uWSGI. SIGTERM makes uWSGI reload, and the requests in "
            "service are lost. SIGHUP makes uWSGI complete its requests before it reloads"
            if by_signal
            else "A reload waits for requests"
        )
        + f", for {mercy or DEFAULT_MERCY} s at most (`worker-reload-mercy`).",
        change="Set `die-on-term` if a service manager sends SIGTERM to stop uWSGI. Send SIGHUP to reload uWSGI."
        if by_signal
        else f"Raise `worker-reload-mercy`{_set_to(figures, 'worker_reload_mercy', ' s')} above the time of the "
        "longest request.",
    )


def _lost(figures: Figures) -> Iterator[Finding]:
    lost = _lost_count(figures)
    if not lost or figures.window.harakiris:
        return
    if lost_in_a_reload(figures):
        yield from _reloaded_brutally(figures)
        return
    unexplained = find_unexplained_ends(figures)
    ends = sum(times for _, times, _ in unexplained)
    ended = {worker.worker_id for worker in figures.window.workers if worker.lost}
    leak = _find_leak(figures)
    is_evil = leak is not None and leak.option == EVIL
    if ends > lost:
        ended.update(worker_id for worker_id, _, _ in unexplained)
    yield Finding(
        code="requests_lost",
        severity=_severity(figures, max(lost, ends)),
        title=f"Workers ended{proven_signal(figures.server)} with requests in service.",
        evidence=f"{numbered('Worker', sorted(ended))} lost at least {counted(lost, 'request')} in the last "
        f"{duration(figures.window.seconds)}, {_part_of(figures, lost)} of all, and not by `harakiri`."
        + (
            f" In all, workers ended {counted(ends, 'time')}, and no uWSGI option explains this: if each end lost one "
            f"request, {_part_of(figures, ends)} of all."
            if ends > lost
            else ""
        ),
        meaning=f"Above the limit of `{EVIL}`, uWSGI kills a worker at once (SIGKILL), with all of its requests."
        if is_evil
        else "The workers crashed, exited, or were killed. The kernel kills a process if memory runs out.",
        change=_advise_on_leak(figures, leak) if leak and is_evil else _see_why(figures),
    )


def find_looping(figures: Figures) -> list[int]:
    """The workers that end again and again, and serve little in between."""
    return [number for number, respawns, requests in find_ends(figures) if _is_loop(figures, respawns, requests)]


def _respawns(figures: Figures) -> Iterator[Finding]:
    window = figures.window
    ended = find_ends(figures)
    looping = find_looping(figures)
    respawns = sum(times for _, times, _ in ended) - window.harakiris
    if looping and respawns > 0:
        # A worker that serves nothing in between (its import fails, for example) loses no requests.
        lost = sum(times for _, times, requests in find_unexplained_ends(figures) if requests >= times)
        lose_many = lost > 0 and _severity(figures, lost) == "critical"
        is_many = lose_many or 2 * len(looping) >= len(window.workers)
        leak = _find_leak(figures)
        why = (
            _advise_on_leak(figures, leak)
            if leak
            else _check_options(figures)
            + see_log(
                figures.server,
                "what ends the worker: an import error, `died, killed by signal`, or the application itself exits",
                ENDS,
            )
        )
        down = [each.worker_id for each in figures.server.workers if each.state == "down" and each.worker_id in looping]
        yield Finding(
            code="respawn_loop",
            severity="critical" if is_many else "warning",
            title=f"{numbered('Worker', looping)} {_keep(looping)} restarting{_ended_by(figures)}.",
            clause=f"{numbered('worker', looping)} {_keep(looping)} restarting{_ended_by(figures)}",
            evidence=f"{numbered('Worker', [worker_id for worker_id, _, _ in ended])} ended {repeated(respawns)} in "
            f"{duration(window.seconds)}"
            + (f", and {repeated(window.harakiris)} by `harakiri`" if window.harakiris else "")
            + f", and served {counted_or_no(sum(requests for _, _, requests in ended), 'request')} meanwhile"
            + (f"; {numbered('worker', down)} {'is' if len(down) == 1 else 'are'} down now." if down else ".")
            + (f" {_describe_leak(figures, leak)}." if leak else ""),
            meaning="Until the next worker is there, its threads serve no request; with `lazy-apps`, it first loads "
            "the application.",
            change=after_deploy(figures, [each for each in figures.server.workers if each.worker_id in looping], why)
            if all(requests < times for worker_id, times, requests in ended if worker_id in looping)
            else why,
        )
    elif respawns > 0 and not scales(figures):
        seconds = window.seconds * len(window.workers) / respawns
        short = seconds < SHORT_LIFE and any(times >= LOOP[0] for _, times, _ in ended)
        if unexplained := find_unexplained_ends(figures):
            if not _lost_count(figures):
                yield _ended(figures, [worker_id for worker_id, _, _ in unexplained], respawns)
            return
        yield Finding(
            code="workers_respawned",
            severity="info",
            title="Workers were restarted.",
            evidence=f"{numbered('Worker', [worker_id for worker_id, _, _ in ended])} ended {repeated(respawns)} in "
            f"the last {duration(window.seconds)}"
            + (f", each after {duration(seconds)} on average." if short else "."),
            meaning="uWSGI replaced the workers as in a reload of the workers, and no request was lost."
            if are_reloaded(figures, ended)
            else f"uWSGI replaces a worker that reaches `max-requests`{_set_to(figures, 'max_requests')} or "
            f"`reload-on-rss`{_set_to(figures, 'reload_on_rss', ' MB')}, and a worker that exits.",
            change="Raise `max-requests`: a worker serves for less than a minute." if short else "",
        )


def _is_loop(figures: Figures, respawns: int, requests: int) -> bool:
    """Whether a worker with these respawns and requests in the window is in a loop."""
    is_cheaper = scales(figures) and requests >= respawns
    least, a_minute = LOOP_CHEAPER if is_cheaper else LOOP
    often = respawns >= max(least, a_minute * figures.window.seconds / 60)
    return often and requests < _served_enough(figures) * respawns


LIFE = 3600.0
"""Seconds that a worker should live at least: each respawn then costs next to nothing."""


def _round_up(requests: float) -> int:
    """The number of requests as a round number to set, at least 1,000."""
    return max(1, math.ceil(requests / 1000)) * 1000


def find_recycling(figures: Figures) -> Iterator[Finding]:
    """The finding about workers that reach `max-requests`, or a limit of memory, so early that it costs capacity."""
    yield from list(_reach_max_requests(figures)) or _reach_memory_limit(figures)


def _reach_max_requests(figures: Figures) -> Iterator[Finding]:
    window, ended = figures.window, find_ends(figures)
    most, away = figures.server.setup.options.max_requests, part_away(figures)
    respawns = sum(times for _, times, _ in ended) - window.harakiris
    served = sum(requests for _, _, requests in ended)
    if not most or respawns < LOOP[0] or served < RECYCLED * most * respawns / 2:
        return
    lives = window.seconds * len(window.workers) / respawns
    if lives >= SHORT_LIFE or (most >= SERVED and (away is None or away < AWAY)):
        return
    enough = _round_up(max(served, LIFE * served / window.seconds) / len(window.workers))
    yield Finding(
        code="respawn_loop",
        severity="critical" if judge_waiting(figures.flow) == "severe" else "warning",
        title=f"Workers are replaced too often: `max-requests` is {most}.",
        evidence=f"Each worker is replaced after {duration(lives)} on average: {counted(respawns, 'respawn')} in "
        f"{duration(window.seconds)}; "
        + ("" if away is None else f"workers are down for {percent(away)} of the time; ")
        + f"{waiting_clause(figures.flow)}.",
        meaning=f"uWSGI replaces a worker after {counted(most, 'request')}, if the worker is at least as old as "
        f"`min-worker-lifetime` ({_min_lifetime(figures)} s). uWSGI spawns only a few workers per second.",
        clause="workers are replaced too often",
        change=f"Raise `max-requests` to {enough}, so that a worker lives for an hour or more, or remove "
        "`max-requests`.",
        settings=(("max-requests", enough),),
    )


TOGETHER_SECONDS = 5
"""The longest time between the first and the last new process of workers that reach `max-requests` together: uWSGI
spawns about two a second."""

APART = 4
"""Only if workers live at least this many times as long, it is no chance that they end so close to each other."""


def find_recycled_together(figures: Figures) -> Iterator[Finding]:
    """The finding about workers that all reach `max-requests` at the same time, so that requests wait."""
    window, options = figures.window, figures.server.setup.options
    most, ended, records = options.max_requests, find_ends(figures), figures.server.workers
    spawned = [worker.last_spawn for worker in records if worker.last_spawn]
    if not most or most < SERVED or len(records) < 2 or len(ended) < len(records) or len(spawned) < len(records):
        return
    each = min(worker.requests_per_life or 0.0 for worker in records)
    if each < RECYCLED * most:
        return  # they ended for another reason, such as a reload of the workers
    spread = max(spawned) - min(spawned)
    lives = window.seconds * len(records) / sum(times for _, times, _ in ended)
    if spread > TOGETHER_SECONDS or lives < APART * spread or not shows_a_limit(figures.flow):
        return
    nobody, served = window.no_worker_seconds or 0.0, round(each) if each >= HELD_BACK * most else most
    yield Finding(
        code="recycled_together",
        severity="warning",
        title="All workers reach `max-requests` at the same time, and are replaced together.",
        evidence=f"All {len(records)} were replaced within {duration(max(1, spread))}, after {served} requests each"
        + (f"; nobody served for {duration(nobody)} of {duration(window.seconds)}" if nobody else "")
        + f"; {waiting_clause(figures.flow)}.",
        meaning="Workers that start together and share the requests evenly also restart together, again and again. "
        "At each restart, requests wait until the first worker has loaded the application.",
        clause="all workers reach `max-requests` together",
        **_stagger(figures, most, served)._asdict(),
    )


HELD_BACK = 1.5
"""Workers that all complete this many times `max-requests` before they end were held back by `min-worker-lifetime`."""


def _stagger(figures: Figures, most: int, served: int) -> Advice:
    version, workers = parse_version(figures.server.version), len(figures.server.workers)
    if version and version < MAX_REQUESTS_DELTA:
        return Advice(
            "Update uWSGI to 2.0.29, and set `max-requests-delta`, which restarts each worker after a different number "
            "of requests. Until you update uWSGI, raise `max-requests`, so that the workers restart less often."
        )
    if served > most:
        enough = _round_up(LIFE * figures.flow.requests / figures.window.seconds / workers)
        delta = max(1, enough // workers)
        return Advice(
            f"Raise `max-requests` to {enough}, and set `max-requests-delta` to {delta}. With the present setting, all "
            f"workers complete {most} requests before they are {_min_lifetime(figures)} s old (`min-worker-lifetime`). "
            "uWSGI then replaces all of them at this age.",
            (("max-requests", enough), ("max-requests-delta", delta)),
        )
    now, delta = figures.server.setup.options.max_requests_delta, max(1, most // workers)
    what = f"Raise `max-requests-delta` from {now}" if now else "Set `max-requests-delta`"
    return Advice(
        f"{what} to {delta}: each worker then ends after {delta} requests more than the worker before it.",
        (("max-requests-delta", delta),),
    )


EVIL = "evil-reload-on-rss"
"""The option whose limit ends a worker in the middle of its requests, by SIGKILL."""


class _Leak(NamedTuple):
    """Memory that grows with every request. each: bytes a request, at least, because samples miss the last requests of
    a process; option, limit: what ends a worker, at so many megabytes; life: seconds that it lives on average."""

    each: float
    option: str
    limit: int
    respawns: int
    processes: int
    life: float


def _find_leak(figures: Figures) -> _Leak | None:
    """The leak that ends workers by a limit of memory; None if there is none, or if uWSGI reports no memory."""
    options, window = figures.server.setup.options, figures.window
    option = "reload-on-rss" if options.reload_on_rss else EVIL
    limit = options.reload_on_rss or options.evil_reload_on_rss
    grown = sum(worker.grown_kilobytes or 0 for worker in window.workers) * 1024
    respawns = sum(times for _, times, _ in find_ends(figures)) - window.harakiris
    if not limit or respawns <= 0 or not figures.flow.requests or grown < LEAK * limit * 2**20 * respawns:
        return None
    processes = respawns + len(window.workers)
    # What a process has after its first request is where it begins.
    each = grown / max(1, figures.flow.requests - processes)
    return _Leak(each, option, limit, respawns, processes, window.seconds * len(window.workers) / respawns)


def _describe_leak(figures: Figures, leak: _Leak) -> str:
    return (
        f"Memory grows by at least {byte_size(round(leak.each))} per request, summed over {leak.processes:,} processes "
        f"of {counted(len(figures.window.workers), 'worker')}; uWSGI replaces each process after {duration(leak.life)} "
        f"on average, above {leak.limit} MB"
    )


def _advise_on_leak(figures: Figures, leak: _Leak) -> str:
    instead = (
        f"Set `reload-on-rss` instead of `{EVIL}`, which kills a worker in the middle of its requests."
        f"{_say_too_young(figures, leak.respawns)} "
        if leak.option == EVIL
        else ""
    )
    return (
        f"{instead}Raise {'this limit' if instead else f'`{leak.option}`'} ({leak.limit} MB) as far as the memory "
        "allows, so that a worker lives for some minutes. Then find out what the application keeps in memory after "
        "each request."
    )


def _reach_memory_limit(figures: Figures) -> Iterator[Finding]:
    leak, away = _find_leak(figures), part_away(figures)
    if leak is None or leak.respawns < LOOP[0] or leak.life >= SHORT_LIFE or away is None or away < AWAY:
        return
    yield Finding(
        code="respawn_loop",
        severity="critical" if judge_waiting(figures.flow) == "severe" else "warning",
        title="Workers are replaced too often: the application's memory grows with every request.",
        evidence=f"{_describe_leak(figures, leak)}; workers are down for {percent(away)} of the time; "
        f"{waiting_clause(figures.flow)}.",
        meaning=f"Each worker soon reaches `{leak.option}`, and its replacement has to load the application first.",
        clause="the application's memory grows with every request, and `reload-on-rss` replaces the workers too often"
        if leak.option != EVIL
        else "the application's memory grows with every request, and `evil-reload-on-rss` kills the workers",
        change=_advise_on_leak(figures, leak),
    )


def _memory_recycled(figures: Figures) -> Iterator[Finding]:
    """The finding about memory that grows from request to request, while a limit of memory replaces the workers: each
    of them looks well, and only the sum over their lives shows the leak."""
    leak = _find_leak(figures)
    if leak is None or list(find_recycling(figures)) or find_looping(figures):
        return
    lost = _lost_count(figures)
    yield Finding(
        code="memory_recycled",
        severity="info",
        title="The application's memory grows with every request, and `reload-on-rss` replaces its workers."
        if leak.option != EVIL
        else "The application's memory grows with every request, and `evil-reload-on-rss` kills its workers.",
        evidence=f"{_describe_leak(figures, leak)}; "
        + (f"at least {counted(lost, 'request')} lost." if lost else "no request was lost."),
        meaning=f"With `{leak.option}`, the leak does not fill the memory. But after each restart, a worker has to "
        "load the application again.",
    )


LEAK = 0.2
"""If the memory of a process grows by at least this part of `reload-on-rss` before it is replaced, it leaks. Below it,
the limit is hardly above what the application needs."""


def _ended(figures: Figures, ended: Sequence[int], ends: int) -> Finding:
    return Finding(
        code="workers_ended",
        severity=_severity(figures, ends),
        title=f"Workers ended unexpectedly{proven_signal(figures.server)}.",
        evidence=f"{numbered('Worker', ended)} ended {repeated(ends)} in the last "
        f"{duration(figures.window.seconds)}, and no uWSGI option explains this.",
        meaning="Either a chain reload is under way, or the workers crashed, exited, or were killed. The kernel kills "
        "a process if memory runs out. A request in such a worker is lost.",
        change=_see_why(figures),
    )


def _served_enough(figures: Figures) -> float:
    """With at least this many requests between respawns, a worker is recycled: nearly `max-requests`, if that is
    known."""
    most = figures.server.setup.options.max_requests
    return min(SERVED, RECYCLED * most) if most else SERVED


def _set_to(figures: Figures, option: str, unit: str = "") -> str:
    """An option's value in parentheses, if it is known from the command line or a file."""
    value = getattr(figures.server.setup.options, option)
    return "" if value is None else f" ({value}{unit})"


def _check_options(figures: Figures) -> str:
    """The options that may end the workers, as a sentence before what else is to be seen; empty if none is set."""
    names = figures.server.setup.options.ends_workers
    if not names:
        return ""
    return f"Check whether {listed([f'`{name}`' for name in names])} should end workers: the configuration sets this. "


def _see_why(figures: Figures) -> str:
    """Where to find why workers ended, or what the log says of it."""
    return _check_options(figures) + see_log(
        figures.server, "`died, killed by signal`, and `dmesg` for `Out of memory`", ENDS
    )


def _ended_by(figures: Figures) -> str:
    """What ends workers, as the end of a clause: a limit of memory that a leak reaches, or what the log says, if their
    processes agree."""
    signal, place, leak = proven_signal(figures.server), proven_place(figures.server, ENDS), _find_leak(figures)
    if not leak:
        return f", killed{signal}" if signal else f": {place}" if place else ""
    is_evil = leak.option == EVIL
    return ", because memory reaches `evil-reload-on-rss`" if is_evil else ", because memory reaches `reload-on-rss`"


def _how_to_read(figures: Figures) -> str:
    log = figures.server.log
    return f" (`{log.turn_on}` shows these lines here)" if log and log.turn_on else ""


def _keep(workers: Sequence[int]) -> str:
    return "keeps" if len(workers) == 1 else "keep"
