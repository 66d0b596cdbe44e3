"""Each windowed gauge as a recording rule: the expression, and the same arithmetic over two scrapes.

`[W]` in an expression stands for the window. `rate` extrapolates to the window's ends; over two scrapes it is the
growth divided by the time between them. Figures from samples are divided by the time that samples cover, so that a gap
in the sampling does not count as idle time.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import log, sqrt

from tools.bench.accuracy.scrapes import Span
from uwsgi_headroom.analysis.capacity import LEAST_OWN

REQUESTS, STATIC = "uwsgi_worker_requests_total", "uwsgi_worker_static_requests_total"
OWN, IDLE = "uwsgi_cpu_used_by_workers_seconds_total", "uwsgi_cpu_available_idle_seconds_total"
USABLE = "uwsgi_cpus_usable"
RUNNING, CPU = "uwsgi_worker_running_time_seconds_total", "uwsgi_worker_cpu_seconds_total"
BUSY, QUEUE = "uwsgi_worker_busy_thread_seconds_total", "uwsgi_socket_queue_seconds_total"
OBSERVED = "uwsgi_exporter_observed_seconds_total"

_LAMBDA = f"sum(rate({REQUESTS}[W]))"
_LOAD = f"sum by (worker_id) (rate({CPU}[W]))"
_COVERED = f"scalar(rate({OBSERVED}[W]))"
_SEEN = f"sum(rate({BUSY}[W])) / {_COVERED}"
_W = f"sum(rate({RUNNING}[W])) / (sum(rate({REQUESTS}[W])) - sum(rate({STATIC}[W])))"
_W_EACH = (
    f"sum by (worker_id) (rate({RUNNING}[W])) / "
    f"(sum by (worker_id) (rate({REQUESTS}[W])) - sum by (worker_id) (rate({STATIC}[W])))"
)
_EACH = f"sum by (worker_id) (rate({REQUESTS}[W]))"
_CALM = f"bottomk(scalar(floor(count({_EACH}) / 2)), {_EACH})"
_W_CALM = (
    f"sum(sum by (worker_id) (rate({RUNNING}[W])) and {_CALM}) / "
    f"sum((sum by (worker_id) (rate({REQUESTS}[W])) - sum by (worker_id) (rate({STATIC}[W]))) and {_CALM})"
)
_N, _R = f"count({REQUESTS})", f"sum(increase({REQUESTS}[W]))"
_Z = f"(9 + 2 * ln({_N} / 2))"  # squared

Values = Mapping[str, float]
"""Values by their distinguishing label (a worker's id, a limit); "" if there is only one value."""


@dataclass(frozen=True)
class Rule:
    """`gauge{fixed}` equals `expression`; `over` computes the same from two scrapes. by: the label that distinguishes
    its values; least: an absolute difference that counts as equal, for gauges whose value may be 0, where a relative
    difference means nothing.
    """

    gauge: str
    expression: str
    over: Callable[[Span], Values]
    fixed: tuple[tuple[str, str], ...] = ()
    by: str = ""
    least: float = 0.0


def _one(compute: Callable[[Span], float]) -> Callable[[Span], Values]:
    return lambda span: {"": compute(span)}


def _each(numerator: str, denominator: Callable[[Span], Mapping[int, float]]) -> Callable[[Span], Values]:
    def compute(span: Span) -> Values:
        below = denominator(span)
        return {
            str(worker): part / below[worker] for worker, part in span.by_worker(numerator).items() if below[worker]
        }

    return compute


def _timed(span: Span) -> dict[int, float]:
    static = span.by_worker(STATIC)
    return {worker: grown - static.get(worker, 0.0) for worker, grown in span.by_worker(REQUESTS).items()}


def _response_time(span: Span) -> float:
    return span.growth(RUNNING) / sum(_timed(span).values())


def _seen(span: Span) -> float:
    return span.growth(BUSY) / span.growth(OBSERVED)


def _queue_wait(span: Span) -> float:
    return (span.growth(QUEUE) / span.growth(OBSERVED)) / (span.growth(REQUESTS) / span.seconds)


def _cost(span: Span) -> float:
    counts, timed, running = span.by_worker(REQUESTS), _timed(span), span.by_worker(RUNNING)
    calm = sorted(counts, key=lambda worker: (counts[worker], worker))[: len(counts) // 2]
    calm_response_time = sum(running[worker] for worker in calm) / sum(timed[worker] for worker in calm)
    return max(0.0, 1 - calm_response_time / _response_time(span))


def _hot(span: Span) -> float:
    counts = span.by_worker(REQUESTS)
    return len(counts) * max(counts.values()) / sum(counts.values())


def _fairness(span: Span) -> float:
    counts = span.by_worker(REQUESTS).values()
    return sum(counts) ** 2 / (len(counts) * sum(count * count for count in counts))


def _floor(span: Span) -> float:
    workers, requests = len(span.by_worker(REQUESTS)), span.growth(REQUESTS)
    z_squared = 9 + 2 * log(workers / 2)
    return 1 + sqrt(z_squared * (workers - 1) / requests) + (z_squared - 1) / 6 * workers / requests


def _loads(span: Span) -> list[float]:
    return [grown / span.seconds for grown in span.by_worker(CPU).values()]


def _cpu_headroom(span: Span) -> float:
    own, idle = span.growth(OWN) / span.seconds, span.growth(IDLE) / span.seconds
    return max(own + idle, LEAST_OWN * span.end.value(USABLE)) / own


def _headroom(limit: str, expression: str, compute: Callable[[Span], float]) -> Rule:
    return Rule("uwsgi_headroom_ratio", expression, _one(compute), fixed=(("limit", limit),))


RULES = (
    Rule("uwsgi_throughput_requests_per_second", _LAMBDA, _one(lambda span: span.growth(REQUESTS) / span.seconds)),
    Rule("uwsgi_mean_response_time_seconds", _W, _one(_response_time)),
    Rule(
        "uwsgi_queue_wait_seconds",
        f"sum(rate({QUEUE}[W])) / {_COVERED} / {_LAMBDA}",
        _one(_queue_wait),
        least=0.001,
    ),
    Rule(
        "uwsgi_concurrency",
        f"sum(rate({RUNNING}[W]))",
        _one(lambda span: span.growth(RUNNING) / span.seconds),
        fixed=(("method", "littles_law"),),
    ),
    Rule("uwsgi_concurrency", _SEEN, _one(_seen), fixed=(("method", "observed"),)),
    _headroom("hottest_interpreter", f"1 / max({_LOAD})", lambda span: 1 / max(_loads(span))),
    _headroom("interpreters", f"count({_LOAD}) / sum({_LOAD})", lambda span: len(_loads(span)) / sum(_loads(span))),
    _headroom(
        "threads",
        f"scalar(uwsgi_threads_ceiling) / ({_SEEN})",
        lambda span: span.end.value("uwsgi_threads_ceiling") / _seen(span),
    ),
    _headroom(
        "cpu",
        f"clamp_min(sum(rate({OWN}[W])) + sum(rate({IDLE}[W])), {LEAST_OWN} * scalar({USABLE})) / sum(rate({OWN}[W]))",
        _cpu_headroom,
    ),
    Rule(
        "uwsgi_hot_worker_ratio",
        f"count(rate({REQUESTS}[W])) * max(rate({REQUESTS}[W])) / {_LAMBDA}",
        _one(_hot),
    ),
    Rule(
        "uwsgi_hot_worker_ratio_noise_floor",
        f"1 + sqrt({_Z} * ({_N} - 1) / {_R}) + ({_Z} - 1) / 6 * {_N} / {_R}",
        _one(_floor),
    ),
    Rule(
        "uwsgi_request_share_fairness",
        f"{_LAMBDA} ^ 2 / (count(rate({REQUESTS}[W])) * sum(rate({REQUESTS}[W]) ^ 2))",
        _one(_fairness),
    ),
    Rule("uwsgi_unevenness_cost_ratio", f"clamp_min(1 - ({_W_CALM}) / ({_W}), 0)", _one(_cost), least=0.01),
    Rule(
        "uwsgi_worker_request_share",
        f"sum by (worker_id) (rate({REQUESTS}[W])) / scalar({_LAMBDA})",
        _each(REQUESTS, lambda span: dict.fromkeys(span.by_worker(REQUESTS), span.growth(REQUESTS))),
        by="worker_id",
    ),
    Rule("uwsgi_worker_response_time_seconds", _W_EACH, _each(RUNNING, _timed), by="worker_id"),
    Rule(
        "uwsgi_worker_interpreter_load",
        _LOAD,
        _each(CPU, lambda span: dict.fromkeys(span.by_worker(CPU), span.seconds)),
        by="worker_id",
    ),
)
