"""Cuts the minutes of one server for the history that lasts."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

from uwsgi_headroom.analysis.settings import review_server
from uwsgi_headroom.config.slo import Slo
from uwsgi_headroom.history.integrals import Integrals
from uwsgi_headroom.history.route_time import RouteHour
from uwsgi_headroom.history.rows import Row, pack_row, shape_of
from uwsgi_headroom.history.window import window_between
from uwsgi_headroom.journal.events import Journal
from uwsgi_headroom.reading import Reading, describe_server
from uwsgi_headroom.store.record import MINUTES, Levels, Minute, Record

if TYPE_CHECKING:  # it loads sqlite3, 1.4 MB, which only a history file needs
    from uwsgi_headroom.store.writer import HistoryWriter

_LEAST_SECONDS = 0.5
"""The shortest record: a shorter rest of a minute is not kept."""


class MinuteCutter:
    """Cuts a record of one server at the first outcome of a read in each minute of the epoch clock, for the writer. A
    record reaches from one cut to the next, also over an outage, so nothing is counted twice or missed."""

    def __init__(
        self, name: str, writer: HistoryWriter, integrals: Integrals, routes: RouteHour, journal: Journal
    ) -> None:
        self._name = name
        self._writer = writer
        self._integrals = integrals
        self._routes = routes
        self._journal = journal
        self._sent_events = 0
        self._began: tuple[float, Row] | None = None
        self._minute = 0  # minutes of the epoch that had ended at the last cut
        self._shape: tuple[object, ...] = ()

    def note(self, at: float, epoch: float, levels: Callable[[], Levels]) -> None:
        """Note an outcome at the monotonic time `at` and the time `epoch`, which the totals include. levels: returns
        the present ones."""
        minute = int(epoch // MINUTES.seconds)
        if minute != self._minute:
            # The clock may have been set back.
            self._cut(at, epoch, minute if minute > self._minute else minute + 1, levels)
            self._minute = minute
        elif shape_of(self._integrals.totals) != self._shape:
            self._begin(at)

    def finish(self, at: float, epoch: float, levels: Callable[[], Levels]) -> None:
        """Write what there is of the present minute."""
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


def find_levels(reading: Reading | None, others_follow: bool | None, slo: Slo | None) -> Levels:
    """The levels at a reading; None before the first one."""
    server = describe_server(reading) if reading else None
    if server is None:
        return Levels(slo=slo)
    memory, advice = server.memory, review_server(server)
    return Levels(
        cpus=server.cpus.count if server.cpus else None,
        memory_available=memory.available if memory else None,
        memory_per_worker=memory.per_worker if memory else None,
        others_follow=others_follow,
        thunder_lock=server.thunder_lock,
        slo=slo,
        socket_holders=server.setup.socket_holders if server.setup.mapped else None,
        settings=None if advice is None else {each.rule: each.severity for each in advice},
    )
