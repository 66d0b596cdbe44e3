"""A simulated uWSGI under a closed loop: its throughput follows from bounds, so the best setting is known."""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from math import exp

from uwsgi_headroom.analysis.what_if import Setting
from uwsgi_headroom.tune.application.variant import Variant
from uwsgi_headroom.tune.experiment.results import Observed, Outcome
from uwsgi_headroom.tune.loads.load_tools import Answers, Load

SHARPNESS = 8
"""How close a server comes to the least of its bounds."""


@dataclass
class Server:
    """cpu, waiting: seconds of a request. each, base: bytes of a process, and of all together. noise: the relative
    standard deviation of a run; drift: that of a round. uneven: the hot ratio of several processes without
    `thunder-lock`, and what it costs. runs: what was measured."""

    cpu: float
    waiting: float
    cpus: int = 2
    clients: int = 16
    each: float = 30e6
    base: float = 20e6
    noise: float = 0.0
    drift: float = 0.0
    uneven: float = 1.0
    thunder_lock: float = 1.0
    seed: int = 1
    failing: frozenset[Setting] = frozenset()
    runs: list[tuple[str, int]] = field(default_factory=list)

    @property
    def load(self) -> Load:
        return Load(clients=self.clients)

    def throughput(self, variant: Variant) -> float:
        """The true throughput of a variant, requests per second."""
        setting = variant.setting
        threads = min(self.clients, setting.in_all)
        bounds = (threads / (self.cpu + self.waiting), self.cpus / self.cpu, setting.processes / self.cpu)
        smooth = sum(bound**-SHARPNESS for bound in bounds) ** (-1 / SHARPNESS)
        if variant.thunder_lock:
            return float(smooth * self.thunder_lock)
        return float(smooth / (self.uneven if setting.processes > 1 else 1.0))

    def run(self, variant: Variant, number: int) -> Outcome:
        """One run, with noise that depends on the seed, the round and the variant alone."""
        self.runs.append((variant.name, number))
        if variant.setting in self.failing:
            return Outcome(setup=variant.name, load="load", number=number, answers=None, error="It dies at once.")
        own = random.Random(f"{self.seed} {number} {variant.name}").gauss(0, self.noise)
        common = random.Random(f"{self.seed} {number}").gauss(0, self.drift)
        rate = self.throughput(variant) * exp(own + common)
        threads = min(self.clients, variant.setting.in_all)
        working, waiting = rate * self.cpu, rate * self.waiting
        return Outcome(
            setup=variant.name,
            load="load",
            number=number,
            answers=Answers(
                seconds=10, answered=round(10 * rate), mean=self.clients / rate, p99=3 * self.clients / rate
            ),
            cpus=tuple(min(1.0, working / self.cpus) for _ in range(self.cpus)),
            server_cpu=working,
            clients_cpu=0.0,
            memory=round(self.base + self.each * variant.setting.processes),
            observed=Observed(
                throughput=rate,
                response_time=threads / rate,
                concurrency=threads,
                shares={},
                hot_ratio=1.0 if variant.thunder_lock or variant.setting.processes == 1 else self.uneven,
                cost=None,
                interpreter_load=min(1.0, working / variant.setting.processes),
                waits={
                    "cpu": working,
                    "sleep": waiting,
                    "interpreter_lock": max(0.0, threads - working - waiting),
                },
            ),
        )
