"""Cases of the alerts about causes: refused requests, a shared connection, file descriptors, loops, blocked outputs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tests.alerts.cases.case import Case, firing

RULES = ("recording.yaml", "silent_causes.yaml")
TARGET = {"job": "uwsgi", "instance": "web1:9238", "server": "api"}
OTHER = {"job": "uwsgi-canary", "instance": "web1:9239", "server": "api"}
NORTH, SOUTH = ({**TARGET, "cluster": cluster} for cluster in ("north", "south"))

State = Mapping[str, float]
"""By metric, with the labels of a part of a server: the growth of a counter in a minute, or the value of a gauge."""

Phase = tuple[int, State | None, bool]
"""How many minutes a state lasts, None for a server that is gone; and whether its counters begin at 0 again."""


def series(*phases: Phase, labels: Mapping[str, str] = TARGET) -> list[dict[str, str]]:
    """The series of a server that goes through these phases."""
    names = dict.fromkeys(name for _, state, _ in phases for name in state or ())
    return [{"series": _label(name, labels), "values": _values(name, phases)} for name in names]


def _label(name: str, labels: Mapping[str, str]) -> str:
    metric, _, own = name.rstrip("}").partition("{")
    every = [own, *(f'{key}="{value}"' for key, value in labels.items())]
    return f"{metric}{{{','.join(filter(None, every))}}}"


def _values(name: str, phases: Sequence[Phase]) -> str:
    """In promtool's notation."""
    parts, at = [], 0.0
    for minutes, state, is_reset in phases:
        if state is None:
            parts.append(f"stale _x{minutes - 1}")
        elif "_total" in name:
            at = 0.0 if is_reset else at
            parts.append(f"{at + state[name]:g}+{state[name]:g}x{minutes - 1}")
            at += state[name] * minutes
        else:
            parts.append(f"{state[name]:g}x{minutes - 1}")
    return " ".join(parts)


def six(alert: str, calm: State, below: State, above: State, summary: str, description: str) -> list[Case]:
    """The cases that every alert has."""

    def fires(labels: Mapping[str, str]) -> Mapping[str, object]:
        return firing(alert, "warning", f"uWSGI api on {labels['instance']}{summary}", description, **labels)

    return [
        Case(f"{alert}: silent: a server in which all is well", series((60, calm, False)), nothing_fires=["59m"]),
        Case(f"{alert}: boundary: just below the threshold", series((60, below, False)), nothing_fires=["59m"]),
        Case(
            f"{alert}: boundary: above it, it waits before it fires",
            series((30, calm, False), (30, above, False)),
            {"30m": []},
            {"59m": 1},
        ),
        Case(f"{alert}: fires: with its figures", series((60, above, False)), {"59m": [fires(TARGET)]}),
        Case(
            f"{alert}: counter reset: a restart of the exporter does not hide it",
            series((30, above, False), (30, above, True)),
            count={"29m": 1, "59m": 1},
        ),
        Case(
            f"{alert}: counter reset: nor does it make it fire",
            series((30, calm, False), (30, calm, True)),
            nothing_fires=[f"{minute}m" for minute in range(30, 59, 3)],
        ),
        Case(
            f"{alert}: missing server: it resolves when the server is gone",
            series((30, above, False), (30, None, False)),
            {"59m": []},
            {"29m": 1},
        ),
        Case(
            f"{alert}: duplicate series: a server that two exporters watch, and of two that differ in a label of "
            "Prometheus the one that it is about",
            [
                *series((60, above, False), labels=OTHER),
                *series((60, above, False), labels=NORTH),
                *series((60, calm, False), labels=SOUTH),
            ],
            {"59m": [fires(OTHER), fires(NORTH)]},
        ),
    ]


def refuses(head: float, requests: float) -> State:
    """So many requests a minute have a head that is too large, and a fifth as many are not HTTP."""
    return {
        'uwsgi_log_messages_total{message="head_too_large"}': head,
        'uwsgi_log_messages_total{message="bad_http"}': head / 5,
        'uwsgi_log_messages_total{message="harakiri"}': 9,
        'uwsgi_worker_requests_total{worker_id="1"}': requests,
    }


def shares(threads: float) -> State:
    """So many threads wait for an answer over a connection that workers share."""
    return {
        "uwsgi_shared_connection_wait_thread_seconds_total": 60 * threads,
        "uwsgi_shared_connections": 1,
        "uwsgi_wait_observed_seconds_total": 60,
    }


def opens(fds: float) -> State:
    """Worker 2 has so many open, of 1,000."""
    return {
        'uwsgi_worker_open_fds{worker_id="1"}': 90,
        'uwsgi_worker_open_fds{worker_id="2"}': fds,
        "uwsgi_open_fds_limit": 1000,
    }


def holds(part: float) -> State:
    """Calls hold the loop of worker 2 for this part of the time, and that of worker 1 for little of it."""
    return {
        'uwsgi_worker_loop_held_seconds_total{worker_id="1"}': 3,
        'uwsgi_worker_loop_held_seconds_total{worker_id="2"}': 60 * part,
        "uwsgi_exporter_observed_seconds_total": 60,
    }


def blocks(threads: float, behind: float, cpu: float) -> State:
    """So many threads are in a write to a pipe, and so many wait for a lock, or compute."""
    return {
        "uwsgi_output_blocked_thread_seconds_total": 60 * threads,
        'uwsgi_wait_thread_seconds_total{state="pipe"}': 60 * threads,
        'uwsgi_wait_thread_seconds_total{state="lock"}': 60 * behind,
        'uwsgi_wait_thread_seconds_total{state="cpu"}': 60 * cpu,
        "uwsgi_wait_observed_seconds_total": 60,
    }


CASES = [
    *six(
        "UwsgiRequestsRejected",
        refuses(0, 1000),
        refuses(1, 130),
        refuses(5, 300),
        " refuses requests, as its log says: 90 in 15m.",
        "By the reason: head_too_large 75, bad_http 15. The clients got an error, or only a part of the answer, and "
        "the application may not have seen the request at all.\n"
        "The runbook has the option to change for each reason, such as `buffer-size` for `head_too_large`. If it began "
        "with a deploy, roll the deploy back.",
    ),
    Case(
        "UwsgiRequestsRejected: silent: messages that are not about refused requests",
        series((60, {'uwsgi_log_messages_total{message="harakiri"}': 50}, False)),
        nothing_fires=["59m"],
    ),
    *six(
        "UwsgiConnectionShared",
        shares(0),
        shares(0.04),
        shares(0.6),
        ": several workers use one connection to another server.",
        "0.60 threads wait for an answer over it on average. It was opened before uWSGI forked the workers. Their "
        "requests wait for each other there, and a worker may read the answer to another worker's request: users may "
        "see the data of others.\n"
        "`uwsgi-headroom check` names the connection. Open it after the fork: in a function with `@postfork` "
        "(uwsgidecorators), or set `lazy-apps`.",
    ),
    *six(
        "UwsgiDescriptorsLow",
        opens(100),
        opens(799),
        opens(830),
        ": a worker has 83 % of its file descriptors open.",
        "Worker 2 has 830 open, of 1000. Without a free one, a worker accepts no request, and what the application "
        "opens fails with `Too many open files`.\n"
        "See what is open with `ls -l /proc/PID/fd` of that worker. A number that only grows is a leak: a reload of "
        "the workers gains time. If all are needed, raise `max-fd`, and LimitNOFILE of the service manager.",
    ),
    *six(
        "UwsgiLoopHeld",
        holds(0),
        holds(0.48),
        holds(0.7),
        ": calls hold up the event loop of a worker for 70 % of the time.",
        "It is that of worker 2. With coroutines (gevent), one thread serves all requests of a worker: while a call "
        "holds it, none of them goes on.\n"
        "`uwsgi-headroom check` says what the call waits for, and `py-spy dump --pid PID` on that worker shows it. "
        "Make it yield (`gevent-early-monkey-patch`, a client that is patched), or move it into a thread beside the "
        "loop or into another process. More async cores would wait as well.",
    ),
    Case(
        "UwsgiLoopHeld: silent: a job that holds it for four minutes",
        series((20, holds(0), False), (4, holds(1), False), (30, holds(0), False)),
        nothing_fires=[f"{minute}m" for minute in range(20, 50)],
    ),
    *six(
        "UwsgiOutputBlocked",
        blocks(0.1, 0, 1),
        blocks(0.8, 3, 0.1),
        blocks(1, 3, 0.1),
        ": workers are blocked writing to a pipe.",
        "1.0 threads on average are in a write to their standard output or error, which is a pipe that takes nothing. "
        "4.0 threads wait for a pipe, or for a lock that such a thread may hold.\n"
        "Make the program at the other end read: `lsof +E -a -p PID -d 1,2` on a worker names it. It is the service "
        "manager, the container's runtime or a log collector. Else write the log to a file (`logto`).",
    ),
    Case(
        "UwsgiOutputBlocked: silent: one thread writes all the time, and most others do something else",
        series((60, blocks(1, 0, 3), False)),
        nothing_fires=["59m"],
    ),
]
