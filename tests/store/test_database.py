"""What a history file contains after writes: tiers, what is forgotten, and what a wrong clock has left."""

import random
from collections import Counter
from pathlib import Path

import pytest
from msgspec.structs import replace

from tests.support import windows
from uwsgi_headroom.history.events import Event
from uwsgi_headroom.history.window import RouteWindow
from uwsgi_headroom.store.file import HistoryFile, open_to_write
from uwsgi_headroom.store.record import DAY, LONGEST_SECONDS, MINUTES, Minute, Record
from uwsgi_headroom.store.writer import Database

NOON = 1_800_000_000 // 3600 * 3600


def minute(number: int, requests: int = 10, server: str = "shop", route: str = "") -> Minute:
    end = NOON // 60 + number
    window = replace(windows.window(60.0, windows.worker(1, requests, up=60.0)), until=end * 60.0)
    routes = RouteWindow(60.0, {route: 30.0}) if route else None
    return Minute(server, end, Record(end * 60.0, window, routes=routes))


def opened(path: Path, max_size: int = 10**9) -> Database:
    return Database(open_to_write(path), max_size)


def requests(path: Path, tier: int, server: str = "shop") -> list[tuple[float, int]]:
    with HistoryFile(path, NOON + LONGEST_SECONDS) as file:
        records = list(file.records(server, 0, NOON + LONGEST_SECONDS, tier))
    return [((record.until - NOON) / 60, sum(each.requests for each in record.window.workers)) for record in records]


def test_quarters_and_hours_are_merged_when_they_end(path):
    database = opened(path)
    for number in range(1, 61):
        database.write([minute(number, requests=number)], NOON + number * 60)
        if number == 14:
            assert requests(path, 900) == []
        if number == 15:
            assert requests(path, 900) == [(15, sum(range(1, 16)))]
    assert requests(path, 60) == [(number, number) for number in range(1, 61)]
    assert [end for end, _ in requests(path, 900)] == [15, 30, 45, 60]
    assert requests(path, 3600) == [(60, sum(range(1, 61)))]


def test_a_restart_within_a_quarter(path):
    """The next writer merges minutes of the last one, also if it comes long after, and a minute in two parts is one."""
    first = opened(path)
    first.write([minute(number) for number in (1, 2, 3)], NOON + 180)
    first.close()
    second = opened(path)
    assert second.since == {"shop": NOON + 60}
    second.write([minute(3, 5), minute(4)], NOON + 240)
    second.close()
    opened(path).write([minute(120)], NOON + 120 * 60)
    assert requests(path, 60)[:4] == [(1, 10), (2, 10), (3, 15), (4, 10)]
    assert requests(path, 900) == [(4, 45), (120, 10)]
    assert requests(path, 3600) == [(4, 45), (120, 10)]


def test_each_tier_is_forgotten_in_its_time(path):
    database = opened(path)
    database.write([minute(number, route="GET /") for number in range(1, 61)], NOON + 3600)
    with HistoryFile(path, NOON + LONGEST_SECONDS) as file:
        assert set(file.reach("shop")) == {60, 900, 3600}
    for after, kept in ((14, {900, 3600}), (90, {3600}), (731, set())):
        for seconds in (0, 1800, 3600):
            database.write([], NOON + 3600 + after * DAY + 7200 + seconds)
        with HistoryFile(path, NOON + LONGEST_SECONDS) as file:
            assert set(file.reach("shop")) == kept
        connection = open_to_write(path)
        assert connection.execute("SELECT count(*) FROM servers").fetchone() == (len(kept) > 0,)
        connection.close()
    assert database.since == {}


def test_a_clock_that_is_years_ahead_deletes_nothing(path):
    """Not before it has been steady for an hour; by then it is usually set."""
    database = opened(path)
    database.write([minute(number) for number in range(1, 61)], NOON + 3600)
    database.write([], NOON + 3000 * DAY)
    database.write([], NOON + 3000 * DAY + 1800)
    database.write([], NOON + 3660)
    database.close()
    again = opened(path)
    again.write([], NOON + 3000 * DAY)
    again.write([], NOON + 3700)
    assert len(requests(path, 60)) == 60


def test_a_size_limit_forgets_the_oldest_minutes(path):
    database = opened(path, max_size=300_000)
    for hour in range(60):
        minutes = [minute(hour * 60 + number) for number in range(1, 61)]
        database.write(minutes, NOON + (hour + 1) * 3600.0)
        assert database.size <= 300_000
    kept = requests(path, 60)
    assert 1440 <= len(kept) < 3600
    assert kept[-1][0] == 3600
    assert len(requests(path, 3600)) == 60
    assert path.stat().st_size < 700_000


def test_the_smallest_limit(path):
    database = opened(path, max_size=50_000)
    for hour in range(20):
        minutes = [minute(hour * 60 + number, server=f"shop {hour % 3}") for number in range(1, 61)]
        database.write(minutes, NOON + (hour + 1) * 3600.0)
    assert database.size <= 150_000  # nine pages, which are all but empty


def test_a_damaged_record_costs_itself_only(path):
    database = opened(path)
    database.write([minute(number) for number in range(1, 15)], NOON + 14 * 60)
    database._connection.execute("UPDATE records SET data = x'ff' WHERE slot = ?", (NOON // 60 + 7,))
    database.write([minute(15)], NOON + 15 * 60)
    assert requests(path, 900) == [(15, 140)]
    assert [end for end, _ in requests(path, 60)] == [*range(1, 7), *range(8, 16)]


def test_events_replace_what_they_were_joined_with(path):
    """An event that happens again within seconds is one event, with its latest count."""
    first = Event(id=1, time=NOON + 1, since=NOON + 1, kind="worker_ended", title="Worker 1 ended.", workers=(1,))
    again = replace(first, id=2, time=NOON + 5, title="Worker 1 ended twice.", count=2)
    other = Event(id=3, time=NOON + 9, since=NOON + 9, kind="reload", title="uWSGI was reloaded.")
    database = opened(path)
    database.write([Minute("shop", NOON // 60, None, [first])], NOON)
    database.write([Minute("shop", NOON // 60, None, [again, other])], NOON)
    with HistoryFile(path, NOON + LONGEST_SECONDS) as file:
        assert file.events("shop", NOON, NOON + 60) == [again, other]
        assert file.events("shop", NOON + 6, NOON + 60) == [other]
        assert file.events("another", NOON, NOON + 60) == []


def test_messages_of_one_moment_are_kept_apart(path):
    """What is found in a log at once has the same time, and may have no worker."""
    times = {"time": NOON + 1.0, "since": NOON + 1.0}
    said = [Event(id=number, kind="log_message", title=f"Message {number}.", **times) for number in (1, 2, 3)]
    opened(path).write([Minute("shop", NOON // 60, None, said)], NOON)
    with HistoryFile(path, NOON + LONGEST_SECONDS) as file:
        assert {event.title for event in file.events("shop", NOON, NOON + 60)} == {event.title for event in said}


def test_minutes_that_come_twice_add_up(path):
    database = opened(path)
    database.write([minute(number) for number in range(1, 20)], NOON + 19 * 60)
    database.write([minute(number, 1) for number in range(10, 20)], NOON + 19 * 60)
    assert sum(count for _, count in requests(path, 60)) == 200
    assert requests(path, 900) == [(15, 156)]


def test_slots_of_a_range(path):
    database = opened(path)
    database.write([minute(number) for number in range(1, 500)], NOON + 500 * 60)
    with HistoryFile(path, NOON + LONGEST_SECONDS) as file:
        ends = [record.until for record in file.records("shop", NOON + 60, NOON + 18_000, MINUTES.seconds)]
        assert ends == [NOON + 60 * number for number in range(2, 301)]
        (server,) = file.servers()
    assert (server.name, server.first, server.last) == ("shop", NOON + 60, NOON + 499 * 60)


AHEAD = 4 * 365 * DAY


def write_ahead(path: Path) -> None:
    """Five minutes at the start of a machine whose clock is not set yet."""
    database = opened(path)
    numbers = range(AHEAD // 60, AHEAD // 60 + 5)
    event = Event(id=1, time=NOON + AHEAD, since=NOON + AHEAD, kind="exporter_started", title="Started.")
    database.write([minute(number) for number in numbers], NOON + AHEAD + 300.0)
    database.write([Minute("shop", NOON // 60 + AHEAD // 60, None, [event])], NOON + AHEAD + 300.0)
    database.close()


def write_hours(database: Database, first: int, last: int) -> None:
    for hour in range(first, last):
        database.write([minute(hour * 60 + number) for number in range(1, 61)], NOON + (hour + 1) * 3600.0)


def test_later_records_are_not_read(path):
    """Without others, there is no server yet. Events of another time are not read either."""
    write_ahead(path)
    with HistoryFile(path, NOON + 7200.0) as file:
        assert file.servers() == []
    write_hours(opened(path), 0, 2)
    with HistoryFile(path, NOON + 7200.0) as file:
        (server,) = file.servers()
        assert (server.first, server.last) == (NOON + 60, NOON + 7200)
        assert len(list(file.records("shop", 0, 1e11, 60))) == 120
        assert file.events("shop", 0, 1e11) == []


def test_minutes_of_an_earlier_writer_are_merged(path):
    write_ahead(path)
    first = opened(path)
    first.write([minute(number) for number in (1, 2, 3)], NOON + 180)
    first.close()
    opened(path).write([minute(16)], NOON + 960)
    with HistoryFile(path, NOON + 960.0) as file:
        assert [record.until for record in file.records("shop", 0, 1e11, 900)] == [NOON + 180]


def test_a_limit_beside_later_records(path):
    """It shortens by records, not by the time that they seem to span."""
    write_ahead(path)
    database = opened(path, 500_000)
    write_hours(database, 0, 40)
    assert [end for end, _ in requests(path, 60)][-1440:] == list(range(961, 2401))


def test_a_clock_that_is_set_back_replaces_no_quarter(path):
    """A slot whose minutes are forgotten is not made anew of the one that the clock adds to it."""
    database = opened(path)
    write_hours(database, 0, 1)
    database._connection.execute("DELETE FROM records WHERE tier = 60")
    database.write([minute(20)], NOON + 20 * 60.0)
    database.write([minute(61)], NOON + 7200.0)
    assert requests(path, 900)[:4] == [(15, 150), (30, 150), (45, 150), (60, 150)]
    assert requests(path, 3600)[0] == (60, 600)


MAX_SIZE = 1_000_000
SLACK = 4_000_000
"""What the file and its write-ahead log may take beyond the limit: what one transaction changes, and the pages of the
log, 1 MB, before it is emptied."""


def calm(name: str, number: int, workers: int) -> Minute:
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
    dice = random.Random(1)
    database = opened(path, MAX_SIZE)
    for first in range(1, 34, 32):
        database.write([hostile(number, dice) for number in range(first, first + 32)], NOON + 80 * 60.0)
        assert on_disk(path) <= MAX_SIZE + SLACK
    assert database.size <= MAX_SIZE
