"""Alerts about workers that fail: stuck, killed, respawned, raising, growing.

One alert for a server, not for a worker: what goes wrong in one mostly goes wrong in all, or wanders from one to the
next, where it would begin to count anew.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from alerts.levels import by_server, of_server
from alerts.rule import Alert, Group
from alerts.thresholds import Thresholds
from alerts.words import INSTANCE, SERVER, SERVER_DASHBOARD, TENTH, WHOLE, answer, asked, percent, value


def groups(t: Thresholds) -> Sequence[Group]:
    """The groups of `workers.yaml`. Memory is looked at over hours, and so seldom."""
    return [
        Group(
            "uwsgi-headroom workers",
            [*_stuck(t), _harakiri(t), *_lost(t), *_respawn_loop(t), *_no_application(t), _exceptions(t)],
        ),
        Group("uwsgi-headroom memory", [_memory_growing(t)], interval="5m"),
    ]


def _stuck(t: Thresholds) -> Sequence[Alert]:
    """A ticket for any, a page for many: they may hold all threads while no request ends, so that no wait is known."""
    age = "uwsgi_worker_oldest_request_age_seconds"
    oldest = f"{by_server('max', age)} >= {t.stuck_seconds:g}"
    ticket = Alert(
        alert="UwsgiRequestStuck",
        expr=oldest,
        hold=t.stuck_hold,
        severity="warning",
        summary=f"uWSGI {SERVER} on {INSTANCE}: a request has been in service for {value('humanizeDuration')}.",
        description=f"It is in worker {_workers(f'topk(1, {age}{{$self}})')}. "
        f"{answer('uwsgi_threads_stuck{$self}')} of {answer('uwsgi_threads_available{$self}')} threads have been at "
        "one request for over 30 s.\n"
        "Run `py-spy dump --pid PID` on that worker to see what it waits for. Then set timeouts on what the "
        "application calls, and `harakiri` as the last resort: with `threads` it ends all requests of the worker.",
        dashboard=SERVER_DASHBOARD,
    )
    many = f"{oldest}\nand uwsgi_threads_stuck >= {t.stuck_many} * uwsgi_threads_ceiling"
    return [ticket, replace(ticket, expr=many, severity="critical")]


def _harakiri(t: Thresholds) -> Alert:
    ended = f"increase(uwsgi_worker_harakiri_total[{t.harakiri_range}])"
    return Alert(
        alert="UwsgiHarakiri",
        expr=f"round({by_server('sum', ended)}) >= {t.harakiris}",
        hold=t.harakiri_hold,
        severity="warning",
        summary=f"uWSGI {SERVER} on {INSTANCE} killed workers for requests over `harakiri`: {value(WHOLE)} in "
        f"{t.harakiri_range}.",
        description="Worker "
        + _workers(f"round({_of_self(ended)}) > 0")
        + ": every request in it was lost, and is counted nowhere.\n"
        "Find the request in uWSGI's log, at `HARAKIRI`. If it is always the same one, fix it, "
        "or set timeouts on what it calls; raise `harakiri` only for requests that are meant to take so long.",
        dashboard=SERVER_DASHBOARD,
    )


def _lost(t: Thresholds) -> Sequence[Alert]:
    """A ticket for any that harakiri has no ticket for, a page for many, whatever ended their workers."""
    r = t.lost_range
    each, harakiris = f"increase(uwsgi_worker_lost_requests_total[{r}])", f"increase(uwsgi_worker_harakiri_total[{r}])"
    lost = f"round({by_server('sum', each)})"
    served = by_server("sum", f"increase(uwsgi_worker_requests_total[{r}])")
    all_lost = f"round(sum({_of_self(each)}))"
    part = f"100 * {all_lost} / (sum({_of_self(f'increase(uwsgi_worker_requests_total[{r}])')}) + {all_lost})"
    ticket = Alert(
        alert="UwsgiRequestsLost",
        expr=f"{lost} > 0\nunless round({by_server('sum', harakiris)}) > 0",
        hold=t.lost_hold,
        severity="warning",
        summary=f"uWSGI {SERVER} on {INSTANCE}: workers ended in the middle of requests; lost at least {value(WHOLE)}.",
        description="Worker "
        + _workers(f"round({_of_self(each)}) > 0")
        + f" ended in the last {r} with requests in service: at least {answer(part, TENTH)} % of all got no answer, "
        "and are counted nowhere. "
        + answer(f"round(sum({_of_self(harakiris)}))", WHOLE)
        + " workers were ended by harakiri.\n"
        "It crashed, was killed (by the kernel, when memory is short), or ended itself: see uWSGI's log for `died, "
        "killed by signal`, and `dmesg` for `Out of memory`. If it began with a deploy, take that back.",
        dashboard=SERVER_DASHBOARD,
    )
    many = f"{lost} >= {t.lost}\nand {lost} >= {t.lost_part} * ({served} + {lost})"
    return [ticket, replace(ticket, expr=many, severity="critical")]


def _respawn_loop(t: Thresholds) -> Sequence[Alert]:
    """Not a full reload, which spawns each worker once; nor recycling, between which a worker serves; nor cheaper mode,
    whose spawns look like those after a crash, save that they are few. A page where it is half of the
    workers.
    """
    r = t.respawn_range
    spawned, reloads = f"increase(uwsgi_worker_respawns_total[{r}])", f"increase(uwsgi_server_reloads_total[{r}])"
    respawns = f"(round({spawned}) {of_server('-')} round({reloads}))"
    served = f"increase(uwsgi_worker_requests_total[{r}])"
    reserve = f'max_over_time(uwsgi_workers{{state="cheap"}}[{r}]) > 0'
    looping = f"{respawns} >= {t.respawns}"
    loops = f"""
  (
    {respawns} >= {t.respawns}
      unless ignoring (worker_id, state) {reserve}
    or
    {respawns} >= {t.respawns_cheaper}
  )
  and {served} < {t.respawn_served:g} * {spawned}
"""
    most = by_server("max", loops)
    ticket = Alert(
        alert="UwsgiRespawnLoop",
        expr=most,
        hold=t.respawn_hold,
        severity="warning",
        summary=f"uWSGI {SERVER} on {INSTANCE}: the same worker keeps restarting.",
        description=f"{value(WHOLE)} times in {r}; worker "
        + _workers(_of_self(looping))
        + " in a loop, with "
        + answer(f"round(sum(increase(uwsgi_worker_harakiri_total{{$self}}[{r}])))", WHOLE)
        + " harakiris. Each respawn loses what the worker was doing, and loads the application again where it is lazy; "
        + answer("uwsgi_threads_available{$self}")
        + " of "
        + answer("uwsgi_threads_configured{$self}")
        + " threads accept requests now.\n"
        "See uWSGI's log for what ends it: `died, killed by signal 9` (out of memory: see `dmesg`), `Segmentation "
        "Fault` (a C extension), `HARAKIRI`, or an import error. If it began with a deploy, take that back. Raise "
        "`max-requests` or `reload-on-rss` if they are what does it.",
        dashboard=SERVER_DASHBOARD,
    )
    every = by_server("count", "uwsgi_worker_respawns_total")
    many = f"{most}\nand {by_server('count', loops)} >= {t.respawn_workers} * {every}"
    return [ticket, replace(ticket, expr=many, severity="critical")]


def _no_application(t: Thresholds) -> Sequence[Alert]:
    """A page where no worker has it: every request is answered with 500. With lazy-apps each worker loads its own."""
    without = "uwsgi_workers_without_application"
    accepting = 'sum without (state) (uwsgi_workers{state=~"idle|busy|signal"})'
    ticket = Alert(
        alert="UwsgiNoApplication",
        expr=f"{without} > 0",
        hold=t.no_application_hold,
        severity="warning",
        summary=f"uWSGI {SERVER} on {INSTANCE} runs without its application in {value(WHOLE)} of its workers.",
        description="They take requests and answer each with status 500 (`no python application found`), "
        + answer(f"sum({_of_self('rate(uwsgi_worker_requests_total[5m])')})", TENTH)
        + " requests/s in all workers now.\n"
        "See uWSGI's log for why the import fails. If it began with a deploy, take that back. Set `need-app`, so that "
        "uWSGI does not start without an application.",
        dashboard=SERVER_DASHBOARD,
    )
    everywhere = f"{without} > 0\nand {without} >= {accepting}"
    return [ticket, replace(ticket, expr=everywhere, severity="critical")]


def _exceptions(t: Thresholds) -> Alert:
    r = t.exceptions_range
    raised = f"increase(uwsgi_worker_exceptions_total[{r}])"
    requests = f"increase(uwsgi_worker_requests_total[{r}])"
    return Alert(
        alert="UwsgiExceptionsHigh",
        expr=f"""
{by_server("sum", raised)} / {by_server("sum", requests)} >= {t.exceptions}
and round({by_server("sum", raised)}) >= {t.exceptions_least}""",
        hold=t.exceptions_hold,
        severity="warning",
        summary=f"uWSGI {SERVER} on {INSTANCE}: unhandled exceptions in {percent(TENTH)} of requests.",
        description=answer(f"sum({_of_self(raised)})", WHOLE)
        + " of "
        + answer(f"sum({_of_self(requests)})", WHOLE)
        + f" requests in {r} raised out of the application, or their clients left in the middle of an answer.\n"
        "uWSGI's log has the tracebacks; if it began with a deploy, take that back. Where they are `write error` or "
        "`SIGPIPE`, clients or the web server gave up waiting: then see the response time, or set "
        "`disable-write-exception`.",
        dashboard=SERVER_DASHBOARD,
    )


def _memory_growing(t: Thresholds) -> Alert:
    """The least of half an hour against the most of another, hours before, and that twice in a row: neither a request
    that needs much for once, nor one step up that stays, nor a hole in the data is growth.
    """
    resident, hours = "uwsgi_worker_resident_memory_bytes", t.memory_growth_hours
    now = f"min_over_time({resident}[30m])"
    middle, middle_most = (f"{extreme}_over_time({resident}[30m] offset {hours}h)" for extreme in ("min", "max"))
    start = f"max_over_time({resident}[30m] offset {2 * hours}h)"
    age = f"(time() - uwsgi_worker_last_spawn_time_seconds) >= {2 * hours + 1.5:g} * 3600"
    growth = f"{resident}{{$self}} - {resident}{{$self}} offset {2 * hours}h"
    return Alert(
        alert="UwsgiWorkerMemoryGrowing",
        expr=f"""
max without (worker_id) (
  {now} / {start}
  and {now} >= {1 + t.memory_growth:g} * {middle_most}
  and {now} - {middle_most} >= {t.memory_growth_bytes:g}
  and {middle} >= {1 + t.memory_growth:g} * {start}
  and {middle} - {start} >= {t.memory_growth_bytes:g}
  and {age}
) - 1""",
        hold=t.memory_growth_hold,
        severity="warning",
        summary=f"uWSGI {SERVER} on {INSTANCE}: the memory of a worker grows, by {percent()} in {2 * hours} hours.",
        description=f"Worker {_workers(f'topk(1, {growth})')} has "
        f"{answer(f'{resident}{{$self}} and topk(1, {growth})', 'humanize1024')}B, "
        f"{answer(f'topk(1, {growth})', 'humanize1024')}B more than {2 * hours} hours ago, and it grew all the time "
        "since. Caches have filled by then; this is likely a leak. When memory is used up, the kernel kills a "
        "process.\n"
        "Until it is found, set `reload-on-rss`, or `max-requests` with `max-requests-delta` so "
        "that not all do at once. `tracemalloc` says which lines of the application allocate what stays.",
        dashboard=SERVER_DASHBOARD,
    )


def _of_self(query: str) -> str:
    """A query about the alert's server alone."""
    return query.replace("_total[", "_total{$self}[")


def _workers(query: str) -> str:
    """The ids of the workers in a query's answer, the worst first: `2`, or `3, 1`."""
    return (
        f"{{{{ range $place, $worker := {asked(f'sort_desc({query})')} }}}}{{{{ if $place }}}}, {{{{ end }}}}"
        "{{ $worker.Labels.worker_id }}{{ else }}unknown{{ end }}"
    )
