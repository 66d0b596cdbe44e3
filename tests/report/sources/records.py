"""A synthetic history as the records of a history file, minute by minute."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

from msgspec import Struct, field
from msgspec.structs import replace

from tests.support.synthetic.plan import DAY, History, Service
from tests.support.synthetic.server import QUEUE, make_records
from uwsgi_headroom.history.response_times.bins import BUCKET_BOUNDS
from uwsgi_headroom.store.file import open_to_write
from uwsgi_headroom.store.record import Minute, Record
from uwsgi_headroom.store.writer import Database

CUT_LATE = 0.13
"""Seconds from the end of a minute to the first read after it, at which its record ends."""


def write_history_file(history: History, path: Path, machine: int | None = None) -> None:
    """Writes the history of all servers, or of those on one machine (from 0) under the name of their service, as
    exporters would have done."""
    database = Database(open_to_write(path), 10**9)
    minutes: dict[int, list[Minute]] = {}
    for service in history.services:
        for place in range(service.servers):
            if machine is None or machine == place:
                name = service.name if machine is not None else f"{service.name}-{place + 1}"
                for minute in make_minutes(history, service, place, name):
                    minutes.setdefault(minute.minute // 15, []).append(minute)
    for quarter in sorted(minutes):
        database.write(minutes[quarter], (quarter + 1) * 900.0 + 60)
    database.close()


def make_minutes(history: History, service: Service, place: int, name: str) -> Iterator[Minute]:
    """What an exporter puts into its history file, for each minute in which it sampled the server."""
    for record in make_records(history, service, place, MINUTE):
        minute, until = round(record.until / MINUTE), record.until + CUT_LATE
        late = replace(record, until=until, window=replace(record.window, until=until))
        yield Minute(name, minute, late)


MINUTE = 60.0
UWSGIS_OWN = (
    "uwsgi_worker_requests_total",
    "uwsgi_worker_static_requests_total",
    "uwsgi_worker_running_time_seconds_total",
)
"""Counters that a full reload resets."""


class Exposed(Struct, frozen=True):
    """A series. values: at the start of the history and at the end of each of its minutes; counter: whether they are a
    total, or a level."""

    name: str
    values: Sequence[float]
    counter: bool
    labels: Mapping[str, str] = field(default_factory=dict)


def expose(history: History, service: Service, place: int) -> Iterator[Exposed]:
    """The series of a service's `place`-th server, without target labels."""
    known = {record.until: record for record in make_records(history, service, place, MINUTE)}
    minutes = [known.get(history.since + MINUTE * (number + 1)) for number in range(round(history.days * DAY / MINUTE))]
    restarts, reloads = ({round(DAY * day / MINUTE) for day in days} for days in (service.restarts, service.reloads))
    first = next(record for record in minutes if record)
    for name, labels, get in _counters(first):
        resets = restarts | reloads if name in UWSGIS_OWN else restarts
        total, values = 0.0, [0.0]
        for number, record in enumerate(minutes, 1):
            total += get(record) if record else MINUTE * (name == "uwsgi_exporter_sample_gap_seconds_total")
            total = 0.0 if number in resets else total
            values.append(total)
        yield Exposed(name, values, True, {"server": service.name, **labels})
    for name, labels, value in _levels(first):
        yield Exposed(name, [value] * (len(minutes) + 1), False, {"server": service.name, **labels})


Counter = tuple[str, dict[str, str], Callable[[Record], float]]


def _counters(first: Record) -> Iterator[Counter]:
    """Name, labels and growth per minute of each counter of a server with these parts."""
    yield "uwsgi_exporter_observed_seconds_total", {}, lambda record: record.window.observed_seconds
    yield "uwsgi_exporter_sample_gap_seconds_total", {}, lambda _record: 0.0
    yield "uwsgi_full_occupancy_seconds_total", {}, lambda record: record.window.full_seconds
    yield "uwsgi_server_reloads_total", {}, lambda record: record.window.reloads
    yield "uwsgi_listen_overflows_total", {}, lambda record: record.window.overflows or 0
    yield "uwsgi_cpu_used_by_workers_seconds_total", {}, lambda record: record.window.cpu.own_seconds
    yield "uwsgi_cpu_available_idle_seconds_total", {}, lambda record: record.window.cpu.idle_seconds
    yield "uwsgi_cpu_used_by_others_seconds_total", {}, lambda record: record.window.cpu.others_seconds
    yield "uwsgi_wait_observed_seconds_total", {}, lambda record: record.window.observed_seconds
    queue = {"socket": QUEUE}
    yield "uwsgi_socket_queue_seconds_total", queue, lambda record: record.window.queue_seconds[QUEUE]
    yield "uwsgi_socket_queue_full_seconds_total", queue, lambda record: record.window.queue_full_seconds[QUEUE]
    yield "uwsgi_slo_requests_total", {}, lambda record: record.window.judged
    yield "uwsgi_slo_bad_requests_total", {"reason": "slow"}, lambda record: record.window.missed_slow
    yield "uwsgi_slo_bad_requests_total", {"reason": "lost"}, lambda record: record.window.missed_lost
    for state in first.window.waits.seconds:
        yield "uwsgi_wait_thread_seconds_total", {"state": state}, _named(lambda one: one.window.waits.seconds, state)
    for name in first.window.waits.backends:
        backends = _named(lambda record: record.window.waits.backends, name)
        yield "uwsgi_backend_wait_thread_seconds_total", {"backend": name}, backends
    for route in first.routes.seconds if first.routes else ():
        yield "uwsgi_route_busy_thread_seconds_total", {"route": route}, _named(lambda one: one.routes.seconds, route)
    for bound in (*BUCKET_BOUNDS, float("inf")):
        le = "+Inf" if bound == float("inf") else str(bound)
        yield "uwsgi_response_time_seconds_bucket", {"le": le}, _up_to(bound)
    for place, worker in enumerate(first.window.workers):
        yield from _of_worker(place, {"worker_id": str(worker.worker_id)})


def _named(get: Callable[[Record], Mapping[str, float]], name: str) -> Callable[[Record], float]:
    return lambda record: get(record).get(name, 0.0)


def _up_to(bound: float) -> Callable[[Record], float]:
    return lambda record: sum(record.response_times.counts[: record.response_times.bins.find(bound) + 1])


def _of_worker(place: int, own: dict[str, str]) -> Iterator[Counter]:
    def get(name: str, part: float = 1.0) -> Callable[[Record], float]:
        return lambda record: part * getattr(record.window.workers[place], name)

    yield "uwsgi_worker_requests_total", own, get("requests")
    yield "uwsgi_worker_static_requests_total", own, get("static_requests")
    yield "uwsgi_worker_running_time_seconds_total", own, get("running_time")
    yield "uwsgi_worker_busy_thread_seconds_total", own, get("busy_seconds")
    yield "uwsgi_worker_interpreter_lock_wait_thread_seconds_total", own, get("interpreter_lock_seconds")
    yield "uwsgi_worker_cpu_seconds_total", {**own, "mode": "user"}, get("cpu_seconds", 0.75)
    yield "uwsgi_worker_cpu_seconds_total", {**own, "mode": "system"}, get("cpu_seconds", 0.25)
    yield "uwsgi_worker_lost_requests_total", own, get("lost")


def _levels(first: Record) -> Iterator[tuple[str, dict[str, str], float]]:
    """Name, labels and value of each gauge, which stay the same."""
    levels = first.levels
    yield "uwsgi_threads_configured", {}, first.window.configured
    yield "uwsgi_threads_available", {}, first.window.available
    yield "uwsgi_cpus_usable", {}, levels.cpus
    yield "uwsgi_memory_available_bytes", {}, levels.memory_available
    yield "uwsgi_thunder_lock", {}, 0.0
    yield "uwsgi_slo_threshold_seconds", {}, levels.slo.threshold
    yield "uwsgi_slo_objective_ratio", {}, levels.slo.objective
    for worker in first.window.workers:
        own = {"worker_id": str(worker.worker_id)}
        yield "uwsgi_worker_accepting", own, 1.0
        yield "uwsgi_worker_unique_memory_bytes", own, levels.memory_per_worker
