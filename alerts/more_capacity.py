"""The first act where threads or queues are full: `add_capacity` of `uwsgi_headroom.analysis.advice` in alert texts.

More threads or processes are advised only where evidence shows that they help: interpreters that compute much of the
time, or threads of which it is known what they wait for. Every alert about full threads or queues uses this text.
"""

from __future__ import annotations

from alerts.thresholds import Thresholds
from alerts.words import HUNDREDTH, TENTH, asked
from uwsgi_headroom.analysis.wait_states import MOSTLY

_UNSEEN = (
    "Run `sudo uwsgi-headroom check --all` on the host: it shows what the threads wait for, which this exporter is not "
    "allowed to see (docs/waits.md). Do not change `threads` or `processes` yet: if the threads wait for a "
    "lock, a backend at its limit or slow clients, more threads would probably also wait."
)

_BY_STATE = {
    "lock": "Find out with `uwsgi-headroom check --code` which line of code holds the lock of the application: {} "
    "wait for this lock. Change the code so that it holds the lock for less time, or make the pool of connections "
    "larger. Do not add threads: they would also wait.",
    "client": "Let the web server in front of uWSGI buffer requests and responses: {} wait for slow clients. Do not "
    "add threads: they would also wait.",
    "backend": "Find out whether the backend (a database or another service) is full: {} wait for it. If this backend "
    "is full, make it faster, or let it take more requests at once. If the backend is not full, raise ",
    "pipe": "Make the program read to which the workers write: {} wait for a full pipe.",
    "interpreter_lock": "Add `processes` while CPUs are free: {} wait for their interpreter, and more threads would "
    "also wait.",
    "cpu_wait": "Give the server more CPU, or move other programs away: {} wait for a CPU.",
}
"""By the state in which most threads are. For the backend, what to raise follows."""

_OTHERWISE = "If the threads wait for a lock, a backend at its limit or slow clients, fix this first. Otherwise raise "


HOW_MUCH = (
    "Run `uwsgi-headroom check` on the host: it says how many threads or processes to set, and how many requests the "
    "server then serves."
)

LIMIT_CLIENTS = (
    "If a few clients send more requests than usual, limit these clients in the web server (nginx: `limit_req`)."
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
    number += "{{ end }} threads in service"
    by_state = "".join(
        f'{{{{ if eq $state "{name}" }}}}{text.format(number)}{_more() if name == "backend" else ""}{{{{ end }}}}'
        for name, text in _BY_STATE.items()
    )
    known = "|".join(_BY_STATE)
    return (
        f"{{{{ with {asked(f'{busy} > {t.interpreter_full / 2}')} }}}}Add `processes` while CPUs are free: each "
        f"interpreter uses {{{{ . | first | value | {HUNDREDTH} }}}} of a CPU, and more threads would only wait for "
        f"their interpreter.{{{{ else }}}}{{{{ with {asked(seen)} }}}}"
        '{{ $state := "" }}{{ $number := 0.0 }}'
        f"{{{{ range {asked(most)} }}}}{{{{ $state = .Labels.state }}}}{{{{ $number = .Value }}}}{{{{ end }}}}"
        f'{{{{ if match "^({known})$" $state }}}}{by_state}{{{{ else }}}}{_OTHERWISE}{_more()}{{{{ end }}}}'
        f"{{{{ else }}}}{_UNSEEN}{{{{ end }}}}{{{{ end }}}}"
    )


def _more() -> str:
    """What to raise: a worker with one thread may have an application that is not thread-safe."""
    return (
        f"{{{{ with {asked('max(uwsgi_worker_threads{$self}) == 1')} }}}}`processes`, and `threads` only if the "
        "application is thread-safe.{{ else }}`threads` or `processes`, but only one of the two at first.{{ end }}"
    )
