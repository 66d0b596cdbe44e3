"""Compares the figures of one case with the truth.

A figure from counters is their growth divided by the time between two scrapes. Figures from samples are divided by the
time that samples cover, so that a gap in the sampling does not count as idle.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import sqrt

from tools.bench.accuracy.generator import Truth
from tools.bench.accuracy.scrapes import Scrape, Span, window
from tools.bench.table import Line, within

REQUESTS = "uwsgi_worker_requests_total"
RUNNING = "uwsgi_worker_running_time_seconds_total"
BUSY, QUEUE = "uwsgi_worker_busy_thread_seconds_total", "uwsgi_socket_queue_seconds_total"
OBSERVED = "uwsgi_exporter_observed_seconds_total"


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
    whole = Span(case.start, case.end)
    instants = window(whole, case.scrapes)
    ours = (whole.growth(QUEUE) / whole.growth(OBSERVED)) / (whole.growth(REQUESTS) / whole.seconds)
    truth = case.truth.client_time(instants) - whole.growth(RUNNING) / whole.growth(REQUESTS)
    length = whole.growth(QUEUE) / whole.growth(OBSERVED)
    note = f"mean length {length:.1f}; by the application's clock {case.truth.wait(instants) * 1000:.4g} ms"
    yield within("queue wait", ours, truth, 0.1, note, " ms", 1000)
