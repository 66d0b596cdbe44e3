"""The closed form of a server: how many requests per second a setting serves at most, and how long they take at a load.

The threads of a worker alternate between its interpreter and waiting: a closed network of one server and a delay (M.
Reiser, S. S. Lavenberg, Journal of the ACM 27 (2), 1980). A known lock is one more server. Workers share the CPUs
evenly. A load is served by a birth-death chain whose service rate with n requests is the throughput X(n) of the closed
network: the flow-equivalent server (E. D. Lazowska et al., "Quantitative System Performance", 1984, chapter 8).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from itertools import accumulate, pairwise
from math import exp, fsum, inf, log
from operator import add, mul
from typing import NamedTuple

from msgspec import Struct


class Times(NamedTuple):
    """A setting under a load."""

    service: float
    """Mean seconds in service."""
    queue_wait: float
    """Mean seconds in the listen queue."""
    slower: float
    """The factor by which computing takes longer than alone."""


class Model(Struct, frozen=True):
    """What a mean request asks for, in seconds, and what its server has."""

    computing: float
    """CPU time under the interpreter lock; 0 if unknown."""
    waiting: float
    cpus: float
    """CPUs that the workers can use beside the other programs; infinite if unknown."""
    efficiency: float = 1.0
    """The part of the model's throughput that the server served while all its threads were busy."""
    unlocked: float = 0.0
    """CPU time outside of the interpreter lock."""
    serial: float = 0.0
    """The time for which a request holds a lock of the application, besides `waiting`."""
    serial_is_shared: bool = False
    """Whether all workers share that lock."""

    @property
    def of_cpus(self) -> float:
        """Requests per second for which the CPUs suffice."""
        seconds = self.computing + self.unlocked
        return self.cpus / seconds if seconds else inf

    def of_worker(self, threads: int, slower: float = 1.0) -> list[float]:
        """Requests per second that one worker serves with 1, 2, ... `threads`. slower: see `slow_down`."""
        delay = max(_LEAST_DELAY, self.waiting + self.unlocked * slower)
        rates = _add_server((number / delay for number in range(1, threads + 1)), self.computing * slower)
        return list(rates if self.serial_is_shared else _add_server(rates, self.serial))

    def most_throughput(self, processes: int, threads: int) -> float:
        """Requests per second at most: all threads are always busy. A lock that all workers share is left out."""
        slower, rates = 1.0, self.of_worker(threads)
        for _ in range(_ROUNDS):
            factor = self.slow_down(processes * rates[-1], slower, processes, processes * threads)
            if abs(factor - slower) < _CLOSE:
                break
            slower, rates = factor, self.of_worker(threads, factor)
        return min(processes * rates[-1], self.of_cpus)

    def slow_down(self, served: float, slower: float, workers: float, requests: float) -> float:
        """The factor by which computing takes longer, from `served` requests per second at a factor of `slower`."""
        locked = min(1.0, served * slower * self.computing / workers)
        unlocked = min(1.0, served * slower * self.unlocked / requests)
        mean = workers * locked + requests * unlocked
        variance = workers * locked * (1 - locked) + requests * unlocked * (1 - unlocked)
        return _share_cpus(mean, variance, slower, self.cpus) if mean else 1.0


_LEAST_DELAY = 1e-9
"""Seconds: also requests that wait for nothing have a delay."""

_ROUNDS = 8
_CLOSE = 0.002
_RARE = 1e-9
_LARGE = 1e200


def _add_server(rates: Iterable[float], seconds: float) -> Iterator[float]:
    """The throughputs with 1, 2, ... requests of a closed network with one more server, for `seconds` a request."""
    idle = 1.0
    for rate in rates:
        most = idle + rate * seconds
        yield rate / most
        idle /= most


def _share_cpus(mean: float, variance: float, slower: float, cpus: float) -> float:
    """The number of threads that compute, over that of the CPUs that they use: another repairman's machines."""
    part = max(_RARE, 1 - variance / mean)
    machines = mean / part
    few, some = int(machines), machines % 1
    if machines <= cpus:
        return 1.0
    odds = part / max(_RARE, 1 - part) / slower
    present, used = _repair(few, odds, cpus)
    if some:
        present_of_more, used_of_more = _repair(few + 1, odds, cpus)
        present += some * (present_of_more - present)
        used += some * (used_of_more - used)
    return present / used


def _repair(machines: int, odds: float, cpus: float) -> tuple[float, float]:
    """The mean number of machines that are broken, and of the servers that repair them. odds: that one is broken."""
    weight, whole, present, used = 1.0, 1.0, 0.0, 0.0
    for number in range(1, machines + 1):
        change = (machines - number + 1) * odds / min(number, cpus)
        weight *= change
        whole, present, used = whole + weight, present + weight * number, used + weight * min(number, cpus)
        if weight > _LARGE:
            weight, whole, present, used = (value / _LARGE for value in (weight, whole, present, used))
        elif change < 1 and weight < _RARE * whole:
            break
    return present / whole, used / whole


def _group(shares: Sequence[float], processes: int) -> tuple[tuple[float, int], ...]:
    if not shares:
        return ((1.0, processes),)
    return tuple(Counter(max(0.1, round(share * processes, 1)) for share in shares).items())


class _Closed(NamedTuple):
    """The closed network with some number of requests."""

    requests: float
    served: float
    """Requests per second."""
    slower: float
    """The factor by which computing takes longer."""


@lru_cache(maxsize=64)
def flow_equivalent(
    model: Model, processes: int, threads: int, shares: tuple[float, ...] = ()
) -> tuple[tuple[float, float], ...]:
    """X(n) and the factor by which computing takes longer, for n = 1 to all threads. shares: of uneven workers."""
    most = model.most_throughput(processes, threads)
    in_all = processes * threads
    closed = [*_solve(model, processes, threads, _group(shares, processes)), _Closed(in_all, most, 1.0)]
    found: list[tuple[float, float]] = []
    for before, after in pairwise(closed):
        while len(found) + 1 < after.requests:
            part = max(0.0, len(found) + 1 - before.requests) / (after.requests - before.requests)
            found.append((before.served + part * (after.served - before.served), after.slower))
    found.append((most, closed[-2].slower))
    rates = [min(served, most) for served, _ in found]
    if model.serial_is_shared:
        rates = list(_add_server(rates, model.serial))
    return tuple(zip(rates, [slower for _, slower in found], strict=True))


def _solve(model: Model, processes: int, threads: int, groups: Sequence[tuple[float, int]]) -> Iterator[_Closed]:
    """The network with ever more requests, up to nearly all threads; of a single worker with each number. Workers get
    requests at random, by their shares; their numbers are independent but for the sum (product form)."""
    slower, rates = 1.0, model.of_worker(threads)
    if processes == 1:
        for number in range(1, threads + 1):
            for _ in range(_ROUNDS):
                factor = model.slow_down(rates[number - 1], slower, 1, number)
                if abs(factor - slower) < _CLOSE * slower:
                    break
                slower, rates = factor, model.of_worker(threads, factor)
            yield _Closed(number, rates[number - 1], slower)
        return
    tilt, number = log(1 / processes * rates[0]), 1
    in_all = processes * threads
    while number < in_all:
        for _ in range(_ROUNDS):
            logs = list(accumulate((-log(rate) for rate in rates), initial=0.0))
            tilted = [[each + k * (tilt + log(weight)) for k, each in enumerate(logs)] for weight, _ in groups]
            alone = [_describe(_distribute(each)) for each in tilted]
            mean, variance = (_sum(groups, values) for values in zip(*alone, strict=True))
            present = [
                _distribute(list(map(add, each, _others(mean - own[0], variance - own[1], number, threads))))
                for each, own in zip(tilted, alone, strict=True)
            ]
            served = _sum(groups, [fsum(map(mul, each[1:], rates)) for each in present])
            active = _sum(groups, [1 - each[0] for each in present])
            factor = model.slow_down(served, slower, active, number)
            if abs(factor - slower) < _CLOSE * slower:
                break
            slower, rates = factor, model.of_worker(threads, factor)
        yield _Closed(number, served, slower)
        step = min(max(1, number // 16), max(1, in_all - 1 - number))
        number += step
        tilt += max(-1.0, min(1.0, (number - mean) / variance))


def _others(mean: float, variance: float, requests: int, threads: int) -> list[float]:
    """For 0, 1, ... requests of one worker: the logarithm of how likely the others have the rest: a binomial."""
    part = 1 - variance / mean
    if abs(part) <= _RARE:
        part = _RARE
    most = mean / part
    found = [0.0]
    for rest in range(requests - 1, max(-1, requests - threads - 1), -1):
        ratio = (most - rest) / (rest + 1) * part / (1 - part)  # from rest + 1 of the others to rest
        found.append(found[-1] - log(max(_RARE, ratio)))
    return found + [-inf] * (threads + 1 - len(found))


def _sum(groups: Sequence[tuple[float, int]], values: Sequence[float]) -> float:
    return fsum(count * value for (_, count), value in zip(groups, values, strict=True))


def _distribute(logs: Sequence[float]) -> list[float]:
    highest = max(logs)
    likely = [exp(each - highest) for each in logs]
    total = fsum(likely)
    return [each / total for each in likely]


def _describe(likely: Sequence[float]) -> tuple[float, float]:
    """The mean and the variance of a number, from the probabilities of 0, 1, ..."""
    mean = fsum(map(mul, likely, range(len(likely))))
    return mean, fsum((number - mean) ** 2 * part for number, part in enumerate(likely))


def find_times(chain: Sequence[tuple[float, float]], rate: float, spread: float = 1.0) -> Times:
    """The times at `rate` requests per second at random. chain: `flow_equivalent`; spread: of a request's time."""
    weight = whole = 1.0
    busy = slowed = 0.0
    for number, (served, slower) in enumerate(chain, 1):
        weight *= rate / served
        whole, busy, slowed = whole + weight, busy + weight * number, slowed + weight * served * slower
        if weight > _LARGE:
            weight, whole, busy, slowed = (value / _LARGE for value in (weight, whole, busy, slowed))
    # Beyond all threads, the chain is geometric.
    most, slower = chain[-1]
    part = rate / most
    more = weight * part / (1 - part)
    whole, busy, slowed = whole + more, busy + more * len(chain), slowed + more * most * slower
    queue = more / (1 - part) / whole
    return Times(busy / whole / rate, queue / rate * (1 + spread**2) / 2, slowed / whole / rate)
