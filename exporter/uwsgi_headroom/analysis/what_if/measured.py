"""What is known of a server as it runs: the input of a prediction."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import isfinite

from uwsgi_headroom.analysis.what_if.setting import Setting
from uwsgi_headroom.errors import HeadroomError
from uwsgi_headroom.record.waits import State


class CannotPredictError(HeadroomError):
    """A prediction is impossible; the message is a sentence that says why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Observed:
    """What was observed in some period. None: unknown.

    throughput: requests per second. response_time: mean seconds in service, without the listen queue, as uWSGI measures
    them; p50, p90, p95, p99: its percentiles. queue_wait: mean seconds in the listen queue. concurrency: mean requests
    in service. requests: how many were completed.
    """

    throughput: float
    response_time: float | None
    p50: float | None = None
    p90: float | None = None
    p95: float | None = None
    p99: float | None = None
    queue_wait: float | None = None
    concurrency: float | None = None
    requests: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """One server, observed in one setting.

    setting: as configured; with cheaper mode, the ceiling of processes.
    cpus: CPUs that the workers may use, counting a quota: 1.5 is possible.
    window: the period from which the demands of a request are taken.
    peak: the busiest part of the recent past, whose throughput is the load 1.0; None: that of `window`.
    cpu_per_request: CPU seconds of all workers per request; None if unknown.
    waits: seconds of a mean request in each state, from `WaitFigures.per_request`; None if unknown.
    workers_up: mean number of workers that accepted requests; None: all. Less than `setting.processes` with cheaper.
    others: CPUs used by other programs. others_follow: whether their use grows with the requests.
    memory_per_worker, memory_available: bytes; None if unknown. memory_is_exact: False if a worker may take less.
    cheaper: whether cheaper mode starts and stops workers. mapped: whether workers have sockets of their own.
    shares: the parts of the requests that the workers take, if these differ by more than chance; empty: even.
    """

    setting: Setting
    cpus: float
    window: Observed
    peak: Observed | None = None
    cpu_per_request: float | None
    waits: Mapping[State, float] | None = None
    workers_up: float | None = None
    others: float = 0.0
    others_follow: bool = False
    memory_per_worker: float | None = None
    memory_available: float | None = None
    memory_is_exact: bool = True
    cheaper: bool = False
    mapped: bool = False
    shares: tuple[float, ...] = ()

    @property
    def running(self) -> Setting:
        """The setting with the mean number of processes that were up."""
        if self.workers_up is None or not isfinite(self.workers_up):
            return self.setting
        return Setting(min(max(1, round(self.workers_up)), self.setting.processes), self.setting.threads)
