"""Samples what the request threads of one server wait for.

A sample looks at the workers that have served or serve a request since the last one: others have no thread in service.
(Looking only at those that serve one now would miss the requests that begin between uWSGI's document and the sample,
and count those that end.) If the threads are too many for the budget, a random part of them is looked at, and each
counts for more; so every number is an unbiased estimate. Half of the budget is then saved until it lasts for all at
once: only a sample of all shows who holds a lock, and how many threads a pool lets through.
"""

from __future__ import annotations

import random
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import suppress
from functools import lru_cache
from typing import Literal

from msgspec.structs import replace

from uwsgi_headroom.kernel.aside import DIRECT, Asks
from uwsgi_headroom.kernel.namespaces import shares_network_namespace
from uwsgi_headroom.kernel.processes import WorkerProcess
from uwsgi_headroom.kernel.procfs import has_ended
from uwsgi_headroom.kernel.waits.file_systems import FileServers
from uwsgi_headroom.kernel.waits.holders import Holders, Pools, UwsgiLocks
from uwsgi_headroom.kernel.waits.locks import FileLocks
from uwsgi_headroom.kernel.waits.loops import Lookups, Loops
from uwsgi_headroom.kernel.waits.peers import Peers
from uwsgi_headroom.kernel.waits.programs import Programs
from uwsgi_headroom.kernel.waits.schedules import OLD_SECONDS, Naps, RunDelays, Streams
from uwsgi_headroom.kernel.waits.system_calls import CALLS, NO_TABLE
from uwsgi_headroom.kernel.waits.thread_wait import GAP_POLL, GAP_SOCKET, GAP_THREADS, Decision, Decisions, remember
from uwsgi_headroom.kernel.waits.worker_threads import HiddenError, LookedAt, SeenThread, WaitSetting, WorkerThreads
from uwsgi_headroom.record import (
    UNKNOWN,
    WORKING,
    Blocker,
    ConcurrencyKind,
    Destination,
    LockUse,
    Options,
    Output,
    Setup,
    State,
    Waits,
)
from uwsgi_headroom.stats.server import Snapshot, Worker

MOST_OF_THE_TIME = 0.007
"""The part of a CPU that samples may take; lists of sockets take 0.002 more (`peers`)."""

MOST_SECONDS = 0.01
"""How long one sample may take: the exporter does nothing else meanwhile. Then threads are left for the next one."""

_LONGEST_ADDRESS = 120  # characters
_FIRST_COST = 60e-6  # CPU seconds for one thread, until it was measured
_LEAST_THREADS = 4
_MOST_LISTED = 8  # threads whose workers' sockets are looked up

_MOST_STARTING = 16
"""So many starting workers are looked at: after a reload all of them wait for the same."""

_PROBE_SECONDS = 5.0
"""How long an idle server is believed to be visible."""

_ASKING, _MOST_TURNS = ("backend", "interpreter_lock", "running"), 4
"""The states of a thread between which it goes when it asks a backend again and again, and how many are followed."""

_HELPERS_SECONDS, _MOST_HELPERS = 1.0, 16
"""How often the threads beside one event loop are looked at, and how many, 10 us each."""

Place = Literal["shared", "output", "websockets", "endless", "writing"]

GAP_TIME = "the workers are too many to look at all of them at once"
GAP_REFUSED = "what a polling thread waits for is hidden, and the exporter may not read it: allow it the system call "
GAP_REFUSED += "process_vm_readv (SystemCallFilter= in deploy/systemd/waits.conf)"

_ASYNC = "a worker of this uWSGI serves all its requests on one thread, which does not show what each one waits for"
_TWO_LOCKS = (
    "it is not known which lock idle threads wait for, and so which are idle: `thunder-lock` has one, and others fit"
)
_NO_CORES = "uWSGI runs with stats-no-cores, so its request threads are unknown"


OFF = WaitSetting(enabled=False)


class WaitSampler:
    """Samples one server."""

    def __init__(
        self,
        setting: WaitSetting,
        clock: Callable[[], float] = time.monotonic,
        chance: random.Random | None = None,
        asks: Asks = DIRECT,
    ) -> None:
        self._setting = setting
        self._addresses = {name: address for address, name in setting.backends.items()}
        self._clock = clock
        self._chance = chance or random.Random()  # noqa: S311 - a sample, no secret
        self.threads = WorkerThreads(setting, self._chance, clock, asks)
        self._file_locks = FileLocks(clock)
        self._delays, self._decisions = RunDelays(), Decisions(Peers(clock))
        self._pools, self._holders, self._uwsgi_locks = Pools(), Holders(), UwsgiLocks()
        self._naps, self._turns = Naps(), Naps(_MOST_TURNS)
        self._naps_of = dict.fromkeys(_ASKING, self._turns) | {"sleep": self._naps}
        self._streams = Streams()
        self._loops = Loops()
        self._lookups, self._helpers_at = Lookups(), float("-inf")
        self._shared: Collection[int] = ()
        self._output: Output | None = None  # the last one in which a thread was blocked
        self._output_socket = self._pool_variable = ""
        self._programs = Programs(asks)
        self._mounts, self._file_systems = FileServers(asks), Counter[tuple[str, str]]()
        self._near: int | None = None  # a master in our network namespace
        self._workers: tuple[Worker, ...] = ()
        self._sampled_at = clock()
        self._cost = _FIRST_COST
        self._starved = 0
        self._saved = 0  # looks at threads that the budget had left for a sample of all
        self._probe_at = float("-inf")
        self._refused: Waits | None = None
        self._no_thread = Waits(
            backends=dict.fromkeys(setting.backends.values(), 0.0),
            addresses=self._addresses,
            busy=0,
            reads_locks=setting.read_locks,
        )

    def sample(
        self,
        master_pid: int,
        snapshot: Snapshot,
        processes: Mapping[int, WorkerProcess],
        setup: Setup | None,
        shared: Collection[int] = (),
    ) -> Waits | None:
        """What the request threads wait for now; None if that is switched off. processes: the proven workers. shared:
        the inodes of connections that workers share. Never raises."""
        if not self._setting.enabled:
            return None
        if waits := self._sample_unlike(master_pid, snapshot, processes, setup):
            return waits
        self._pools.forget_ended(snapshot.workers)
        for pid in self.threads.forget_ended(processes.keys()):
            self._delays.forget(pid)
        active = self._find_active(snapshot, processes)
        now = self._clock()
        is_busy = any(worker.busy_threads for worker in snapshot.workers)
        if not (active or self._refused or is_busy) and now < self._probe_at:
            self._sampled_at = now
            return self._at_rest(now)
        options = (setup or UNKNOWN).options
        end = now + MOST_SECONDS
        found: list[LookedAt] = []
        left_out: list[Worker] = []
        try:
            for worker in active:
                if self._clock() <= end and (at := self._find(worker, processes, options)):
                    found.append(at)
                else:
                    left_out.append(worker)
            seen, weight = self._look(found, end)
            if not found and self._clock() >= self._probe_at:
                self._probe(snapshot, processes, options)
                self._refused = None
            elif seen:
                self._refused = None
        except HiddenError as refusal:
            self._refused = Waits(off=str(refusal), needs_right=refusal.needs_right)
        if self._refused:
            file_lock = self._file_locks.look(processes, is_waiting=False, is_seen=False) if is_busy else None
            return replace(self._refused, file_lock=file_lock) if file_lock else self._refused
        gaps = self._learn_peers(master_pid, seen)
        self._shared = shared
        self._naps.begin()
        self._turns.begin()
        self._pool_variable = next((at.memory.pool_variable for at in found), "")
        waits = self._add_up(snapshot, found, left_out, seen, weight, gaps)
        threads = frozenset([each.thread for each in seen if each.wait.file])
        file_lock = self._file_locks.look(
            processes, is_waiting=bool(threads), is_seen=True, threads=threads if weight == 1 else None
        )
        locks, reads = self._look_at_locks(found, left_out, seen, are_all=weight == 1)
        holder = self._file_locks.find_holder()
        if holder and has_ended(holder):
            holder = 0
        return replace(
            waits,
            locks=locks,
            reads_locks=reads,
            file_lock=file_lock,
            file_lock_holder=holder,
            uwsgi_lock_holder=self._uwsgi_locks.find(master_pid, snapshot),
            streams=self._find_streams(found, of_kernel=snapshot.source == "kernel"),
        )

    def _sample_unlike(
        self, master_pid: int, snapshot: Snapshot, processes: Mapping[int, WorkerProcess], setup: Setup | None
    ) -> Waits | None:
        """The waits of a server whose threads do not show what its requests wait for; None for any other."""
        if CALLS and setup and setup.concurrency_kind == "async":
            return self._sample_loops(master_pid, snapshot, processes, setup.options)
        reason = explain_doubt(snapshot, (setup or UNKNOWN).concurrency_kind)
        return Waits(off=reason) if reason else None

    def _sample_loops(
        self, master_pid: int, snapshot: Snapshot, processes: Mapping[int, WorkerProcess], options: Options
    ) -> Waits:
        """What the event loops do of the workers that have served or serve a request since the last sample."""
        self.threads.forget_ended(processes.keys())
        self._loops.forget_ended(processes.keys())
        active, start = self._find_active(snapshot, processes), self._clock()
        self._loops.rest({worker.pid or 0 for worker in active}, start)
        chosen = [self._find(worker, processes, options) for worker in self._loops.choose(active, self._afford(start))]
        found = [at for at in chosen if at]
        try:
            seen, _ = self._look_at(((at, at.pid) for at in found), start + MOST_SECONDS)
            if found and start - self._helpers_at >= _HELPERS_SECONDS:
                self._helpers_at = start
                self._look_at_helpers(master_pid, self._chance.choice(found))
            if not active and start >= self._probe_at:
                self._probe(snapshot, processes, options)
        except HiddenError as refusal:
            return Waits(off=_ASYNC, needs_right=refusal.needs_right)
        for each in seen:
            if each.wait.epoll is not None:  # a loop's own set may have thousands of entries: it is read once
                each.by.idle_sets.add(each.wait.epoll)
        self._learn_peers(master_pid, [each for each in seen if each.wait.epoll is None])
        now = self._clock()
        for each in seen:
            self._loops.note(each.by.worker, each.wait, self._decisions.decide_mostly(each.wait), now)
        return Waits(off=_ASYNC, loops=self._loops.describe(snapshot.workers), lookups=self._lookups.mean)

    def _look_at_helpers(self, master_pid: int, at: LookedAt) -> None:
        """Note how many of the threads beside an event loop look up names, as those of gevent's pool do. Raises
        HiddenError."""
        threads = [(at, thread) for thread in self.threads.list_others(at.pid, _MOST_HELPERS)]
        seen, _ = self._look_at(threads, self._clock() + MOST_SECONDS)
        self._learn_peers(master_pid, seen)
        self._lookups.note([self._decisions.decide_mostly(each.wait).result for each in seen])

    def look_at_starting(
        self, master_pid: int, snapshot: Snapshot, processes: Mapping[int, WorkerProcess], setup: Setup | None
    ) -> dict[int, Blocker]:
        """What the main threads of the workers that do not accept requests yet wait for, by worker id; empty if that is
        switched off or cannot be seen. Never raises."""
        starting = [worker for worker in snapshot.workers if worker.state == "starting" and worker.pid in processes]
        if not (starting and self._setting.enabled and CALLS):
            return {}
        options = (setup or UNKNOWN).options
        try:
            found = [self._find(worker, processes, options) for worker in starting[:_MOST_STARTING]]
            seen, _ = self._look_at([(at, at.pid) for at in found if at], float("inf"))
        except HiddenError:
            return {}
        self._learn_peers(master_pid, seen)
        waits: dict[int, Blocker] = {}
        for each in seen:
            decision = self._decisions.decide_mostly(each.wait)
            if decision.result != "idle":
                waits[each.by.worker.worker_id] = Blocker(decision.state, decision.address)
        return waits

    def count_starved(self, snapshot: Snapshot, processes: Mapping[int, WorkerProcess], options: Options) -> int:
        """How many threads of a worker that serves one request at a time wanted the interpreter lock while it was idle,
        at any look: uWSGI keeps it where `enable-threads` is off. Never raises."""
        may_starve = self._setting.enabled and bool(CALLS) and not options.enable_threads
        self._starved *= may_starve
        for worker in snapshot.workers * may_starve:
            process = processes.get(worker.pid or 0)
            if process and worker.threads == 1 and not worker.busy_threads and (process.threads or 0) > 1:
                with suppress(HiddenError):
                    at = self._find(worker, processes, options)
                    self._starved = max(self._starved, self.threads.count_starved(at) if at else 0)
                break  # one of them shows it
        return self._starved

    def _at_rest(self, now: float) -> Waits:
        """What is known while no thread serves a request: the same object as long as no lock is known. What requests
        waited for remains known."""
        known = {
            "locks": self._rest(self.threads.list_with_locks(), now),
            "file_lock": self._file_locks.rest(),
            "pools": self._pools.sizes(),
            "pool_variable": self._pool_variable,
            "holder": self._holders.find(),
            "nap": self._naps.length,
            "turn": self._turns.length,
            "programs": self._programs.known,
        }
        if any(getattr(self._no_thread, name) != value for name, value in known.items()):
            self._no_thread = replace(self._no_thread, **known)
        return self._no_thread

    def _look_at_locks(
        self, found: list[LookedAt], left_out: list[Worker], seen: list[SeenThread], *, are_all: bool
    ) -> tuple[dict[int, LockUse], bool]:
        """The locks of the application that threads wait for, or were seen to wait for, and whether they could be
        read."""
        known = self.threads.list_with_locks()
        if not known and all(each.wait.semaphore is None for each in seen):
            return {}, self._setting.read_locks
        now = self._clock()
        looks: dict[int, dict[int, int | None]] = defaultdict(dict)
        for each in seen:
            looks[each.by.pid][each.thread] = each.wait.semaphore
        for at in found:
            at.locks.remember(looks[at.pid], now)
        with_locks = [at for at in found if at.locks.addresses]
        words = self.threads.read_locks(with_locks)
        uses: dict[int, LockUse | None] = {}
        for at in with_locks:
            pid = at.pid
            uses[at.worker.worker_id] = at.locks.look(looks[pid], now, words.get(pid), are_all=are_all)
        reads = self._setting.read_locks and all(at.pid in words for at in with_locks)
        active = {each.worker_id for each in (*left_out, *(at.worker for at in found))}
        resting = self._rest([at for at in known if at.worker.worker_id not in active], now)
        return resting | {worker_id: use for worker_id, use in uses.items() if use}, reads

    def _rest(self, workers: list[LookedAt], now: float) -> dict[int, LockUse]:
        return {at.worker.worker_id: use for at in workers if (use := at.locks.rest(now))}

    def _find_streams(self, found: list[LookedAt], *, of_kernel: bool) -> tuple[tuple[int, int], ...]:
        """The old requests that go on, by worker id and the number of the thread. of_kernel: whether these numbers only
        count the requests: then the threads that were never idle meanwhile serve the old ones."""
        now, old = time.time(), dict[tuple[int, int], tuple[int, int]]()
        if not self._streams.is_due(now):
            return self._streams.going_on
        for at in found:
            numbers = [number for number, start in at.worker.serving.items() if start and now - start >= OLD_SECONDS]
            if numbers and at.threads.all_found:
                threads = sorted(at.threads.threads)  # uWSGI starts them in the order of their numbers
                serving = dict(enumerate(threads))
                if of_kernel:
                    least = time.monotonic() - OLD_SECONDS
                    busy = [each for each in threads if at.idle_at.setdefault(each, least + OLD_SECONDS) <= least]
                    serving = dict(zip(numbers, busy, strict=False))
                known = [(number, serving[number]) for number in numbers if number in serving]
                old |= {(at.worker.worker_id, number): (at.pid, thread) for number, thread in known}
        return self._streams.find(old, now)

    def _find_active(self, snapshot: Snapshot, processes: Mapping[int, WorkerProcess]) -> list[Worker]:
        before, self._workers = self._workers, snapshot.workers
        served = {worker.worker_id: worker.requests for worker in before}
        return [
            worker
            for worker in snapshot.workers
            if worker.pid in processes
            and (worker.busy_threads or worker.requests != served.get(worker.worker_id, worker.requests))
        ]

    def _find(self, worker: Worker, processes: Mapping[int, WorkerProcess], options: Options) -> LookedAt | None:
        pid = worker.pid or 0
        return self.threads.find(worker, pid, processes[pid].start_time, options)

    def _look(self, found: list[LookedAt], end: float) -> tuple[list[SeenThread], float]:
        """Look at as many threads as the budget allows, until `end` at most; returns what was seen, and for how many
        threads each counts. Raises HiddenError."""
        most = self._afford(self._clock())
        all_threads = [(each, thread) for each in found for thread in each.threads.threads]
        if self.threads.needs_all:
            most = len(all_threads)
        elif most < len(all_threads) <= MOST_SECONDS / self._cost:
            most = self._save(most, len(all_threads))
        first = int(self._chance.random() * len(all_threads))  # each may be among those for which there is no time
        rotated = all_threads[first:] + all_threads[:first]
        chosen = self._chance.sample(all_threads, most) if most < len(all_threads) else rotated
        seen, number = self._look_at(chosen, end, found)
        return seen, len(all_threads) / number if number else 1.0

    def _save(self, most: int, number: int) -> int:
        """How many of the `number` threads to look at, of the `most` that the budget allows: half, or all."""
        kept = max(_LEAST_THREADS, most // 2)
        self._saved += most - kept
        if self._saved + kept < number:
            return kept
        self._saved = 0
        return number

    def _afford(self, now: float) -> int:
        """How many threads the sample that begins now may look at."""
        budget = MOST_OF_THE_TIME * (now - self._sampled_at) / self._cost
        self._sampled_at = now
        return max(_LEAST_THREADS, int(budget))

    def _look_at(
        self, threads: Iterable[tuple[LookedAt, int]], end: float, found: Collection[LookedAt] = ()
    ) -> tuple[list[SeenThread], int]:
        """Look at threads, until `end`, and at strangers of `found`; returns what was seen, and how many of the threads
        were looked at. Raises HiddenError."""
        began, number = time.thread_time(), 0
        seen: list[SeenThread] = []
        for each, thread in threads:
            seen += self.threads.look(each, thread)
            number += 1
            if self._clock() > end:
                break
        seen = self.threads.complete(seen)
        if number:
            self.threads.look_at_strangers(found)
            self._cost += 0.1 * ((time.thread_time() - began) / number - self._cost)
        return seen, number

    def _probe(self, snapshot: Snapshot, processes: Mapping[int, WorkerProcess], options: Options) -> None:
        """Look at one idle thread: whether the kernel permits it has to be known before the first request. Raises
        HiddenError."""
        for worker in snapshot.workers:
            if worker.accepting and worker.pid in processes:
                if at := self._find(worker, processes, options):
                    self._probe_at = self._clock() + _PROBE_SECONDS
                    self.threads.look(at, at.pid)
                return

    def _learn_peers(self, master_pid: int, seen: list[SeenThread]) -> list[str]:
        """Find the peers of the sockets that threads wait for; returns the reason if the kernel refuses that."""
        if self._near != master_pid:
            self._near = master_pid if shares_network_namespace(master_pid) else None
        workers = {each.by.pid: each.by for each in seen[:_MOST_LISTED]}.values()
        refusal = self._decisions.learn(
            [each.wait for each in seen if each.wait.result is None],
            lambda: [inode for process in workers for inode in process.sockets],
            lambda: self.threads.look_again(seen),
            elsewhere=None if self._near else master_pid,
        )
        return [refusal] if refusal else []

    def _add_up(
        self,
        snapshot: Snapshot,
        found: list[LookedAt],
        left_out: list[Worker],
        seen: list[SeenThread],
        weight: float,
        gaps: list[str],
    ) -> Waits:
        busy = self._leave_out_idle(seen)
        decided = [(each, part, what) for each in busy for part, what in self._decisions.decide(each.wait)]
        certain = sum([part for each, part, what in decided if each.wait.lock is None and what.result != "idle"])
        self.threads.learn(seen, certain, snapshot, are_all=weight == 1 and not left_out)
        by_state: dict[State, float] = defaultdict(float)
        lock: dict[int, float] = defaultdict(float)
        names = self._setting.backends
        backends = dict.fromkeys(names.values(), 0.0)
        destinations: dict[Destination, float] = defaultdict(float)
        in_service: dict[int, float] = defaultdict(float)
        doubtful: dict[int, float] = defaultdict(float)
        places: dict[Place, float] = defaultdict(float)
        for each, part, what in decided:
            result, address, gap, *_ = what
            if result == "idle" or self.threads.is_idle(each.wait, snapshot):
                each.by.note_idle(each)
                continue
            worker_id, count = each.by.worker.worker_id, weight * part
            if each.wait.epoll is not None and gap == GAP_SOCKET:
                doubtful[worker_id] += count
                continue
            in_service[worker_id] += count
            if naps := self._naps_of.get(result):
                # Who asks backends again and again does so in the next request, too.
                naps.note(each.by.pid, each.thread, naps is self._turns or each.by.worker.requests, self._clock())
            if result == "running":
                waiting = self._delays.part_waiting(each.by.pid, each.thread)
                by_state["cpu_wait"] += count * waiting
                by_state["cpu"] += count * (1 - waiting)
                continue
            by_state[result] += count
            if gap:
                refused = gap == GAP_POLL and self.threads.may_not_read
                gaps.append(GAP_REFUSED if refused else self.threads.why_not or gap)
            if result == "interpreter_lock":
                lock[worker_id] += count
            self._note_place(places, each, what, count)
            if result in ("backend", "dns"):
                destinations[_destination(result, what)] += count
                name = result == "backend" and (names.get(address) or names.get(f"*:{address.rpartition(':')[2]}"))
                if name:
                    backends[name] += count
        for each_found in found:
            worker_id = each_found.worker.worker_id
            rest = max(0.0, (each_found.worker.busy_threads or 0) - in_service[worker_id])
            # An epoll set that is not known is uWSGI's own, of an idle thread, or the application's.
            unknown = rest if not each_found.threads.all_found else min(rest, doubtful[worker_id])
            if unknown:
                by_state["unknown"] += unknown
                gaps.append(GAP_SOCKET if each_found.threads.all_found else GAP_THREADS)
        missed = sum([worker.busy_threads or 0 for worker in left_out])
        if missed:
            by_state["unknown"] += missed
            gaps.append(GAP_TIME)
        return Waits(
            threads={state: number for state, number in by_state.items() if number},
            interpreter_lock=dict(lock),
            backends=backends,
            addresses=self._addresses,
            programs=self._programs.learn(destinations if self._near else ()),
            shared=places["shared"],
            output=places["output"],
            output_name=self._output,
            output_socket=self._output_socket,
            file_system=max(self._file_systems, key=self._file_systems.__getitem__, default=("", "")),
            pool_variable=self._pool_variable,
            websockets=places["websockets"],
            endless=places["endless"],
            writing=places["writing"],
            pools=self._find_pools(decided, snapshot) if weight == 1 else self._pools.sizes(),
            holder=self._holders.find(),
            holder_backend=self._holders.behind,
            nap=self._naps.length,
            turn=self._turns.length,
            destinations=dict(destinations),
            busy=sum([worker.busy_threads or 0 for worker in snapshot.workers]),
            gaps=tuple(dict.fromkeys(gaps)),
        )

    def _note_place(self, places: dict[Place, float], seen: SeenThread, what: Decision, count: float) -> None:
        """Count threads that wait over a connection that workers share, for a pipe to take their output, or for what a
        client sends later; and note for which file system they wait."""
        wait, result = seen.wait, what.result
        if result == "backend" and self._shared and all(inode in self._shared for inode in wait.sockets):
            places["shared"] += count
        if result == "pipe" and (output := wait.output or (what.address and "log socket")):
            places["output"] += count
            self._output, self._output_socket = output, _show(what.address)
        if result == "disk":
            remember(self._file_systems, self._mounts.find(seen.by.pid, wait.file_system, wait.path))
        places["writing"] += count * (result == "client" and wait.writes)
        if result == "client" and wait.beyond and not wait.writes:
            places["websockets"] += count
            places["endless"] += count * wait.endless

    def _find_pools(self, decided: list[tuple[SeenThread, float, Decision]], snapshot: Snapshot) -> dict[int, int]:
        """The sizes of pools, after this sample of all threads."""
        locked: dict[int, list[int | None]] = defaultdict(list)
        working: dict[int, set[int]] = defaultdict(set)
        if any(what.result == "lock" for _, _, what in decided):
            for each, _, what in decided:
                if what.result == "lock":
                    locked[each.by.worker.worker_id].append(each.wait.address)
                if what.result in WORKING:
                    working[each.by.worker.worker_id].add(each.thread)
            self._pools.note(working, locked)
            self._note_holders(decided, snapshot)
        return self._pools.sizes()

    def _note_holders(self, decided: list[tuple[SeenThread, float, Decision]], snapshot: Snapshot) -> None:
        """Count the waits of this sample of all threads by who can hold what they wait for."""
        waiting: dict[int, list[int | None]] = defaultdict(list)
        at_work: set[int] = set()
        backends: dict[int, list[str]] = defaultdict(list)
        shared = in_memory = 0
        for each, _, what in decided:
            if what.result == "idle" or self.threads.is_idle(each.wait, snapshot):
                continue
            if what.result == "lock" and not each.wait.shared:
                waiting[each.by.worker.worker_id].append(each.wait.address)
            else:
                at_work.add(each.by.worker.worker_id)
                shared += what.result == "lock"
                in_memory += what.result == "lock" and not each.wait.file
                if what.result == "backend":
                    backends[each.by.worker.worker_id].append(_show(what.address))
        self._holders.note(waiting, at_work, shared, backends)
        if in_memory:
            self._uwsgi_locks.note(snapshot.locks)

    def _leave_out_idle(self, seen: list[SeenThread]) -> list[SeenThread]:
        """Those that are not idle for certain: most threads are, most of the time."""
        for each in seen:
            if each.wait.result == "idle":
                each.by.note_idle(each)
        return [each for each in seen if each.wait.result != "idle"]


@lru_cache(256)
def _destination(state: Literal["backend", "dns"], what: Decision) -> Destination:
    addresses = (what.address,) if what.address else what.candidates
    return Destination(state, tuple(map(_show, addresses)), what.connecting)


def _show(address: str) -> str:
    """An address without what a terminal would obey: the path of a UNIX socket may hold any byte."""
    return "".join(each if each.isprintable() else "?" for each in address[:_LONGEST_ADDRESS])


def explain_doubt(snapshot: Snapshot, kind: ConcurrencyKind | None) -> str | None:
    """Why the threads of this server do not show what its requests wait for; None if they do."""
    if not CALLS:
        return NO_TABLE
    if kind == "async" or (snapshot.source == "kernel" and any(worker.threads is None for worker in snapshot.workers)):
        return _ASYNC
    if any(worker.threads is None for worker in snapshot.workers):
        return _NO_CORES
    if any(worker.busy_threads is None for worker in snapshot.workers):
        return _TWO_LOCKS
    return None
