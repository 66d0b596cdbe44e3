"""Simulates deploys: second by second, what an exporter would count of a server before and after a reload.

Each request has CPU time, and waits for a backend and for a lock; all three are lognormal. What a server waits for may
drift over some seconds (an autoregressive process), its load may come in bursts, and errors may come in bursts, too.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from uwsgi_headroom.analysis.deploys.judgement import Batch, Judgement, Sides, judge
from uwsgi_headroom.watch.deploy_watch import LATER_LOOK_SECONDS, LOOK_SECONDS, Start

Floats = NDArray[np.float64]

Fault = Literal["none", "cpu", "backend", "lock", "memory", "exceptions", "mix"]


@dataclass(frozen=True)
class Server:
    """A server: requests a second, mean seconds of each part of a request with their coefficients of variation, and how
    it deviates from that."""

    rate: float
    cpu: float = 0.03
    backend: float = 0.06
    lock: float = 0.01
    variation: float = 1.0
    drift: float = 0.0
    """The standard deviation of the logarithm of the backend's mean over time, and over how many seconds it lasts."""
    drift_seconds: float = 10.0
    bursts: float = 1.0
    """The factor of the load in a fifth of all seconds, 20 s at a time."""
    slow: float = 0.0
    """The share of requests that take ten times as long."""
    errors: float = 0.0
    """The share of requests that fail."""
    error_bursts: bool = False
    """Whether errors come ten in a row."""
    trend: float = 0.0
    """By which part of its mean the load grows in half an hour, and the logarithm of the backend's mean by half of
    that: the morning of a day."""
    wander: float = 0.0
    """The standard deviation of the logarithm of the backend's mean in the long run; it changes over ten minutes."""
    leak: float = 0.0
    """Bytes that a mean worker grows in a second, for as long as it runs."""
    fills: float = 10e6
    """Bytes of a mean worker that grow with the logarithm of its age."""


@dataclass(frozen=True)
class Deploy:
    """A reload of a server, `before` seconds after it began, and what it changes."""

    server: Server
    before: int
    after: int
    fault: Fault = "none"
    size: float = 0.0
    """By which part the time of a request grows (`cpu`: the CPU time); exceptions in parts of the requests; bytes a
    second of a mean worker."""
    step: int = 1
    """Seconds of a batch before it: 60, if those are from the history file of an exporter that was not running."""

    @property
    def changed(self) -> Server:
        """The server after it."""
        server, size = self.server, self.size
        whole = server.cpu + server.backend + server.lock
        changes: dict[Fault, dict[str, float]] = {
            "none": {},
            "cpu": {"cpu": server.cpu * (1 + size)},
            "backend": {"backend": server.backend + size * whole},
            "lock": {"lock": server.lock + size * whole},
            "memory": {"leak": server.leak + size},
            "exceptions": {"errors": server.errors + size},
            "mix": {"slow": server.slow + size / 9},
        }
        return replace(server, **changes[self.fault])  # type: ignore[arg-type]  # these are all numbers


def run_server(
    server: Server, seconds: int, age: int, random: np.random.Generator, drift: Floats, began: int = 0
) -> list[Batch]:
    """The seconds of a server whose workers are `age` seconds old at first. drift: the logarithm of the backend's mean,
    by second, of which those from `began` on are taken."""
    half_hours = (np.arange(seconds) + began) / 1800
    load = server.rate * (1 + server.trend * half_hours)
    if server.bursts != 1:
        offset = int(random.integers(100))
        load[(np.arange(seconds) + offset) % 100 < 20] *= server.bursts
    counts = random.poisson(load)
    total = int(counts.sum())
    times = np.repeat(np.exp(drift[began : began + seconds] + server.trend * half_hours / 2), counts)
    kinds = np.where(random.random(total) < server.slow, 10.0, 1.0)
    cpu = _lognormal(server.cpu, server.variation, total, random) * kinds
    backend = _lognormal(server.backend, server.variation, total, random) * kinds * times
    lock = _lognormal(server.lock, server.variation, total, random) * kinds
    return [
        Batch(1.0, float(count), time, used, float(failed), grown)
        for count, time, used, failed, grown in zip(
            counts,
            _by_second(cpu + backend + lock, counts),
            _by_second(cpu, counts),
            _errors(server, counts, random),
            _grow(server, seconds, age, random),
            strict=True,
        )
    ]


def _lognormal(mean: float, variation: float, count: int, random: np.random.Generator) -> Floats:
    width = math.sqrt(math.log1p(variation**2))
    return np.asarray(mean * random.lognormal(-(width**2) / 2, width, count))


def _find_drift(server: Server, seconds: int, random: np.random.Generator) -> Floats:
    """The logarithm of the backend's mean, by second: two autoregressive processes."""
    drift = np.zeros(seconds)
    for size, length in ((server.drift, server.drift_seconds), (server.wander, 600.0)):
        if size:
            kept = math.exp(-1 / length)
            steps = random.normal(size=seconds) * math.sqrt(1 - kept**2) * size
            level = random.normal() * size
            for second, step in enumerate(steps):
                level = kept * level + step
                drift[second] += level
    return drift


def _by_second(amounts: Floats, counts: NDArray[np.int64]) -> list[float]:
    sums = np.concatenate([[0.0], np.cumsum(amounts)])
    ends = np.cumsum(counts)
    return [float(amount) for amount in sums[ends] - sums[ends - counts]]


def _errors(server: Server, counts: NDArray[np.int64], random: np.random.Generator) -> NDArray[np.int64]:
    if server.error_bursts:
        return np.minimum(counts, 10 * random.binomial(counts, server.errors / 10))
    return np.asarray(random.binomial(counts, server.errors))


def _grow(server: Server, seconds: int, age: int, random: np.random.Generator) -> list[float]:
    """Growth comes in pages of 256 kB, and a tenth of it is given back at times."""
    ages = age + np.arange(seconds + 1.0)
    smooth = server.fills * np.log1p(ages / 60) + server.leak * ages
    pages = np.floor(smooth / 2**18) * 2**18 + 2**18 * random.binomial(4, 0.5, seconds + 1)
    return [float(each) for each in np.diff(pages)]


def _join(batches: list[Batch], number: int) -> list[Batch]:
    """Each `number` of neighbours as one; a rest is left out. What a simulated server does is always known."""
    groups = zip(*[iter(batches)] * number, strict=False)
    return batches if number == 1 else [Batch(*map(math.fsum, zip(*group, strict=True))) for group in groups]


LOOKS = (*range(120, 600, int(LOOK_SECONDS)), *range(600, 3601, int(LATER_LOOK_SECONDS)))
"""Seconds after the start at which a deploy is looked at, as by the exporter."""


def follow(deploy: Deploy, random: np.random.Generator) -> Iterator[tuple[int, Judgement]]:
    """What is judged at each look, with the seconds since the reload. Ends when it is worse, or better."""
    drift = _find_drift(deploy.server, deploy.before + deploy.after, random)
    before = Sides(_join(run_server(deploy.server, deploy.before, 7200, random, drift), deploy.step))
    whole = run_server(deploy.changed, deploy.after, 0, random, drift, deploy.before)
    start = _find_start(whole)
    for look in LOOKS:
        if start + look > len(whole):
            return
        judgement = judge(before, Sides(whole[start : start + look]))
        yield start + look, judgement
        if judgement.status in ("worse", "better"):
            return


def _find_start(batches: list[Batch]) -> int:
    start = Start(0.0)
    return next((second for second, batch in enumerate(batches) if start.is_over(batch, second + 1.0)), len(batches))
