"""The first act where threads or queues are full: `add_capacity` of `uwsgi_headroom.analysis.advice` in alert texts.

More threads or processes are advised only where evidence shows that they help: interpreters that compute much of the
time, or threads of which it is known what they wait for. Every alert about full threads or queues uses this text.
"""

from __future__ import annotations

from alerts.thresholds import Thresholds
from alerts.words import HUNDREDTH, TENTH, asked
from uwsgi_headroom.analysis.wait_states import MOSTLY

_UNSEEN = (
    "Run `sudo uwsgi-headroom check --all` on the host to see what the threads wait for (the exporter lacks the "
    "permission to see this: docs/waits.md). Do not raise `threads` or `processes` before you know what the threads "
    "wait for: additional threads would probably also wait if the cause is a lock, slow clients, or a backend at its "
    "limit."
)

_BY_STATE = {
    "lock": "Run `uwsgi-headroom check --code` on the host to see which line of code holds the application's lock: on "
    "average, {} wait for this lock. Change this code so that it holds the lock for less time; if the lock belongs to "
    "a connection pool, make the pool larger. Do not add threads: they would wait for the same lock.",
    "client": "Let the web server in front of uWSGI buffer requests and responses: on average, {} wait for slow "
    "clients. Do not add threads: they would also wait for slow clients.",
    "backend": "Check whether the backend (a database or another service) is at its limit: on average, {} wait for it. "
    "If the backend is at its limit, make it faster, or let it handle more requests at once. If the backend is not at "
    "its limit, raise ",
    "pipe": "Find out why the program at the other end of the workers' pipe does not read: on average, {} wait because "
    "this pipe is full.",
    "interpreter_lock": "While CPUs are free, add `processes`, not `threads`: on average, {} wait for their "
    "interpreter, and additional threads would wait for it, too.",
    "cpu_wait": "Give uWSGI more CPUs, or move other programs to another host: on average, {} wait for a CPU.",
}
"""By the state in which most threads are. For the backend, what to raise follows."""

_OTHERWISE = (
    "If the threads wait for a lock, for slow clients or for a backend at its limit, fix that cause first. If the "
    "threads wait for none of these, raise "
)

HOW_MUCH = (
    "Run `uwsgi-headroom check` on the host: it says what to set `threads` or `processes` to, and how many requests "
    "per second uWSGI can then serve."
)

LIMIT_CLIENTS = (
    "If a few clients send more requests than usual, rate-limit these clients in the web server (`limit_req` in nginx)."
)


def more_capacity(t: Thresholds) -> str:
    """The act for the alert's server, by the load of its interpreters and by what its threads wait for."""
    busy = f'1 / server:uwsgi_headroom:ratio_rate{t.window}{{limit="interpreters",$self}}'
    seen = f"rate(uwsgi_wait_observed_seconds_total{{$self}}[{t.window}]) > 0"
    state = f"server:uwsgi_wait_threads:ratio_rate{t.window}{{$self}}"
    most = f"topk(1, {state}) >= {MOSTLY} * scalar(sum({state}))"
    number = (
        f"{{{{ $number | {TENTH} }}}} of {{{{ with {asked(f'sum({state})')} }}}}{{{{ . | first | value | {TENTH} }}}}"
    )
    number += "{{ end }} busy threads"
    by_state = "".join(
        f'{{{{ if eq $state "{name}" }}}}{text.format(number)}{_more() if name == "backend" else ""}{{{{ end }}}}'
        for name, text in _BY_STATE.items()
    )
    known = "|".join(_BY_STATE)
    return (
        f"{{{{ with {asked(f'{busy} > {t.interpreter_full / 2}')} }}}}While CPUs are free, add `processes`, not "
        f"`threads`: each worker's interpreter uses {{{{ . | first | value | {HUNDREDTH} }}}} of a CPU, and additional "
        f"threads would only wait for it.{{{{ else }}}}{{{{ with {asked(seen)} }}}}"
        '{{ $state := "" }}{{ $number := 0.0 }}'
        f"{{{{ range {asked(most)} }}}}{{{{ $state = .Labels.state }}}}{{{{ $number = .Value }}}}{{{{ end }}}}"
        f'{{{{ if match "^({known})$" $state }}}}{by_state}{{{{ else }}}}{_OTHERWISE}{_more()}{{{{ end }}}}'
        f"{{{{ else }}}}{_UNSEEN}{{{{ end }}}}{{{{ end }}}}"
    )


def _more() -> str:
    """What to raise: a worker with one thread may have an application that is not thread-safe."""
    return (
        f"{{{{ with {asked('max(uwsgi_worker_threads{$self}) == 1')} }}}}`processes`; raise `threads` only if the "
        "application is thread-safe.{{ else }}`threads` or `processes`, but change only one of these two settings at a "
        "time.{{ end }}"
    )
