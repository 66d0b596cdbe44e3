"""One reading of a server: the stats document, the kernel's figures at the same instant, and the time of both.

`describe_server` turns it into the record that `analysis` judges. A sample needs no record: only those who ask do.
"""

from __future__ import annotations

from collections import Counter

from msgspec import Struct

from uwsgi_headroom.kernel.facts import HostFacts
from uwsgi_headroom.kernel.facts import Memories as MemoryFacts
from uwsgi_headroom.kernel.processes import WorkerProcess
from uwsgi_headroom.kernel.setup import SAME_START, is_running
from uwsgi_headroom.record import (
    DEFAULT_MIN_LIFETIME,
    UNKNOWN,
    Backlog,
    CacheRecord,
    Cpus,
    Ending,
    Memory,
    Options,
    ServerRecord,
    SpoolerRecord,
    WorkerRecord,
    WorkerState,
)
from uwsgi_headroom.routes import ServedRoutes
from uwsgi_headroom.same_fields import copy_fields
from uwsgi_headroom.stats import AnySnapshot, EmperorSnapshot, Snapshot
from uwsgi_headroom.stats.server import Worker
from uwsgi_headroom.surroundings import EmperorRecord

_ENDING_SECONDS = 1.0
"""A worker has fewer threads than uWSGI gives it for so long only if it is to end: others start within milliseconds."""


class Reading(Struct, frozen=True):
    at: float
    """The monotonic time, in seconds, at which the document was complete; rates use differences of this."""
    time: float
    """The same instant in epoch seconds, for the age of timestamps that uWSGI writes."""
    read_seconds: float
    """From connecting to the last byte."""
    transfer_seconds: float
    """From the first byte to the last, while uWSGI's master was blocked."""
    document_bytes: int
    """Size of the document."""
    snapshot: AnySnapshot
    host: HostFacts
    routes: ServedRoutes | None = None
    """Of the requests in service; None if they are off."""
    address: str = ""
    """Where it was read, as `check` takes it; empty if that is not known, as for a reading made from history."""
    partial: bool = False
    """Whether only the document was read, and `host` is that of an earlier reading: response times alone use it."""

    def listen_queues(self) -> dict[str, Backlog]:
        """Return each socket's queue: from the kernel, else uWSGI's figure (TCP only), else None and the reason."""
        if not isinstance(self.snapshot, Snapshot):
            return {}
        queues: dict[str, Backlog] = {}
        for socket in self.snapshot.sockets:
            backlog = self.host.backlogs.get(socket.name) or Backlog(
                None, None, "the exporter gets no figures about this queue from the kernel"
            )
            if backlog.queue is None and socket.queue is not None:
                backlog = Backlog(socket.queue, socket.limit, None)
            queues[socket.name] = backlog
        return queues

    def process_is_missing(self, worker: Worker) -> bool:
        """Whether a worker's process is gone before uWSGI's master has noticed. Its requests in service are lost."""
        return worker.pid is not None and self.host.off is None and worker.pid not in self.host.processes

    def busy_threads(self, worker: Worker) -> int | None:
        """Count a worker's busy threads; 0 if its process is gone, because busy flags stay set until a respawn."""
        return 0 if worker.busy_threads and self.process_is_missing(worker) else worker.busy_threads

    def has_same_workers(self, before: Reading) -> bool:
        """Whether uWSGI and the kernel report nothing new about any worker since an earlier reading, as for most
        servers most of the time. The CPUs and the listen queues may have changed."""
        now, then = self.host, before.host
        same_processes = now.processes is then.processes or not (now.processes or then.processes)
        return self.snapshot is before.snapshot and same_processes and now.off == then.off and not now.threads

    def has_same_master(self, before: Reading) -> bool | None:
        """Whether the master is the process of an earlier reading. None if that is unknown: a uWSGI that is process 1
        of its container is process 1 after a restart, too."""
        ours, theirs = self.host, before.host
        if self.snapshot.pid != before.snapshot.pid:
            return False
        if ours.master_pid is None or theirs.master_pid is None:
            return None if self.snapshot.pid == 1 else True
        if ours.master_pid != theirs.master_pid:
            return False
        now, then = (facts.identity.started if facts.identity else None for facts in (ours, theirs))
        return now is None or then is None or abs(now - then) < SAME_START

    def find_earlier_master(self, before: Reading) -> int | None:
        """The PID here of the master of an earlier reading, if it still runs although another master has answered now:
        another uWSGI has bound its socket to the same address. None if it has ended, or if that is unknown."""
        theirs = before.host
        if theirs.master_pid is None or theirs.identity is None or theirs.master_pid == self.host.master_pid:
            return None
        return theirs.master_pid if is_running(theirs.master_pid, theirs.identity.started) else None


def describe_server(reading: Reading | None) -> ServerRecord | None:
    """Describe a server as it is judged; None for an emperor or router, or without a reading."""
    if reading is None or not isinstance(reading.snapshot, Snapshot):
        return None
    snapshot, host = reading.snapshot, reading.host
    # Each directory once: uWSGI lists it as often as it has processes (`spooler-processes`).
    spoolers = Counter(spooler.directory for spooler in snapshot.spoolers)
    return copy_fields(
        ServerRecord,
        reading,
        host,
        workers=tuple([_describe_worker(reading, worker) for worker in snapshot.workers]),
        version=snapshot.version,
        mounted=max([len(worker.apps) for worker in snapshot.workers], default=None),
        is_vassal=host.identity is not None and host.identity.emperor_pid is not None,
        thunder_lock=snapshot.thunder_lock,
        accept_lock_holder=max(0, (snapshot.locks or {}).get("thunder", 0)) or None,
        caches=tuple([CacheRecord(each.name, each.items, each.max_items, each.full) for each in snapshot.caches]),
        spoolers=tuple([SpoolerRecord(name, number, host.spooled.get(name)) for name, number in spoolers.items()]),
        processes_off=host.off,
        cpus=Cpus(host.cpus.count, host.cpus.limited_by) if host.cpus else None,
        quota=host.throttling.quota if host.throttling else None,
        memory=describe_memory(host.memory),
        setup=host.setup or UNKNOWN,
        queues=reading.listen_queues(),
    )


def _describe_worker(reading: Reading, worker: Worker) -> WorkerRecord:
    process = reading.host.processes.get(worker.pid or 0)
    ended = reading.process_is_missing(worker)
    routes = reading.routes
    return copy_fields(
        WorkerRecord,
        process,
        state=_describe_state(worker),
        worker_id=worker.worker_id,
        threads=worker.threads,
        pid=worker.pid or None,
        local_pid=reading.host.local_pid(worker.pid) if worker.pid else None,
        ended=ended,
        has_application=None if worker.requests is None else bool(worker.apps),
        last_spawn=worker.last_spawn,
        starting=max(0.0, reading.time - worker.last_spawn)
        if worker.state == "starting" and worker.last_spawn and not ended
        else None,
        start_wait=reading.host.starts.get(worker.worker_id) if worker.state == "starting" else None,
        requests_per_life=_requests_per_life(worker),
        ending=None if ended else _find_ending(reading, worker, process),
        ages={}
        if ended
        else {thread: start and max(0.0, reading.time - start) for thread, start in worker.serving.items()},
        routes=routes.of_worker(worker.worker_id) if routes and not ended else {},
    )


def _find_ending(reading: Reading, worker: Worker, process: WorkerProcess | None) -> Ending | None:
    """Why uWSGI ends a worker as soon as its requests are completed, as at `max-requests` or in a reload. uWSGI does
    not say so, but ends the worker's free threads at once. Where there are none, and with coroutines, which are in one
    thread, only options show it."""
    setup, age = reading.host.setup, reading.time - (worker.last_spawn or reading.time)
    kind = setup and setup.concurrency_kind
    if setup is None or kind not in ("threads", "async") or not worker.accepting or not worker.threads:
        return None
    reached = _find_reached(worker, setup.options, age)
    if kind == "async" or len(worker.serving) == worker.threads:
        return reached if worker.serving else None
    has_fewer = process is not None and 0 < (process.threads or 0) < worker.threads
    lasts = process is not None and reading.at - process.threads_since >= _ENDING_SECONDS
    return reached or "unknown" if has_fewer and lasts else None


def _find_reached(worker: Worker, options: Options, age: float) -> Ending | None:
    """Which option a worker of this age, in seconds, has reached."""
    earlier, served = worker.worker_id - 1, worker.requests_since_spawn or 0
    most, least = options.max_requests or 0, options.min_worker_lifetime
    is_old = age > (DEFAULT_MIN_LIFETIME if least is None else least)
    if most and is_old and served >= most + earlier * (options.max_requests_delta or 0):
        return "max_requests"
    lifetime = options.max_worker_lifetime or 0
    if lifetime and age > lifetime + earlier * (options.max_worker_lifetime_delta or 0) + _ENDING_SECONDS:
        return "max_worker_lifetime"
    return None


def _requests_per_life(worker: Worker) -> float | None:
    """uWSGI counts the requests of a slot over all its processes, and how often it spawned one."""
    requests, present, spawns = worker.requests, worker.requests_since_spawn, worker.respawns
    if requests is None or present is None or spawns is None or spawns < 2:
        return None
    return max(0, requests - present) / (spawns - 1)


def _describe_state(worker: Worker) -> WorkerState:
    if worker.accepting:
        return "accepting"
    return "reserve" if worker.in_reserve else "paused" if worker.state == "pause" else "down"


def describe_memory(facts: MemoryFacts | None) -> Memory | None:
    """Describe the memory of a server; None if any part of it is unknown."""
    if facts is None or facts.available is None or facts.worker is None or facts.worker.largest <= 0:
        return None
    worker, available = facts.worker, facts.available
    room = available.byte_count, available.limited_by
    return Memory(worker.largest, worker.source, worker.together, *room, available.pressure)


def describe_emperor(snapshot: EmperorSnapshot, refused: str = "", start: str = "") -> EmperorRecord:
    waits = [(each.throttle_level or 0) / 1000 for each in snapshot.blacklist]
    names = tuple([each.name for each in snapshot.blacklist])
    return EmperorRecord(len(snapshot.vassals), names, max(waits, default=0.0) or None, refused, start)
