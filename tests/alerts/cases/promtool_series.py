"""The series of a server under phases of steady load, as an exporter would produce them, in the notation of
`promtool test rules`, scraped once a minute.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

SCRAPE = 60.0


@dataclass(frozen=True)
class Worker:
    """A worker: requests per second, seconds of each, CPU seconds per second. Cheaper mode's reserve is not spawned."""

    requests: float
    response_time: float
    load: float
    threads: int = 8
    spawned: bool = True


RESERVE = Worker(0, 0, 0, spawned=False)


@dataclass(frozen=True)
class Server:
    """A server. cpus: the CPUs that it may use; full: part of the time with every thread busy; queue: mean length of
    its listen queue, None if it cannot be measured; sharing: workers pinned to the same CPU as another.
    cores: whether uWSGI reports its threads (False is stats-no-cores); host: whether its processes are proven.
    idle: idle CPUs, None if unknown; others: CPUs in use by others; follow: whether their use grows with the load.
    ready: mean threads that wait for a CPU; lock_wait: those of each worker that wait for its interpreter lock; None
    if what threads wait for is not known. kernel: the part of the CPU time that is the kernel's; coroutines: whether
    the workers run them.
    """

    workers: Sequence[Worker]
    cpus: float = 8
    full: float = 0
    queue: float | None = 0
    sharing: int = 0
    affinity: int = 8
    cores: bool = True
    host: bool = True
    idle: float | None = None
    others: float = 0
    follow: bool = False
    ready: float | None = None
    lock_wait: float | None = None
    kernel: float = 0.25
    coroutines: bool = False


@dataclass(frozen=True)
class Phase:
    """Minutes of steady load. server: None while it is not scraped; reload: uWSGI's counters are reset at the start;
    respawned: workers (from 1) with new processes."""

    minutes: int
    server: Server | None
    reload: bool = False
    respawned: Sequence[int] = ()


@dataclass
class _Line:
    """A growing series: runs of values, and the current value of a counter."""

    runs: list[str] = field(default_factory=list)
    scrapes: int = 0
    at: float = 0.0
    present: bool = False

    def lack(self, scrapes: int) -> None:
        if scrapes > 0 and self.present:
            self.runs.append("stale")
            self.scrapes += 1
            scrapes -= 1
        if scrapes > 0:
            self.runs.append(f"_x{scrapes - 1}")
            self.scrapes += scrapes
        self.present = False

    def grow(self, scrapes: int, step: float) -> None:
        self.runs.append(f"{_number(self.at)}+{_number(step)}x{scrapes - 1}")
        self.at += step * scrapes
        self.scrapes += scrapes
        self.present = True


def series(phases: Sequence[Phase], **labels: str) -> list[dict[str, str]]:
    """The `input_series` of a server that goes through these phases. labels: the target labels of Prometheus."""
    lines: dict[str, _Line] = {}
    scraped = 0
    for phase in phases:
        for name, own, value, counter in _samples(phase.server) if phase.server else ():
            line = lines.setdefault(_selector(name, {**labels, **own}), _Line())
            line.lack(scraped - line.scrapes)
            if not counter:
                line.at = value
            elif _zeroed(name, own, phase):
                line.at = 0.0
            line.grow(phase.minutes, value * SCRAPE if counter else 0.0)
        scraped += phase.minutes
        for line in lines.values():
            line.lack(scraped - line.scrapes)
    return [{"series": selector, "values": " ".join(line.runs)} for selector, line in lines.items()]


def _samples(server: Server) -> Iterator[tuple[str, dict[str, str], float, bool]]:
    """Yields the name, labels and value of each series; for counters, the growth per second."""
    spawned = [worker for worker in server.workers if worker.spawned]
    for place, worker in enumerate(server.workers, start=1):
        own = {"worker_id": str(place)}
        busy = worker.requests * worker.response_time
        yield "uwsgi_worker_requests_total", own, worker.requests, True
        yield "uwsgi_worker_static_requests_total", own, 0, True
        yield "uwsgi_worker_running_time_seconds_total", own, busy, True
        yield "uwsgi_worker_accepting", own, worker.spawned, False
        if server.cores:
            yield "uwsgi_worker_busy_thread_seconds_total", own, busy, True
            yield "uwsgi_worker_threads", own, worker.threads, False
        if server.host and worker.spawned:
            yield "uwsgi_worker_cpu_seconds_total", {**own, "mode": "user"}, (1 - server.kernel) * worker.load, True
            yield "uwsgi_worker_cpu_seconds_total", {**own, "mode": "system"}, server.kernel * worker.load, True
            yield "uwsgi_worker_cpu_affinity_cpus", own, server.affinity, False
        if server.coroutines:
            yield "uwsgi_worker_loop_held_seconds_total", own, 0, True
        if server.lock_wait is not None:
            yield "uwsgi_worker_interpreter_lock_wait_thread_seconds_total", own, server.lock_wait, True
    yield "uwsgi_up", {}, 1, False
    yield "uwsgi_workers", {"state": "idle"}, len(spawned), False
    yield "uwsgi_workers", {"state": "never_spawned"}, len(server.workers) - len(spawned), False
    yield "uwsgi_exporter_observed_seconds_total", {}, 1, True
    if server.ready is not None or server.lock_wait is not None:
        yield "uwsgi_wait_observed_seconds_total", {}, 1, True
    if server.ready is not None:
        yield "uwsgi_wait_thread_seconds_total", {"state": "cpu_wait"}, server.ready, True
    if server.queue is not None:
        yield "uwsgi_socket_queue_seconds_total", {"socket": "/run/api.sock"}, server.queue, True
    if server.cores:
        yield "uwsgi_threads_configured", {}, sum(worker.threads for worker in server.workers), False
        yield "uwsgi_threads_available", {}, sum(worker.threads for worker in spawned), False
        yield "uwsgi_threads_ceiling", {}, sum(worker.threads for worker in server.workers), False
        yield "uwsgi_full_occupancy_seconds_total", {}, server.full, True
    if server.host:
        yield "uwsgi_cpus_usable", {}, server.cpus, False
        if server.idle is not None:
            own = sum(worker.load for worker in spawned)
            yield "uwsgi_cpu_used_by_workers_seconds_total", {}, own, True
            yield "uwsgi_cpu_available_idle_seconds_total", {}, server.idle, True
            yield "uwsgi_cpu_used_by_others_seconds_total", {}, server.others, True
            yield "uwsgi_cpu_others_follow_load", {}, server.follow, False
        yield "uwsgi_workers_sharing_one_cpu", {}, server.sharing, False


def _zeroed(name: str, own: dict[str, str], phase: Phase) -> bool:
    """Whether the counter is reset: a full reload resets uWSGI's counters, a new process its CPU time; the exporter's
    own totals continue."""
    if name == "uwsgi_worker_cpu_seconds_total":
        return phase.reload or int(own["worker_id"]) in phase.respawned
    return phase.reload and name in (
        "uwsgi_worker_requests_total",
        "uwsgi_worker_static_requests_total",
        "uwsgi_worker_running_time_seconds_total",
    )


def _selector(name: str, labels: dict[str, str]) -> str:
    pairs = ",".join(f'{key}="{value}"' for key, value in labels.items())
    return f"{name}{{{pairs}}}"


def _number(value: float) -> str:
    return f"{value:.6f}".rstrip("0").rstrip(".")
