"""Alerts about causes that hurt users before, or without, any symptom that another alert sees. `check` names them too.

They are tickets: where all users are hurt, requests also wait, get stuck or fail, and that is a page.
"""

from __future__ import annotations

from collections.abc import Sequence

from alerts.levels import by_server
from alerts.rule import Alert, Group
from alerts.thresholds import Thresholds
from alerts.words import HUNDREDTH, INSTANCE, SERVER, SERVER_DASHBOARD, TENTH, WHOLE, answer, asked, percent, value
from uwsgi_headroom.uwsgi_log.messages import MESSAGES

REJECTED = "|".join(sorted(message.code for message in MESSAGES if message.role == "rejected"))
"""The messages of uWSGI's log about requests that it refuses, as a regular expression."""


def groups(t: Thresholds) -> Sequence[Group]:
    """The group of `silent_causes.yaml`."""
    return [
        Group(
            "uwsgi-headroom silent causes",
            [_rejected(t), _connection_shared(t), _descriptors(t), _loop_held(t), _output_blocked(t)],
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
        summary=f"uWSGI {SERVER} on {INSTANCE} refuses requests, as its log says: {value(WHOLE)} in {r}.",
        description="By the reason: "
        f"{{{{ range $place, $reason := {asked(by_message)} }}}}{{{{ if $place }}}}, {{{{ end }}}}"
        f"{{{{ $reason.Labels.message }}}} {{{{ $reason.Value | {WHOLE} }}}}{{{{ end }}}}. The clients got an error, "
        "or only a part of the answer, and the application may not have seen the request at all.\n"
        "The runbook has the option to change for each reason, such as `buffer-size` for `head_too_large`. If it began "
        "with a deploy, roll the deploy back.",
        dashboard=SERVER_DASHBOARD,
    )


def _connection_shared(t: Thresholds) -> Alert:
    return Alert(
        alert="UwsgiConnectionShared",
        expr=f"""
{_threads("uwsgi_shared_connection_wait_thread_seconds_total", t)} >= {t.connection_shared_threads:g}
and uwsgi_shared_connections > 0""",
        hold=t.connection_shared_hold,
        severity="warning",
        summary=f"uWSGI {SERVER} on {INSTANCE}: several workers use one connection to another server.",
        description=f"{value(HUNDREDTH)} threads wait for an answer over it on average. It was opened before uWSGI "
        "forked the workers. Their requests wait for each other there, and a worker may read the answer to another "
        "worker's request: users may see the data of others.\n"
        "`uwsgi-headroom check` names the connection. Open it after the fork: in a function with `@postfork` "
        "(uwsgidecorators), or set `lazy-apps`.",
        dashboard=SERVER_DASHBOARD,
    )


def _descriptors(t: Thresholds) -> Alert:
    fds = "uwsgi_worker_open_fds"
    fullest = asked(f"topk(1, {fds}{{$self}})")
    return Alert(
        alert="UwsgiDescriptorsLow",
        expr=f"{by_server('max', fds)} / uwsgi_open_fds_limit >= {t.descriptors}",
        hold=t.descriptors_hold,
        severity="warning",
        summary=f"uWSGI {SERVER} on {INSTANCE}: a worker has {percent()} of its file descriptors open.",
        description=f'{{{{ with {fullest} }}}}Worker {{{{ . | first | label "worker_id" }}}} has '
        f"{{{{ . | first | value | {WHOLE} }}}} open{{{{ end }}}}, of {answer('uwsgi_open_fds_limit{$self}', WHOLE)}. "
        "Without a free one, a worker accepts no request, and what the application opens fails with `Too many open "
        "files`.\n"
        "See what is open with `ls -l /proc/PID/fd` of that worker. A number that only grows is a leak: a reload of "
        "the workers gains time. If all are needed, raise `max-fd`, and LimitNOFILE of the service manager.",
        dashboard=SERVER_DASHBOARD,
    )


def _loop_held(t: Thresholds) -> Alert:
    w = t.window
    held = f"rate(uwsgi_worker_loop_held_seconds_total[{w}])"
    worst = asked(f"topk(1, {held.replace('[', '{$self}[')})")
    return Alert(
        alert="UwsgiLoopHeld",
        expr=f"{by_server('max', held)} / (rate(uwsgi_exporter_observed_seconds_total[{w}]) > 0) >= {t.loop_held}",
        hold=t.loop_held_hold,
        severity="warning",
        summary=f"uWSGI {SERVER} on {INSTANCE}: calls hold up the event loop of a worker for {percent()} of the time.",
        description=f'{{{{ with {worst} }}}}It is that of worker {{{{ . | first | label "worker_id" }}}}. {{{{ end }}}}'
        "With coroutines (gevent), one thread serves all requests of a worker: while a call holds it, none of them "
        "goes on.\n"
        "`uwsgi-headroom check` says what the call waits for, and `py-spy dump --pid PID` on that worker shows it. "
        "Make it yield (`gevent-early-monkey-patch`, a client that is patched), or move it into a thread beside the "
        "loop or into another process. More async cores would wait as well.",
        dashboard=SERVER_DASHBOARD,
    )


def _output_blocked(t: Thresholds) -> Alert:
    """A thread in such a write may hold the lock of the output, or that of the interpreter, for which others wait."""
    states = f"server:uwsgi_wait_threads:ratio_rate{t.window}"
    behind = f'sum without (state) ({states}{{state=~"pipe|lock|interpreter_lock"}})'
    return Alert(
        alert="UwsgiOutputBlocked",
        expr=f"""
{_threads("uwsgi_output_blocked_thread_seconds_total", t)} >= {t.output_blocked_threads:g}
and {behind} >= {t.output_blocked_part} * sum without (state) ({states})""",
        hold=t.output_blocked_hold,
        severity="warning",
        summary=f"uWSGI {SERVER} on {INSTANCE}: workers are blocked writing to a pipe.",
        description=f"{value(TENTH)} threads on average are in a write to their standard output or error, which is a "
        "pipe that takes nothing. "
        + answer(behind.replace('"}', '",$self}'), TENTH)
        + " threads wait for a pipe, or for a lock that such a thread may hold.\n"
        "Make the program at the other end read: `lsof +E -a -p PID -d 1,2` on a worker names it. It is the service "
        "manager, the container's runtime or a log collector. Else write the log to a file (`logto`).",
        dashboard=SERVER_DASHBOARD,
    )


def _threads(counter: str, t: Thresholds) -> str:
    """The mean number of threads in something that is an integral over the time in which waits are known."""
    return f"rate({counter}[{t.window}]) / (rate(uwsgi_wait_observed_seconds_total[{t.window}]) > 0)"
