"""How evenly the workers of one server share the load, and whether unevenness costs anything."""

from __future__ import annotations

from dashboards.signal import ONE, RANGE, TIMES, WINDOW, Series, signal
from dashboards.signals.limits import OBSERVED_SECONDS

_LINES = 16
_WORKER = "worker {{worker_id}}"
_REQUESTS = f"sum by (worker_id) ({ONE.rate('uwsgi_worker_requests_total')})"
_STATIC = f"sum by (worker_id) ({ONE.rate('uwsgi_worker_static_requests_total')})"
TIMED = f"({_REQUESTS} - {_STATIC} or {_REQUESTS})"
"""uWSGI counts no time for static files; with stats-no-cores it does not report them."""
BUSIEST = (
    f"and on (worker_id) topk({_LINES}, sum by (worker_id) "
    f"(rate({ONE.of('uwsgi_worker_requests_total')}{RANGE} @ end())))"
)
"""Only the workers with most requests in the time range: the same in every graph, and few enough to distinguish."""
_ONLY = f"Shows the {_LINES} workers with most requests in the time range."


def by_worker(expression: str) -> Series:
    """A series for each of the busiest workers."""
    return Series(f"{expression}\n{BUSIEST}", _WORKER)


SHARES = signal(
    "Share of the requests",
    "percentunit",
    """All workers, stacked: bands of equal height are even. Without load, shares are always uneven, because the kernel
    wakes waiting workers in its own order; under load, unevenness matters if it costs response time. Empty if no
    request is served.""",
    Series(f"{_REQUESTS} / on () group_left () (sum({_REQUESTS}) > 0)", _WORKER),
)
_IN_RANGE = f"sum by (worker_id) ({ONE.growth('uwsgi_worker_requests_total')})"
SHARES_NOW = signal(
    "Share, and the fair one",
    "percentunit",
    f"""Each worker's part of the requests in the time range, for the {_LINES} workers with most. The line is the fair
    share: an equal part for each worker that accepts requests now.""",
    Series(f"topk({_LINES}, {_IN_RANGE} / on () group_left () (sum({_IN_RANGE}) > 0))", "share", now=True),
    Series(f"1 / count({ONE.of('uwsgi_worker_accepting')} == 1)", "fair", now=True),
)
UNEVENNESS = signal(
    "Hot worker: hot ratio",
    TIMES,
    """Active workers x largest share; 1x is even. Below the noise floor it is chance. Above the noise floor and the red
    line, under load, it is a ticket.""",
    Series(f"max({ONE.of('uwsgi_hot_worker_ratio', WINDOW)})", "hot worker"),
    Series(f"max({ONE.of('uwsgi_hot_worker_ratio_noise_floor', WINDOW)})", "noise floor"),
)
COST_NOW = signal(
    "Unevenness cost",
    "percentunit",
    """The part of the mean response time that balancing the workers would save. Unknown while the less busy workers
    have too few requests to compare.""",
    Series(f"max({ONE.of('uwsgi_unevenness_cost_ratio', WINDOW)})", "of the response time", now=True),
)
COST = signal(
    "Cost of unevenness",
    "percentunit",
    """The part of the mean response time that balancing the workers would save: 0 is harmless, however uneven the
    shares are. Empty while the less busy workers have too few requests to compare.""",
    Series(f"max({ONE.of('uwsgi_unevenness_cost_ratio', WINDOW)})", "of the response time"),
)
RESPONSE_TIMES = signal(
    "Response time by worker",
    "s",
    f"""Mean time in service of a worker's requests, without static files. If a worker is above the others and its
    interpreter is near its limit, its threads wait for one lock. {_ONLY} A worker without requests has a gap.""",
    by_worker(f"sum by (worker_id) ({ONE.rate('uwsgi_worker_running_time_seconds_total')})\n/ ({TIMED} > 0)"),
)
INTERPRETERS = signal(
    "Interpreter load by worker",
    "percentunit",
    f"""CPU seconds per second of the worker's process. One CPython interpreter can use one CPU: above the red line, its
    threads mostly wait for its lock. {_ONLY} Empty if the exporter cannot prove that the processes are on its host.""",
    by_worker(f"sum by (worker_id) ({ONE.rate('uwsgi_worker_cpu_seconds_total')})"),
)
BUSY_THREADS = signal(
    "Requests in service by worker",
    "none",
    f"""Mean busy threads of a worker, from samples. If all threads of one worker are busy while others are idle, the
    worker has its own socket (map-socket), or its requests are stuck. {_ONLY}""",
    by_worker(
        f"sum by (worker_id) ({ONE.rate('uwsgi_worker_busy_thread_seconds_total')})\n"
        f"/ on () group_left () {OBSERVED_SECONDS}"
    ),
)
