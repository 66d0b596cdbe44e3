"""Both ends of the history that lasts: cuts the minutes of a server for it, and restores from it.

A deploy often restarts the exporter too, as with the image of a machine. One server at a time is restored, in a thread,
so that a thousand servers do not keep the exporter's other threads from work.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NamedTuple, NoReturn

from msgspec.structs import replace

from uwsgi_headroom.clock import Clock
from uwsgi_headroom.config.slo import Slo
from uwsgi_headroom.errors import HistoryFileError
from uwsgi_headroom.history.events import Event, Journal
from uwsgi_headroom.history.integrals import Integrals
from uwsgi_headroom.history.named_hours import RouteHour
from uwsgi_headroom.history.rows import Row, pack_row, shape_of, window_between
from uwsgi_headroom.reading import Reading, describe_server
from uwsgi_headroom.store.record import MINUTES, Levels, Minute, Record
from uwsgi_headroom.watch import deploy_watch
from uwsgi_headroom.watch.turns import ThreadTurns, run_in_thread
from uwsgi_headroom.watch.worker_events import find_load

if TYPE_CHECKING:
    from uwsgi_headroom.store.writer import HistoryWriter
    from uwsgi_headroom.watch.watch import Watch


_LEAST_SECONDS = 0.5
"""The shortest record: a shorter rest of a minute is not kept."""


class MinuteCutter:
    """Cuts a record of one server at the first outcome of a read in each minute of the epoch clock, for the writer. A
    record reaches from one cut to the next, also over an outage, so nothing is counted twice; only the part of a minute
    before the number of workers, the sockets or the backends change is missed."""

    def __init__(
        self, name: str, writer: HistoryWriter, integrals: Integrals, routes: RouteHour, journal: Journal
    ) -> None:
        self._name, self._writer, self._journal = name, writer, journal
        self._integrals, self._routes = integrals, routes
        self._sent_events = 0
        self._began: tuple[float, Row] | None = None
        self._minute = 0  # minutes of the epoch that had ended at the last cut
        self._shape: tuple[object, ...] = ()

    def note(self, at: float, epoch: float, levels: Callable[[], Levels]) -> None:
        """Note an outcome at the monotonic time `at` and the time `epoch`, which the totals include. levels: returns
        the present ones."""
        minute = int(epoch // MINUTES.seconds)
        if minute != self._minute:
            is_set_back = minute < self._minute
            self._cut(at, epoch, minute + is_set_back, levels)
            self._minute = minute
        elif shape_of(self._integrals.totals) != self._shape:
            self._begin(at)

    def finish(self, at: float, epoch: float, levels: Callable[[], Levels]) -> None:
        if self._began and at - self._began[0] >= _LEAST_SECONDS:
            self._cut(at, epoch, int(epoch // MINUTES.seconds) + 1, levels)

    def _begin(self, at: float) -> None:
        totals = self._integrals.totals
        if totals.samples:
            self._began, self._shape = (at, pack_row(totals)), shape_of(totals)

    def _cut(self, at: float, epoch: float, minute: int, levels: Callable[[], Levels]) -> None:
        totals = self._integrals.totals
        record = None
        if self._began and shape_of(totals) == self._shape and at > self._began[0]:
            window = window_between(totals, self._began, (at, pack_row(totals)), MINUTES.seconds)
            record = Record(
                until=epoch,
                window=replace(window, until=epoch),
                response_times=self._integrals.response_times.history.window(self._began[0], at),
                routes=self._routes.of(window),
                levels=levels(),
            )
        self._begin(at)
        # An event that was joined with a later one is new, and replaces what was written of it.
        events = [event for event in self._journal.since(float("-inf")) if event.id > self._sent_events]
        self._sent_events = max([self._sent_events, *(event.id for event in events)])
        if record or events:
            self._writer.put(Minute(self._name, minute, record, events))


def find_levels(reading: Reading | None, others_follow: bool | None, slo: Slo | None, limited_by: str | None) -> Levels:
    """The levels at a reading; None before the first one."""
    server = describe_server(reading)
    if server is None:
        return Levels(slo=slo, limited_by=limited_by)
    memory = server.memory
    return Levels(
        cpus=server.cpus.count if server.cpus else None,
        memory_available=memory.available if memory else None,
        memory_per_worker=memory.per_worker if memory else None,
        others_follow=others_follow,
        thunder_lock=server.thunder_lock,
        slo=slo,
        socket_holders=server.setup.socket_holders if server.setup.mapped else None,
        limited_by=limited_by,
    )


_POLL_SECONDS = 1.0

_REACH_SECONDS = deploy_watch.MINUTES_BEFORE + deploy_watch.STALE_SECONDS
"""How long before a reload what counts for it may have begun."""

_MOST_RELOADS = 50
"""Of the last day: a server that crashes at its start has one a second."""

_CLOCKS_SECONDS = 2.0
"""How far a start time, in whole seconds, may be after the reading that showed it."""


class _Found(NamedTuple):
    """unseen: since and until when (epoch seconds) the workers were replaced while nobody watched."""

    records: Sequence[Record] = ()
    reloads: Sequence[Event] = ()
    unseen: tuple[float, float] | None = None
    reported: bool = False


async def restore_deploys(watches: Callable[[], Sequence[Watch]], clock: Clock) -> NoReturn:
    """Restore the deploys of each watch that has a history file, once its server was read, until cancelled."""
    while True:
        for watch in watches():
            if not watch.deploys.is_restored and watch.reading is not None:
                await restore(watch, clock)
        await asyncio.sleep(_POLL_SECONDS)


async def restore(watch: Watch, clock: Clock) -> None:
    """Restore the deploys of a watch. If its file cannot be read, there is nothing to restore."""
    now, reading = clock.epoch(), watch.reading
    load = find_load(reading) if reading else None
    try:
        found = await run_in_thread(lambda turns: _read(watch, now, load, turns))
        _take(watch, clock, found)
    except HistoryFileError:
        pass  # the writer says why
    except Exception as error:  # noqa: BLE001 - an internal error about one server must not end the others'
        watch.reader.fault(error)
    watch.deploys.is_restored = True


def _read(watch: Watch, now: float, load: tuple[float, float, bool] | None, turns: ThreadTurns) -> _Found:
    from uwsgi_headroom.store.file import HistoryFile  # noqa: PLC0415 - loads sqlite3

    if watch.writer is None:
        return _Found()
    with HistoryFile(watch.writer.path, now) as file:

        def read(since: float, until: float) -> list[Record]:
            records = []
            for record in file.records(watch.name, since, until, MINUTES.seconds):
                records.append(record)
                turns.pause_if_due()
            return records

        reloads = file.events(watch.name, now - deploy_watch.KNOWN_SECONDS, now, "reload", _MOST_RELOADS)
        records = read(now - _REACH_SECONDS, now)
        unseen = None
        if load and now - deploy_watch.KNOWN_SECONDS <= load[0] and load[1] <= now:
            since, until, is_whole = load
            missed = is_whole or not records or since > records[-1].until - _CLOCKS_SECONDS
            if missed and not any(event.time >= since - _CLOCKS_SECONDS for event in reloads):
                unseen = since, until
        times = [*(event.time for event in reloads), *(unseen or ())[1:]]
        if not times:
            return _Found(records)
        first = last = times[-1]
        for time in reversed(times):
            if first - time < deploy_watch.SETTLED_SECONDS and last - time <= deploy_watch.STALE_SECONDS:
                first = time
        reloads = [event for event in reloads if event.time >= first]
        earlier = read(first - _REACH_SECONDS, min(now - _REACH_SECONDS, last + deploy_watch.AFTER_SECONDS))
        reported = bool(file.events(watch.name, last, now, "deploy_judged", 1))
    return _Found([*earlier, *records], reloads, unseen, reported)


def _take(watch: Watch, clock: Clock, found: _Found) -> None:
    """Take what was found, and record a reload that nobody saw if there is anything to compare it with."""
    reloads = list(found.reloads)
    journal, known = watch.recorder.journal, watch.recorder.journal.latest_of("reload")
    if found.unseen and known is None and any(record.until <= found.unseen[0] for record in found.records):
        since, until = found.unseen
        title = "uWSGI was reloaded or restarted."
        evidence = "The exporter was not running; the start times of the workers show it."
        journal.add(until, "reload", title, evidence, since=since)
        watch.deploys.known_reloads += 1
        reloads += filter(None, [journal.latest_of("reload")])
    now = clock.monotonic()
    watch.deploys.restore(now, clock.epoch() - now, found.records, reloads, reported=found.reported)
