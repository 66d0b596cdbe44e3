"""The records of synthetic servers, at any step: what an exporter that misses nothing would have recorded.

The load of a service over time has a day's and a week's pattern, growth, steps, holidays and noise.
"""

from collections.abc import Iterator, Sequence
from datetime import datetime
from functools import lru_cache
from itertools import pairwise
from math import erf, exp, floor, log, sqrt
from random import Random
from typing import NamedTuple
from zoneinfo import ZoneInfo

from msgspec.structs import replace

from tests.support.synthetic.plan import DAY, History, Service
from uwsgi_headroom.config.slo import Slo
from uwsgi_headroom.history.response_times.bins import share_bins
from uwsgi_headroom.history.response_times.totals import ResponseTimeWindow
from uwsgi_headroom.history.window import CpuWindow, RouteWindow, WaitWindow, Window, WorkerWindow
from uwsgi_headroom.record import State
from uwsgi_headroom.report.quarters import STEP, ReviewData, ServerHistory
from uwsgi_headroom.store.record import Levels, Record

_HOLIDAY = 0.2
_WIDTH = 4.5
"""Hours from the busiest one to where the day's pattern has fallen to 1/e."""

_SATURATED = 0.98
QUEUE = "/run/a.sock"


def make_review_data(history: History) -> ReviewData:
    """The whole history in quarters of an hour, without an error of measurement."""
    return ReviewData(
        servers=tuple(
            make_server(history, service, place) for service in history.services for place in range(service.servers)
        ),
        since=history.since,
        until=history.until,
        source=f"synthetic history, seed {history.seed}",
        time_zone=history.zone,
    )


def make_server(history: History, service: Service, place: int) -> ServerHistory:
    """The `place`-th server of a service."""
    quarters = {record.until: record for record in make_records(history, service, place, STEP)}
    return ServerHistory(
        server=f"{service.name}-{place + 1}",
        service=service.name,
        host=f"web{place + 1}",
        quarters=quarters,
        sampled=STEP * len(quarters),
    )


class WorkerLoad(NamedTuple):
    """One worker: requests per second; threads that run, that wait for the interpreter, and that wait for something
    else."""

    requests: float
    cpu: float
    lock: float
    waiting: float

    @property
    def busy(self) -> float:
        return self.cpu + self.lock + self.waiting


def worker_load(service: Service, requests: float) -> WorkerLoad:
    """A worker that serves so many requests per second. With contention, it is an M/D/1 queue for the interpreter
    (Pollaczek-Khinchine: r²/(2(1-r)) wait, of load r); no more than all its threads are busy."""
    cpu, waiting = min(requests * service.cpu, _SATURATED), requests * service.wait
    lock = cpu**2 / (2 * (1 - cpu)) if service.contention else 0.0
    return WorkerLoad(requests, cpu, min(lock, max(0.0, service.threads - cpu - waiting)), waiting)


def workers_at(service: Service, requests: float) -> list[WorkerLoad]:
    """The workers of a server that serves so many requests per second."""
    return [worker_load(service, share * requests) for share in service.shares_of_workers()]


def requests_at_peak(service: Service, busy: float) -> float:
    """Requests per second of a server at which so many of its threads are in service, by bisection.

    Raises ValueError if a worker has too few threads, or too little CPU, for its part of them."""
    low, high = 0.0, busy / (service.cpu + service.wait)
    for _ in range(60):
        middle = (low + high) / 2
        threads = sum(worker.busy for worker in workers_at(service, middle))
        low, high = (middle, high) if threads < busy else (low, middle)
    for worker in workers_at(service, low):
        if worker.busy > service.threads or worker.cpu >= _SATURATED:
            raise ValueError(f"{service.name}: a worker cannot serve {busy:g} threads' part of the load")
    return low


def make_records(history: History, service: Service, place: int, step: float) -> Iterator[Record]:
    """The records of the `place`-th server of a service, one for each `step` seconds that were sampled."""
    load, weight = find_load(history, service), service.weights_of_servers()[place]
    most = requests_at_peak(service, weight * service.peak)
    slo = Slo(service.threshold, service.objective) if service.threshold else None
    levels = Levels(
        cpus=service.cpus,
        memory_available=6_000_000_000,
        memory_per_worker=int(service.memory),
        thunder_lock=False,
        slo=slo,
    )
    rest = [0.0] * service.workers
    number, due = round(history.days * DAY / step), _reloads(history, service)
    for end in (history.since + step * (each + 1) for each in range(number)):
        middle = end - step / 2
        if not is_sampled(history, service, middle):
            continue
        workers = workers_at(service, most * load.at(middle))
        counts = [worker.requests * step + left for worker, left in zip(workers, rest, strict=True)]
        rest = [count - floor(count + 1e-6) for count in counts]
        requests = [floor(count + 1e-6) for count in counts]
        reloads = sum(end - step <= time < end for time in due)
        window = _window(service, end, step, workers, requests, reloads)
        busy, whole = sum(worker.busy for worker in workers), sum(requests)
        times = _response_times(busy / sum(worker.requests for worker in workers), service, whole)
        if slo:
            slow = sum(times.counts[times.bins.find(slo.threshold) + 1 :])
            window = replace(
                window, judged=whole, missed_slow=round(slow), missed_waited=0, missed_lost=0, missed_refused=0
            )
        routes = {route: part * busy * step for route, part in service.routes.items()}
        yield Record(end, window, times if whole else None, RouteWindow(step, routes) if routes else None, levels)


def _window(
    service: Service, end: float, step: float, workers: Sequence[WorkerLoad], requests: Sequence[int], reloads: int
) -> Window:
    busy, cpu = sum(worker.busy for worker in workers), sum(worker.cpu for worker in workers)
    waiting, threads = sum(worker.waiting for worker in workers), service.workers * service.threads
    full = 1 - _below((threads - 0.5 - busy) / sqrt(max(busy, 1e-9)))  # as in a Poisson process around their mean
    named = sum(service.backends.values())
    states: dict[State, float] = {"cpu": cpu, "interpreter_lock": sum(worker.lock for worker in workers)}
    states |= {"backend": waiting * named, "other": waiting * (1 - named)}
    return Window(
        asked=step,
        seconds=step,
        until=end,
        observed_seconds=step,
        full_seconds=full * step,
        gap_seconds=0.0,
        reloads=reloads,
        exceptions=0,
        harakiris=0,
        respawns=reloads * service.workers,  # uWSGI counts the first spawn, too
        overflows=0,
        refused=0,
        workers=tuple(
            WorkerWindow(
                worker_id=place,
                requests=number,
                static_requests=0,
                respawns=reloads,
                lost=0,
                up_seconds=step,
                running_time=worker.busy * step,
                busy_seconds=worker.busy * step,
                cpu_seconds=worker.cpu * step,
                interpreter_lock_seconds=worker.lock * step,
                resident_bytes=int(service.memory),
                resident_growth=0,
            )
            for place, (worker, number) in enumerate(zip(workers, requests, strict=True), 1)
        ),
        queue_seconds={QUEUE: 5.0 * full * step},
        queue_full_seconds={QUEUE: 0.0},
        occupancy=(0,) * 12,
        configured=threads,
        available=threads,
        cpu=CpuWindow(step, cpu * step, max(0.0, service.cpus - service.others - cpu) * step, service.others * step),
        waits=WaitWindow(
            step,
            0.0,
            {state: number * step for state, number in states.items() if number > 0},
            {backend: part * waiting * step for backend, part in service.backends.items()},
        ),
    )


def _response_times(mean: float, service: Service, requests: int) -> ResponseTimeWindow:
    bounds = (service.threshold,) if service.threshold else ()
    parts = _parts_by_bin(round(log(mean), 3), service.spread, bounds)
    bins = share_bins(bounds)
    return ResponseTimeWindow(bins, 0.2, requests, [part * requests for part in parts], [0.0] * len(bins))


@lru_cache(maxsize=4096)
def _parts_by_bin(log_mean: float, spread: float, bounds: tuple[float, ...]) -> list[float]:
    """The parts of lognormal response times by bin."""
    edges = share_bins(bounds).edges
    below = [_below((log(edge) - log_mean + spread**2 / 2) / spread) for edge in edges]
    return [after - before for before, after in pairwise((0.0, *below, 1.0))]


def percentile(mean: float, share: float, spread: float) -> float:
    """A percentile of lognormal response times of this mean, in seconds."""
    low, high = 0.0, 100 * mean
    for _ in range(50):
        middle = (low + high) / 2
        part = _below((log(middle) - log(mean) + spread**2 / 2) / spread)
        low, high = (middle, high) if part < share else (low, middle)
    return high


def _below(deviations: float) -> float:
    """The part of a normal distribution below so many standard deviations."""
    return 0.5 * (1 + erf(deviations / sqrt(2)))


def _reloads(history: History, service: Service) -> list[float]:
    return [history.since + DAY * day for day in service.reloads]


class Load(NamedTuple):
    """The load of a service, in which 1 is the largest of all quarters of an hour of the history. noise: by quarter."""

    history: History
    service: Service
    noise: Sequence[float]
    scale: float

    def at(self, time: float) -> float:
        """The load at a time (epoch seconds): the noise is the same for a whole quarter of an hour."""
        noise = self.noise[int((time - self.history.since) // STEP)]
        return self.scale * _pattern(self.history, self.service, time) * noise


def find_load(history: History, service: Service) -> Load:
    """The load of a service, scaled by its largest quarter of an hour that was sampled."""
    random = Random(f"{history.seed} {history.services.index(service)}")
    quarters = round((history.until - history.since) / STEP)
    noise = [exp(service.noise * random.gauss(0, 1)) for _ in range(quarters)]
    load = Load(history, service, noise, 1.0)
    middles = [history.since + STEP * (place + 0.5) for place in range(quarters)]
    return load._replace(scale=1 / max(load.at(time) for time in middles if is_sampled(history, service, time)))


def is_sampled(history: History, service: Service, time: float) -> bool:
    """Whether the service was sampled at a time."""
    day = (time - history.since) / DAY
    return not any(first <= day < last for first, last in service.missing)


def _pattern(history: History, service: Service, time: float) -> float:
    local = datetime.fromtimestamp(time, ZoneInfo(history.zone))
    hour = local.hour + local.minute / 60 + local.second / 3600
    daylight = exp(-(((hour - service.busiest_hour) / _WIDTH) ** 2))
    load = service.weekdays[local.weekday()] * (service.night + (1 - service.night) * daylight)
    load *= max(0.0, 1 - service.growth * (history.until - time) / (28 * DAY))
    day = (time - history.since) / DAY
    for step in service.steps:
        load *= step.factor if day >= step.day else 1.0
    first = datetime.fromtimestamp(history.since, ZoneInfo(history.zone)).toordinal()
    return load * (_HOLIDAY if local.toordinal() - first in service.holidays else 1.0)
