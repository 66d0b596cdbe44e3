"""Records events of workers: ends and their causes, starts, cheaper mode, and reloads that replace all workers.

The cause of a worker's end is inferred. uWSGI's stats only have `harakiri_count`. Other causes leave traces: a recycled
worker has reached a configured limit, and the kernel counts the processes that it kills because memory ran out.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise

from msgspec import Struct

from uwsgi_headroom.history.integrals import is_reload
from uwsgi_headroom.journal.events import Cause, Journal
from uwsgi_headroom.kernel.memory import OomKills, read_oom_kills
from uwsgi_headroom.reading import Reading
from uwsgi_headroom.record import Options
from uwsgi_headroom.stats.server import Snapshot, Worker
from uwsgi_headroom.words.formats import byte_size, counted, duration, numbered

AWAY_SECONDS = 1.0
"""The shortest absence of a worker for which its return is an event. If it is back sooner, it was replaced."""

CHAIN_SECONDS = 60.0
"""The longest pause between two workers of a chain reload: an application may take this long to load."""

NOTICED_SECONDS = 3.0
"""How long to wait for uWSGI's master to notice the end of a worker, before the end is recorded without its figures."""

AT_ONCE_SECONDS = 3.0

_TITLES: dict[Cause, str] = {
    "harakiri": "{} was ended by `harakiri`",
    "out_of_memory": "{} ended, probably killed because memory ran out",
    "max_requests": "{} was recycled by `max-requests`",
    "reload_on_rss": "{} was recycled by `reload-on-rss`",
    "max_worker_lifetime": "{} was recycled by `max-worker-lifetime`",
    "unknown": "{} ended",
}


class _End(Struct):
    """The end of a worker's process, noticed at `time` (epoch seconds).

    then, resident_bytes, kills: its slot, its memory and the count of OOM kills at the reading before.
    """

    time: float
    then: Worker
    resident_bytes: int | None
    kills: OomKills | None
    lost: int = 0
    """Requests lost with the process."""
    recorded: bool = False
    """Whether the end is in the journal."""


class WorkerEvents:
    """Compares readings of one server. Calls `read_kills` only after a worker has ended."""

    def __init__(self, journal: Journal, read_kills: Callable[[int], OomKills] = read_oom_kills) -> None:
        self._journal = journal
        self._read_kills = read_kills
        self._away: dict[int, float] = {}  # by worker: when (epoch seconds) it lost its serving process
        self._pending: dict[int, _End] = {}  # by worker: an end that uWSGI's master has not counted yet
        self._replaced: dict[int, float] = {}  # by worker: when it was replaced, in what may be a chain reload
        self._last_end: dict[int, float] = {}
        self._is_known = False  # whether the last two readings had the same workers

    def compare(self, before: Reading, reading: Reading, lost: Sequence[int]) -> None:
        """Add the events between two readings. lost: requests lost in between, for each worker."""
        earlier, now = before.snapshot, reading.snapshot
        if not isinstance(earlier, Snapshot) or not isinstance(now, Snapshot):
            return
        is_known, self._is_known = self._is_known, reading.has_same_workers(before)
        if is_known and self._is_known and not (self._away or self._pending):
            return  # the last comparison was of the same workers
        if is_reload(earlier.workers, now.workers):
            self._reload(before, reading)
            return
        reserve: dict[bool, list[int]] = {True: [], False: []}
        for then, worker, requests in zip(earlier.workers, now.workers, lost, strict=False):
            if then.in_reserve != worker.in_reserve:
                reserve[worker.in_reserve].append(worker.worker_id)
                self._away.pop(worker.worker_id, None)
                self._pending.pop(worker.worker_id, None)
            elif not then.in_reserve:
                self._compare_worker(then, worker, before, reading, requests)
        self._cheaper(reserve, now, reading.time)

    def _reload(self, before: Reading, reading: Reading) -> None:
        self._away, self._pending, self._replaced = {}, {}, {}
        earlier, now = before.snapshot.pid, reading.snapshot.pid
        same = reading.has_same_master(before)
        if same is None:
            title, evidence = (
                "uWSGI was reloaded or restarted.",
                f"Its counters restarted; its master is process {now}.",
            )
        elif same:
            title, evidence = "uWSGI was reloaded.", "Its counters restarted; its master is the same process."
        elif left := reading.find_earlier_master(before):
            title = "Another uWSGI answers at this stats address."
            evidence = (
                f"It is process {reading.host.master_pid or now}. The earlier master, process {left}, still runs, and "
                "is no longer watched here. Unless it is about to end, or has another stats address by now, give each "
                "uWSGI a `stats` path of its own, and reload both."
            )
        else:
            title = "uWSGI was restarted."
            evidence = f"Its master was process {earlier} and is " + (
                f"process {now}." if now != earlier else "another."
            )
        self._journal.add(reading.time, "reload", title, evidence)

    def _compare_worker(self, then: Worker, now: Worker, before: Reading, reading: Reading, lost: int) -> None:
        worker_id = now.worker_id
        missing = reading.process_is_missing(now)
        replaced = then is not now and (now.pid != then.pid or now.last_spawn != then.last_spawn)
        end = self._pending.get(worker_id)
        if end is None and then.pid is not None and (replaced or missing):
            process = before.host.processes.get(then.pid)
            end = _End(
                reading.time,
                then,
                (process.resident_bytes if process else None) or then.resident_bytes,
                before.host.oom_kills,
            )
            self._pending[worker_id] = end
            self._away.setdefault(worker_id, reading.time)
        if end:
            end.lost += lost
            # The master counts a harakiri or a spawn when it notices the end, at most a second later.
            if not end.recorded and (replaced or reading.time - end.time >= NOTICED_SECONDS):
                end.recorded = True
                self._record(end, now, reading)
            if replaced:
                del self._pending[worker_id]
        if worker_id in self._away and now.accepting and not missing:
            away = reading.time - self._away.pop(worker_id)
            if away >= AWAY_SECONDS:
                title = f"Worker {worker_id} is back after {duration(away)}."
                self._journal.add(reading.time, "worker_started", title, workers=(worker_id,))

    def _record(self, end: _End, now: Worker, reading: Reading) -> None:
        options = reading.host.setup.options if reading.host.setup else None
        host = reading.host
        kills = self._read_kills(host.master_pid or reading.snapshot.pid) if end.kills and not host.off else None
        age = max(0.0, end.time - end.then.last_spawn) if end.then.last_spawn else 0.0
        cause, evidence = find_cause(EndedProcess(end.then, now, age, end.resident_bytes), options, end.kills, kills)
        in_service = f" with at least {counted(end.lost, 'request')} in service" if end.lost else ""
        self._journal.add(
            end.time,
            "worker_ended",
            _TITLES[cause].format(f"Worker {now.worker_id}") + in_service + ".",
            evidence,
            workers=(now.worker_id,),
            cause=cause,
            count=max(1, (now.respawns or 0) - (end.then.respawns or 0)),
        )
        if cause == "unknown" and not end.lost:
            self._note_replaced(now.worker_id, reading)

    def _note_replaced(self, worker_id: int, reading: Reading) -> None:
        """Note a worker that ended for an unknown reason. If all workers do so in turn, it is a reload of the workers;
        if one of them does so repeatedly, it is not."""
        snapshot, times = reading.snapshot, self._replaced
        last, self._last_end[worker_id] = self._last_end.get(worker_id), reading.time
        if times and reading.time - max(times.values()) > CHAIN_SECONDS:
            times.clear()
        if last is not None and reading.time - last <= CHAIN_SECONDS:
            times.clear()
            return
        times[worker_id] = reading.time
        workers = snapshot.workers if isinstance(snapshot, Snapshot) else ()
        if len(times) < 2 or any(not worker.in_reserve and worker.worker_id not in times for worker in workers):
            return
        seconds = reading.time - min(times.values())
        manner = "at once" if seconds < AT_ONCE_SECONDS else "one after another"
        title = f"All {len(times)} workers were replaced, {manner}."
        evidence = f"Within {duration(seconds)}, as in a reload of the workers. " if seconds else ""
        evidence += "The master is the same process."
        self._journal.add(reading.time, "reload", title, evidence, since=min(times.values()))
        times.clear()

    def _cheaper(self, reserve: dict[bool, list[int]], now: Snapshot, time: float) -> None:
        up = sum(not worker.in_reserve for worker in now.workers)
        evidence = f"{up} of {len(now.workers)} workers are up."
        if down := reserve[True]:
            self._journal.add(
                time, "cheaper_down", f"Cheaper mode ended {numbered('worker', down)}.", evidence, workers=down
            )
        if spawned := reserve[False]:
            self._journal.add(
                time, "cheaper_up", f"Cheaper mode spawned {numbered('worker', spawned)}.", evidence, workers=spawned
            )


def find_load(reading: Reading) -> tuple[float, float, bool] | None:
    """When all workers loaded the application, from their start times: since, until (epoch seconds), and whether that
    was uWSGI's start or a full reload, after which it counts from one. None if they did not do so together, or if they
    were replaced and an option recycles them."""
    workers = reading.snapshot.workers if isinstance(reading.snapshot, Snapshot) else ()
    first = [float(worker.last_spawn) for worker in workers if worker.respawns == 1 and worker.last_spawn]
    if first:
        return min(first), min(first), True
    options = reading.host.setup.options if reading.host.setup else None
    if options is None or options.max_requests or options.max_worker_lifetime:
        return None
    if options.reload_on_rss or options.evil_reload_on_rss:
        return None
    spawns = sorted(float(worker.last_spawn or 0) for worker in workers if not worker.in_reserve)
    is_chain = spawns and spawns[0] and all(b - a <= CHAIN_SECONDS for a, b in pairwise(spawns))
    return (spawns[0], spawns[-1], False) if is_chain else None


REACHED = 0.9
"""A limit counts as reached at or above this fraction of it, at the last sample before the end."""

REACHED_REQUESTS = 0.7
"""The same for `max-requests`, which `max-requests-delta` and the worker's id modify."""


class EndedProcess(Struct, frozen=True):
    """A worker's process that ended between two samples. then, now: its slot at both."""

    then: Worker
    now: Worker
    age: float
    """In seconds."""
    resident_bytes: int | None
    """At the first sample; None if unknown."""


def find_cause(
    ended: EndedProcess, options: Options | None, kills_before: OomKills | None, kills: OomKills | None
) -> tuple[Cause, str]:
    """The likely cause, and the evidence as a sentence. options: None if unknown; kills_before, kills: the counts of
    OOM kills at the first sample and now."""
    then, now, age, resident = ended.then, ended.now, ended.age, ended.resident_bytes
    served = _served(then, now)
    if (now.harakiris or 0) > (then.harakiris or 0):
        limit = options.harakiri if options else None
        return "harakiri", "A request took longer than `harakiri`" + (f" ({limit} s)." if limit else ".")
    if killed := _killed(kills_before, kills):
        return "out_of_memory", f"The kernel killed a process {killed} at that moment because memory ran out."
    if options:
        if options.max_requests and served is not None and served >= REACHED_REQUESTS * options.max_requests:
            return (
                "max_requests",
                f"It had served {counted(served, 'request')}: `max-requests` is {options.max_requests}.",
            )
        lifetime = options.max_worker_lifetime
        if lifetime and age >= REACHED * lifetime:
            return "max_worker_lifetime", f"It was {duration(age)} old: `max-worker-lifetime` is {lifetime} s."
        most = options.reload_on_rss or options.evil_reload_on_rss
        if most and resident and resident >= REACHED * most * 2**20:
            return "reload_on_rss", f"It held {byte_size(resident)} of memory: `reload-on-rss` is {most} MB."
    return "unknown", _history(served, age, resident)


def _served(then: Worker, now: Worker) -> int | None:
    """The number of requests that the process served, those after the last sample included but not its successor's."""
    if then.requests_since_spawn is None:
        return None
    since = max(0, (now.requests or 0) - (then.requests or 0))
    of_successor = now.requests_since_spawn or 0 if now.pid != then.pid else 0
    return then.requests_since_spawn + max(0, since - of_successor)


def _killed(before: OomKills | None, now: OomKills | None) -> str:
    """Where OOM kills happened between the two counts; empty if there were none."""
    if before is None or now is None:
        return ""
    for place, then, later in (("in its cgroup", before.cgroup, now.cgroup), ("on this host", before.host, now.host)):
        if then is not None and later is not None and later > then:
            return place
    return ""


def _history(served: int | None, age: float, resident: int | None) -> str:
    lived = f"It lived for {duration(age)}" if age > 0 else "It had just started"
    requests = "" if served is None else f" and served {counted(served, 'request')}"
    memory = f", and held {byte_size(resident)} of memory" if resident else ""
    return f"{lived}{requests}{memory}."
