"""Alerts about causes that hurt users before, or without, any symptom that another alert sees. `check` names them too.

They are tickets: where all users are hurt, requests also wait, get stuck or fail, and that is a page.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from alerts.levels import by_server
from alerts.rule import Alert, Group
from alerts.thresholds import Thresholds
from alerts.words import (
    CHECK,
    HUNDREDTH,
    INSTANCE,
    SERVER,
    SERVER_DASHBOARD,
    TENTH,
    WHOLE,
    answer,
    asked,
    milliseconds,
    percent,
    pids,
    value,
    workers,
)
from uwsgi_headroom.analysis.wait_states import MOSTLY
from uwsgi_headroom.uwsgi_log.messages import MESSAGES

REJECTED = "|".join(sorted(message.code for message in MESSAGES if message.role == "rejected"))
"""The messages of uWSGI's log about requests that it refuses, as a regular expression."""


def groups(t: Thresholds) -> Sequence[Group]:
    """The group of `silent_causes.yaml`."""
    return [
        Group(
            "uwsgi-headroom silent causes",
            [
                _rejected(t),
                _connection_shared(t),
                _descriptors(t),
                _loop_held(t),
                _output_blocked(t),
                _lock_bound(t),
                _clients_slow(t),
            ],
        )
    ]


def _rejected(t: Thresholds) -> Alert:
    """A ticket, and never a page: the application writes to the same log, and can write any line."""
    r = t.rejected_range
    each = f'increase(uwsgi_log_messages_total{{message=~"{REJECTED}"}}[{r}])'
    rejected = f"round(sum without (message) ({each}))"
    served = by_server("sum", f"increase(uwsgi_worker_requests_total[{r}])")
    by_message = f"sort_desc(round({each.replace('}[', ',$self}[')}) > 0)"
    return Alert(
        alert="UwsgiRequestsRejected",
        expr=f"{rejected} >= {t.rejected}\nand {rejected} >= {t.rejected_part} * ({served} + {rejected})",
        hold=t.rejected_hold,
        severity="warning",
        summary=f"uWSGI {SERVER} on {INSTANCE} refused {value(WHOLE)} requests in {r}, according to its log",
        acts=(
            "If the reason is `head_too_large`, raise `buffer-size`. For other reasons, the runbook names the option "
            "to set.",
            f"Run {CHECK}: it shows the lines of the log, and names the option to set.",
            "If the requests come from scanners, refuse them in the web server.",
        ),
        evidence=f"Refused requests by reason: {{{{ range $place, $reason := {asked(by_message)} }}}}{{{{ if $place "
        f"}}}}, {{{{ end }}}}{{{{ $reason.Labels.message }}}} {{{{ $reason.Value | {WHOLE} }}}}{{{{ end }}}}. The "
        "clients got an error or only a part of the response, and the application may not have seen these requests at "
        "all.",
        dashboard=SERVER_DASHBOARD,
        deploys=True,
    )


def _connection_shared(t: Thresholds) -> Alert:
    return Alert(
        alert="UwsgiConnectionShared",
        expr=f"""
{_threads("uwsgi_shared_connection_wait_thread_seconds_total", t)} >= {t.connection_shared_threads:g}
and uwsgi_shared_connections > 0""",
        hold=t.connection_shared_hold,
        severity="warning",
        summary=f"uWSGI {SERVER} on {INSTANCE}: several workers share one connection to a backend, and on average "
        f"{value(HUNDREDTH)} threads wait for it",
        acts=(
            f"Run {CHECK} to see which connection the workers share.",
            "Set `lazy-apps` and reload uWSGI: each worker then opens a connection of its own.",
            "If you cannot use `lazy-apps`, open the connection after the fork, in a function with the decorator "
            "`@postfork` (module `uwsgidecorators`).",
        ),
        evidence="The application opened the connection before uWSGI forked the workers. Workers that share a "
        "connection wait for each other, and a worker may read the response to another worker's request.",
        dashboard=SERVER_DASHBOARD,
        deploys=True,
    )


def _descriptors(t: Thresholds) -> Alert:
    fds = "uwsgi_worker_open_fds"
    fullest = f"topk(1, {fds}{{$self}})"
    return Alert(
        alert="UwsgiDescriptorsLow",
        expr=f"{by_server('max', fds)} / uwsgi_open_fds_limit >= {t.descriptors}",
        hold=t.descriptors_hold,
        severity="warning",
        summary=f"uWSGI {SERVER} on {INSTANCE}: a worker uses {percent()} of the file descriptors that it may open",
        acts=(
            f"To gain time, restart {workers(fullest)}: {pids(fullest)} prints the command, and says which requests "
            "the restart would lose.",
            "List the worker's open files with `ls -l /proc/PID/fd`. If the number of open files keeps growing, the "
            "application leaks file descriptors.",
            "If the worker really needs this many open files, raise uWSGI's `max-fd`, and LimitNOFILE in its systemd "
            "unit.",
        ),
        evidence=f"The worker has {answer(f'max({fds}{{$self}})', WHOLE)} file descriptors open; the limit is "
        f"{answer('uwsgi_open_fds_limit{$self}', WHOLE)}. A worker without a free file descriptor accepts no requests, "
        "and its application gets `Too many open files` when it opens a file or a connection.",
        dashboard=SERVER_DASHBOARD,
        deploys=True,
    )


def _loop_held(t: Thresholds) -> Alert:
    w = t.window
    held = f"rate(uwsgi_worker_loop_held_seconds_total[{w}])"
    worst = f"topk(1, {held.replace('[', '{$self}[')})"
    return Alert(
        alert="UwsgiLoopHeld",
        expr=f"{by_server('max', held)} / (rate(uwsgi_exporter_observed_seconds_total[{w}]) > 0) >= {t.loop_held}",
        hold=t.loop_held_hold,
        severity="warning",
        summary=f"uWSGI {SERVER} on {INSTANCE}: blocking calls hold up the event loop of a worker for {percent()} of "
        "the time",
        acts=(
            f"Find out which call blocks {workers(worst)}: {pids(worst)} prints the PID for `py-spy dump`, and {CHECK} "
            "says what the call waits for.",
            "Make the call yield to other requests: set `gevent-early-monkey-patch`, or use a client library that is "
            "patched for gevent.",
            "If the call is busy computing, move it to a thread outside of the event loop, or to another process.",
        ),
        evidence="With coroutines (gevent), one thread serves all requests of a worker. While a call blocks this "
        "thread, all requests of the worker stop. Adding async cores does not help: they would stop, too.",
        dashboard=SERVER_DASHBOARD,
        deploys=True,
    )


def _output_blocked(t: Thresholds) -> Alert:
    """A thread in such a write may hold the lock of the output, or that of the interpreter, for which others wait."""
    states = f"server:uwsgi_wait_threads:ratio_rate{t.window}"
    ids = "uwsgi_worker_oldest_request_age_seconds"
    behind = f'sum without (state) ({states}{{state=~"pipe|lock|interpreter_lock"}})'
    return Alert(
        alert="UwsgiOutputBlocked",
        expr=f"""
{_threads("uwsgi_output_blocked_thread_seconds_total", t)} >= {t.output_blocked_threads:g}
and {behind} >= {t.output_blocked_part} * sum without (state) ({states})""",
        hold=t.output_blocked_hold,
        severity="warning",
        summary=f"uWSGI {SERVER} on {INSTANCE}: on average, {value(TENTH)} threads are blocked writing to a pipe "
        "that no program reads",
        acts=(
            "Restart the program that should read the pipe: the log collector, the service manager's journal, or the "
            "container runtime.",
            "To find the program that should read the pipe, run `lsof +E -a -p PID -d 1,2` with the PID of a worker; "
            f"{pids(f'{ids}{{$self}}')} prints the PIDs.",
            "To keep this from happening again, write the log to a file (`logto`), and log less.",
        ),
        evidence="The workers' standard output or standard error is a pipe, and it is full because no program reads "
        "it. On average, "
        + answer(behind.replace('"}', '",$self}'), TENTH)
        + " threads wait to write to the full pipe, or for a lock that such a thread may hold.",
        dashboard=SERVER_DASHBOARD,
    )


def _lock_bound(t: Thresholds) -> Alert:
    """A ticket, because a lock makes a server slow without filling a queue: where requests also wait for a thread, that
    is a page. Threads behind a blocked output or a shared connection have alerts of their own. What the
    exporter calls OK is no ticket: threads that each wait for an answer, as for one of gRPC, and are not scarce."""
    others = ("uwsgi_output_blocked_thread_seconds_total", "uwsgi_shared_connection_wait_thread_seconds_total")
    unless = "".join(f"\nunless {_threads(other, t)} >= {t.output_blocked_threads:g}" for other in others)
    ok, read = 'uwsgi_verdict_info{verdict="ok"}', "uwsgi_up"
    judged = f"sum without (verdict, cause, harm) (count_over_time({ok}[{t.window}]))"
    unless += f"\nunless {judged} >= {MOSTLY} * count_over_time({read}[{t.window}])"
    return _waiting_for(
        "lock",
        t,
        Alert(
            alert="UwsgiLockBound",
            expr=f"{_most_in('lock', t)} and {_in('lock', t)} >= {t.lock_threads:g}{unless}",
            hold=t.bound_hold,
            keep=t.load_keep,
            severity="warning",
            summary=f"uWSGI {SERVER} on {INSTANCE}: on average, {value(TENTH)} threads wait for a lock of the "
            "application",
            acts=(
                f"Find out which lock the threads wait for: {CHECK} names the worker, and `py-spy dump --native` on "
                "this worker shows the line of code that waits.",
                "Change the code so that it holds the lock for less time, and calls no database or other service while "
                "it holds the lock.",
                "If the lock belongs to a connection pool, make the pool as large as `threads`. If each process has "
                "its own lock, add `processes`. Do not add threads: they would wait for the same lock.",
            ),
            evidence="Only one request at a time can run the code that this lock protects. This lock belongs to the "
            "application or a library; it is not Python's interpreter lock (GIL).",
            dashboard=SERVER_DASHBOARD,
            deploys=True,
        ),
    )


def _clients_slow(t: Thresholds) -> Alert:
    part = f"{_in('client', t)} >= {t.clients_slow} * (uwsgi_threads_available > 0)"
    return _waiting_for(
        "client",
        t,
        Alert(
            alert="UwsgiClientsSlow",
            expr=f"{part} and {_in('client', t)} >= {t.lock_threads:g}",
            hold=t.bound_hold,
            keep=t.load_keep,
            severity="warning",
            summary=f"uWSGI {SERVER} on {INSTANCE}: on average, {value(TENTH)} of "
            f"{answer('uwsgi_threads_available{$self}')} threads wait for slow clients",
            acts=(
                "Let the web server in front of uWSGI buffer requests and responses. In nginx, this is the default; a "
                "line with `buffering off` in the output of `nginx -T` turns it off.",
                "If clients connect to uWSGI directly, put a web server in front of it. Serve WebSockets, which it "
                "cannot buffer, from a uWSGI of their own with `gevent`.",
                "If a few clients are slow on purpose, limit the number of connections per client in the web server "
                "(nginx: `limit_conn`).",
            ),
            evidence="While a thread receives a request from a slow client, or sends it the response, the thread "
            "serves no other request: a few slow clients can occupy all threads.",
            dashboard=SERVER_DASHBOARD,
        ),
    )


_WAITED_FOR = {"lock": "a lock", "client": "clients"}


def _waiting_for(state: str, t: Thresholds, alert: Alert) -> Alert:
    """Adds to the evidence how much of the threads' time this is: also of those whose requests do not end."""
    per_request = f"server:uwsgi_wait_seconds_per_request:ratio_rate{t.window}"
    part = milliseconds(f'{per_request}{{state="{state}",$self}}')
    whole = milliseconds(f"sum({per_request}{{$self}})")
    return replace(
        alert,
        evidence=f"{alert.evidence} For each completed request, threads are busy for {whole}, and wait for "
        f"{_WAITED_FOR[state]} for {part} of this time.",
    )


def _in(state: str, t: Thresholds) -> str:
    """The mean number of threads in a state."""
    return f'sum without (state) (server:uwsgi_wait_threads:ratio_rate{t.window}{{state="{state}"}})'


def _most_in(state: str, t: Thresholds) -> str:
    """The same, of servers most of whose threads in service are in it."""
    return f"{_in(state, t)} >= {MOSTLY} * sum without (state) (server:uwsgi_wait_threads:ratio_rate{t.window})"


def _threads(counter: str, t: Thresholds) -> str:
    """The mean number of threads in something that is an integral over the time in which waits are known."""
    return f"rate({counter}[{t.window}]) / (rate(uwsgi_wait_observed_seconds_total[{t.window}]) > 0)"
