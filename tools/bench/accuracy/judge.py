"""Compares the figures of one case with the truth, and windowed gauges with the same arithmetic over two scrapes.

A rule divides the growth of counters by the time between two scrapes. Figures from samples are divided by the time that
samples cover, so that a gap in the sampling does not count as idle.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import log, sqrt

from tools.bench.accuracy.generator import Truth
from tools.bench.accuracy.scrapes import Scrape, Span, window
from tools.bench.table import Line, within
from uwsgi_headroom.analysis.capacity import LEAST_OWN

REQUESTS, STATIC = "uwsgi_worker_requests_total", "uwsgi_worker_static_requests_total"
OWN, IDLE = "uwsgi_cpu_used_by_workers_seconds_total", "uwsgi_cpu_available_idle_seconds_total"
USABLE = "uwsgi_cpus_usable"
RUNNING, CPU = "uwsgi_worker_running_time_seconds_total", "uwsgi_worker_cpu_seconds_total"
BUSY, QUEUE = "uwsgi_worker_busy_thread_seconds_total", "uwsgi_socket_queue_seconds_total"
OBSERVED = "uwsgi_exporter_observed_seconds_total"

Values = Mapping[str, float]
"""Values by their distinguishing label (a worker's id, a limit); "" if there is only one value."""


@dataclass(frozen=True)
class Rule:
    """`over` computes `gauge{fixed}` from two scrapes. by: the label that distinguishes its values; least: an absolute
    difference that counts as equal, for gauges whose value may be 0, where a relative difference means nothing."""

    gauge: str
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


HEADROOMS: Mapping[str, Callable[[Span], float]] = {
    "hottest_interpreter": lambda span: 1 / max(_loads(span)),
    "interpreters": lambda span: len(_loads(span)) / sum(_loads(span)),
    "threads": lambda span: span.end.value("uwsgi_threads_ceiling") / _seen(span),
    "cpu": _cpu_headroom,
}
"""By the limit of the gauge."""

RULES = (
    Rule("uwsgi_throughput_requests_per_second", _one(lambda span: span.growth(REQUESTS) / span.seconds)),
    Rule("uwsgi_mean_response_time_seconds", _one(_response_time)),
    Rule("uwsgi_queue_wait_seconds", _one(_queue_wait), least=0.001),
    Rule(
        "uwsgi_concurrency",
        _one(lambda span: span.growth(RUNNING) / span.seconds),
        fixed=(("method", "littles_law"),),
    ),
    Rule("uwsgi_concurrency", _one(_seen), fixed=(("method", "observed"),)),
    *(Rule("uwsgi_headroom_ratio", _one(compute), fixed=(("limit", limit),)) for limit, compute in HEADROOMS.items()),
    Rule("uwsgi_hot_worker_ratio", _one(_hot)),
    Rule("uwsgi_hot_worker_ratio_noise_floor", _one(_floor)),
    Rule("uwsgi_request_share_fairness", _one(_fairness)),
    Rule("uwsgi_unevenness_cost_ratio", _one(_cost), least=0.01),
    Rule(
        "uwsgi_worker_request_share",
        _each(REQUESTS, lambda span: dict.fromkeys(span.by_worker(REQUESTS), span.growth(REQUESTS))),
        by="worker_id",
    ),
    Rule("uwsgi_worker_response_time_seconds", _each(RUNNING, _timed), by="worker_id"),
    Rule(
        "uwsgi_worker_interpreter_load",
        _each(CPU, lambda span: dict.fromkeys(span.by_worker(CPU), span.seconds)),
        by="worker_id",
    ),
)


ENOUGH = 8
"""The least concurrency for which the observed concurrency has a target: below, sampling error dominates."""


@dataclass(frozen=True)
class Measured:
    """The truth and scrapes of one case. before, after: scrapes without load; start, end: scrapes under load."""

    truth: Truth
    scrapes: Sequence[Scrape]
    before: Scrape
    start: Scrape
    end: Scrape
    after: Scrape


def exact(case: Measured) -> Iterator[Line]:
    """Compares the requests between two scrapes without load, in total and by worker: they must be equal."""
    ours = {worker: round(n) for worker, n in Span(case.before, case.after).by_worker(REQUESTS).items()}
    truth = {worker: case.truth.counts().get(worker, 0) for worker in ours}
    failed = len(case.truth.failures)
    note = f"{failed} failed, the first: {case.truth.failures[0]}" if failed else ""
    off = sum(ours.values()) - sum(truth.values())
    yield Line("requests", str(sum(ours.values())), str(sum(truth.values())), f"{off:+d}", "exact", off == 0, note)
    wrong = sum(abs(ours[worker] - truth[worker]) for worker in ours)
    yield Line("share per worker", _shares(ours), _shares(truth), f"{wrong:+d}", "exact", wrong == 0)


def _shares(counts: dict[int, int]) -> str:
    return "/".join(f"{count / max(1, sum(counts.values())):.1%}"[:-1] for count in counts.values()) + " %"


def concurrency(case: Measured, bursty: bool) -> Iterator[Line]:
    """Compares both concurrencies under load, from the counters; `gauges` compares the gauges with these."""
    whole = Span(case.start, case.end)
    law, observed = whole.growth(RUNNING) / whole.seconds, whole.growth(BUSY) / whole.growth(OBSERVED)
    instants, samples = window(whole, case.scrapes), _samples(whole)
    truth = case.truth.in_application(instants)
    doubt = case.truth.in_client(instants) / truth - 1
    yield within("concurrency, Little's law", law, truth, None if bursty else 0.02, f"clients' own {doubt:+.2%}")
    error = sqrt(truth / samples) / truth
    target = None if round(truth) < ENOUGH else 0.05 if bursty else 0.03
    note = f"n {samples:.0f}, sampling error {error:.2%}"
    yield within("concurrency, observed", observed, truth, target, note)


def _samples(span: Span) -> float:
    return span.growth("uwsgi_exporter_samples_total")


def in_flight(case: Measured, middle: Scrape) -> Iterator[Line]:
    """One long request beside a light load: samples see it while it runs, Little's law only once it has ended."""
    running, whole = Span(case.start, middle), Span(case.start, case.end)
    truth, instants = case.truth, window(running, case.scrapes)
    law, observed = running.growth(RUNNING) / running.seconds, running.growth(BUSY) / running.growth(OBSERVED)
    there, done = truth.in_application(instants), truth.completed(instants)
    error = sqrt(there / _samples(running)) / there
    yield within("observed, while it runs", observed, there, 0.03, f"sampling error {error:.2%}")
    yield within("of which in flight: observed - law", observed - law, there - done, 0.05, "the long request itself")
    yield within("Little's law, while it runs", law, done, 0.02, "truth: what has ended")
    law, ended = whole.growth(RUNNING) / whole.seconds, truth.in_application(window(whole, case.scrapes))
    yield within("Little's law, after it ended", law, ended, 0.02)


def queue(case: Measured) -> Iterator[Line]:
    """Compares the wait in the listen queue with the time that clients waited beyond uWSGI's running time."""
    whole = Span(case.start, case.end)
    instants = window(whole, case.scrapes)
    ours = (whole.growth(QUEUE) / whole.growth(OBSERVED)) / (whole.growth(REQUESTS) / whole.seconds)
    truth = case.truth.client_time(instants) - whole.growth(RUNNING) / whole.growth(REQUESTS)
    length = whole.growth(QUEUE) / whole.growth(OBSERVED)
    note = f"mean length {length:.1f}; by the application's clock {case.truth.wait(instants) * 1000:.4g} ms"
    yield within("queue wait", ours, truth, 0.1, note, " ms", 1000)


def gauges(case: Measured) -> Iterator[Line]:
    """Compares every windowed gauge of the last scrape with its rule, over the scrapes nearest to its window's ends:
    each may be 1 % off."""
    compared: list[tuple[Rule, dict[str, str], float, float]] = []
    for length in ("1m", "5m"):
        seconds = case.end.samples["uwsgi_window_seconds"][frozenset({("window", length)})]
        first = min(case.scrapes, key=lambda scrape: abs(case.end.elapsed - seconds - scrape.elapsed))
        span = Span(first, case.end)
        for rule in RULES:
            expected = rule.over(span)
            for labels, ours in case.end.samples.get(rule.gauge, {}).items():
                named = dict(labels)
                if named["window"] == length and set(rule.fixed) <= labels:
                    compared.append((rule, named, ours, expected[named.get(rule.by, "")]))
    worst, misses = (0.0, "all equal"), []
    for rule, named, ours, truth in compared:
        off = 0.0 if abs(ours - truth) <= rule.least else abs(ours / truth - 1) if truth else float("inf")
        name = f"`{rule.gauge.removeprefix('uwsgi_')}{{{', '.join(filter(None, named.values()))}}}` {off:.2%}"
        worst = max(worst, (off, f"worst: {name}"))
        misses += [] if off <= 0.01 else [name]
    note = "misses: " + ", ".join(misses) if misses else worst[1]
    yield Line("windowed gauges", f"{len(compared)} gauges", "their rules", f"{worst[0]:.2%}", "1%", not misses, note)
