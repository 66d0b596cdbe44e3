"""Which servers of a pattern are expected, so that an absent one is down rather than forgotten.

A server is expected if the configuration names it, or if it was up for LONG_ENOUGH: since the exporter's start, or in
the last days of the history file. The expectation ends when an operator retires it (`uwsgi-headroom retire NAME`), or
when its Emperor has ended it.
"""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from uwsgi_headroom.errors import HistoryFileError
from uwsgi_headroom.reading import Reading
from uwsgi_headroom.stats import EmperorSnapshot
from uwsgi_headroom.watch.watch import Watch

LONG_ENOUGH = 3600.0
"""A server that was up for so long, in seconds, is expected: longer than a trial, shorter than a working day."""

PAST_SECONDS = 7 * 86_400.0
"""How far the history file counts, in seconds: a server that ran on one day of the week is in it."""

ENDED_SECONDS = 30.0
"""How long an Emperor that is up must be without a vassal before the vassal counts as ended, in seconds: a vassal that
dies is not in the list either, until the Emperor's next scan starts it again (every 3 s by default)."""

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Memory:
    """What an exporter remembers of earlier runs. up_seconds: by server, how long it was up in the last days, since it
    was retired; read_retired: reads the epoch time of each server's retirement."""

    up_seconds: Mapping[str, float] = field(default_factory=dict)
    read_retired: Callable[[], Mapping[str, float]] = dict


NO_MEMORY = Memory()
"""Of an exporter without a history file."""


def remember(history: Path, now: float | None = None) -> Memory:
    """Read what a history file knows, once. now: epoch seconds. A file that cannot be read is logged, and counts as
    empty."""
    from uwsgi_headroom.store.reader import HistoryFile  # noqa: PLC0415 - loads sqlite3
    from uwsgi_headroom.store.retired import read_retired  # noqa: PLC0415

    now = time.time() if now is None else now
    retired, since = read_retired(history, now), now - PAST_SECONDS
    known: Mapping[str, float] = {}
    if _has_data(history):
        try:
            with HistoryFile(history, now) as file:
                known = file.up_seconds(lambda server: max(since, retired.get(server, 0.0)), LONG_ENOUGH)
                if file.damaged:
                    _log.warning("records of the past are damaged", extra={"fields": {"count": file.damaged}})
        except HistoryFileError as error:
            _log.warning("servers of the past are not known", extra={"fields": {"reason": str(error)}})
    return Memory(known, lambda: read_retired(history))


def _has_data(path: Path) -> bool:
    """Whether a file exists and is not empty; False if the system does not say: the writer then explains why."""
    try:
        return path.stat().st_size > 0
    except OSError:
        return False


class Vassals:
    """The vassals of the watched Emperors. A vassal is known by the PID that its Emperor lists, which is that of its
    stats; both are numbers of one PID namespace."""

    def __init__(self) -> None:
        self._by_pid: dict[int, tuple[Watch, str]] = {}

    def look(self, watches: Iterable[Watch]) -> None:
        """Note the vassals of all Emperors that are up."""
        self._by_pid = {
            vassal.pid: (watch, vassal.name)
            for watch in watches
            if watch.reading and isinstance(watch.reading.snapshot, EmperorSnapshot) and watch.state == "up"
            for vassal in watch.reading.snapshot.vassals
            if vassal.pid
        }

    def find(self, watch: Watch) -> tuple[Watch, str] | None:
        """Return the Emperor of a server that is up, and the server's name there; None if it is no known vassal."""
        return self._by_pid.get(watch.reading.snapshot.pid) if watch.reading else None


def is_ended(emperor: tuple[Watch, str] | None, configuration: str) -> bool:
    """Whether a vassal that is gone was ended on purpose: its configuration file is gone, or its Emperor is up and
    neither runs it nor tries to. configuration: its path, empty if unknown.

    The Emperor's blacklist has vassals that it ended as well, with no attempt to start them (2.0.31).
    """
    watch, name = emperor or (None, "")
    snapshot = watch.reading.snapshot if watch and watch.reading and watch.state == "up" else None
    if isinstance(snapshot, EmperorSnapshot):
        if any(vassal.name == name for vassal in snapshot.vassals):
            return False
        if not any(throttled.name == name and throttled.attempt for throttled in snapshot.blacklist):
            return True
    return bool(configuration) and os.path.isdir(os.path.dirname(configuration)) and not os.path.exists(configuration)


def find_configuration(reading: Reading) -> str:
    """Return the path of a vassal's configuration file; empty if it is no vassal, or if the path is not known or not
    visible here."""
    identity, setup = reading.host.identity, reading.host.setup
    if not (identity and identity.emperor_pid and setup and setup.options.configuration_file):
        return ""
    path = os.path.join(identity.working_directory or "", setup.options.configuration_file)
    return path if os.path.isabs(path) and os.path.exists(path) else ""
