"""Findings about workers that end: killed, lost, respawned, reloaded."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from signal import SIGKILL

from uwsgi_headroom.analysis.bottlenecks import AGAIN_AND_AGAIN, find_reloader, killed_fill_threads
from uwsgi_headroom.analysis.figures import Figures
from uwsgi_headroom.analysis.findings.finding import Finding, Severity
from uwsgi_headroom.analysis.findings.recycling import (
    EVIL,
    OFTEN,
    SERVED,
    SHORT_LIFE,
    advise_on_leak,
    describe_leak,
    find_leak,
    find_memory_recycled,
    find_recycling,
    say_too_young,
)
from uwsgi_headroom.analysis.log_words import ENDS, is_proven, proven_place, proven_signal, see_log
from uwsgi_headroom.analysis.settings import DEFAULT_MERCY
from uwsgi_headroom.analysis.worker_states import (
    RECYCLED,
    after_deploy,
    are_reloaded,
    are_stopped_when_idle,
    find_ends,
    find_unexplained_ends,
    scales,
)
from uwsgi_headroom.uwsgi_log.messages import name_signal
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

LOOP = (OFTEN, 1.0)
"""This many respawns of one worker per window, and per minute, are a loop if the worker serves little in between."""

LOOP_CHEAPER = (10, 4.0)
"""The same while cheaper mode may end and spawn workers, which it hardly does every 15 s. A worker that serves nothing
in between is in a loop from `LOOP` on: cheaper mode spawns it because requests need it."""

KILLED = 0.5
"""The part of the workers that ended which the kernel has to have killed for lack of memory, so that this is why they
ended. Its counts are read a few seconds later."""


def find(figures: Figures) -> Iterator[Finding]:
    """The findings about workers that end, except for costly recycling, which `causes` reports."""
    yield from _harakiri(figures)
    killed = list(_out_of_memory(figures))
    yield from killed or _lost(figures)
    if not killed and not list(find_recycling(figures)):
        yield from _respawns(figures)
    if not find_looping(figures):
        yield from find_memory_recycled(figures)
    if (times := figures.window.reloads) and not lost_in_a_reload(figures):
        is_loop = times >= AGAIN_AND_AGAIN and figures.window.seconds <= times * RELOAD_SECONDS
        yield Finding(
            code="reloaded",
            severity="warning" if is_loop else "info",
            title="uWSGI is reloaded again and again." if is_loop else "uWSGI was reloaded.",
            evidence=f"uWSGI was reloaded {repeated(times)} in the last {duration(figures.window.seconds)}, and its "
            "counters began again at 0.",
            change=find_reloader(figures) if is_loop else "",
        )


RELOAD_SECONDS = 60.0
"""Full reloads that follow each other so closely are no deploys."""


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
        title=f"uWSGI kills workers whose requests exceed `harakiri`{_set_to(figures, 'harakiri', ' s')}.",
        evidence=f"uWSGI killed a worker {repeated(window.harakiris)} in the last {duration(window.seconds)}. The "
        f"killed workers were serving at least {counted(lost, 'request')}"
        + (f"; workers also ended {repeated(other)} for other reasons." if other else "."),
        meaning="All requests in a killed worker are lost, and uWSGI counts none of them."
        + (
            " With `threads`, a worker has only one timer, and each further request of the worker resets it. A slow "
            "request may therefore run longer than `harakiri`. If the timer fires, all requests of the worker are lost."
            if threads
            else ""
        ),
        clause="slow requests hold the threads until `harakiri` kills the workers"
        if killed_fill_threads(figures)
        else "",
        change=f"Find the slow request in uWSGI's log, in lines with `HARAKIRI`{_how_to_read(figures)}. Then set "
        "timeouts on the calls that this request makes. If such requests are expected to take longer than `harakiri`, "
        "raise `harakiri`.",
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
        evidence=f"In the last {duration(figures.window.seconds)}, the kernel killed {kills:,} "
        f"{'process' if kills == 1 else 'processes'} because memory ran out, and {counted(number, 'worker')} ended, "
        f"with at least {counted(lost, 'request')} in service."
        + (f" A worker takes {byte_size(memory.per_worker)}." if memory else ""),
        meaning="The kernel kills a process without warning (signal 9) when "
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
        f"worker that has grown too large, after it has completed a request.{say_too_young(figures, number)}",
    )


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
        title="A reload lost requests, most likely because of SIGTERM without `die-on-term`."
        if by_signal
        else "uWSGI was reloaded, and requests that were still in service were lost.",
        evidence=f"uWSGI was reloaded {repeated(figures.window.reloads)} in the last "
        f"{duration(figures.window.seconds)}, with at least {counted(lost, 'request')} in service "
        f"({_part_of(figures, lost)} of all requests).",
        meaning=(
            "Without `die-on-term`, SIGTERM does not stop uWSGI. SIGTERM makes uWSGI reload, and the requests in "
            "service are lost. On SIGHUP"
            if by_signal
            else "At a reload"
        )
        + f", uWSGI waits until its requests are complete, for {mercy or DEFAULT_MERCY} s at most "
        "(`worker-reload-mercy`)" + (", and then reloads." if by_signal else "."),
        change="Set `die-on-term` if a service manager sends SIGTERM to stop uWSGI. To reload uWSGI, send SIGHUP."
        if by_signal
        else f"Raise `worker-reload-mercy`{_set_to(figures, 'worker_reload_mercy', ' s')} above the duration of the "
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
    leak = find_leak(figures)
    is_evil = leak is not None and leak.option == EVIL
    is_recycled = not is_evil and _are_recycled(figures, ended)
    is_said = not is_evil and is_proven(figures.server, "mercy_kill")
    mercy = figures.server.setup.options.worker_reload_mercy or DEFAULT_MERCY
    if ends > lost:
        ended.update(worker_id for worker_id, _, _ in unexplained)
    signal = proven_signal(figures.server)
    yield Finding(
        code="requests_lost",
        severity=_severity(figures, max(lost, ends)),
        title=f"Workers {'ended' if not signal else f'were killed{signal}'} while they served requests.",
        evidence=f"{numbered('Worker', sorted(ended))}{' together' if len(ended) > 1 else ''} lost at least "
        f"{counted(lost, 'request')} in the last {duration(figures.window.seconds)} ({_part_of(figures, lost)} of all "
        "requests), and `harakiri` was not the cause."
        + (
            f" In total, workers ended {counted(ends, 'time')}, and no uWSGI option that is set explains this. If each "
            f"time cost one request, {_part_of(figures, ends)} of all requests were lost."
            if ends > lost
            else ""
        ),
        meaning=f"If a worker exceeds `{EVIL}`, uWSGI kills it immediately (SIGKILL), and all of its requests are lost."
        if is_evil
        else f"{'These workers end when they reach' if is_recycled else 'Workers end, for example, when they reach'} "
        f"`max-requests`{_set_to(figures, 'max_requests')}. They take no new requests then, and uWSGI gives those in "
        f"service {mercy} s (`worker-reload-mercy`) before it kills the worker."
        if is_recycled or is_said
        else "The workers crashed, exited, or were killed. The kernel kills a process if memory runs out.",
        change=advise_on_leak(figures, leak)
        if leak and is_evil
        else f"Raise `worker-reload-mercy` ({mercy} s) above the duration of the longest request, or give that request "
        "a timeout."
        if is_recycled and not is_said
        else _see_why(figures),
    )


def _are_recycled(figures: Figures, ended: set[int]) -> bool:
    """Whether all processes of these workers, which lost requests, ended after `max-requests` requests or so, and no
    signal is proven that ended one."""
    most, workers = figures.server.setup.options.max_requests, figures.server.workers
    lives = [worker.requests_per_life or 0.0 for worker in workers if worker.worker_id in ended]
    served = bool(most and lives) and min(lives) >= RECYCLED * (most or 0)
    return served and proven_signal(figures.server) in ("", f" by signal {name_signal(SIGKILL)}")


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
        leak = find_leak(figures)
        why = (
            advise_on_leak(figures, leak)
            if leak
            else _check_options(figures)
            + see_log(
                figures.server,
                "the reason why the worker ends: an import error, `died, killed by signal`, or an exit of the "
                "application itself",
                ENDS,
            )
        )
        down = [each.worker_id for each in figures.server.workers if each.state == "down" and each.worker_id in looping]
        yield Finding(
            code="respawn_loop",
            severity="critical" if is_many else "warning",
            title=f"{numbered('Worker', looping)} {_keep(looping)} restarting{_ended_by(figures)}.",
            clause=f"{numbered('worker', looping)} {_keep(looping)} restarting{_ended_by(figures)}",
            evidence=f"{_say_ends([worker_id for worker_id, _, _ in ended], respawns)} in "
            f"{duration(window.seconds)}"
            + (f", and {repeated(window.harakiris)} by `harakiri`" if window.harakiris else "")
            + f", and served {counted_or_no(sum(requests for _, _, requests in ended), 'request')} meanwhile"
            + (f"; {numbered('worker', down)} {'is' if len(down) == 1 else 'are'} down now." if down else ".")
            + (f" {describe_leak(figures, leak)}." if leak else ""),
            meaning="Until the new worker has started, its threads serve no request. With `lazy-apps`, the new worker "
            "first loads the application.",
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
            evidence=f"{_say_ends([worker_id for worker_id, _, _ in ended], respawns)} in "
            f"the last {duration(window.seconds)}"
            + (f"; on average over all workers, a worker lives for {duration(seconds)}." if short else "."),
            meaning="uWSGI stops all workers when no request has come for some time (`idle`), and no request was lost."
            if are_stopped_when_idle(figures)
            else "uWSGI replaced the workers, and no request was lost."
            if are_reloaded(figures, ended)
            else f"uWSGI replaces a worker that reaches {_name_limits(figures)}, and a worker that exits.",
            change="Raise `max-requests`: each worker lives for less than a minute." if short else "",
        )


LIMITS = {
    "max_requests": "",
    "max_worker_lifetime": " s",
    "reload_on_rss": " MB",
    "reload_on_as": " MB",
    "evil_reload_on_rss": " MB",
}
"""The options that end a worker when it reaches a limit, and the units of their values."""


def _name_limits(figures: Figures) -> str:
    """The limits that are set, with their values; the most frequent ones if none is known to be."""
    values = figures.server.setup.options
    chosen = [option for option in LIMITS if getattr(values, option)] or ["max_requests", "reload_on_rss"]
    named = [f"`{option.replace('_', '-')}`{_set_to(figures, option, LIMITS[option])}" for option in chosen]
    return " or ".join(named)


def _say_ends(ended: Sequence[int], ends: int) -> str:
    """Which workers ended, and how often."""
    in_total = " in total" if len(ended) > 1 and ends > 1 else ""
    return f"{numbered('Worker', ended)} ended {repeated(ends)}{in_total}"


def _is_loop(figures: Figures, respawns: int, requests: int) -> bool:
    """Whether a worker with these respawns and requests in the window is in a loop."""
    is_cheaper = scales(figures) and requests >= respawns
    least, a_minute = LOOP_CHEAPER if is_cheaper else LOOP
    often = respawns >= max(least, a_minute * figures.window.seconds / 60)
    return often and requests < _served_enough(figures) * respawns


def _ended(figures: Figures, ended: Sequence[int], ends: int) -> Finding:
    return Finding(
        code="workers_ended",
        severity=_severity(figures, ends),
        title=f"Workers ended unexpectedly{proven_signal(figures.server)}.",
        evidence=f"{_say_ends(ended, ends)} in the last {duration(figures.window.seconds)}, and no uWSGI option "
        "explains why.",
        meaning="Either a chain reload is in progress, or the workers crashed, exited, or were killed. The kernel "
        "kills a process if memory runs out. The requests in a worker that crashed or was killed are lost.",
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
    return (
        f"Check whether you want {listed([f'`{name}`' for name in names])} to end workers: the configuration sets "
        f"{'this option' if len(names) == 1 else 'these options'}. "
    )


def _see_why(figures: Figures) -> str:
    """Where to find why workers ended, or what the log says of it."""
    return _check_options(figures) + see_log(
        figures.server, "`died, killed by signal` (a crash or a kill), and `dmesg` for `Out of memory`", ENDS
    )


def _ended_by(figures: Figures) -> str:
    """What ends workers, as the end of a clause: a limit of memory that a leak reaches, or what the log says, if their
    processes agree."""
    signal, place, leak = proven_signal(figures.server), proven_place(figures.server, ENDS), find_leak(figures)
    if not leak:
        return f", killed{signal}" if signal else f": {place}" if place else ""
    is_evil = leak.option == EVIL
    return ", because memory reaches `evil-reload-on-rss`" if is_evil else ", because memory reaches `reload-on-rss`"


def _how_to_read(figures: Figures) -> str:
    log = figures.server.log
    return f" (`{log.turn_on}` shows these lines here)" if log and log.turn_on else ""


def _keep(workers: Sequence[int]) -> str:
    return "keeps" if len(workers) == 1 else "keep"
