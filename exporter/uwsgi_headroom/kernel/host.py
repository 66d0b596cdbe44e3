"""Reads everything that the kernel knows about one server, for one reading."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from contextlib import suppress
from typing import TypeVar

from msgspec import Struct, field
from msgspec.structs import replace

from uwsgi_headroom.errors import SourceError
from uwsgi_headroom.kernel import aside
from uwsgi_headroom.kernel.aside import SHORT_WAIT, Asks, NotYetError, Questions
from uwsgi_headroom.kernel.backlogs import (
    Backlogs,
    Connections,
    ListenerDumps,
    ListenOverflows,
    list_connections,
    read_listen_overflows,
    read_opened,
)
from uwsgi_headroom.kernel.cgroups import explain_hidden, read_task_limit
from uwsgi_headroom.kernel.cpus import MachineCpu, ServerCpu, ThrottleCounts, read_affinity, read_usable_cpus
from uwsgi_headroom.kernel.facts import HostFacts, Memories, read_table
from uwsgi_headroom.kernel.memory import WorkerMemories, read_available_memory, read_oom_kills
from uwsgi_headroom.kernel.namespaces import shares_network_namespace
from uwsgi_headroom.kernel.processes import Processes, read_threads
from uwsgi_headroom.kernel.proof import PAUSE_SECONDS, Proof, Prover, WorkersHere, is_here
from uwsgi_headroom.kernel.roles import Roles, Spools, list_roles
from uwsgi_headroom.kernel.seen_server import SeenServer
from uwsgi_headroom.kernel.setup import SetupReader, read_identity
from uwsgi_headroom.kernel.shared_connections import SharedConnections
from uwsgi_headroom.kernel.waits import WaitSetting
from uwsgi_headroom.kernel.waits.sampler import OFF, WaitSampler
from uwsgi_headroom.kernel.way_in import WaysInReader
from uwsgi_headroom.record import UNKNOWN, Backlog, Options, Waiting, is_tcp
from uwsgi_headroom.source import Address, Answer, Http, ProcessOfApp, SocketOfApp, Tcp, Unix
from uwsgi_headroom.stats import AnySnapshot
from uwsgi_headroom.stats.server import Snapshot, Worker

T = TypeVar("T")

SLOW_SECONDS = (5.0, 15.0)
"""The longest age of facts that change slowly: of servers that are read five times a second, and of those that are read
rarely. At every sample, they would be half of the exporter's cost."""

REST_SECONDS = (1.0, 5.0)
"""The same for facts about a worker that has done nothing since: most workers, most of the time."""

TABLE_SECONDS = 10.0
"""How often the table of tracked connections is read for all servers together."""

_ALONE_SECONDS = 60.0
"""How often a server beside others looks whether they are still there."""

_SLOW_READINGS, _REST_READINGS, _LEAST_READINGS = 15, 3, 5
"""The same in readings, where that is longer. The last is the least: were each reading a slow one, it would cost ten
times as much, and so many servers would be read more rarely still."""


def wait_until_ready() -> None:
    """Start the child process that answers questions, and wait: the first samples would lack its answers."""
    with suppress(OSError):  # each server then says why it lacks facts
        aside.ask(_is_ready)


def _is_ready() -> bool:
    return True


class Host:
    """Reads the kernel's facts about one server's processes and sockets, and caches the costly ones. With
    `cpu_residency`, it also reads every thread of the workers.

    * At every reading: the listen queues, and the connections in those that are not empty; for workers that have served
      requests since the last reading, whether they are alive, their CPU time, and what their request threads wait for.
    * Once a second, or every third reading: the same for all workers. Once a second: the idle CPU time (`machine_cpu`
      reads it for all servers).
    * Every five seconds, every fifteenth reading up to 15 seconds, or every fifth beyond that: the proof, the identity,
      the workers' memory, switches, descriptors and affinity, the usable CPUs and how often a quota stops them, the
      available memory, listen overflows, tracked connections, OOM kills, what starting workers wait for, and the setup
      if it has to be read again.
    * Every ten seconds or more rarely: the connections that workers share, what uWSGI's other processes use, what
      leads clients to its sockets, and the tasks in the directories of spoolers.
    * Once a minute: the unique memory of one worker.
    """

    def __init__(
        self,
        cpu_residency: bool = False,
        clock: Callable[[], float] = time.monotonic,
        machine_cpu: MachineCpu | None = None,
        waits: WaitSetting = OFF,
        listeners: ListenerDumps | None = None,
        asks: Asks | None = None,
    ) -> None:
        asks = self._asks = asks or Questions(clock)
        self._cpu_residency = cpu_residency
        self._clock = clock
        self._slow = _SlowFacts()
        self._prover = Prover(clock)
        self._workers_here = WorkersHere()
        self._processes = Processes()
        self._backlogs = Backlogs(listeners, asks)
        self._worker_memories = WorkerMemories(asks)
        self._setup = SetupReader(asks)
        self._throttling = ThrottleCounts()
        self._cpu = ServerCpu(machine_cpu or MachineCpu(clock))
        self._roles = Roles(clock, asks)
        self._shared = SharedConnections(clock)
        self._waits = WaitSampler(waits, clock, asks=asks)
        self._spools = Spools(asks)
        self.ways_in = WaysInReader(asks)
        self._seen: SeenServer | None = None
        self._reads_threads = waits.enabled
        self._last = HostFacts()
        self._overflows: ListenOverflows | None = None
        self._alone_at = float("-inf")
        self._workers: tuple[Worker, ...] = ()
        self._served, self._served_at = [-1, 0], 0.0  # requests and running time, and since when
        self._read_at = self._all_read_at = self._sought_at = float("-inf")
        self._interval = float("inf")  # of the last two readings

    def close(self) -> None:
        """Close the files of the workers: nobody listens, or the server is not watched any more."""
        self._processes.read(0, ())

    @property
    def spent(self) -> float:
        """Seconds that the reader process took for this server so far."""
        return self._asks.spent

    async def look(self, address: ProcessOfApp | SocketOfApp, seconds: float) -> Snapshot:
        """What the kernel shows of a uWSGI without stats. Raises SourceError, also if there is no answer in time."""
        of_server = address, self._waits.threads, self._asks, self._clock
        seen = self._seen = self._seen or SeenServer(*of_server, reads=self._reads_threads)
        return await self._ask_until_known(lambda: seen.look(self._slow.facts.setup or UNKNOWN), seconds)

    async def _ask_until_known(self, ask: Callable[[], T], seconds: float) -> T:
        """The answer to a question that may have none yet. Raises SourceError, also if there is none in time."""
        end = self._clock() + seconds
        while True:
            try:
                return ask()
            except NotYetError as error:
                if self._clock() >= end:
                    raise SourceError("timeout", str(error)) from None
                await asyncio.sleep(SHORT_WAIT)

    async def find_blind(self, address: Address, answer: Answer | None, seconds: float) -> int | None:
        """The master here whose own stats server gave an answer without a document, or none; None if unknown."""
        place: Unix | Tcp | None = address if isinstance(address, Unix) else None
        peer = answer.peer if answer else None
        if answer is None and isinstance(address, Tcp | Http):
            peer = {"localhost": "127.0.0.1"}.get(address.host, address.host), address.port
        if peer and is_here(peer[0]):
            place = Tcp(*peer)
        now = self._clock()
        if place is None or now < self._sought_at + PAUSE_SECONDS:
            return None
        self._sought_at = now
        seen = SeenServer(SocketOfApp(place), self._waits.threads, self._asks, self._clock, reads=False)
        with suppress(SourceError):
            pid = await self._ask_until_known(seen.find_master, seconds)
            return pid if answer is None or answer.peer_pid in (None, pid) else None
        return None

    def read_facts(self, snapshot: AnySnapshot, answer: Answer | None) -> HostFacts:
        """The kernel's facts about the server that gave this answer; only the reason if its PID is not proven. The same
        object as before if nothing has changed, as for most servers at rest. answer: None for what `look` returned."""
        if not isinstance(snapshot, Snapshot):
            return HostFacts()
        peer = (answer.peer_pid, answer.peer) if answer else (None, None)
        now, identity = self._clock(), (snapshot.pid, *peer)
        interval, self._read_at = now - self._read_at, now
        usual, self._interval = min(interval, self._interval), interval  # a single gap changes nothing
        longest_age = max(_limit(_SLOW_READINGS * interval, SLOW_SECONDS), _LEAST_READINGS * usual)
        quick = self._slow.claimed_identity == identity and now - self._slow.at < longest_age
        if not quick or not self._prover.still_holds():
            quick = False
            proof = self._prover.prove(snapshot, answer) if answer else Proof(snapshot.pid, None)
            self._slow = _SlowFacts(identity, now, proof)
        proof = self._slow.proof
        backlogs = self._backlogs.read(proof.pid, [socket.name for socket in snapshot.sockets], quick=quick)
        if proof.pid is None:
            return HostFacts(off=proof.reason, backlogs=backlogs)
        waiting = self._backlogs.list_waiting(proof.pid, backlogs)
        if (proof.pid, proof.depth) != (self._workers_here.master_pid, self._workers_here.depth):
            self._workers_here = WorkersHere(proof.pid, proof.depth)
        here = self._workers_here.translate(snapshot, again=not quick)
        facts = self._read_proven(proof.pid, here, backlogs, waiting, quick=quick, now=now, interval=interval)
        return self._workers_here.translate_back(facts)

    def _read_overflows(self, master_pid: int, is_counted: bool) -> ListenOverflows | None:
        """The counts, and, if connections were dropped since the last slow reading or requests are not counted, whether
        the server is alone there: that takes a list of all listeners, 2 ms on a host with 200 servers."""
        before, now, is_due = self._overflows, read_listen_overflows(master_pid), self._clock() >= self._alone_at
        if now and before and (now.overflows != before.overflows or (is_due and not is_counted)):
            listeners = self._backlogs.count_alone(master_pid)
            now = replace(now, alone=listeners > 0)
            if listeners == 1 and not is_counted:
                now = replace(now, opened=read_opened(master_pid), at=self._clock())
            self._alone_at = self._clock() + _ALONE_SECONDS * (listeners != 1)
        self._overflows = now
        return now

    def _read_proven(
        self,
        master_pid: int,
        snapshot: Snapshot,
        backlogs: dict[str, Backlog],
        waiting: dict[str, Waiting],
        *,
        quick: bool,
        now: float,
        interval: float,
    ) -> HostFacts:
        """The facts about a proven master and its workers, by their PIDs here. interval: since the last reading."""
        pids = [worker.pid for worker in snapshot.workers if worker.pid]
        at_rest = self._at_rest(snapshot, now, interval) if quick else ()
        also = master_pid if snapshot.source == "kernel" else 0  # without a master, the first process is a worker
        processes = self._processes.read(master_pid, pids, quick=quick, at_rest=at_rest, also=also)
        if not quick:
            # uWSGI's cpu-affinity pins each worker, but not the master.
            allowed = {cpu for process in processes.values() for cpu in process.affinity or ()}
            affinity = read_affinity(master_pid)
            cpus, available = read_usable_cpus(master_pid, affinity=allowed or None), read_available_memory(master_pid)
            setup = self._setup.read(master_pid, snapshot, processes, now)
            has_tcp = any(is_tcp(socket.name) for socket in snapshot.sockets)
            connections = self._list_connections(master_pid, snapshot, now, setup.options)
            listens_here = has_tcp and shares_network_namespace(master_pid)
            facts = HostFacts(
                master_pid=master_pid,
                master_affinity=affinity,
                cpus=cpus,
                throttling=self._throttling.read(cpus) if cpus else None,
                limits_off=None if cpus and available else explain_hidden(master_pid),
                overflows=self._read_overflows(master_pid, snapshot.source != "kernel"),
                tracked=read_table(int(now // TABLE_SECONDS)) if listens_here else None,
                tasks=read_task_limit(master_pid, processes),
                memory=Memories(self._worker_memories.read(master_pid, processes, now), available),
                setup=setup,
                starved=self._waits.count_starved(snapshot, processes, setup.options),
                starts=self._waits.look_at_starting(master_pid, snapshot, processes, setup),
                identity=read_identity(master_pid),
                oom_kills=read_oom_kills(master_pid),
                roles=self._roles.read(master_pid, pids, list_roles(snapshot)),
                shared_connections=self._shared.read(master_pid, processes.keys()),
                unrequested=sum(age < now - self._served_at for age in connections.closed),
                left=connections.left,
                answered=connections.answered,
                clients=getattr(self._seen, "clients", (0, 0)),
                spooled=self._spools.read(master_pid, snapshot, now) if snapshot.spoolers else {},
                ways_in=self.ways_in.read(master_pid, snapshot, processes.values(), now, setup.options),
            )
            self._slow = replace(self._slow, facts=facts, allowed=tuple(allowed) or affinity or ())
        slow, last = self._slow.facts, self._last
        # Unknown without the quotas, which are among the usable CPUs.
        cpu_times = self._cpu.read(self._slow.allowed, slow.cpus.groups) if slow.cpus else None
        waits = self._waits.sample(master_pid, snapshot, processes, slow.setup, self._shared.inodes)
        if (
            quick
            and processes is last.processes
            and cpu_times is last.cpu_times
            and backlogs == last.backlogs
            and waiting == last.waiting
            and waits == last.waits
            and not self._cpu_residency
        ):
            return last
        self._last = replace(
            slow,
            processes=processes,
            backlogs=backlogs,
            waiting=waiting,
            threads={pid: read_threads(pid) for pid in processes} if self._cpu_residency else {},
            cpu_times=cpu_times,
            waits=waits,
        )
        return self._last

    def _list_connections(self, master_pid: int, snapshot: Snapshot, now: float, options: Options) -> Connections:
        """The connections, where requests are in service; those that the server closed where few were completed."""
        busy = sum([worker.busy_threads or 0 for worker in snapshot.workers])
        # A ping of uWSGI's is no request, but it adds running time.
        served = [sum([getattr(each, name) or 0 for each in snapshot.workers]) for name in ("requests", "running_time")]
        grown = served[0] - self._served[0]
        if served != self._served:
            self._served, self._served_at = served, now
        names = tuple([each.name for each in snapshot.sockets if is_tcp(each.name)])
        is_still = 0 <= grown <= busy and snapshot.source == "stats"
        if is_still and not busy:  # a router closes what it cannot pass on
            names += tuple(name for name in options.http or () if is_tcp(name))
        if names and (busy or is_still):
            with suppress(OSError):
                found = self._asks.ask(list_connections, master_pid, names)
                return found if is_still else found._replace(closed=())
        return Connections()

    def _at_rest(self, snapshot: Snapshot, now: float, interval: float) -> set[int]:
        """Pids of workers that need not be read: idle and unchanged ones, if all workers were read a moment ago."""
        before, self._workers = self._workers, snapshot.workers
        longest_age = _limit(_REST_READINGS * interval, REST_SECONDS)
        if now - self._all_read_at >= longest_age or len(before) != len(snapshot.workers):
            self._all_read_at = now
            return set()
        return {
            worker.pid
            for earlier, worker in zip(before, snapshot.workers, strict=True)
            if worker.pid and not worker.busy_threads and (worker is earlier or worker == earlier)
        }


_NOT_ASKED = Proof(None, None)


class _SlowFacts(Struct, frozen=True):
    """Facts about a master that change slowly, read at the monotonic time `at`."""

    claimed_identity: tuple[int, int | None, tuple[str, int] | None] | None = None
    """The PID in the document and the peer of the socket, for which `proof` holds."""
    at: float = 0.0
    proof: Proof = _NOT_ASKED
    facts: HostFacts = field(default_factory=HostFacts)

    allowed: tuple[int, ...] = ()
    """The CPUs that any of its workers may run on."""


def _limit(seconds: float, bounds: tuple[float, float]) -> float:
    shortest, longest = bounds
    return max(shortest, min(longest, seconds))
