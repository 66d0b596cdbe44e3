"""Alerts about failing workers: stuck, killed, respawning, raising exceptions, growing in memory.

Alerts are per server, not per worker: a problem usually affects all workers, or moves from one to the next, and then
`for` would start over.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from alerts.levels import by_server, of_server
from alerts.rule import Alert, Group
from alerts.thresholds import Thresholds
from alerts.words import INSTANCE, SERVER, SERVER_DASHBOARD, TENTH, WHOLE, answer, asked, percent, value


def groups(t: Thresholds) -> Sequence[Group]:
    """The groups of `workers.yaml`. Memory is judged over hours, so its rules are evaluated rarely."""
    return [
        Group(
            "uwsgi-headroom workers",
            [*_stuck(t), _harakiri(t), *_lost(t), *_respawn_loop(t), *_no_application(t), _exceptions(t)],
        ),
        Group("uwsgi-headroom memory", [_memory_growing(t)], interval="5m"),
    ]


def _stuck(t: Thresholds) -> Sequence[Alert]:
    """A ticket for any stuck request; a page for many, and for a standstill: requests wait and none is completed. Then
    no wait in the queue can be computed, and no other alert knows of it. A server whose requests last by nature has a
    setting in the exporter, `stuck`, which counts here as well.
    """
    age = "uwsgi_worker_oldest_request_age_seconds"
    oldest = f"{by_server('max', age)} >= {t.stuck_seconds:g}"
    of_threads = f"{answer('uwsgi_threads_stuck{$self}')} of {answer('uwsgi_threads_available{$self}')} threads"
    ticket = Alert(
        alert="UwsgiRequestStuck",
        expr=f"{oldest}\nunless uwsgi_threads_stuck == 0",
        hold=t.stuck_hold,
        severity="warning",
        summary=f"uWSGI {SERVER} on {INSTANCE}: a request has been in service for {value('humanizeDuration')}.",
        description=f"The request is in worker {_workers(f'topk(1, {age}{{$self}})')}. "
        f"{of_threads} have been serving the same request for longer than the exporter's setting `stuck`, 30 s by "
        "default.\n"
        "Run `py-spy dump --pid PID` on that worker to see what it waits for. Then set timeouts on what the "
        "application calls, and, except with coroutines (gevent), `harakiri` as a last resort: with `threads` it ends "
        "all requests of the worker.",
        dashboard=SERVER_DASHBOARD,
    )
    queue = "sum without (socket) (uwsgi_socket_queue_length{$self}) >= 1"
    requests = f"sum(increase(uwsgi_worker_requests_total{{$self}}[{t.standstill_range}])) == 0"
    page = replace(
        ticket,
        expr=f"uwsgi_threads_stuck >= {t.stuck_many} * uwsgi_threads_ceiling\nand {oldest}\nor\n{_standstill(t)}",
        hold=t.standstill_hold,
        severity="critical",
        summary=f"uWSGI {SERVER} on {INSTANCE}: requests do not end, {of_threads} are stuck.",
        description=f"{{{{ with {asked(queue)} }}}}{{{{ . | first | value | {WHOLE} }}}} requests wait in the listen "
        f"queue. {{{{ end }}}}{{{{ with {asked(requests)} }}}}No request was completed in the last "
        f"{t.standstill_range}. {{{{ end }}}}"
        f"{{{{ with {asked(f'max({age}{{$self}})')} }}}}The oldest request in service is in worker "
        f"{_workers(f'topk(1, {age}{{$self}})')}, for {{{{ . | first | value | humanizeDuration }}}}.{{{{ end }}}}\n"
        "See what the threads wait for: `py-spy dump --pid PID` on a worker, or `uwsgi-headroom check`. If it began "
        "with a deploy, roll the deploy back. To serve again at once, end the workers, which loses their requests; "
        "they get stuck again unless the database, service or lock that they wait for is back. If no thread is stuck, "
        "the workers are paused, a reload waits for one of them, or, with coroutines (gevent), a call that does not "
        "yield blocks a worker.",
    )
    return [ticket, page]


def _standstill(t: Thresholds) -> str:
    """The requests that wait, of servers that complete none: every thread is stuck, or all counters stand still. If
    both are true, it is a standstill whether requests wait or not: the queue may not be measurable. A server with a
    single thread may have nothing but one long job.

    A server that loads its application has no thread that accepts requests, and not for as long as range and hold.
    """
    waiting = "sum without (socket) (uwsgi_socket_queue_length) >= 1"
    stuck = "uwsgi_threads_stuck >= (uwsgi_threads_available > 0)"
    none = f"{by_server('sum', f'increase(uwsgi_worker_requests_total[{t.standstill_range}])')} == 0"
    all_of_many = "uwsgi_threads_stuck >= (uwsgi_threads_available > 1)"
    return f"{waiting}\nand ({stuck} or {none})\nor\n{all_of_many}\nand {none}"


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
        + ": every request in it was lost, and no counter includes it.\n"
        "Find the request in uWSGI's log, at `HARAKIRI`. If it is always the same one, fix it, "
        "or set timeouts on what it calls; raise `harakiri` only for requests that are meant to take that long.",
        dashboard=SERVER_DASHBOARD,
    )


def _lost(t: Thresholds) -> Sequence[Alert]:
    """A ticket for lost requests that UwsgiHarakiri does not cover, a page for many, whatever ended their workers."""
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
        summary=f"uWSGI {SERVER} on {INSTANCE}: workers ended in the middle of requests; at least {value(WHOLE)} lost.",
        description="Worker "
        + _workers(f"round({_of_self(each)}) > 0")
        + f" ended in the last {r} with requests in service: at least {answer(part, TENTH)} % of all requests got no "
        "response, and no counter includes them. Workers ended by harakiri: "
        + answer(f"round(sum({_of_self(harakiris)}))", WHOLE)
        + ".\n"
        "The worker crashed, was killed (by the kernel, if memory ran out), or ended itself: see uWSGI's log for "
        "`died, killed by signal`, and `dmesg` for `Out of memory`. If it began with a deploy, roll the deploy back.",
        dashboard=SERVER_DASHBOARD,
    )
    many = f"{lost} >= {t.lost}\nand {lost} >= {t.lost_part} * ({served} + {lost})"
    return [ticket, replace(ticket, expr=many, severity="critical")]


def _respawn_loop(t: Thresholds) -> Sequence[Alert]:
    """A ticket for a respawn loop, a page if half of the workers are in one. Does not count a full reload, which spawns
    each worker once; recycling, between which a worker serves requests; and cheaper mode, whose spawns look like those
    after a crash but are rarer.
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
        description=f"{value(WHOLE)} respawns of one worker in {r}. Workers in a loop: "
        + _workers(_of_self(looping))
        + "; harakiris: "
        + answer(f"round(sum(increase(uwsgi_worker_harakiri_total{{$self}}[{r}])))", WHOLE)
        + ". Each respawn loses the worker's requests, and loads the application again if `lazy-apps` is set; "
        + answer("uwsgi_threads_available{$self}")
        + " of "
        + answer("uwsgi_threads_configured{$self}")
        + " threads accept requests now.\n"
        "See uWSGI's log for the cause: `died, killed by signal 9` (out of memory: see `dmesg`), `Segmentation "
        "Fault` (a C extension), `HARAKIRI`, or an import error. If it began with a deploy, roll the deploy back. "
        "Raise `max-requests` or `reload-on-rss` if they end the workers.",
        dashboard=SERVER_DASHBOARD,
    )
    every = by_server("count", "uwsgi_worker_respawns_total")
    many = f"{most}\nand {by_server('count', loops)} >= {t.respawn_workers} * {every}"
    return [ticket, replace(ticket, expr=many, severity="critical")]


def _no_application(t: Thresholds) -> Sequence[Alert]:
    """A ticket if workers have no application, a page if no worker has one: then uWSGI answers every request with 500.
    With lazy-apps each worker loads its own application. It is a page as well if uWSGI has no plugin for requests: they
    reach no application that is loaded, and their clients get a closed connection.
    """
    without = "uwsgi_workers_without_application"
    accepting = 'sum without (state) (uwsgi_workers{state=~"idle|busy|signal"})'
    ticket = Alert(
        alert="UwsgiNoApplication",
        expr=f"{without} > 0",
        hold=t.no_application_hold,
        severity="warning",
        summary=f"uWSGI {SERVER} on {INSTANCE} runs without its application in {value(WHOLE)} of its workers.",
        description="These workers answer every request with status 500 (`no python application found`). All workers "
        "together take "
        + answer(f"sum({_of_self('rate(uwsgi_worker_requests_total[5m])')})", TENTH)
        + " requests/s now.\n"
        "See uWSGI's log for why the import fails. If it began with a deploy, roll the deploy back. Set `need-app`, so "
        "that uWSGI does not start without an application.",
        dashboard=SERVER_DASHBOARD,
    )
    everywhere = f"{without} > 0\nand {without} >= {accepting}"
    unanswered = f"round(increase(uwsgi_unanswered_requests_total{{$self}}[{t.unanswered_range}])) > 0"
    page = replace(
        ticket,
        expr=f"{everywhere}\nor\n{_unanswered(t)}",
        severity="critical",
        summary=f"uWSGI {SERVER} on {INSTANCE}: requests reach no application.",
        description=f"{{{{ with {asked(f'{without}{{$self}} > 0')} }}}}In {{{{ . | first | value }}}} of its workers "
        "there is none, and these answer every request with status 500 (`no python application found`). {{ end }}"
        f"{{{{ with {asked(unanswered)} }}}}At least {{{{ . | first | value | {WHOLE} }}}} requests in "
        f"{t.unanswered_range} ended at once, without a byte of an answer: uWSGI has no plugin for their modifier. "
        "{{ end }}All workers together take "
        + answer(f"sum({_of_self('rate(uwsgi_worker_requests_total[5m])')})", TENTH)
        + " requests/s now.\n"
        "See uWSGI's log for why the import fails, or for `unavailable modifier requested`. If it began with a deploy, "
        "of the web server as well, roll the deploy back.",
    )
    return [ticket, page]


def _unanswered(t: Thresholds) -> str:
    """The requests without an answer, of servers that have too many of them in two ranges one after the other: one
    burst is in one of them, or in both for a moment."""
    r = t.unanswered_range
    each = f"increase(uwsgi_unanswered_requests_total[{r}]"
    served = by_server("sum", f"increase(uwsgi_worker_requests_total[{r}])")
    return (
        f"round({each})) >= {t.unanswered}\nand round({each} offset {r})) >= {t.unanswered}\n"
        f"and {each}) >= {t.unanswered_part} * {served}"
    )


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
        + f" requests in {r} raised an unhandled exception, or their clients disconnected in the middle of a response."
        "\nuWSGI's log has the tracebacks; if it began with a deploy, roll the deploy back. If they are `write error` "
        "or `SIGPIPE`, clients or the web server gave up waiting: check the response time, or set "
        "`write-errors-tolerance`.",
        dashboard=SERVER_DASHBOARD,
    )


def _memory_growing(t: Thresholds) -> Alert:
    """Compares the minimum of half an hour with the maximum of a half hour some hours before, twice in a row: so a
    single large request, one step up that stays, and a gap in the data do not count as growth.
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
        f"{answer(f'topk(1, {growth})', 'humanize1024')}B more than {2 * hours} hours ago, and has grown all the time "
        "since. Caches are full by now, so this is likely a leak. When memory runs out, the kernel kills a process.\n"
        "Until you find the leak, set `reload-on-rss`, or `max-requests` with `max-requests-delta`, so that workers do "
        "not all restart at once. `tracemalloc` shows which lines of the application allocate the memory that stays.",
        dashboard=SERVER_DASHBOARD,
    )


def _of_self(query: str) -> str:
    """Restricts a query to the alert's server."""
    return query.replace("_total[", "_total{$self}[")


def _workers(query: str) -> str:
    """A template for the ids of the workers that a query returns, the worst first: `2`, or `3, 1`."""
    return (
        f"{{{{ range $place, $worker := {asked(f'sort_desc({query})')} }}}}{{{{ if $place }}}}, {{{{ end }}}}"
        "{{ $worker.Labels.worker_id }}{{ else }}unknown{{ end }}"
    )
