"""Reads one server, with one read at a time, and logs when reading fails or recovers."""

from __future__ import annotations

import asyncio
import logging
import time
import traceback
from collections import Counter, deque
from collections.abc import Callable, Collection, Coroutine
from functools import partial

from uwsgi_headroom import source, stats
from uwsgi_headroom.clock import Clock
from uwsgi_headroom.config.defaults import SIZE_CAP, TIMEOUT_SECONDS
from uwsgi_headroom.config.servers import printable_name
from uwsgi_headroom.errors import BlindError, HeadroomError, ReadError, Reason, SourceError, StatsError, StillRunsError
from uwsgi_headroom.kernel.host import Host
from uwsgi_headroom.kernel.procfs import has_ended
from uwsgi_headroom.kernel.setup import is_running
from uwsgi_headroom.reading import Reading
from uwsgi_headroom.routes import OTHER, RouteBook, ServedRoutes, Templates
from uwsgi_headroom.stats import AnySnapshot, Snapshot

WORKERS_PER_SERVER = 10
"""Places for each of `max_servers`. A server with no more workers always has places. 4,000 workers, with 400 servers,
take 40 MB after an hour, and the CPU for a second in a scrape."""


class WorkerPlaces:
    """Who has how many workers, of all servers that patterns find: anybody who may create a socket in such a directory
    could otherwise let the exporter keep figures of 1,000 workers for each of `max_servers`. Servers with the fewest
    workers have theirs first, so that a large one costs no other its own. most_servers: `max_servers`."""

    def __init__(self, most_servers: int) -> None:
        self.most_servers = most_servers
        self._workers: dict[object, int] = {}

    def keep(self, servers: Collection[object]) -> None:
        self._workers = {server: number for server, number in self._workers.items() if server in servers}

    def take(self, server: object, number: int) -> None:
        """Take a place for each worker of a server. Raises StatsError if there are not enough."""
        self._workers[server] = number
        most = WORKERS_PER_SERVER * self.most_servers
        if number <= WORKERS_PER_SERVER or sum(self._workers.values()) <= most:
            return
        left = most
        for other, workers in sorted(self._workers.items(), key=lambda item: item[1]):
            left -= workers
            if other is server:
                break
        if left < 0:
            raise StatsError(
                "too_large",
                f"the servers that patterns find have more than {most:,} workers, the limit, and this one has "
                f"{number:,}: name the server in the configuration, or raise `max_servers`",
            )


_log = logging.getLogger(__name__)

Done = Callable[[Reading | ReadError], None]

_STOPPING = SourceError("unreachable", "the exporter is stopping")


class Reader:
    """Reads one server, with at most one read in flight for any number of callers, because uWSGI's master serves the
    stats itself.

    `outcome` is the result of the last finished read, None before the first; `finished_first` is set with the first
    outcome; `attempts` counts finished reads, `errors` failed reads by reason; `faults` contains each internal error.
    timeout, size_cap and `facts_every` (seconds between readings of the kernel's facts; readings in between are
    partial) may be changed: they apply from the next read. on_outcome is called once with each outcome and its
    monotonic time, on_cpu with the CPU seconds that each reading took once its document was received. routes: names the
    routes of requests in service, None if they are off; room: for the documents in transfer of all servers; places: for
    the workers of servers that patterns find, None for any other server.
    """

    def __init__(  # noqa: PLR0913 - each is a setting of its own, passed by keyword
        self,
        name: str,
        address: source.Address,
        *,
        timeout: float = TIMEOUT_SECONDS,
        size_cap: int = SIZE_CAP,
        clock: Clock | None = None,
        host: Host | None = None,
        routes: RouteNamer | None = None,
        on_outcome: Callable[[float, Reading | ReadError], None] = lambda _at, _outcome: None,
        on_cpu: Callable[[float], None] = lambda _seconds: None,
        room: source.Room | None = None,
        places: WorkerPlaces | None = None,
    ) -> None:
        self.name = name
        self.address = address
        self._printed_address = printable_name(str(address))
        self.outcome: Reading | ReadError | None = None
        self.finished_first = asyncio.Event()
        self.errors: Counter[Reason] = Counter()
        self.attempts = 0
        self.timeout = timeout
        self.size_cap = size_cap
        self._share = source.Share(room)
        self._places = places
        self._clock = clock or Clock()
        self._on_outcome = on_outcome
        self._on_cpu = on_cpu
        self._cpu_began = self._spent = 0.0
        self._routes = routes
        self.facts_every = 0.0
        self._whole: Reading | None = None  # the latest one that is not partial
        self._host = host or Host(clock=self._clock.monotonic)
        self._waiting: list[Done] = []
        self._under_way: source.UnixRead | asyncio.Task[None] | None = None
        self._started = 0.0
        self._decoded: tuple[int, stats.AnySnapshot] | None = None
        self.faults: set[object] = set()
        self._log = LogLimit(name, _log, self._clock.monotonic).log
        self._closed = self._paused = False
        self._ended = False  # whether a busy worker's process was gone before the document
        self._held: Reading | None = None  # while its document is read again

    def search_web_files(self, *, logs: bool) -> None:
        """Also search the files, or the error logs as well, of the web server for its sockets, as for one look."""
        self._host.ways_in.reads_files = 1 + logs

    async def read(self) -> Reading | ReadError:
        """Read the server, or wait for the read under way; returns a reading or the error.

        If a caller is cancelled, the read continues until its deadline, for other callers.
        """
        result: asyncio.Future[Reading | ReadError] = asyncio.get_running_loop().create_future()

        def done(outcome: Reading | ReadError) -> None:
            if not result.done():
                result.set_result(outcome)

        self.begin(done)
        try:
            return await result
        finally:
            self.forget(done)

    def begin(self, done: Done) -> None:
        """Begin to read the server, unless a read is under way: `done` is called once with the outcome, and never
        before this has returned."""
        if self._closed:
            asyncio.get_running_loop().call_soon(done, _STOPPING)
            return
        self._waiting.append(done)
        if not self._under_way and not self._paused:
            self._start()

    def forget(self, done: Done) -> None:
        """Do not call `done` any more."""
        self._waiting = [each for each in self._waiting if each != done]

    async def close(self) -> None:
        self._closed = True
        self.finished_first.set()  # responses that wait for the first outcome must not delay the end
        await self._cancel_read()
        self._host.close()
        self._call_waiting(_STOPPING)

    async def pause(self) -> None:
        """End the read in flight, if any, and close its connection; `read` waits until `resume`."""
        self._paused = True
        await self._cancel_read()

    def resume(self) -> None:
        self._paused = False
        if self._waiting and not self._under_way:
            self._start()

    async def _cancel_read(self) -> None:
        reading, self._under_way = self._under_way, None
        if isinstance(reading, source.UnixRead):
            reading.end()
            self._share.end()
        elif reading:
            reading.cancel()
            await asyncio.wait({reading})

    def _start(self) -> None:
        self._started = self._clock.monotonic()
        self._ended = self._ended or bool(self._whole and _have_ended(self._whole))
        if isinstance(self.address, source.Unix):
            self._under_way = source.begin_unix(
                self.address,
                self._receive,
                timeout=self.timeout,
                size_cap=self.size_cap,
                find_master=self.find_master,
                is_uwsgi=self._whole is not None,
                share=self._share,
            )
        if not self._under_way:
            self._go_on(self._read_slowly)

    def _go_on(self, work: Callable[[], Coroutine[None, None, Reading]]) -> None:
        """Read in a task, which may wait."""
        task = self._under_way = asyncio.create_task(self._read(work), name=f"read {self.name}")
        # A task that is cancelled from elsewhere starts again; those of `pause` and `close` are under way no more.
        task.add_done_callback(self._forget_task)

    def _forget_task(self, task: asyncio.Task[None]) -> None:
        if self._under_way is task:
            self._under_way = None
            self.resume()

    def _receive(self, answer: source.Answer | SourceError | None) -> None:
        self._cpu_began = time.thread_time()
        if answer is None:
            self._go_on(self._read_slowly)
        elif isinstance(answer, SourceError):
            self._finish(answer)
        else:
            self._take(answer)

    def _take(self, answer: source.Answer) -> None:
        outcome: Reading | ReadError
        try:
            outcome = self._understand(answer)
        except Exception as error:  # noqa: BLE001 - an internal error about one server must not affect others
            outcome = self._describe_error(error)
            if outcome.reason == "empty":
                self._go_on(partial(self._explain_empty, outcome, answer))
                return
        self._finish(outcome)

    async def _read(self, work: Callable[[], Coroutine[None, None, Reading]]) -> None:
        """Finish with what comes of the work. Raises nothing but CancelledError: an internal error becomes the
        outcome."""
        outcome: Reading | ReadError
        try:
            outcome = await work()
        except Exception as error:  # noqa: BLE001 - as above
            outcome = self._describe_error(error)
        self._finish(outcome)

    def _finish(self, outcome: Reading | ReadError) -> None:
        self._under_way = None
        held, self._held, had_ended = self._held, None, self._ended
        self._ended = isinstance(outcome, Reading) and _have_ended(outcome, missing=True)
        if self._ended and not had_ended and isinstance(outcome, Reading):
            self._held = outcome
            self._on_cpu(time.thread_time() - self._cpu_began)
            self._start()
            return
        try:
            if held and not _says_more(outcome, held):
                self._on_outcome(held.at, held)
            self._on_outcome(self._clock.monotonic(), outcome)
        except Exception as error:  # noqa: BLE001 - as above
            outcome = self.fault(error)
        self._note(outcome)
        spent, self._spent = self._spent, self._host.spent
        self._on_cpu(time.thread_time() - self._cpu_began + self._spent - spent)
        self._call_waiting(outcome)

    def _call_waiting(self, outcome: Reading | ReadError) -> None:
        waiting, self._waiting = self._waiting, []
        for done in waiting:
            done(outcome)

    def _describe_error(self, error: Exception) -> ReadError:
        """The error without its frames: these hold the received bytes and the error, a cycle that would stay in memory
        until the next garbage collection. Any but a ReadError is internal."""
        if not isinstance(error, ReadError):
            return self.fault(error)
        error.__context__ = error.__cause__ = None
        return error.with_traceback(None)

    def fault(self, error: Exception) -> ReadError:
        """Turn an internal error into a failed read of this server. Each internal error is logged once, without its
        message, which may quote the document."""
        kind = type(error).__name__
        place = traceback.extract_tb(error.__traceback__)[-1:]
        key = kind, *((frame.filename, frame.lineno) for frame in place)
        if key not in self.faults:
            self.faults.add(key)
            without_words = HeadroomError(kind).with_traceback(error.__traceback__)
            _log.error("internal error", extra={"fields": {"server": self.name}}, exc_info=without_words)
        return ReadError("internal", f"a bug in uwsgi-headroom ({kind}): please report it with the log")

    async def _read_slowly(self) -> Reading:
        if isinstance(self.address, source.ProcessOfApp | source.SocketOfApp):
            self._cpu_began = time.thread_time()
            return await self._look(self.address, self._started)
        try:
            answer = await source.read_document(
                self.address,
                timeout=self.timeout,
                size_cap=self.size_cap,
                find_master=self.find_master,
                is_uwsgi=self._whole is not None,
                share=self._share,
            )
        finally:
            self._cpu_began = time.thread_time()  # other tasks have run meanwhile
        try:
            return self._understand(answer)
        except StatsError as error:
            if error.reason != "empty":
                raise
            return await self._explain_empty(error, answer)

    def _understand(self, answer: source.Answer) -> Reading:
        """Make a reading of a document, with the kernel's facts. Raises StatsError."""
        at, epoch = self._clock.monotonic(), self._clock.epoch()
        snapshot = self._decode(answer.body)
        if self._places and isinstance(snapshot, Snapshot):
            try:
                self._places.take(self, len(snapshot.workers))
            except StatsError:
                self._decoded = None
                raise
        whole = self._whole
        partial = whole and at - whole.at < self.facts_every and _has_same_processes(snapshot, whole)
        reading = Reading(
            at=at,
            time=epoch,
            read_seconds=at - self._started,
            transfer_seconds=answer.transfer_seconds,
            document_bytes=len(answer.body),
            snapshot=snapshot,
            host=whole.host if whole and partial else self._host.read_facts(snapshot, answer),
            routes=self._routes.find_routes(snapshot, at) if self._routes else None,
            address=self._printed_address,
            partial=bool(partial),
        )
        if not partial:
            self._whole = reading
        return reading

    async def _explain_empty(self, error: ReadError, answer: source.Answer) -> Reading:
        """Raises an error that says that the address is right, if it is known to be that of a uWSGI's stats."""
        before = self.error
        known = before.pid if isinstance(before, BlindError) else self.find_master()
        pid = known or await self._host.find_blind(self.address, answer, self.timeout)
        raise BlindError(pid) if pid or self._whole else error

    async def find_silent(self) -> int | None:
        """The master here whose stats have not answered a first read; None if that is not known."""
        if isinstance(self.address, source.ProcessOfApp | source.SocketOfApp):
            return None
        return await self._host.find_blind(self.address, None, self.timeout)

    async def _look(self, address: source.ProcessOfApp | source.SocketOfApp, start: float) -> Reading:
        snapshot = await self._host.look(address, self.timeout)
        if self._places:
            self._places.take(self, max(len(snapshot.workers), len(snapshot.sockets)))
        at, epoch = self._clock.monotonic(), self._clock.epoch()
        facts = self._host.read_facts(snapshot, None)
        self._whole = Reading(at, epoch, at - start, 0.0, 0, snapshot, facts, address=self._printed_address)
        return self._whole

    def find_master(self) -> int | None:
        """The process here that served the last reading, if it still runs."""
        if self._whole is None:
            return None
        pid, identity = self._whole.host.master_pid, self._whole.host.identity
        return pid if pid and identity and is_running(pid, identity.started) else None

    @property
    def error(self) -> ReadError | None:
        """Why the last attempt failed; None unless it did."""
        return self.outcome if isinstance(self.outcome, ReadError) else None

    @property
    def is_reloading(self) -> bool:
        """Whether the process that served the last reading runs, but does not listen at the moment: a master that loads
        its application again."""
        return isinstance(self.outcome, StillRunsError) and self.outcome.reason == "refused"

    def _decode(self, body: bytes) -> stats.AnySnapshot:
        """Decode the document, which is most of the cost of a read, unless it equals the last one, as those of an idle
        server do. Of that one, which has variables of requests, only the hash is kept (0.1 ms for 300 kB)."""
        key = hash(body)
        if self._decoded is None or self._decoded[0] != key:
            self._decoded = key, stats.decode(body, self._routes.templates if self._routes else None)
        return self._decoded[1]

    def _note(self, outcome: Reading | ReadError) -> None:
        """Keep an outcome as the latest, and log it if its kind is another than before."""
        before, self.outcome = self.outcome, outcome
        self.attempts += 1
        self.finished_first.set()
        if isinstance(outcome, ReadError):
            self.errors[outcome.reason] += 1
            if outcome.reason in GONE:
                self._host.close()
            if not isinstance(before, ReadError) or before.reason != outcome.reason:
                reason, detail = outcome.reason, str(outcome)
                self._log(logging.WARNING, "cannot read", address=str(self.address), reason=reason, detail=detail)
            return
        if not isinstance(before, Reading):
            kind, version = outcome.snapshot.kind, outcome.snapshot.version
            self._log(logging.INFO, "reading", address=str(self.address), kind=kind, uwsgi=version)
        if outcome.host.off and (not isinstance(before, Reading) or before.host.off != outcome.host.off):
            self._log(logging.INFO, "no process facts", detail=outcome.host.off)


_SOON_SECONDS = 1.0

GONE: frozenset[Reason] = frozenset({"refused", "not_found"})
"""The reasons of failed reads that say at once that nobody listens there."""

LINES, SECONDS = 5, 60.0
"""At most this many lines in this many seconds."""


class LogLimit:
    """Logs lines about one server, but no more than that, because a state may change with every read. The next line
    says how many were left out."""

    def __init__(self, server: str, logger: logging.Logger, monotonic: Callable[[], float]) -> None:
        self._server, self._logger, self._monotonic = server, logger, monotonic
        self._left_out = 0
        self._written: deque[float] = deque(maxlen=LINES)

    def log(self, level: int, message: str, **fields: object) -> None:
        at = self._monotonic()
        if len(self._written) == LINES and at - self._written[0] < SECONDS:
            self._left_out += 1
            return
        self._written.append(at)
        if self._left_out:
            fields["left_out"], self._left_out = self._left_out, 0
        self._logger.log(level, message, extra={"fields": {"server": self._server, **fields}})


class RouteNamer:
    """The routes of one server. templates: those that its documents are decoded with."""

    def __init__(self, templates: Templates) -> None:
        self.templates = templates
        self._book = RouteBook()

    def find_routes(self, snapshot: AnySnapshot, at: float) -> ServedRoutes | None:
        """The routes in service in a document that was read at the monotonic time `at`; None for an emperor, a router,
        or a server that does not list its threads."""
        if not isinstance(snapshot, Snapshot) or not any(worker.threads for worker in snapshot.workers):
            return None
        workers = [worker for worker in snapshot.workers if worker.serving]
        found = self._book.find_numbers((shape for worker in workers for shape in worker.shapes.values()), at)
        numbers = {
            worker.worker_id: {thread: found.get(worker.shapes.get(thread, OTHER), 0) for thread in worker.serving}
            for worker in workers
        }
        return ServedRoutes(names=self._book.names, generations=self._book.generations, numbers=numbers)


def _have_ended(reading: Reading, *, missing: bool = False) -> bool:
    """Whether the process of a busy worker has ended since the reading, or was missing in it: if it ended after the
    document was written, only another says what it completed."""
    busy = [each for each in getattr(reading.snapshot, "workers", ()) if each.busy_threads and each.pid]
    if missing:
        return any(map(reading.process_is_missing, busy))
    return any(has_ended(pid) for each in busy if (pid := reading.host.local_pid(each.pid)))


def _says_more(outcome: Reading | ReadError, held: Reading) -> bool:
    """Whether a later outcome replaces a reading: soon after it, or after a reload, as which the end was no loss."""
    if isinstance(outcome, ReadError):
        return outcome.reason in GONE
    return outcome.at - held.at < _SOON_SECONDS


def _has_same_processes(snapshot: AnySnapshot, whole: Reading) -> bool:
    """Whether the workers are those of an earlier reading, and none has ended: what a uWSGI loses at its end is seen
    for a few hundredths of a second only."""
    if not isinstance(snapshot, Snapshot) or not isinstance(whole.snapshot, Snapshot):
        return False
    pids = [worker.pid for worker in snapshot.workers]
    local = [whole.host.local_pid(pid) for pid in pids if pid]
    are_same = pids == [worker.pid for worker in whole.snapshot.workers]
    return are_same and not any(map(has_ended, filter(None, local)))
