"""Cases of the alerts about causes: refused requests, a shared connection, file descriptors, loops, blocked outputs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tests.alerts.cases.case import Case, acts, firing

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
        elif name not in state:
            parts.append(f"_x{minutes}")
        elif "_total" in name:
            at = 0.0 if is_reset else at
            parts.append(f"{at + state[name]:g}+{state[name]:g}x{minutes - 1}")
            at += state[name] * minutes
        else:
            parts.append(f"{state[name]:g}x{minutes - 1}")
    return " ".join(parts)


def six(
    alert: str, calm: State, below: State, above: State, summary: str, description: str, since: str = "00:01"
) -> list[Case]:
    """The cases that every alert has. summary: with INSTANCE for the instance."""

    def fires(labels: Mapping[str, str]) -> Mapping[str, object]:
        title = summary.replace("INSTANCE", labels["instance"])
        return firing(alert, "warning", title, description, since, **labels)

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


def waits(state: str, threads: float, computing: float) -> State:
    """So many threads are in a state, and so many compute, of 16; twenty requests a second."""
    return {
        f'uwsgi_wait_thread_seconds_total{{state="{state}"}}': 60 * threads,
        'uwsgi_wait_thread_seconds_total{state="cpu"}': 60 * computing,
        "uwsgi_wait_observed_seconds_total": 60,
        'uwsgi_worker_requests_total{worker_id="1"}': 1200,
        "uwsgi_threads_available": 16,
    }


def judged(verdict: str, cause: str) -> State:
    """What the exporter says of the server."""
    return {f'uwsgi_verdict_info{{verdict="{verdict}",cause="{cause}",harm="none"}}': 1, "uwsgi_up": 1}


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
        "uWSGI api on INSTANCE refused 90 requests in 15m, according to its log",
        acts(
            "If the reason is `head_too_large`, raise `buffer-size`. For other reasons, the runbook names the option "
            "to set.",
            "Run `uwsgi-headroom check` on the host: it shows the lines of the log, and names the option to set.",
            "If the requests come from scanners, refuse them in the web server.",
        )
        + "Refused requests by reason: head_too_large 75, bad_http 15. The clients got an error or only a part of the "
        "response, and the application may not have seen these requests at all.",
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
        "uWSGI api on INSTANCE: several workers share one connection to a backend, and on average 0.60 threads wait "
        "for it",
        acts(
            "Run `uwsgi-headroom check` on the host to see which connection the workers share.",
            "Set `lazy-apps` and reload uWSGI: each worker then opens a connection of its own.",
            "If you cannot use `lazy-apps`, open the connection after the fork, in a function with the decorator "
            "`@postfork` (module `uwsgidecorators`).",
        )
        + "The application opened the connection before uWSGI forked the workers. Workers that share a connection wait "
        "for each other, and a worker may read the response to another worker's request.",
    ),
    *six(
        "UwsgiDescriptorsLow",
        opens(100),
        opens(799),
        opens(830),
        "uWSGI api on INSTANCE: a worker uses 83 % of the file descriptors that it may open",
        acts(
            "To gain time, restart worker 2: `uwsgi-headroom pids api --worker 2` prints the command, and says which "
            "requests the restart would lose.",
            "List the worker's open files with `ls -l /proc/PID/fd`. If the number of open files keeps growing, the "
            "application leaks file descriptors.",
            "If the worker really needs this many open files, raise uWSGI's `max-fd`, and LimitNOFILE in its systemd "
            "unit.",
        )
        + "The worker has 830 file descriptors open; the limit is 1000. A worker without a free file descriptor "
        "accepts no requests, and its application gets `Too many open files` when it opens a file or a connection.",
        "00:00",
    ),
    *six(
        "UwsgiLoopHeld",
        holds(0),
        holds(0.48),
        holds(0.7),
        "uWSGI api on INSTANCE: blocking calls hold up the event loop of a worker for 70 % of the time",
        acts(
            "Find out which call blocks worker 2: `uwsgi-headroom pids api --worker 2` prints the PID for `py-spy "
            "dump`, and `uwsgi-headroom check` on the host says what the call waits for.",
            "Make the call yield to other requests: set `gevent-early-monkey-patch`, or use a client library that is "
            "patched for gevent.",
            "If the call is busy computing, move it to a thread outside of the event loop, or to another process.",
        )
        + "With coroutines (gevent), one thread serves all requests of a worker. While a call blocks this thread, all "
        "requests of the worker stop. Adding async cores does not help: they would stop, too.",
    ),
    Case(
        "UwsgiLoopHeld: silent: a job that holds it for four minutes",
        series((20, holds(0), False), (4, holds(1), False), (30, holds(0), False)),
        nothing_fires=[f"{minute}m" for minute in range(20, 50)],
    ),
    *six(
        "UwsgiOutputBlocked",
        blocks(0.1, 0, 1),
        blocks(0.8, 0.9, 0.1),
        blocks(1, 3, 0.1),
        "uWSGI api on INSTANCE: on average, 1.0 threads are blocked writing to a pipe that no program reads",
        acts(
            "Restart the program that should read the pipe: the log collector, the service manager's journal, or the "
            "container runtime.",
            "To find the program that should read the pipe, run `lsof +E -a -p PID -d 1,2` with the PID of a worker; "
            "`uwsgi-headroom pids api --stuck` prints the PIDs.",
            "To keep this from happening again, write the log to a file (`logto`), and log less.",
        )
        + "The workers' standard output or standard error is a pipe, and it is full because no program reads it. On "
        "average, 4.0 threads wait to write to the full pipe, or for a lock that such a thread may hold.",
    ),
    Case(
        "UwsgiOutputBlocked: silent: one thread writes all the time, and most others do something else",
        series((60, blocks(1, 0, 3), False)),
        nothing_fires=["59m"],
    ),
    *six(
        "UwsgiLockBound",
        waits("lock", 0.2, 2),
        waits("lock", 2.9, 3),
        waits("lock", 6, 2),
        "uWSGI api on INSTANCE: on average, 6.0 threads wait for a lock of the application",
        acts(
            "Find out which lock the threads wait for: `uwsgi-headroom check` on the host names the worker, and "
            "`py-spy dump --native` on this worker shows the line of code that waits.",
            "Change the code so that it holds the lock for less time, and calls no database or other service while it "
            "holds the lock.",
            "If the lock belongs to a connection pool, make the pool as large as `threads`. If each process has its "
            "own lock, add `processes`. Do not add threads: they would wait for the same lock.",
        )
        + "Only one request at a time can run the code that this lock protects. This lock belongs to the application "
        "or a library; it is not Python's interpreter lock (GIL). For each completed request, threads are busy for "
        "400 ms, and wait for a lock for 300 ms of this time.",
    ),
    Case(
        "UwsgiLockBound: silent: less than one thread, though most of them",
        series((60, waits("lock", 0.9, 0.2), False)),
        nothing_fires=["59m"],
    ),
    Case(
        "UwsgiLockBound: silent: the exporter says that all is well, as while threads wait for answers of gRPC",
        series((60, {**waits("lock", 6, 2), **judged("ok", "none")}, False)),
        nothing_fires=["59m"],
    ),
    Case(
        "UwsgiLockBound: fires: the exporter says what is wrong, but for a minute now and then",
        series(
            *[
                (minutes, {**waits("lock", 6, 2), **verdict}, False)
                for _ in range(12)
                for minutes, verdict in ((4, judged("warning", "application_lock")), (1, judged("ok", "none")))
            ]
        ),
        count={"59m": 1},
    ),
    Case(
        "UwsgiLockBound: silent: threads wait for the lock of one that is blocked in a write, which is another ticket",
        series((60, blocks(1, 3, 0.1), False)),
        {"59m": []},
    ),
    *six(
        "UwsgiClientsSlow",
        waits("client", 0.5, 2),
        waits("client", 3.9, 2),
        waits("client", 5, 2),
        "uWSGI api on INSTANCE: on average, 5.0 of 16 threads wait for slow clients",
        acts(
            "Let the web server in front of uWSGI buffer requests and responses. In nginx, this is the default; a line "
            "with `buffering off` in the output of `nginx -T` turns it off.",
            "If clients connect to uWSGI directly, put a web server in front of it. Serve WebSockets, which it "
            "cannot buffer, from a uWSGI of their own with `gevent`.",
            "If a few clients are slow on purpose, limit the number of connections per client in the web server "
            "(nginx: `limit_conn`).",
        )
        + "While a thread receives a request from a slow client, or sends it the response, the thread serves no other "
        "request: a few slow clients can occupy all threads. For each completed request, threads are busy for "
        "350 ms, and wait for clients for 250 ms of this time.",
    ),
]
