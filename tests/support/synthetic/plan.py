"""What happens in a synthetic history: its services, and the changes of their load."""

from collections.abc import Mapping, Sequence

from msgspec import Struct, field

DAY = 86400.0
UNTIL = 1_790_553_600.0
"""Monday, 28 September 2026, 0:00 UTC."""
WORKDAYS = (1.0, 1.0, 1.0, 1.0, 1.0, 0.45, 0.4)
"""Load by day of the week from Monday on, relative to the busiest."""


class Step(Struct, frozen=True, kw_only=True):
    """From `day` on (days since the start), the load is `factor` times what it was."""

    day: float
    factor: float


class Service(Struct, frozen=True, kw_only=True):
    """Servers that share the requests of one service.

    servers: their number. weights: their parts of the requests, even if empty. workers, threads: of each server, and
    threads of a worker. shares: parts of a server's requests by worker, even if empty.
    peak: threads in service on all servers together in the busiest quarter of an hour of the history.
    cpu, wait: CPU seconds of a request, and seconds that it waits for something else. contention: whether requests of
    one worker queue for its interpreter; without, concurrency is proportional to the load.
    spread: standard deviation of the logarithm of response times.
    growth: growth of the load in 28 days, as a part of the load at the end; linear.
    weekdays: load by day of the week; busiest_hour: local time; night: load at night. noise: standard deviation of the
    logarithm of the load from one quarter of an hour to the next.
    steps, holidays: changes of load; holidays are whole days since the start, with a fifth of the load.
    reloads: times (days since the start) of full reloads, which reset uWSGI's counters; restarts: of the exporters,
    which reset all counters.
    missing: from and until (days since the start), multiples of a quarter of an hour, without samples.
    cpus: usable by each server; others: CPUs of each that other programs use. memory: bytes of a worker.
    threshold, objective: of the service level objective, None without.
    backends, routes: parts of the waiting time, and of the busy threads.
    """

    name: str
    servers: int = 1
    weights: Sequence[float] = ()
    workers: int = 4
    threads: int = 8
    shares: Sequence[float] = ()
    peak: float = 10.0
    cpu: float = 0.010
    wait: float = 0.090
    contention: bool = True
    spread: float = 0.5
    growth: float = 0.0
    weekdays: Sequence[float] = WORKDAYS
    busiest_hour: float = 14.0
    night: float = 0.12
    noise: float = 0.03
    steps: Sequence[Step] = ()
    holidays: Sequence[int] = ()
    reloads: Sequence[float] = ()
    restarts: Sequence[float] = ()
    missing: Sequence[tuple[float, float]] = ()
    cpus: float = 4.0
    others: float = 0.3
    memory: float = 180e6
    threshold: float | None = 1.0
    objective: float = 0.99
    backends: Mapping[str, float] = field(default_factory=lambda: {"postgres": 0.6, "redis": 0.2})
    routes: Mapping[str, float] = field(default_factory=dict)

    def shares_of_workers(self) -> Sequence[float]:
        """The parts of a server's requests, by worker."""
        return self.shares or [1 / self.workers] * self.workers

    def weights_of_servers(self) -> Sequence[float]:
        """The parts of the service's requests, by server."""
        return self.weights or [1 / self.servers] * self.servers


class History(Struct, frozen=True, kw_only=True):
    """Services over `days` days before `until` (epoch seconds, a multiple of 900). zone: an IANA name, for hours and
    days of the week."""

    services: Sequence[Service]
    days: float = 30.0
    until: float = UNTIL
    zone: str = "UTC"
    seed: int = 1

    @property
    def since(self) -> float:
        """The start in epoch seconds."""
        return self.until - self.days * DAY
