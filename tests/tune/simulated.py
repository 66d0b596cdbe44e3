"""A simulated application, whose best setting is known by the asymptotic bounds of its resources."""

import random
from collections import Counter
from dataclasses import dataclass, field
from math import exp

from uwsgi_headroom.analysis.what_if.measured import Setting
from uwsgi_headroom.tune.load import Tally
from uwsgi_headroom.tune.search import Run, Task

CPUS, CLIENTS = 2.0, 16


@dataclass
class Application:
    """cpu, waiting: seconds of a request. base, each: bytes. noise, drift: relative deviations, of runs and rounds."""

    cpu: float = 0.03
    waiting: float = 0.1
    base: float = 10e6
    each: float = 10e6
    noise: float = 0.0
    drift: float = 0.0
    others: float = 0.0
    broken: tuple[Setting, ...] = ()
    seed: int = 1
    ran: list[Setting] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._chance = random.Random(self.seed)
        self._speed = 1.0

    def serve(self, setting: Setting, clients: int = CLIENTS) -> float:
        """Requests per second at most."""
        of_threads = min(setting.in_all, clients) / (self.cpu + self.waiting)
        return min(of_threads, min(setting.processes, CPUS) / self.cpu)

    def alone(self, _setting: Setting) -> Tally:
        return Tally(answered=100, total=100 * (self.cpu + self.waiting), seconds=100 * (self.cpu + self.waiting))

    def measure(self, setting: Setting) -> Run:
        if not self.ran or setting == self.ran[0]:
            self._speed = exp(self._chance.gauss(0, self.drift))
        self.ran.append(setting)
        rate = self.serve(setting) * self._speed * exp(self._chance.gauss(0, self.noise))
        memory = round(self.base + self.each * setting.processes)
        usage = {"clients_cpu": 0.0, "other_cpu": self.others, "memory": memory}
        if setting in self.broken:
            return Run(tally=Tally(errors=Counter({"status 500": 90})), server_cpu=0.1, **usage)
        answered = round(1000 * rate)
        tally = Tally(answered=answered, total=CLIENTS / rate * answered, seconds=1000.0)
        return Run(tally=tally, server_cpu=rate * self.cpu, **usage)


def task(processes: int, threads: int, **more: float) -> Task:
    return Task(present=Setting(processes, threads), clients=CLIENTS, cpus=CPUS, **more)
