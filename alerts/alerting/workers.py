"""Alerts about failing workers: stuck, killed, respawning, raising exceptions, growing in memory.

Alerts are per server, not per worker: a problem usually affects all workers, or moves from one to the next, and then
`for` would start over.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from alerts import waiting
from alerts.levels import by_server, of_server
from alerts.rule import Alert, Group
from alerts.thresholds import Thresholds
from alerts.words import (
    CHECK,
    DURATION,
    INSTANCE,
    SERVER,
    SERVER_DASHBOARD,
    TENTH,
    WHOLE,
    answer,
    if_any,
    of_dot,
    percent,
    pids,
    value,
    workers,
)
from uwsgi_headroom.config.defaults import STUCK_SECONDS


def groups(t: Thresholds) -> Sequence[Group]:
    """The groups of `workers.yaml`. Memory is judged over hours, so its rules are evaluated rarely."""
    return [
        Group(
            "uwsgi-headroom workers",
            [*_stuck(t), _paused(t), _harakiri(t), *_lost(t), *_respawn_loop(t), *_no_application(t), _exceptions(t)],
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
    oldest_of_self = f"topk(1, {age}{{$self}})"
    of_threads = f"{answer('uwsgi_threads_stuck{$self}')} of {answer('uwsgi_threads_available{$self}')} threads"
    ticket = Alert(
        alert="UwsgiRequestStuck",
        expr=f"{oldest}\nunless uwsgi_threads_stuck == 0",
        hold=t.stuck_hold,
        severity="warning",
        summary=f"uWSGI {SERVER} on {INSTANCE}: a request has been in service for {value(DURATION)}",
        acts=(
            f"Find out what {workers(oldest_of_self)} waits for: {pids(oldest_of_self)} prints the PID of the worker, "
            "and the commands that show what the worker waits for.",
            "Set timeouts on the calls that the application makes to databases and other services.",
            "As a last resort, set `harakiri` (but not with coroutines such as gevent). If a worker with several "
            "threads is killed by `harakiri`, all requests of the worker are lost.",
        ),
        evidence=f"{of_threads} have each been serving one request for longer than the exporter's setting `stuck` "
        "(30 s by default).",
        dashboard=SERVER_DASHBOARD,
    )
    queue = "sum without (socket) (uwsgi_socket_queue_length{$self}) >= 1"
    requests = f"sum(increase(uwsgi_worker_requests_total{{$self}}[{t.standstill_range}])) == 0"
    stuck = f"{age}{{$self}} > {STUCK_SECONDS:g}"
    restart = (
        f"Restart {workers(stuck)}, where requests are stuck: {pids(stuck)} prints the command, and says which "
        "requests the restart would lose. New requests will also get stuck until you fix the database, service or lock "
        "that they wait for."
    )
    page = replace(
        ticket,
        expr=f"uwsgi_threads_stuck >= {t.stuck_many} * uwsgi_threads_ceiling\nand {oldest}\nor\n{_standstill(t)}",
        hold=t.standstill_hold,
        severity="critical",
        summary=f"uWSGI {SERVER} on {INSTANCE} serves hardly any requests: "
        + if_any(SOME_STUCK, f"{of_threads} are stuck")
        + if_any(NONE_STUCK, "requests wait and no request is completed"),
        acts=(
            if_any(SOME_STUCK, restart)
            + if_any(
                NONE_STUCK,
                f"Run {CHECK}: it says whether the workers are paused, or whether a reload waits for a worker.",
            ),
            if_any(SOME_STUCK, f"Run {CHECK} to see what the stuck requests wait for.")
            + if_any(
                NONE_STUCK,
                "If workers are paused, resume them: send SIGTSTP to the master, only once (each SIGTSTP toggles "
                "between pause and resume). If a reload waits for a worker, end that worker: "
                f"{pids(f'{age}{{$self}}')} prints the command.",
            ),
            "Set timeouts on the calls that the application makes. If a reload of uWSGI waited for a worker with a "
            "stuck request, set `worker-reload-mercy` to limit how long a reload waits.",
        ),
        evidence=if_any(queue, f"{{{{ . | first | value | {WHOLE} }}}} requests wait in the listen queue. ")
        + if_any(requests, f"For {t.standstill_range}, no request was completed. ")
        + f"{of_threads} have each been serving one request for longer than the exporter's setting `stuck`"
        + if_any(
            f"max({age}{{$self}})",
            f"; the oldest request, in {workers(oldest_of_self)}, has been in service for {of_dot(DURATION)}",
        )
        + ". With coroutines (gevent), one call that does not yield to other requests may block the whole worker.",
        deploys=True,
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


SOME_STUCK, NONE_STUCK = "uwsgi_threads_stuck{$self} > 0", "uwsgi_threads_stuck{$self} == 0"


def _paused(t: Thresholds) -> Alert:
    """A ticket while nobody waits for the paused workers: if requests wait, it is a standstill, and a page."""
    paused = 'sum without (state) (uwsgi_workers{state="pause"})'
    up = 'sum without (state) (uwsgi_workers{state!~"cheap|never_spawned"})'
    waiting = answer("sum(uwsgi_socket_queue_length{$self})", WHOLE)
    return Alert(
        alert="UwsgiWorkersPaused",
        expr=f"{paused} >= ({up} > 0)",
        hold=t.paused_hold,
        severity="warning",
        summary=f"uWSGI {SERVER} on {INSTANCE}: all {value(WHOLE)} workers are paused, and serve no requests",
        acts=(
            "If the workers were not paused on purpose, resume them: send SIGTSTP to the master, or write `p` to its "
            "`master-fifo` (both toggle between pause and resume). Do this only once: a second signal, or a second "
            "`p`, pauses the workers again.",
            f"Run {CHECK} to see whether requests are served again.",
            "Find out what paused the workers: perhaps a backup or deploy script that stopped half-way, or Ctrl-Z in a "
            "terminal.",
        ),
        evidence=f"A paused worker accepts no requests. {waiting} requests wait in the listen queue; once the queue is "
        "full, clients are turned away.",
        dashboard=SERVER_DASHBOARD,
    )


def _harakiri(t: Thresholds) -> Alert:
    ended = f"increase(uwsgi_worker_harakiri_total[{t.harakiri_range}])"
    return Alert(
        alert="UwsgiHarakiri",
        expr=f"round({by_server('sum', ended)}) >= {t.harakiris}",
        hold=t.harakiri_hold,
        severity="warning",
        summary=f"uWSGI {SERVER} on {INSTANCE} killed a worker {{{{ if gt $value 1.0 }}}}{value(WHOLE)} "
        f"times{{{{ else }}}}once{{{{ end }}}} in {t.harakiri_range}, because requests took longer than `harakiri` "
        "allows",
        acts=(
            "Find the slow requests in uWSGI's log: their lines contain `HARAKIRI`.",
            "If the slow requests are always of the same kind, make them faster, or set timeouts on the calls that "
            "they make to databases and other services.",
            "Raise `harakiri` only if it is normal for these requests to take this long.",
        ),
        evidence=f"`harakiri` killed {workers(f'round({_of_self(ended)}) > 0')}, perhaps more than once. Every request "
        "in a killed process is lost, and uWSGI's request counters do not include it.",
        dashboard=SERVER_DASHBOARD,
        deploys=True,
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
        summary=f"uWSGI {SERVER} on {INSTANCE}: at least {value(WHOLE)} requests were lost when workers exited or were "
        "killed",
        acts=(
            "Search uWSGI's log for `died`: `died, killed by signal` names the signal. `died` without a signal means "
            "that the application ended its process itself (`os._exit`).",
            "If the workers were killed by signal 9, check whether memory ran out: `dmesg | grep -i 'out of memory'`. "
            "If memory ran out, use fewer workers.",
            "If the workers were killed by signal 11 (a crash), roll back the C extension that changed last.",
        ),
        evidence=f"In the last {r}, {workers(f'round({_of_self(each)}) > 0')} exited or were killed while they had "
        f"requests in service: at least {answer(part, TENTH)} % of all requests got no response, and uWSGI's request "
        "counters do not include them. Workers killed by "
        f"`harakiri` in the last {r}: " + answer(f"round(sum({_of_self(harakiris)}))", WHOLE) + ".",
        dashboard=SERVER_DASHBOARD,
        deploys=True,
    )
    many = f"{lost} >= {t.lost}\nand {lost} >= {t.lost_part} * ({served} + {lost})"
    title = f"uWSGI {SERVER} on {INSTANCE} loses {answer(part, TENTH)} % of its requests: its workers keep exiting"
    return [ticket, replace(ticket, expr=many, severity="critical", summary=title)]


def _respawn_loop(t: Thresholds) -> Sequence[Alert]:
    """A ticket for a respawn loop, a page if half of the workers are in one, unless no user feels it: no request was
    lost, the threads are there, and requests do not wait. Does not count a full reload, which spawns each worker once;
    recycling, between which a worker serves requests; and cheaper mode, whose spawns look like those after a crash but
    are rarer.
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
    lost = f"increase(uwsgi_worker_lost_requests_total[{r}])"
    recycles = f"sum({_of_self(lost)}) == 0"
    ticket = Alert(
        alert="UwsgiRespawnLoop",
        expr=most,
        hold=t.respawn_hold,
        severity="warning",
        summary=f"uWSGI {SERVER} on {INSTANCE}: workers keep restarting, one of them {value(WHOLE)} times in {r}",
        acts=(
            if_any(
                recycles,
                "No request was lost, so uWSGI itself seems to replace the workers: raise the option that does it "
                "(`max-requests`, `max-worker-lifetime` or `reload-on-rss`). If none of these is set, check",
                "Check",
            )
            + " uWSGI's log for the reason why the workers exit, such as `died, killed by signal 9` (out of memory: "
            "check `dmesg`), `Segmentation Fault` (a C extension), `HARAKIRI` (a request took too long) or an import "
            "error.",
            "If memory ran out, use fewer `processes`, or raise the memory limit of uWSGI's cgroup.",
            "If uWSGI restarts the workers because of `max-requests` or `reload-on-rss`, raise the value of this "
            "option.",
        ),
        evidence=f"In a restart loop: {workers(_of_self(looping))}. Workers killed by `harakiri` in the last {r}: "
        + answer(f"round(sum(increase(uwsgi_worker_harakiri_total{{$self}}[{r}])))", WHOLE)
        + ". "
        + if_any(
            recycles,
            "Up to now, no restart lost a request. If `lazy-apps` is set, each restart",
            "Each restart loses the worker's requests and, if `lazy-apps` is set,",
        )
        + " loads the application again; "
        + answer("uwsgi_threads_available{$self}")
        + " of "
        + answer("uwsgi_threads_configured{$self}")
        + " threads accept requests now.",
        dashboard=SERVER_DASHBOARD,
        deploys=True,
    )
    every = by_server("count", "uwsgi_worker_respawns_total")
    looping_workers = by_server("count", loops)
    unfelt = f"""
    {by_server("sum", lost)} == 0
    and avg_over_time(uwsgi_threads_available[{r}]) >= {1 - t.respawn_workers:g} * uwsgi_threads_configured
      unless {waiting.noticed(t)}
"""
    many = f"{most}\nand {looping_workers} >= {t.respawn_workers} * {every}\nunless ({unfelt})"
    title = (
        f"uWSGI {SERVER} on {INSTANCE}: {workers(_of_self(looping))} (of "
        f"{answer('count(uwsgi_worker_respawns_total{$self})')}) keep restarting, and serve hardly any requests"
    )
    return [ticket, replace(ticket, expr=many, severity="critical", summary=title)]


def _no_application(t: Thresholds) -> Sequence[Alert]:
    """A ticket if workers have no application, a page if no worker has one: then uWSGI answers every request with 500.
    With lazy-apps each worker loads its own application. It is a page as well if uWSGI has no plugin for requests: they
    reach no application that is loaded, and their clients get a closed connection.
    """
    without = "uwsgi_workers_without_application"
    accepting = 'sum without (state) (uwsgi_workers{state=~"idle|busy|signal"})'
    taken = answer(f"sum({_of_self('rate(uwsgi_worker_requests_total[5m])')})", TENTH)
    ticket = Alert(
        alert="UwsgiNoApplication",
        expr=f"{without} > 0",
        hold=t.no_application_hold,
        severity="warning",
        summary=f"uWSGI {SERVER} on {INSTANCE}: no application is loaded in {value(WHOLE)} of its workers",
        acts=(
            "Check uWSGI's log for the reason why the import fails: `journalctl -u UNIT -n 200 | grep -B 20 'no app "
            "loaded'`.",
            "Fix the import, and then reload uWSGI.",
            "Set `need-app`, so that uWSGI does not start without an application.",
        ),
        evidence="These workers answer every request with status 500 (`no python application found`). All workers "
        f"of this uWSGI together take {taken} requests/s now.",
        dashboard=SERVER_DASHBOARD,
        deploys=True,
    )
    everywhere = f"{without} > 0\nand {without} >= {accepting}"
    unanswered = f"round(increase(uwsgi_unanswered_requests_total{{$self}}[{t.unanswered_range}])) > 0"
    page = replace(
        ticket,
        expr=f"{everywhere}\nor\n{_unanswered(t)}",
        severity="critical",
        summary=f"uWSGI {SERVER} on {INSTANCE}: {taken} requests/s reach no application",
        acts=(
            "Check uWSGI's log for the reason: an import that fails, or `unavailable modifier requested`, which means "
            "that a plugin is missing.",
            "Fix the import or load the missing plugin, and then reload uWSGI. Also check whether the last deploy of "
            "the web server changed the modifier that it sends (`uwsgi_modifier1` in nginx).",
            "Set `need-app`, so that uWSGI does not start without an application.",
        ),
        evidence=if_any(
            f"{without}{{$self}} > 0",
            "In {{ . | first | value }} workers of this uWSGI, no application is loaded. These workers answer every "
            "request with status 500 (`no python application found`). ",
        )
        + if_any(
            unanswered,
            f"In {t.unanswered_range}, at least {{{{ . | first | value | {WHOLE} }}}} requests were closed "
            "immediately, without a response: uWSGI has no plugin for their modifier, the number by which the web "
            "server selects a plugin. ",
        )
        + f"All workers of this uWSGI together take {taken} requests/s now.",
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
        summary=f"uWSGI {SERVER} on {INSTANCE}: unhandled exceptions in {percent(TENTH)} of requests",
        acts=(
            "Read the tracebacks in uWSGI's log: `journalctl -u UNIT --since -15min | grep -A 20 Traceback`.",
            "If the log shows `write error` or `SIGPIPE`, clients or the web server disconnected before the response "
            "was complete: check the response time.",
            "If the response time is fine, set `write-errors-tolerance`, so that uWSGI does not count these "
            "disconnects as exceptions.",
        ),
        evidence=answer(f"sum({_of_self(raised)})", WHOLE)
        + " of "
        + answer(f"sum({_of_self(requests)})", WHOLE)
        + f" requests in {r} raised an unhandled exception, or their client disconnected before the response was "
        "complete.",
        dashboard=SERVER_DASHBOARD,
        deploys=True,
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
        summary=f"uWSGI {SERVER} on {INSTANCE}: the memory of a worker grew by {percent()} in {2 * hours} hours",
        acts=(
            "To gain time, set `reload-on-rss` or `max-requests`. With `max-requests`, also set `max-requests-delta`, "
            "so that the workers do not all restart at the same time.",
            "Find the leak: Python's `tracemalloc` shows which lines of the application allocate memory that is never "
            "freed.",
            "If the growth began with a new release of the application, check what that release changed.",
        ),
        evidence=f"The memory of {workers(f'topk(1, {growth})')} has kept growing for {2 * hours} hours: it grew by "
        f"{answer(f'topk(1, {growth})', 'humanize1024')}B, and is now "
        f"{answer(f'{resident}{{$self}} and topk(1, {growth})', 'humanize1024')}B. The worker has run long enough for "
        "the application's caches to fill, so this is probably a memory leak. When memory runs out, the kernel kills a "
        "process.",
        dashboard=SERVER_DASHBOARD,
        is_dated=False,
    )


def _of_self(query: str) -> str:
    """Restricts a query to the alert's server."""
    return query.replace("_total[", "_total{$self}[")
