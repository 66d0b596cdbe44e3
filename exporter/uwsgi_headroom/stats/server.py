"""Makes the snapshot of a server, in this project's names and units, with known errors in uWSGI's figures removed.

Where routes are on, it finds the method and the path among the variables of a request. Nothing else of them is looked
at.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import ClassVar, Literal, get_args

from msgspec import Raw, Struct
from msgspec.json import Decoder

from uwsgi_headroom.errors import StatsError
from uwsgi_headroom.routes import LONGEST_PATH, MOST_PATHS, OTHER, SegmentCache, Shape, Templates, make_shape
from uwsgi_headroom.stats.bounds import LOCKS_BYTES, MOST, PATH_CHARACTERS, Whole, count_cut, note_cut, too_many
from uwsgi_headroom.stats.raw import (
    App,
    Cache,
    Core,
    CoreWithVariables,
    Cron,
    CustomMetric,
    Legion,
    RawDocument,
    RawSocket,
    RawWorker,
    Spooler,
    decode_custom_metrics,
)

_METHOD, _PATH, _URI = b'"REQUEST_METHOD=', b'"PATH_INFO=', b'"REQUEST_URI='

_match_value = re.compile(rb'([^"?\\]*)["?]').match
_UNUSABLE = b"?"

_MOST_FALSE = 8
"""How many look-alikes inside other variables are passed over; a client could send thousands."""


class ShapeFinder:
    """Finds the shapes of the requests in one document. A path that repeats is reduced only once; this object, which
    has the paths, is dropped with the document.

    The variables stay the bytes of the document: no string is built of any other one. uWSGI escapes each quotation mark
    inside a variable, so one that has no backslash before it and a name behind it begins a variable.
    """

    def __init__(self, templates: Templates) -> None:
        self._templates = templates
        self._classified = SegmentCache()
        self._shapes: dict[tuple[bytes, bytes], Shape] = {}

    def find(self, variables: bytes) -> Shape:
        """Return the shape of a request from the JSON list of its variables. If a name is repeated, the first counts.

        After `MOST_PATHS` different paths in the document, the shape of a further one is `OTHER`.
        """
        method, path = _find(variables, _METHOD), _find(variables, _PATH)
        if path is None:
            path = _find(variables, _URI)
        if method is None or path is None:
            return OTHER
        key = method, path
        shape = self._shapes.get(key)
        if shape is None:
            if len(self._shapes) >= MOST_PATHS:
                return OTHER
            shape = self._shapes[key] = make_shape(method, path or b"/", self._templates, self._classified)
        return shape


def _find(variables: bytes, name: bytes) -> bytes | None:
    """The value of a variable up to a question mark; None without the variable. A value that no path has, because it is
    too long or has escapes, is `_UNUSABLE`."""
    place = variables.find(name)
    for _ in range(_MOST_FALSE):
        if place < 0:
            return None
        if variables[place - 1 : place] != b"\\":
            start = place + len(name)
            match = _match_value(variables, start, start + LONGEST_PATH + 2)
            return match[1] if match else _UNUSABLE
        place = variables.find(name, place + 1)
    return _UNUSABLE


State = Literal["idle", "busy", "cheap", "pause", "signal", "starting", "gone", "never_spawned"]
STATES: tuple[State, ...] = get_args(State)


class Worker(Struct, frozen=True, kw_only=True):
    """One worker slot. Its counters outlast its process: a full reload resets them, a worker restart does not."""

    worker_id: int
    """The slot's position in the stats list, from 1 (uWSGI's own id is 0 for every slot never spawned)."""
    pid: int | None
    """The worker's process in the master's PID namespace, None if there is none."""
    state: State
    """uWSGI's status if the worker has a process; `starting` until it accepts for the first time, `gone` between the
    end of a process and the next spawn (uWSGI still reports "idle"), `never_spawned` for cheaper's reserve."""
    accepting: bool

    threads: int | None
    busy_threads: int | None
    """All threads, and those that serve a request; None with stats-no-cores. A worker without a process, or not yet
    accepting, has no busy threads: uWSGI leaves a killed worker's flags set until its successor clears them."""
    requests: int | None = None
    """Completed requests, summed over the threads (each field has one writer; the worker's own is racy)."""
    requests_since_spawn: int | None = None
    """Completed requests of the present process, or of the last one if there is none."""
    static_requests: int | None = None
    """Completed requests that add no running time."""
    running_time: float | None = None
    """Seconds spent in completed requests, over all threads. None after the host's clock was set back during a request,
    which wraps the field."""
    exceptions: int | None = None
    harakiris: int | None = None
    respawns: int | None = None
    signals: int | None = None
    transmitted_bytes: int | None = None
    resident_bytes: int | None = None

    last_spawn: int | None
    """Whole epoch seconds."""
    serving: dict[int, int | None]
    """The start of the request in each busy thread (whole epoch seconds; None before uWSGI 2.0.14), by thread number.
    Threads are numbered from 0, as in uWSGI's log ("core 3")."""
    thread_requests: tuple[int, ...] = ()
    """Completed requests of each thread; empty with stats-no-cores."""
    apps: tuple[App, ...] = ()

    shapes: dict[int, Shape] = {}
    """The shape of the request in each busy thread, by thread number; empty unless decoded for routes."""
    write_errors: int | None = None
    """Responses that could not be written to the client to the end, mostly because it had left; None with
    stats-no-cores."""
    read_errors: int | None = None
    """Failed reads of a request's body, because the client had left or sent nothing for `socket-timeout`; None with
    stats-no-cores."""
    routed_requests: int | None = None
    """Completed requests that a rule of uWSGI's internal routing ended; None with stats-no-cores."""
    offloaded_requests: int | None = None
    """Completed requests whose answer an offload thread of uWSGI sends; None with stats-no-cores."""

    @property
    def request_starts(self) -> tuple[int, ...]:
        """Epoch seconds at which each request in service began; unknown ones are left out."""
        return tuple([start for start in self.serving.values() if start])

    @property
    def in_reserve(self) -> bool:
        """Whether cheaper mode keeps the worker in reserve and spawns it when load grows."""
        return self.state in ("cheap", "never_spawned")

    @property
    def available_threads(self) -> int | None:
        """Threads that can take a request, now or after their present one; 0 unless the worker is accepting, None if
        its threads are unknown."""
        return self.threads if self.accepting or self.threads is None else 0


class AppSocket(Struct, frozen=True):
    """A socket the server takes requests from. Lengths are uWSGI's own, up to a second old; None for UNIX sockets,
    for which uWSGI always writes 0 of 0."""

    name: str
    queue: int | None
    limit: int | None
    protocol: str = ""


class Snapshot(Struct, frozen=True, kw_only=True):
    """One stats document of a server. `listen_queue` is the longest queue of its TCP sockets; `locks` has the PID of a
    process that holds or waits for each lock, 0 for none. A part that uWSGI did not write is None."""

    kind: ClassVar[str] = "server"

    version: str = ""
    pid: int
    listen_queue: int | None = None
    signal_queue: int | None = None
    workers: tuple[Worker, ...]
    sockets: tuple[AppSocket, ...]
    locks: dict[str, int] | None = None
    caches: tuple[Cache, ...] = ()
    spoolers: tuple[Spooler, ...] = ()
    crons: tuple[Cron, ...] = ()
    legions: tuple[Legion, ...] = ()
    custom_metrics: dict[str, CustomMetric] = {}
    cut_texts: int = 0
    """The number of texts that were too long, and were cut or left out."""
    generation: int = 0
    """Without stats: how many program images the server was seen with. It loads another one in a full reload."""
    source: Literal["stats", "kernel"] = "stats"
    """Where it is from. kernel: without uWSGI's stats; what only uWSGI counts is None then."""

    @property
    def thunder_lock(self) -> bool | None:
        """Whether `thunder-lock` is on: only then uWSGI has a lock of that name."""
        return None if self.locks is None else "thunder" in self.locks


def make_snapshot(document: RawDocument, templates: Templates | None = None) -> Snapshot:
    """Turn a decoded document that has workers into a Snapshot. templates: of routes, if it was decoded for them."""
    assert document.workers is not None
    shapes = None if templates is None else ShapeFinder(templates)
    return Snapshot(
        version=document.version or "",
        pid=document.pid,
        listen_queue=document.listen_queue,
        signal_queue=_natural(document.signal_queue),
        workers=tuple(_worker(place, raw, shapes) for place, raw in enumerate(document.workers, 1)),
        sockets=_sockets(document.sockets),
        locks=_locks(document.locks),
        caches=document.caches,
        spoolers=document.spoolers,
        crons=document.crons,
        legions=document.legions,
        custom_metrics=decode_custom_metrics(document.metrics),
        cut_texts=count_cut(),  # the last one: the lines above count too
    )


def _worker(worker_id: int, raw: RawWorker, shapes: ShapeFinder | None) -> Worker:
    state = _worker_state(raw)
    up = state in ("idle", "busy", "cheap", "pause", "signal") and raw.pid > 0
    cores = raw.cores
    # stats-no-cores omits `cores`; otherwise a worker has at least one core.
    counts = [core.requests for core in cores] if cores else []
    serving = {
        place: _natural(core.req_info.request_start) or None if core.req_info else None
        for place, core in enumerate(cores or () if up else ())
        if core.in_request
    }
    return Worker(
        worker_id=worker_id,
        pid=raw.pid if raw.pid > 0 else None,
        state=state,
        accepting=up and state not in ("cheap", "pause"),
        threads=len(cores) if cores else None,
        busy_threads=len(serving) if cores else None,
        requests=sum(counts) if counts else raw.requests,
        requests_since_spawn=raw.delta_requests,
        static_requests=sum([core.static_requests for core in cores]) if cores else None,
        running_time=None if raw.running_time is None or raw.running_time >= 2**63 else raw.running_time / 1e6,
        exceptions=raw.exceptions,
        harakiris=raw.harakiri_count,
        respawns=raw.respawn_count,
        signals=raw.signals,
        transmitted_bytes=raw.tx,
        resident_bytes=raw.rss or None,
        last_spawn=raw.last_spawn or None,
        serving=serving,
        thread_requests=tuple(counts),
        apps=raw.apps,
        shapes=_find_shapes(cores or (), serving, shapes) if serving and shapes else {},
        write_errors=sum([core.write_errors for core in cores]) if cores else None,
        read_errors=sum([core.read_errors for core in cores]) if cores else None,
        routed_requests=sum([core.routed_requests for core in cores]) if cores else None,
        offloaded_requests=sum([core.offloaded_requests for core in cores]) if cores else None,
    )


def _find_shapes(cores: Sequence[Core], serving: Iterable[int], shapes: ShapeFinder) -> dict[int, Shape]:
    busy = ((thread, cores[thread]) for thread in serving)
    return {thread: shapes.find(bytes(core.variables)) for thread, core in busy if isinstance(core, CoreWithVariables)}


def _worker_state(raw: RawWorker) -> State:
    """The state of a worker. uWSGI has no status for a dead, a starting or a never spawned worker, so this uses its
    PID, spawns and `accepting`."""
    if raw.pid <= 0:
        if not raw.last_spawn and not raw.respawn_count:
            return "never_spawned"
        return "cheap" if raw.status == "cheap" else "gone"
    if raw.accepting == 0:
        return "starting"
    if raw.status.startswith("sig"):
        return "signal"
    return raw.status if raw.status in ("busy", "cheap", "pause") else "idle"  # type: ignore[return-value]


def _natural(number: int | None) -> int | None:
    return None if number is None or number < 0 else number


_lock_decoder = Decoder(list[dict[str, Whole]] | None)


def _locks(raw: Raw) -> dict[str, int] | None:
    """The PID that holds each lock. Several locks may share a name (spoolers of one directory): any holder counts."""
    if len(raw) > LOCKS_BYTES:
        raise StatsError("too_large", f"the document's list of locks is longer than {LOCKS_BYTES:,} bytes")
    locks = _lock_decoder.decode(raw)
    if locks is None:
        return None
    holders: dict[str, int] = {}
    for lock in locks:
        for name, pid in lock.items():
            holders[name] = holders.get(name) or pid
    if len(holders) > MOST["locks"]:
        raise too_many("locks")
    for name in [name for name in holders if len(name) > PATH_CHARACTERS + len("spooler lock ")]:
        del holders[name]
        note_cut()
    return holders


def _sockets(raw: list[RawSocket]) -> tuple[AppSocket, ...]:
    """One Socket per name, with the longest queue: uWSGI lists a socket as often as it was configured."""
    longest: dict[str, RawSocket] = {}
    for socket in raw:
        known = longest.get(socket.name, socket)
        longest[socket.name] = max(known, socket, key=lambda each: each.queue or 0)
    return tuple(
        AppSocket(name, socket.queue if socket.max_queue else None, socket.max_queue or None, socket.proto)
        for name, socket in longest.items()
    )
