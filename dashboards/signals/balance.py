"""How evenly the workers of one server share the load, and whether unevenness costs anything."""

from __future__ import annotations

from dashboards.selector import ONE, RANGE, WINDOW
from dashboards.signal import TIMES, Series, signal
from dashboards.signals.limits import OBSERVED_SECONDS

_LINES = 16
_WORKER = "worker {{worker_id}}"
_REQUESTS = f"sum by (worker_id) ({ONE.rate('uwsgi_worker_requests_total')})"
_STATIC = f"sum by (worker_id) ({ONE.rate('uwsgi_worker_static_requests_total')})"
TIMED = f"({_REQUESTS} - {_STATIC} or {_REQUESTS})"
"""Static files take no time that uWSGI counts; with stats-no-cores it does not tell of them."""
BUSIEST = (
    f"and on (worker_id) topk({_LINES}, sum by (worker_id) "
    f"(rate({ONE.of('uwsgi_worker_requests_total')}{RANGE} @ end())))"
)
"""Only the workers with most requests over the shown time: the same in every graph, and few enough to be told apart."""
_ONLY = f"The {_LINES} workers with most requests in the shown time are drawn."


def by_worker(expression: str) -> Series:
    """A line for each of the busiest workers."""
    return Series(f"{expression}\n{BUSIEST}", _WORKER)


SHARES = signal(
    "Share of the requests",
    "percentunit",
    """Of all workers, stacked: bands of one height are even. Without load it is uneven by nature, since the kernel
    wakes waiting workers in its own order; under load it matters where it costs response time. Empty while nothing is
    served.""",
    Series(f"{_REQUESTS} / on () group_left () (sum({_REQUESTS}) > 0)", _WORKER),
)
_IN_RANGE = f"sum by (worker_id) ({ONE.growth('uwsgi_worker_requests_total')})"
SHARES_NOW = signal(
    "Share, and the fair one",
    "percentunit",
    f"""Each worker's part of the requests of the whole shown time, the {_LINES} with most. The line is the fair share:
    one part for each worker that accepts requests now.""",
    Series(f"topk({_LINES}, {_IN_RANGE} / on () group_left () (sum({_IN_RANGE}) > 0))", "share", now=True),
    Series(f"1 / count({ONE.of('uwsgi_worker_accepting')} == 1)", "fair", now=True),
)
UNEVENNESS = signal(
    "Hot worker: times its fair share",
    TIMES,
    """Active workers x largest share; 1x is even. Below the noise floor it is chance. Above both it and the red line,
    under load, it is a ticket.""",
    Series(f"max({ONE.of('uwsgi_hot_worker_ratio', WINDOW)})", "hot worker"),
    Series(f"max({ONE.of('uwsgi_hot_worker_ratio_noise_floor', WINDOW)})", "noise floor"),
)
COST_NOW = signal(
    "Unevenness cost",
    "percentunit",
    """The part of the mean response time that balancing the workers would save. Unknown while the workers with
    fewer requests have too few to compare.""",
    Series(f"max({ONE.of('uwsgi_unevenness_cost_ratio', WINDOW)})", "of the response time"),
)
COST = signal(
    "Cost of unevenness",
    "percentunit",
    """The part of the mean response time that balancing the workers would save: 0 is harmless, however uneven.
    Empty while the workers with fewer requests have too few to compare.""",
    Series(f"max({ONE.of('uwsgi_unevenness_cost_ratio', WINDOW)})", "of the response time"),
)
RESPONSE_TIMES = signal(
    "Response time by worker",
    "s",
    f"""Mean time in service of a worker's requests, static files left out. A worker above the others, whose
    interpreter is near its limit, is where its threads wait for one lock. {_ONLY} A worker without requests has a
    gap.""",
    by_worker(f"sum by (worker_id) ({ONE.rate('uwsgi_worker_running_time_seconds_total')})\n/ ({TIMED} > 0)"),
)
INTERPRETERS = signal(
    "Interpreter load by worker",
    "percentunit",
    f"""CPU seconds a second of the worker's process. One CPython interpreter can use one CPU: from the red line on
    its threads mostly wait for its lock. {_ONLY} Empty where the processes cannot be proven to be of this host.""",
    by_worker(f"sum by (worker_id) ({ONE.rate('uwsgi_worker_cpu_seconds_total')})"),
)
BUSY_THREADS = signal(
    "Requests in service by worker",
    "none",
    f"""Mean busy threads of a worker, from samples. A worker with all threads busy while others idle is fed by a
    socket of its own (map-socket), or its requests are stuck. {_ONLY}""",
    by_worker(
        f"sum by (worker_id) ({ONE.rate('uwsgi_worker_busy_thread_seconds_total')})\n"
        f"/ on () group_left () {OBSERVED_SECONDS}"
    ),
)
