"""A history file keeps to its size, and a server pays for what it writes with its own records."""

import random
from collections import Counter
from pathlib import Path

import pytest
from msgspec.structs import replace

from tests.store.test_database import NOON, opened
from tests.support import windows
from uwsgi_headroom.history.events import Event
from uwsgi_headroom.history.window import RouteWindow
from uwsgi_headroom.store.file import HistoryFile
from uwsgi_headroom.store.record import DAY, Minute, Record

MAX_SIZE = 1_000_000
SLACK = 4_000_000
"""What the file and its write-ahead log may take beyond the limit: what one transaction changes, and the pages of the
log, 1 MB, before it is emptied."""


def calm(name: str, number: int, workers: int) -> Minute:
    """A minute of a server that does nothing unusual."""
    end = NOON // 60 + number
    window = windows.window(60.0, *(windows.worker(each + 1, 10, up=60.0) for each in range(workers)))
    window = replace(window, until=end * 60.0, queue_seconds={"/run/shop.sock": 1.0})
    return Minute(name, end, Record(end * 60.0, window))


def hostile(number: int, dice: random.Random) -> Minute:
    """A minute with as many names, workers and events as a document may have, all of them new."""
    end = NOON // 60 + number
    names = [f"{dice.random()}{'x' * 200}" for _ in range(900)]
    sizes = [windows.worker(each + 1, dice.randrange(10**9), up=dice.random() * 60) for each in range(200)]
    window = replace(windows.window(60.0, *sizes), until=end * 60.0)
    window = replace(window, queue_seconds=dict.fromkeys(names, 1.0), queue_full_seconds=dict.fromkeys(names, 1.0))
    times = [(end - 1) * 60.0 + second for second in range(60)]
    events = [Event(id=1, time=at, since=at, kind="reload", title="x" * 1000, workers=(1,)) for at in times]
    routes = RouteWindow(60.0, dict.fromkeys(names[:50], 1.0))
    return Minute("hostile", end, Record(end * 60.0, window, routes=routes), events)


def on_disk(path: Path) -> int:
    return sum(each.stat().st_size for each in path.parent.iterdir() if each.name.startswith(path.name))


@pytest.mark.parametrize("seed", range(2))
def test_a_hostile_server_pays_with_its_own_records(path, seed):
    """The file never grows beyond its limit and a slack, and the others' records are all there."""
    dice = random.Random(seed)
    database = opened(path, MAX_SIZE)
    workers = {f"calm {place}": dice.randrange(1, 9) for place in range(dice.randrange(1, 6))}
    written = Counter[str]()
    for number in range(1, 16):
        minutes = [calm(name, number, count) for name, count in workers.items() if dice.random() < 0.95]
        written.update(minute.server for minute in minutes)
        database.write([*minutes, hostile(number, dice)], NOON + number * 60.0)
        assert database.size <= MAX_SIZE
        assert on_disk(path) <= MAX_SIZE + SLACK
    with HistoryFile(path, NOON + DAY) as file:
        kept = {name: len(list(file.records(name, 0, NOON + DAY, 60))) for name in (*workers, "hostile")}
        assert file.damaged == 0
        assert file.events("hostile", 0, NOON + DAY)[-1].time == NOON + 14 * 60 + 59
    assert kept.pop("hostile") > 0
    assert kept == written


def test_names_that_are_never_the_same_cost_no_other_server(path):
    """A program that is a new server again and again: all of them have one share, and the file keeps to its size."""
    database = opened(path, MAX_SIZE)
    for number in range(1, 200):
        database.write([calm("calm", number, 4)], NOON + number * 60.0)
    for number in range(200, 230):
        at = NOON + number * 60.0
        event = Event(id=1, time=at, since=at, kind="exporter_started", title="x")
        passing = [Minute(f"{number} {place} {'x' * 240}", NOON // 60 + number, None, [event]) for place in range(60)]
        database.write([calm("calm", number, 4), *passing], at)
        assert database.size <= MAX_SIZE
    with HistoryFile(path, NOON + DAY) as file:
        assert len(list(file.records("calm", 0, NOON + DAY, 60))) == 229


def test_what_waited_does_not_make_the_file_larger(path):
    """Everything that waited for a disk comes at once."""
    dice = random.Random(1)
    database = opened(path, MAX_SIZE)
    for first in range(1, 34, 32):
        database.write([hostile(number, dice) for number in range(first, first + 32)], NOON + 80 * 60.0)
        assert on_disk(path) <= MAX_SIZE + SLACK
    assert database.size <= MAX_SIZE
