"""A journal comes in pages: those in memory first, then those of the history file, each event once."""

import asyncio
import contextlib
import sqlite3
from pathlib import Path

import pytest

from tests.support.scripted_watch import ScriptedWatch
from tests.support.simulated_server import EPOCH
from uwsgi_headroom.documents.build import NEWEST, Cursor, build_journal
from uwsgi_headroom.documents.schema import JournalDocument
from uwsgi_headroom.history.events import Event
from uwsgi_headroom.store.file import HistoryFile, open_to_write
from uwsgi_headroom.store.record import Minute
from uwsgi_headroom.store.writer import Database

STORED = 30  # five at a time at the same time
KNOWN = 7


@pytest.fixture
def path(tmp_path):
    """A history file with events of an earlier run of the exporter; one of them is damaged."""
    path = tmp_path / "history.sqlite"
    events = [
        Event(
            id=number,
            time=EPOCH - 100.0 + number // 5,
            since=EPOCH - 100.0 + number // 5,
            kind="worker_ended",
            title="A worker ended.",
            workers=(number,),
        )
        for number in range(1, STORED + 1)
    ]
    database = Database(open_to_write(path), 10**9)
    database.write([Minute("shop", 1, None, events)], EPOCH)
    database.close()
    with contextlib.closing(sqlite3.connect(path)) as damaged, damaged:
        damaged.execute("UPDATE events SET data = x'ff' WHERE CAST(data AS TEXT) LIKE '%\"workers\":[7]%'")
    return path


def pages(watch: ScriptedWatch, path: Path, limit: int) -> list[JournalDocument]:
    async def find_earlier(since: float, before: Cursor, count: int) -> list[Event]:
        with HistoryFile(path, EPOCH) as file:
            return file.latest_events("shop", since, before, count)

    async def collect() -> list[JournalDocument]:
        found, before = list[JournalDocument](), NEWEST
        while True:
            found.append(await build_journal(watch.watch, watch.clock, 3600.0, limit, before, find_earlier))
            if (cursor := found[-1].next) is None:
                return found
            time, _, number = cursor.partition(",")
            before = float(time), int(number)

    return asyncio.run(collect())


@pytest.mark.parametrize("limit", [1, 2, 5, KNOWN, KNOWN + 1, 1000])
def test_every_event_once(path, limit):
    """Whatever the size of a page, the pages together are the journal: newest first, without a damaged event."""
    watch = ScriptedWatch()
    for number in range(KNOWN):
        watch.watch.recorder.journal.add(EPOCH + number // 2, "reload", f"Reload {number}.")
    found = pages(watch, path, limit)
    events = [event for page in found for event in page.events]
    assert all(len(page.events) == limit for page in found[:-1])
    assert [event.title for event in events[:KNOWN]] == [f"Reload {number}." for number in reversed(range(KNOWN))]
    assert [event.workers[0] for event in events[KNOWN:]] == [n for n in range(STORED, 0, -1) if n != 7]


def test_without_a_limit_that_matters(path):
    """A journal that fits in one page has no next one."""
    (page,) = pages(ScriptedWatch(), path, 1000)
    assert (len(page.events), page.next) == (STORED - 1, None)
