"""A simulated uWSGI server: tests call methods that change it, and `read` returns a reading.

Times are monotonic seconds, chosen by the test; uWSGI's own timestamps are EPOCH later.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import count

from msgspec import Struct
from msgspec.structs import replace

from uwsgi_headroom.clock import Clock
from uwsgi_headroom.kernel.cpus import CpuTimes, UsableCpus
from uwsgi_headroom.kernel.facts import HostFacts
from uwsgi_headroom.kernel.processes import WorkerProcess
from uwsgi_headroom.reading import Reading
from uwsgi_headroom.record import Backlog, Waits
from uwsgi_headroom.stats import AnySnapshot, EmperorSnapshot, RouterSnapshot, Snapshot
from uwsgi_headroom.stats.raw import App
from uwsgi_headroom.stats.server import AppSocket, State, Worker

EPOCH = 1_700_000_000


class Slot(Struct):
    """One worker slot and the process in it. silent_requests: those of `requests` that brought no answer; calls:
    of its application, None if it has loaded none."""

    threads: int
    pid: int | None = None
    state: State = "never_spawned"
    busy: int = 0
    requests: int = 0
    static_requests: int = 0
    running_time: float | None = 0.0
    exceptions: int = 0
    harakiris: int = 0
    write_errors: int = 0
    read_errors: int = 0
    routed_requests: int = 0
    silent_requests: int = 0
    calls: int | None = None
    respawns: int = 0
    before_spawn: int = 0
    last_spawn: int | None = None
    started: float = 0.0
    cpu: float | None = 0.0
    resident: int | None = 50 << 20
    low: int | None = None
    alive: bool = True
    stopped: bool = False
    reported_memory: int | None = None
    affinity: tuple[int, ...] = (0, 1, 2, 3)
    request_starts: tuple[int, ...] = ()

    @property
    def accepting(self) -> bool:
        return self.pid is not None and self.state in ("idle", "busy")


@dataclass
class Server:
    """A server. host: whether the kernel provides facts about its processes; cores: False is stats-no-cores; queue: the
    length of its listen queue, None if it cannot be measured; idle: idle CPUs, None if unknown; others: CPUs in use by
    others; waits: what its threads wait for, None if that is switched off; accept_lock: the PID that holds the lock of
    `thunder-lock`, None without that option."""

    processes: int = 4
    threads: int = 8
    spawned: int | None = None
    born: float = 0.0
    host: bool = True
    cores: bool = True
    queue: int | None = 0
    socket: str = "app.sock"
    cpus: float = 4.0
    idle: float | None = None
    others: float = 0.0
    waits: Waits | None = None
    accept_lock: int | None = None
    version: str = "2.0.31"
    slots: list[Slot] = field(default_factory=list)
    _pids: count[int] = field(default_factory=lambda: count(101))
    _ended_cpu: float = 0.0
    _own: float = 0.0
    _times: CpuTimes = field(default_factory=CpuTimes)

    def __post_init__(self) -> None:
        self._begin(self.born, self.spawned)

    def _begin(self, at: float, spawned: int | None = None) -> None:
        self.slots = [Slot(self.threads) for _ in range(self.processes)]
        for worker_id in range(1, (self.processes if spawned is None else spawned) + 1):
            self.respawn(worker_id, at)

    def __getitem__(self, worker_id: int) -> Slot:
        return self.slots[worker_id - 1]

    def serve(self, worker_id: int, requests: int, each: float = 0.1, cpu: float = 0.0) -> None:
        """Ends requests now, each with `each` seconds in service and `cpu` CPU seconds."""
        slot = self[worker_id]
        slot.requests += requests
        if slot.running_time is not None:
            slot.running_time += requests * each
        if slot.cpu is not None:
            slot.cpu += requests * cpu

    def busy(self, *threads: int) -> None:
        """Sets the busy threads of each worker."""
        for slot, busy in zip(self.slots, threads, strict=True):
            slot.busy = busy
            slot.state = "busy" if busy else "idle"

    def respawn(self, worker_id: int, at: float, pid: int | None = None) -> None:
        """Starts a new process in the slot; uWSGI's counters stay."""
        slot = self[worker_id]
        slot.pid, slot.state, slot.busy, slot.alive = pid or next(self._pids), "idle", 0, True
        slot.respawns += 1
        slot.before_spawn = slot.requests
        self._ended_cpu += slot.cpu or 0.0
        slot.last_spawn, slot.started, slot.cpu = EPOCH + int(at), EPOCH + at, 0.0

    def cheap(self, worker_id: int) -> None:
        """Ends the worker as cheaper mode does."""
        slot = self[worker_id]
        slot.pid, slot.state, slot.busy = None, "cheap", 0

    def kill(self, worker_id: int) -> None:
        """Ends the process without uWSGI's master noticing."""
        self[worker_id].alive = False

    def reload(self, at: float, processes: int | None = None) -> None:
        """Does a full reload, which restarts the master and resets all counters."""
        self.processes = processes or self.processes
        self._begin(at)

    def read(self, at: float, *, read_seconds: float = 0.001, transfer_seconds: float | None = None) -> Reading:
        """Returns a reading at this time. transfer_seconds: by default all of `read_seconds`."""
        backlog = Backlog(self.queue, None if self.queue is None else 100, None if self.queue is not None else "hidden")
        if self.host:
            processes = {slot.pid: _process(slot) for slot in self.slots if slot.pid is not None and slot.alive}
            cpus = UsableCpus(self.cpus, "host", int(self.cpus), int(self.cpus), None)
            times = self._cpu_times(at)
            host = HostFacts(
                processes=processes, backlogs={self.socket: backlog}, cpus=cpus, cpu_times=times, waits=self.waits
            )
        else:
            host = HostFacts(off="another host", backlogs={self.socket: backlog})
        workers = tuple(read_worker(worker_id, slot, self.cores) for worker_id, slot in enumerate(self.slots, 1))
        locks = {} if self.accept_lock is None else {"thunder": self.accept_lock}
        snapshot = _snapshot(workers, (AppSocket(self.socket, None, None),), locks, self.version)
        return reading(at, snapshot, host, read_seconds, transfer_seconds)

    def _cpu_times(self, at: float) -> CpuTimes | None:
        """The CPU times at `at`: idle time and that of others grow at their current rates, plus what workers have
        used."""
        if self.idle is None:
            return None
        step = at - self.born - self._times.measured_seconds
        own = self._ended_cpu + sum(slot.cpu or 0.0 for slot in self.slots)
        used = self._times.used_seconds + step * self.others + own - self._own
        self._own = own
        idle = self._times.idle_seconds + step * self.idle
        self._times = CpuTimes(self._times.measured_seconds + step, idle, used)
        return self._times


def emperor(at: float) -> Reading:
    return reading(at, EmperorSnapshot("2.0.31", 1, (), ()), HostFacts())


def router(at: float) -> Reading:
    return reading(at, RouterSnapshot("2.0.31", 1, 0, (), ()), HostFacts())


def reading(
    at: float,
    snapshot: AnySnapshot,
    host: HostFacts,
    read_seconds: float = 0.001,
    transfer_seconds: float | None = None,
) -> Reading:
    transfer = read_seconds if transfer_seconds is None else transfer_seconds
    return Reading(at, EPOCH + at, read_seconds, transfer, 1000, snapshot, host)


def _snapshot(
    workers: tuple[Worker, ...], sockets: tuple[AppSocket, ...], locks: dict[str, int], version: str
) -> Snapshot:
    return Snapshot(
        version=version,
        pid=100,
        listen_queue=None,
        signal_queue=0,
        workers=workers,
        sockets=sockets,
        locks=locks,
        caches=(),
        spoolers=(),
        crons=(),
        legions=(),
        custom_metrics={},
    )


def read_worker(worker_id: int, slot: Slot, cores: bool = True) -> Worker:
    """What uWSGI says of a worker. cores: False is stats-no-cores."""
    return Worker(
        worker_id=worker_id,
        pid=slot.pid,
        state=slot.state,
        accepting=slot.accepting,
        threads=slot.threads if cores else None,
        busy_threads=slot.busy if cores else None,
        requests=slot.requests,
        requests_since_spawn=slot.requests - slot.before_spawn,
        static_requests=slot.static_requests if cores else None,
        running_time=slot.running_time,
        exceptions=slot.exceptions,
        harakiris=slot.harakiris,
        respawns=slot.respawns,
        signals=0,
        transmitted_bytes=100 * (slot.requests - slot.silent_requests),
        resident_bytes=slot.reported_memory,
        last_spawn=slot.last_spawn,
        serving=dict(enumerate(slot.request_starts)),
        thread_requests=_spread(slot.requests, slot.threads) if cores else (),
        apps=() if slot.calls is None else (App(requests=slot.calls),),
        write_errors=slot.write_errors if cores else None,
        read_errors=slot.read_errors if cores else None,
        routed_requests=slot.routed_requests if cores else None,
    )


def _spread(requests: int, threads: int) -> tuple[int, ...]:
    """Spreads requests over threads; the first threads get one more."""
    each, left = divmod(requests, threads)
    return tuple(each + (place < left) for place in range(threads))


def _process(slot: Slot) -> WorkerProcess:
    assert slot.pid is not None
    half = None if slot.cpu is None else slot.cpu / 2
    process = WorkerProcess(slot.pid, half, half, slot.resident, 0, 0, 10, slot.affinity, 0, slot.started)
    return replace(process, is_stopped=slot.stopped, low_bytes=slot.low)


class MovableClock:
    """A clock to set: pass `clock` to a reader or a fleet, and advance it with `move`."""

    def __init__(self) -> None:
        self._now = 1000.0
        self.clock = Clock(monotonic=lambda: self._now, epoch=lambda: 1.8e9 + self._now)

    def move(self, seconds: float) -> None:
        """Advances the clock."""
        self._now += seconds
