"""A synthetic history as the records of a history file, minute by minute."""

from collections.abc import Iterator
from pathlib import Path

from msgspec.structs import replace

from tests.report.sources.exposed import MINUTE
from tests.support.synthetic.plan import History, Service
from tests.support.synthetic.server import make_records
from uwsgi_headroom.store.file import open_to_write
from uwsgi_headroom.store.record import Minute
from uwsgi_headroom.store.writer import Database

CUT_LATE = 0.13
"""Seconds from the end of a minute to the first read after it, at which its record ends."""


def write_history_file(history: History, path: Path, machine: int | None = None) -> None:
    """Writes the history of all servers, or of those on one machine (from 0) under the name of their service, as
    exporters would have done."""
    database = Database(open_to_write(path), 10**9)
    minutes: dict[int, list[Minute]] = {}
    for service in history.services:
        for place in range(service.servers):
            if machine is None or machine == place:
                name = service.name if machine is not None else f"{service.name}-{place + 1}"
                for minute in make_minutes(history, service, place, name):
                    minutes.setdefault(minute.minute // 15, []).append(minute)
    for quarter in sorted(minutes):
        database.write(minutes[quarter], (quarter + 1) * 900.0 + 60)
    database.close()


def make_minutes(history: History, service: Service, place: int, name: str) -> Iterator[Minute]:
    """What an exporter puts into its history file, for each minute in which it sampled the server."""
    for record in make_records(history, service, place, MINUTE):
        minute, until = round(record.until / MINUTE), record.until + CUT_LATE
        late = replace(record, until=until, window=replace(record.window, until=until))
        yield Minute(name, minute, late)
