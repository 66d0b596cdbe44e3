"""Finds what a request asks for from what was measured: CPU time under and outside the lock, waits, and their spread.

Time in the states `cpu_wait` and `interpreter_lock` is queueing, not demand: another setting changes it.

The spread is a list of factors by which single requests are longer or shorter than the mean, with the shape of the
observed response times. Queueing made these wider or narrower than what requests ask for, so the shape is stretched
until the model's 95th percentile agrees with the observed one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import fsum, inf, isfinite, log

from uwsgi_headroom.analysis.locks import LockFigures
from uwsgi_headroom.analysis.what_if.measured import CannotPredictError, Measured, Observed
from uwsgi_headroom.analysis.what_if.runs import Server, mean, run_observed
from uwsgi_headroom.analysis.what_if.simulation import Outcome, Work, exponential_factors, normalize, spread_shares
from uwsgi_headroom.numbers import percentile
from uwsgi_headroom.record import State

QUEUEING: tuple[State, ...] = ("cpu_wait", "interpreter_lock")
"""States that are not part of the demand. If the application's lock is known, neither is the wait for it."""

LEAST_LOCK_WAIT = 0.05
"""The predicted wait for the lock, as a part of the response time, above which the observed one says how much of the
CPU time is under the lock."""

LESS_LOCK_WAIT = 0.6
"""With less than this part of the predicted wait observed, a part of the CPU time is outside the lock."""

MOST_LOCK_LOAD = 0.98
"""The most of a second that an interpreter lock can be held, on average."""

_LEAST_DEMAND = 0.01
_ROUNDS = 4
_CLOSE = 0.01
_MOST_SCALE = 3.0


@dataclass(frozen=True, slots=True)
class Calibrated:
    """The demands with which the model of the observed setting agrees with the observation."""

    server: Server
    """In it, the work of a request."""
    from_waits: bool
    """Whether wait states gave them; else the time spent waiting was derived from the response time."""
    from_percentiles: bool
    """Whether the 95th percentile gave the spread of requests."""
    lock_wait: float
    """Seconds that a request of the observed setting waits for the lock by the model."""


def calibrate(measured: Measured, look: Callable[[], None]) -> Calibrated:
    """Find the demands from the measurements. Raises CannotPredictError if these do not support it."""
    window = measured.window
    response_time, cpu = _known(measured)
    waits = measured.waits
    from_waits = waits is not None and fsum(waits.values()) > 0
    lock = measured.lock
    waiting = own_waiting(waits, response_time, lock) if waits and from_waits else max(0.0, response_time - cpu)
    if cpu + waiting < _LEAST_DEMAND * response_time:
        waiting = response_time
    serial = lock.seconds if lock else 0.0
    waiting = max(0.0, waiting - serial)
    # More of the CPU time cannot be under the locks than they can be held.
    locked = min(cpu, MOST_LOCK_LOAD * measured.running.processes / window.throughput)
    factors = observed_factors(window)
    other_programs = measured.others if isfinite(measured.others) else 0.0
    others = 0.0 if measured.others_follow else other_programs
    server = Server(
        work=Work(
            locked=locked,
            unlocked=cpu - locked,
            waiting=waiting,
            serial=serial,
            serial_is_shared=lock is not None and lock.scope == "file",
            factors=factors,
        ),
        cpus=measured.cpus,
        others=others,
        others_per_request=(other_programs - others) / window.throughput,
        look=look,
        observed=measured.running,
        shares=measured.shares if len(measured.shares) == measured.running.processes else (),
    )
    if waits and from_waits:
        server = _fit_lock(server, measured, cpu, response_time, waits.get("interpreter_lock", 0.0))
    else:
        server = _fit_waiting(server, measured, response_time)
    p95 = window.p95 if is_positive(window.p95) else None
    if p95 is not None:
        server = _fit_spread(server, measured, factors, p95)
    found = _simulate(server, measured)
    return Calibrated(server, from_waits, p95 is not None, found.lock_waiters / found.throughput)


def _known(measured: Measured) -> tuple[float, float]:
    """The response time and the CPU seconds of a request."""
    if not measured.window.throughput > 0:
        raise CannotPredictError("No request was completed, so there is nothing to predict from.")
    if measured.window.response_time is None or not measured.window.response_time > 0:
        raise CannotPredictError("The response time is not known, so nobody knows what a request needs.")
    if measured.cpu_per_request is None or not measured.cpu_per_request >= 0 or not measured.cpus > 0:
        raise CannotPredictError(
            "The CPU time of the workers is not known, so it is not known what a request needs. Run the exporter on "
            "uWSGI's host, in the same PID namespace."
        )
    return measured.window.response_time, measured.cpu_per_request


def own_waiting(waits: Mapping[State, float], response_time: float, lock: LockFigures | None = None) -> float:
    """Seconds of waiting of a mean request: its share in the sampled states, of the exact response time. What it waits
    for while it holds the lock of the application is part of it."""
    others = ("cpu", *QUEUEING, *(("lock",) if lock else ()))
    own = fsum(seconds for state, seconds in waits.items() if state not in others)
    return response_time * own / fsum(waits.values())


def _fit_lock(server: Server, measured: Measured, cpu: float, response_time: float, observed: float) -> Server:
    """The part of the CPU time under the lock with which the model's wait for the lock is the observed one, if threads
    wait for it much less than they would with all of it under the lock."""
    high, low = server.work.locked, 0.0
    found = _simulate(server, measured)
    predicted = found.lock_waiters / found.throughput
    if predicted < LEAST_LOCK_WAIT * response_time or observed >= LESS_LOCK_WAIT * predicted:
        return server
    for _ in range(_ROUNDS):
        locked = (high + low) / 2
        server = server.with_work(locked=locked, unlocked=cpu - locked)
        found = _simulate(server, measured)
        low, high = (low, locked) if found.lock_waiters / found.throughput > observed else (locked, high)
    return server


def _fit_waiting(server: Server, measured: Measured, response_time: float) -> Server:
    """Without wait states: the waiting with which the model's response time is the observed one."""
    for _ in range(_ROUNDS):
        surplus = mean(_simulate(server, measured).service) - response_time
        if abs(surplus) <= _CLOSE * response_time:
            break
        waiting = max(0.0, server.work.waiting - surplus)
        server = server.with_work(waiting=waiting)
    return server


def _fit_spread(server: Server, measured: Measured, factors: tuple[float, ...], wanted: float) -> Server:
    """The spread of requests with which the model's 95th percentile is the observed one."""
    scale = 1.0
    for _ in range(_ROUNDS):
        server = server.with_work(factors=scale_factors(factors, scale))
        service = _simulate(server, measured).service
        reached, middle = percentile(sorted(service), 0.95), mean(service)
        if abs(reached - wanted) <= _CLOSE * wanted or reached <= middle:
            break
        scale = min(_MOST_SCALE, max(0.0, scale * (wanted - middle) / (reached - middle)))
    return server


def _simulate(server: Server, measured: Measured) -> Outcome:
    """The observed setting under the observed load."""
    return run_observed(server, measured.running, measured.window)


LEAST = 0.02
"""The smallest factor: a stretched shape must not make a request take no time."""

_FEWEST_KNOTS = 2


def observed_factors(observed: Observed) -> tuple[float, ...]:
    """Factors with the shape of the observed percentiles, with straight lines between them and an exponential tail
    above the last. Without a median and a further percentile, the shape is exponential."""
    known = [(0.5, observed.p50), (0.9, observed.p90), (0.95, observed.p95), (0.99, observed.p99)]
    knots = [(share, seconds) for share, seconds in known if seconds is not None and is_positive(seconds)]
    if not is_positive(observed.p50) or len(knots) < _FEWEST_KNOTS:
        return exponential_factors()
    # The lower half lies as far below the median as the next known percentile lies above it, in proportion.
    (_, median), (next_share, following) = knots[:2]
    slope = (following - median) / (next_share - 0.5)
    knots.insert(0, (0.0, max(0.1 * median, median - 0.5 * slope)))
    return normalize([_quantile(knots, part) for part in spread_shares()])


def scale_factors(factors: Sequence[float], scale: float) -> tuple[float, ...]:
    """The same shape, stretched around its mean: 0 makes all requests alike, 1 leaves the shape."""
    return normalize([max(LEAST, 1 + scale * (factor - 1)) for factor in factors])


def _quantile(knots: Sequence[tuple[float, float]], share: float) -> float:
    for (start, low), (end, high) in pairwise(knots):
        if share <= end:
            return low + (high - low) * (share - start) / (end - start)
    (start, low), (end, high) = knots[-2:]
    # An exponential tail falls by a factor of 5 from the 95th percentile to the 99th.
    tail = (high - low) / log((1 - start) / (1 - end))
    return high + tail * log((1 - end) / (1 - share))


def is_positive(value: float | None) -> bool:
    """Whether a value is known, finite and above 0."""
    return value is not None and 0 < value < inf
