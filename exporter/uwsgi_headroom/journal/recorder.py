"""Turns the readings of one server into events in its journal."""

from __future__ import annotations

from collections.abc import Sequence

from uwsgi_headroom.config.servers import printable_name
from uwsgi_headroom.errors import ReadError
from uwsgi_headroom.history.totals import Totals
from uwsgi_headroom.journal.configuration import ConfigurationEvents
from uwsgi_headroom.journal.events import Journal
from uwsgi_headroom.journal.verdicts import Verdicts
from uwsgi_headroom.journal.workers import WorkerEvents
from uwsgi_headroom.reading import Reading
from uwsgi_headroom.words.formats import duration

GAP_SECONDS = 5.0
"""The longest time without samples that is not an event: uWSGI's master is normally silent for up to 3 s."""


class Recorder:
    """Keeps the journal of one server. Pass it every outcome of a read, in order."""

    def __init__(self) -> None:
        self.journal = Journal()
        self.verdicts = Verdicts(self.journal)
        self._workers = WorkerEvents(self.journal)
        self._configuration = ConfigurationEvents(self.journal)
        self._before: Reading | None = None
        self._lost: list[int] = []
        self._gap_seconds = 0.0
        self._down_since: float | None = None
        self._began = False

    def begin(self, time: float) -> None:
        """Record the first outcome, at this time (epoch seconds). Later calls do nothing."""
        if not self._began:
            self._began = True
            self.journal.add(time, "exporter_started", "The exporter began to watch this server.")

    def read(self, reading: Reading, totals: Totals) -> None:
        """Compare a reading with the one before. totals: of the server, including this reading."""
        time, before = reading.time, self._before
        gap, self._gap_seconds = totals.gap_seconds - self._gap_seconds, totals.gap_seconds
        if self._down_since is not None:
            self._up(time, before, reading)
        elif before and gap > GAP_SECONDS:
            evidence = "Figures exclude this time."
            self.journal.add(time, "sampling_gap", f"There were no samples for {duration(gap)}.", evidence)
        self._configuration.compare(reading)
        lost = [worker.lost for worker in totals.workers]
        if before:
            self._workers.compare(before, reading, _growth(self._lost, lost))
        self._before, self._lost = reading, lost

    def down(self, time: float, error: ReadError) -> None:
        """Record that the server counts as down from this time (epoch seconds), for this reason."""
        if self._down_since is None:
            self._down_since = time
            self.journal.add(time, "server_down", "The server is down.", _sentence(str(error)))
            self.verdicts.interrupt()

    def _up(self, time: float, before: Reading | None, reading: Reading) -> None:
        away = duration(time - (self._down_since or time))
        self._down_since = None
        same = reading.has_same_master(before) if before else None
        evidence = (
            ""
            if same is None
            else ("Its master is the same process." if same else "Its master is another process: uWSGI was restarted.")
        )
        self.journal.add(time, "server_up", f"The server is up again after {away}.", evidence)


def _growth(before: Sequence[int], now: Sequence[int]) -> list[int]:
    """How much each number has grown; a new one grows from 0."""
    return [later - (before[place] if place < len(before) else 0) for place, later in enumerate(now)]


def _sentence(words: str) -> str:
    words = printable_name(words)
    return f"{words[:1].upper()}{words[1:]}{'' if words.endswith(('.', '?')) else '.'}"
