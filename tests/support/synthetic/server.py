"""The columns of synthetic servers, at any step: what an exporter that misses nothing would have recorded.

The load of a service over time has a day's and a week's pattern, growth, steps, holidays and noise.
"""

from datetime import datetime
from zoneinfo import ZoneInfo

import numpy as np
from msgspec import Struct
from scipy.special import ndtr, ndtri

from tests.support.synthetic.plan import DAY, History, Service
from uwsgi_headroom.config.slo import Slo
from uwsgi_headroom.history.totals import OCCUPANCY_BOUNDS
from uwsgi_headroom.report.columns import (
    PERCENTILES,
    STEP,
    Column,
    EventMark,
    Query,
    ReviewData,
    ServerData,
    WorkerColumns,
)
from uwsgi_headroom.response_times.bins import BUCKET_BOUNDS

_HOLIDAY = 0.2
_WIDTH = 4.5
"""Hours from the busiest one to where the day's pattern has fallen to 1/e."""

_SATURATED = 0.98


def make_review_data(history: History, *, partial: bool = False, problems: tuple[str, ...] = ()) -> ReviewData:
    """The whole history in quarters of an hour, without an error of measurement."""
    servers = [
        make_server(history, service, place, STEP) for service in history.services for place in range(service.servers)
    ]
    return ReviewData(
        servers=tuple(servers),
        since=history.since,
        until=history.until,
        source=f"synthetic history, seed {history.seed}",
        time_zone=history.zone,
        queries=(Query(text="tests.support.synthetic", answers=len(servers), seconds=0.0),),
        problems=problems,
        partial=partial,
    )


class WorkerLoad(Struct, frozen=True):
    """One worker: requests per second; threads that run, that wait for the interpreter, and that wait for something
    else."""

    requests: Column
    cpu: Column
    lock: Column
    waiting: Column

    @property
    def busy(self) -> Column:
        return self.cpu + self.lock + self.waiting


def worker_load(service: Service, requests: Column) -> WorkerLoad:
    """A worker that serves so many requests per second. With contention, it is an M/D/1 queue for the interpreter
    (Pollaczek-Khinchine: r²/(2(1-r)) wait, of load r); no more than all its threads are busy."""
    cpu = np.minimum(requests * service.cpu, _SATURATED)
    lock = cpu**2 / (2 * (1 - cpu)) if service.contention else np.zeros_like(cpu)
    waiting = requests * service.wait
    lock = np.minimum(lock, np.maximum(0.0, service.threads - cpu - waiting))
    return WorkerLoad(requests, cpu, lock, waiting)


def workers_at(service: Service, requests: Column) -> list[WorkerLoad]:
    """The workers of a server that serves so many requests per second."""
    return [worker_load(service, share * requests) for share in service.shares_of_workers()]


def requests_at_peak(service: Service, busy: float) -> float:
    """Requests per second of a server at which so many of its threads are in service, by bisection.

    Raises ValueError if a worker has too few threads, or too little CPU, for its part of them."""
    low, high = 0.0, busy / (service.cpu + service.wait)
    for _ in range(60):
        middle = (low + high) / 2
        threads = sum(float(worker.busy[0]) for worker in workers_at(service, np.array([middle])))
        low, high = (middle, high) if threads < busy else (low, middle)
    for worker in workers_at(service, np.array([low])):
        if worker.busy[0] > service.threads or worker.cpu[0] >= _SATURATED:
            raise ValueError(f"{service.name}: a worker cannot serve {busy:g} threads' part of the load")
    return low


def percentile(mean: Column, share: float, spread: float) -> Column:
    """A percentile of lognormal response times of this mean, in seconds."""
    found: Column = mean * np.exp(spread * ndtri(share) - spread**2 / 2)
    return found


def make_server(history: History, service: Service, place: int, step: float) -> ServerData:
    """The columns of the `place`-th server of a service, one value per `step` seconds."""
    time = np.arange(history.since, history.until, step) + step
    middles = time - step / 2
    load = find_load(history, service)
    known = sampled(history, service, middles)
    weight = service.weights_of_servers()[place]
    requests = requests_at_peak(service, weight * service.peak) * load.at(middles)
    requests[~known] = np.nan
    workers = workers_at(service, requests)
    busy = sum((worker.busy for worker in workers), np.zeros_like(time))
    cpu = sum((worker.cpu for worker in workers), np.zeros_like(time))
    lock = sum((worker.lock for worker in workers), np.zeros_like(time))
    waiting = requests * service.wait
    mean = busy / requests
    threads = float(service.workers * service.threads)
    full, occupancy = _occupancy(busy, threads)
    bounds = (*sorted({*BUCKET_BOUNDS, *([service.threshold] if service.threshold else [])}), float("inf"))

    def level(value: float) -> Column:
        return np.where(known, value, np.nan)

    slow = requests * _slower(mean, service.threshold, service.spread) if service.threshold else level(np.nan)
    slower = [requests * _slower(mean, bound, service.spread) for bound in bounds]
    name = f"{service.name}-{place + 1}"
    return ServerData(
        server=name,
        service=service.name,
        host=f"web{place + 1}",
        time=time,
        covered=known.astype(np.float64),
        requests=requests,
        static=level(0.0),
        lost=level(0.0),
        busy=busy,
        running=busy,
        full=full,
        occupancy=occupancy,
        configured=level(threads),
        available=level(threads),
        workers_accepting=level(service.workers),
        queue=5.0 * full,
        queue_full=level(0.0),
        cpus=level(service.cpus),
        cpu_own=cpu,
        cpu_idle=np.maximum(0.0, service.cpus - service.others - cpu),
        cpu_others=level(service.others),
        memory_per_worker=level(service.memory),
        memory_available=level(6e9),
        bounds=bounds,
        by_time=tuple(above - below for above, below in zip([requests, *slower], slower, strict=False)),
        percentiles=tuple(percentile(mean, share, service.spread) for share in PERCENTILES),
        objective=Slo(service.threshold, service.objective) if service.threshold else None,
        slow=slow,
        judged=requests if service.threshold else level(np.nan),
        reloads=_count(history, service.reloads, time, step, known),
        respawns=level(0.0),
        harakiris=level(0.0),
        exceptions=level(0.0),
        overflows=level(0.0),
        waits={
            "cpu": cpu,
            "interpreter_lock": lock,
            "backend": waiting * sum(service.backends.values()),
            "other": waiting * (1 - sum(service.backends.values())),
        },
        backends={backend: part * waiting for backend, part in service.backends.items()},
        routes={route: part * busy for route, part in service.routes.items()},
        by_worker=tuple(
            WorkerColumns(
                worker_id=worker_id,
                requests=worker.requests,
                busy=worker.busy,
                running=worker.busy,
                cpu=worker.cpu,
                accepting=level(1.0),
                lock=worker.lock,
            )
            for worker_id, worker in enumerate(workers, 1)
        ),
        events=_events(history, service),
        thunder_lock=False,
    )


def _slower(mean: Column, bound: float, spread: float) -> Column:
    """The part of lognormal response times of this mean above a bound."""
    if bound == float("inf"):
        return np.where(np.isnan(mean), np.nan, 0.0)
    above: Column = ndtr((np.log(mean) - spread**2 / 2 - np.log(bound)) / spread)
    return above


def _occupancy(busy: Column, threads: float) -> tuple[Column, tuple[Column, ...]]:
    """The part of the time with all threads busy, and the parts by OCCUPANCY_BOUNDS: threads in service vary as in a
    Poisson process around their mean."""
    width = np.sqrt(np.maximum(busy, 1e-9))
    below = [ndtr((np.floor(bound * threads + 1e-9) + 0.5 - busy) / width) for bound in OCCUPANCY_BOUNDS[:-1]]
    ones = np.where(np.isnan(busy), np.nan, 1.0)
    cumulative = [*below, ones, ones]
    parts = [above - before for above, before in zip(cumulative, [0 * ones, *cumulative], strict=False)]
    return 1 - ndtr((threads - 0.5 - busy) / width), tuple(parts)


def _count(history: History, days: object, time: Column, step: float, known: np.ndarray) -> Column:
    """How many of the times (days since the start) are in each step."""
    edges = np.append(time - step, time[-1])
    counts, _ = np.histogram(history.since + DAY * np.asarray(days, dtype=np.float64), edges)
    return np.where(known, counts.astype(np.float64), np.nan)


def _events(history: History, service: Service) -> tuple[EventMark, ...]:
    marks = [
        *((day, "reload", "uWSGI was reloaded.") for day in service.reloads),
        *((day, "exporter_started", "The exporter started.") for day in service.restarts),
        *((step.day, step.kind, step.title) for step in service.steps if step.title),
    ]
    return tuple(
        EventMark(time=history.since + DAY * day, kind=kind, title=title) for day, kind, title in sorted(marks)
    )


class Load(Struct, frozen=True):
    """The load of a service, in which 1 is the largest of all quarters of an hour of the history."""

    history: History
    service: Service
    scale: float

    def expected(self, time: Column) -> Column:
        """The load at times (epoch seconds) without noise."""
        return self.scale * _pattern(self.history, self.service, time)

    def at(self, time: Column) -> Column:
        """The load at times (epoch seconds): the noise is the same for a whole quarter of an hour."""
        return self.expected(time) * _noise(self.history, self.service, time)


def find_load(history: History, service: Service) -> Load:
    """The load of a service, scaled by its largest quarter of an hour that was sampled."""
    middles = np.arange(history.since, history.until, STEP) + STEP / 2
    load = Load(history, service, 1.0).at(middles)
    return Load(history, service, 1.0 / float(load[sampled(history, service, middles)].max()))


def sampled(history: History, service: Service, time: Column) -> np.ndarray:
    """Whether the service was sampled at these times."""
    day = (time - history.since) / DAY
    known = np.ones(len(time), dtype=bool)
    for first, last in service.missing:
        known &= ~((first <= day) & (day < last))
    return known


def local_time(time: Column, zone: str) -> Column:
    """Seconds of local time, as if they were UTC."""
    hours, place = np.unique(time // 3600, return_inverse=True)
    there = ZoneInfo(zone)
    offsets = [datetime.fromtimestamp(3600 * hour, there).utcoffset() for hour in hours]
    shifted: Column = time + np.array([offset.total_seconds() if offset else 0.0 for offset in offsets])[place]
    return shifted


def _pattern(history: History, service: Service, time: Column) -> Column:
    local = local_time(time, history.zone)
    weekday = ((local // DAY + 3) % 7).astype(int)  # the first day of 1970 was a Thursday
    hour = local % DAY / 3600
    daylight = np.exp(-(((hour - service.busiest_hour) / _WIDTH) ** 2))
    of_weekday = np.array(service.weekdays)[weekday]
    load = of_weekday * (service.night + (1 - service.night) * daylight)
    load *= np.maximum(0.0, 1 - service.growth * (history.until - time) / (28 * DAY))
    day = (time - history.since) / DAY
    for step in service.steps:
        load[day >= step.day] *= step.factor
    first = local_time(np.array([history.since]), history.zone)[0] // DAY
    load[np.isin(local // DAY - first, list(service.holidays))] *= _HOLIDAY
    return np.asarray(load, dtype=np.float64)


def _noise(history: History, service: Service, time: Column) -> Column:
    place = history.services.index(service)
    quarters = round((history.until - history.since) / STEP)
    noise = np.exp(service.noise * np.random.default_rng([history.seed, place]).standard_normal(quarters))
    return np.asarray(noise[((time - history.since) // STEP).astype(int)], dtype=np.float64)
