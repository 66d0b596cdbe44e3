"""Records events of workers: ends and their causes, starts, cheaper mode, and reloads of all workers.

The cause of a worker's end is inferred. uWSGI's stats only have `harakiri_count`. Other causes leave traces: a recycled
worker has reached a configured limit, and the kernel counts its kills for lack of memory.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise

from msgspec import Struct

from uwsgi_headroom.analysis.worker_states import RECYCLED
from uwsgi_headroom.history.events import Cause, Journal, Kind
from uwsgi_headroom.history.integrals import is_reloaded
from uwsgi_headroom.kernel.memory import OomKills, read_oom_kills
from uwsgi_headroom.reading import Reading
from uwsgi_headroom.record import Options
from uwsgi_headroom.stats.server import Snapshot, Worker
from uwsgi_headroom.words.formats import duration, numbered
from uwsgi_headroom.words.template import Facts, fill

AWAY_SECONDS = 1.0
"""The shortest absence of a worker whose return is an event. If it is back sooner, it was replaced."""

CHAIN_SECONDS = 60.0
"""The longest pause between two workers of a chain reload: an application may load for so long."""

NOTICED_SECONDS = 3.0
"""How long uWSGI's master may take to notice the end of a worker, before it is recorded without its figures."""

AT_ONCE_SECONDS = 3.0

REACHED = 0.9
"""A limit counts as reached from this fraction of it on, at the last sample before the end."""

_ENDS: Mapping[Cause, tuple[str, str]] = {
    "harakiri": ("was ended by `harakiri`", "A request took longer than `harakiri`[limit?  ({limit:plain} s)]."),
    "out_of_memory": (
        "ended, probably killed because memory ran out",
        "The kernel killed a process {killed} at that moment because memory ran out.",
    ),
    "max_requests": (
        "was recycled by `max-requests`",
        "It had served {served:request}: `max-requests` is {limit:plain}.",
    ),
    "max_worker_lifetime": (
        "was recycled by `max-worker-lifetime`",
        "It was {age:duration} old: `max-worker-lifetime` is {limit:plain} s.",
    ),
    "reload_on_rss": (
        "was recycled by `reload-on-rss`",
        "It held {size:bytes} of memory: `reload-on-rss` is {limit:plain} MB.",
    ),
    "unknown": (
        "ended",
        "It [lived? lived for {age:duration}][not lived? had just started][count?  and served {served:request}]"
        "[size? , and held {size:bytes} of memory].",
    ),
}
"""What the journal says of an end by its likely cause, and the evidence, as templates."""
LOST = "Worker {worker} {ended}[lost?  with at least {lost:request} in service]."

RELOAD = (
    "[unknown? uWSGI was reloaded or restarted.][same? uWSGI was reloaded.][left? Another uWSGI answers at this stats "
    "address.][new? uWSGI was restarted.]",
    "[unknown? Its counters restarted; its master is process {now:plain}.][same? Its counters restarted; its master is "
    "the same process.][left? It is process {here:plain}. The earlier master, process {left:plain}, still runs, and is "
    "no longer watched here. Unless it is about to end, or has another stats address by now, give each uWSGI a `stats` "
    "path of its own, and reload both.][new? Its master was process {earlier:plain} and is ][new, other? process "
    "{now:plain}.][new, not other? another.]",
)
REPLACED = (
    "All {workers:plain} workers were replaced, [at_once? at once][not at_once? one after another].",
    "[seconds? Within {seconds:duration}, as in a reload of the workers. ]The master is the same process.",
)


class EndedProcess(Struct):
    """A worker's process that ended, noticed at `time` (epoch seconds). then, resident_bytes, kills: its slot, its
    memory and the count of OOM kills at the reading before; lost: requests lost with it; recorded: whether the end is
    in the journal."""

    time: float
    then: Worker
    resident_bytes: int | None = None
    kills: OomKills | None = None
    lost: int = 0
    recorded: bool = False


class WorkerEvents:
    """Compares readings of one server. Reads the counts of OOM kills only after a worker has ended."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self._away: dict[int, float] = {}  # by worker: when (epoch seconds) it lost its serving process
        self._pending: dict[int, EndedProcess] = {}  # by worker: an end that uWSGI's master has not counted yet
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
        if is_reloaded(earlier, now):
            self._reload(before, reading)
            return
        ended: list[int] = []
        spawned: list[int] = []
        for then, worker, requests in zip(earlier.workers, now.workers, lost, strict=False):
            if then.in_reserve != worker.in_reserve:
                (ended if worker.in_reserve else spawned).append(worker.worker_id)
                self._away.pop(worker.worker_id, None)
                self._pending.pop(worker.worker_id, None)
            elif not then.in_reserve:
                self._compare_worker(then, worker, before, reading, requests)
        self._cheaper("cheaper_down", "ended", ended, now, reading.time)
        self._cheaper("cheaper_up", "spawned", spawned, now, reading.time)

    def _reload(self, before: Reading, reading: Reading) -> None:
        self._away, self._pending, self._replaced = {}, {}, {}
        earlier, now = before.snapshot.pid, reading.snapshot.pid
        here = reading.host.master_pid or now
        facts: Facts = {"earlier": earlier, "now": now, "here": here, "other": now != earlier}
        title, evidence = (fill(text, facts | compare_masters(before, reading)) for text in RELOAD)
        self._journal.add(reading.time, "reload", title, evidence)

    def _compare_worker(self, then: Worker, now: Worker, before: Reading, reading: Reading, lost: int) -> None:
        worker_id = now.worker_id
        missing = reading.process_is_missing(now)
        replaced = then is not now and (now.pid != then.pid or now.last_spawn != then.last_spawn)
        end = self._pending.get(worker_id)
        if end is None and then.pid is not None and (replaced or missing):
            resident = getattr(before.host.processes.get(then.pid), "resident_bytes", None) or then.resident_bytes
            end = self._pending[worker_id] = EndedProcess(reading.time, then, resident, before.host.oom_kills)
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

    def _record(self, end: EndedProcess, now: Worker, reading: Reading) -> None:
        host, kills = reading.host, None
        if end.kills and not host.off:
            kills = read_oom_kills(host.master_pid or reading.snapshot.pid)
        cause, evidence = find_cause(end, now, getattr(host.setup, "options", None), kills)
        title = fill(LOST, {"worker": now.worker_id, "ended": _ENDS[cause][0], "lost": end.lost or None})
        count = max(1, (now.respawns or 0) - (end.then.respawns or 0))
        self._journal.add(end.time, "worker_ended", title, evidence, workers=(now.worker_id,), cause=cause, count=count)
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
        workers = {worker.worker_id for worker in getattr(snapshot, "workers", ()) if not worker.in_reserve}
        if len(times) < 2 or not workers <= times.keys():
            return
        began = min(times.values())
        seconds = reading.time - began
        facts: Facts = {"workers": len(times), "at_once": seconds < AT_ONCE_SECONDS, "seconds": seconds or None}
        title, evidence = (fill(text, facts) for text in REPLACED)
        self._journal.add(reading.time, "reload", title, evidence, since=began)
        times.clear()

    def _cheaper(self, kind: Kind, did: str, workers: Sequence[int], now: Snapshot, time: float) -> None:
        if workers:
            up = sum(not worker.in_reserve for worker in now.workers)
            evidence = f"{up} of {len(now.workers)} workers are up."
            title = f"Cheaper mode {did} {numbered('worker', workers)}."
            self._journal.add(time, kind, title, evidence, workers=workers)


_RECYCLING = ("max_requests", "max_worker_lifetime", "reload_on_rss", "evil_reload_on_rss")


def find_start(reading: Reading) -> float | None:
    """When those workers started that have kept their first process (epoch seconds); None without one."""
    workers: Sequence[Worker] = getattr(reading.snapshot, "workers", ())
    return min((float(each.last_spawn) for each in workers if each.respawns == 1 and each.last_spawn), default=None)


def find_load(reading: Reading) -> tuple[float, float, bool] | None:
    """When all workers loaded the application, from their start times: since, until (epoch seconds), and whether that
    was uWSGI's start or a full reload, after which it counts from one. None if they did not do so together, or if they
    were replaced and an option recycles them."""
    workers: Sequence[Worker] = getattr(reading.snapshot, "workers", ())
    if start := find_start(reading):
        return start, start, True
    setup = reading.host.setup
    spawns = sorted(float(worker.last_spawn or 0) for worker in workers if not worker.in_reserve)
    is_recycled = setup is None or any(getattr(setup.options, limit) for limit in _RECYCLING)
    if is_recycled or not spawns or not spawns[0] or any(b - a > CHAIN_SECONDS for a, b in pairwise(spawns)):
        return None
    return spawns[0], spawns[-1], False


def compare_masters(before: Reading | None, reading: Reading) -> Facts:
    """Whether the master is the same process, or `unknown`; `left`: the PID of an earlier one that still runs beside
    the present one; `new`: whether it took the place of one that has ended."""
    same = before and reading.has_same_master(before)
    left = before and same is False and reading.find_earlier_master(before)
    return {"unknown": same is None, "same": same is True, "left": left or None, "new": same is False and not left}


def find_cause(ended: EndedProcess, now: Worker, options: Options | None, kills: OomKills | None) -> tuple[Cause, str]:
    """The likely cause, and the evidence as a sentence. now: its slot when the end was counted; options: None if
    unknown; kills: the counts of OOM kills now."""
    then, size, limits = ended.then, ended.resident_bytes or 0, options or Options()
    age = max(0.0, ended.time - (then.last_spawn or ended.time))  # 0 if it is not known when it started
    served, killed = _count_served(then, now), _find_killed(ended.kills, kills)
    most, oldest = limits.max_requests, limits.max_worker_lifetime
    largest = limits.reload_on_rss or limits.evil_reload_on_rss
    reached: tuple[tuple[Cause, object, int | None], ...] = (
        ("harakiri", (now.harakiris or 0) > (then.harakiris or 0), limits.harakiri),
        ("out_of_memory", killed, None),
        ("max_requests", most and (served or 0) >= RECYCLED * most, most),
        ("max_worker_lifetime", oldest and age >= REACHED * oldest, oldest),
        ("reload_on_rss", largest and size >= REACHED * largest * 2**20, largest),
        ("unknown", True, None),
    )
    cause, limit = next((cause, limit) for cause, has_trace, limit in reached if has_trace)
    facts: Facts = {
        "killed": killed,
        "limit": limit,
        "count": served is not None,
        "served": served,
        "lived": age > 0,
        "age": age,
        "size": size or None,
    }
    return cause, fill(_ENDS[cause][1], facts)


def _count_served(then: Worker, now: Worker) -> int | None:
    """The requests that the process served, those after the last sample included but not its successor's."""
    if then.requests_since_spawn is None:
        return None
    since = max(0, (now.requests or 0) - (then.requests or 0))
    of_successor = (now.requests_since_spawn or 0) * (now.pid != then.pid)
    return then.requests_since_spawn + max(0, since - of_successor)


def _find_killed(before: OomKills | None, now: OomKills | None) -> str:
    """Where OOM kills happened between the two counts; empty if there were none."""
    if before is None or now is None:
        return ""
    for place, then, later in (("in its cgroup", before.cgroup, now.cgroup), ("on this host", before.host, now.host)):
        if then is not None and later is not None and later > then:
            return place
    return ""
