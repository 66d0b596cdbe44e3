"""The documents of a history, in memory and in a file."""

import asyncio
import contextlib
import sqlite3
import time
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
from msgspec.structs import replace

from tests.store.test_codec import full_record
from tests.store.test_database import minute
from tests.support.scripted_watch import ScriptedWatch
from tests.support.simulated_server import EPOCH, Server
from uwsgi_headroom.documents.build import NEWEST, Cursor, build_journal
from uwsgi_headroom.documents.history import (
    MOST_POINTS,
    HistoryDocument,
    build_history,
    build_stored_history,
    choose_tier,
    slice_seconds,
)
from uwsgi_headroom.documents.schema import JournalDocument
from uwsgi_headroom.errors import HistoryFileError, ReadError
from uwsgi_headroom.history.events import Event
from uwsgi_headroom.record import Options, Setup
from uwsgi_headroom.store.file import HistoryFile, open_to_write
from uwsgi_headroom.store.record import DAY, HOURS, MINUTES, QUARTERS, Minute
from uwsgi_headroom.store.writer import Database, HistoryWriter


def columns(value: object) -> Iterator[list[object]]:
    """Every column of a history, which is as long as its time."""
    if isinstance(value, list) and not (value and isinstance(value[0], (dict, list))):
        yield value
    elif isinstance(value, list):
        for part in value:
            yield from columns(part)
    elif isinstance(value, dict):
        for key, part in value.items():
            if key not in ("up_to", "states", "backend_names", "backends"):
                yield from columns(part)


def busy(server: Server, *threads: int) -> None:
    for worker_id, count in enumerate(threads, 1):
        server.serve(worker_id, count, each=1.0, cpu=0.01)
    server.busy(*threads)


def steady(seconds: int, server: Server | None = None) -> ScriptedWatch:
    server = server or Server(2, 4)
    return ScriptedWatch().seconds(server, seconds, lambda _: busy(server, 2, 1))


def test_every_column_is_as_long_as_the_time():
    history = steady(120).history(120, 12)
    assert history.step == 10
    assert len(history.time) == 11
    assert {len(column) for column in columns(msgspec.to_builtins(history))} == {len(history.time)}
    assert set(history.throughput) == {3}
    assert set(history.concurrency.observed) == set(history.concurrency.littles_law) == {3}
    assert set(history.threads.configured) == set(history.threads.available) == {8}
    assert set(history.workers[0].share) == {0.66667}
    assert set(history.workers[1].busy_threads) == {1}
    assert set(history.workers[0].interpreter_load) == {0.02}
    assert set(history.headroom.factor) == {2.66667}
    assert set(history.occupancy.shares[history.occupancy.up_to.index(0.4)]) == {1}


def test_parts_of_a_history():
    """Percentiles of 30 s, the mean length and the wait of a queue, and a stretch of the past."""
    times = steady(120).history(120, 12).response_times
    assert times.requests == [30, 60] + [90] * 9  # 3 per second, from the first reading on
    assert set(times.finest) == {0.8}
    server = Server(2, 4, queue=6)
    history = ScriptedWatch().seconds(server, 20, lambda _: server.serve(1, 3)).history(20, 20)
    assert set(history.sockets[0].mean_queue) == {6}
    assert set(history.sockets[0].queue_wait) == set(history.queue_wait) == {2}
    watch = steady(100)
    history = watch.history(20, 20, until=EPOCH + 50)
    assert (history.since, history.until) == (EPOCH + 30, EPOCH + 50)
    assert EPOCH + 29 <= history.time[0] <= history.time[-1] <= EPOCH + 50
    assert watch.history(20, 20, until=EPOCH - 5000).time == []


def test_no_history_yet():
    for watch in (
        ScriptedWatch(),
        ScriptedWatch().read(ReadError("refused", "nobody")),
        ScriptedWatch().read(Server().read(1.0)),
    ):
        history = watch.history()
        assert history.time == history.throughput == []
        assert msgspec.json.decode(msgspec.json.encode(history), type=HistoryDocument) == history


def test_asked_again_it_has_the_same_slices_and_new_ones():
    server = Server(2, 4)
    watch = steady(63, server)
    before = watch.history(60, 20)
    watch.seconds(server, 10, lambda _: busy(server, 1, 1))
    after = watch.history(60, 20)
    kept = [at for at in before.time if at >= after.time[0]]
    assert kept == after.time[: len(kept)]
    assert before.throughput[-len(kept) :] == after.throughput[: len(kept)]
    assert len(after.time) > len(kept)
    tail = watch.history(6, 2)
    assert tail.time == after.time[-2:]


def test_an_outage_is_a_gap():
    """Columns are null from the last reading before an outage to the first one after; no figure covers that time."""
    server = Server(2, 4)
    watch = steady(20, server)
    for _ in range(30):
        watch.read(ReadError("timeout", "no answer"), watch.now + 1)
    server.serve(1, 500)
    watch.seconds(server, 20, lambda _: busy(server, 2, 1))
    history = watch.history(80, 80)
    places = [place for place, value in enumerate(history.throughput) if value is None]
    assert len(places) == 1
    assert history.time[places[0]] - history.time[places[0] - 1] == pytest.approx(30.5, abs=1)
    assert {
        history.workers[0].share[places[0]],
        history.threads.available[places[0]],
        history.headroom.factor[places[0]],
    } == {None}
    assert set(history.throughput) == {3, None}


def test_a_reload_in_the_middle():
    """It is counted, and no column jumps; capacity before it stays."""
    server = Server(2, 4)
    watch = steady(30, server)
    server.reload(watch.now)
    history = watch.seconds(server, 30, lambda _: busy(server, 2, 1)).history(60, 60)
    assert sum(count or 0 for count in history.events.reloads) == 1
    assert {value for value in history.throughput if value is not None} == {3}
    server = Server(2, 4)
    watch = steady(30, server)
    server.threads = 2
    server.reload(watch.now)
    history = watch.seconds(server, 30, lambda _: busy(server, 2, 1)).history(60, 60)
    assert [count for count in history.threads.configured if count][::57] == [8, 4]
    server = Server(2, 4)
    watch = steady(30, server)
    server.reload(watch.now, processes=3)
    history = watch.seconds(server, 10, lambda _: busy(server, 2, 1, 1)).history(60, 60)
    assert len(history.workers) == 3
    assert len(history.time) < 11


def test_cheaper_adds_a_worker():
    """Available capacity grows, configured capacity does not; the new worker's share starts when it starts."""
    server = Server(2, 4, spawned=1)
    watch = ScriptedWatch().seconds(server, 20, lambda _: server.serve(1, 3))
    server.respawn(2, watch.now)
    history = watch.seconds(server, 20, lambda _: (server.serve(1, 3), server.serve(2, 3))[0]).history(40, 40)
    assert set(history.threads.configured) == {8}
    assert (history.threads.available[0], history.threads.available[-1]) == (4, 8)
    assert (history.workers[1].share[0], history.workers[1].share[-1]) == (0, 0.5)
    assert (history.workers[1].accepting[0], history.workers[1].accepting[-1]) == (0, 1)
    assert sum(count or 0 for count in history.events.respawns) == 1


def test_what_is_not_known_is_null():
    """Without cores, host facts and queue, their columns are null, and all others are complete."""
    server = Server(2, 4, cores=False, host=False, queue=None)
    history = ScriptedWatch().seconds(server, 20, lambda _: server.serve(1, 3)).history(20, 20)
    unknown = history.concurrency.observed + history.threads.configured + history.workers[0].interpreter_load
    unknown += (
        history.workers[0].busy_threads
        + history.sockets[0].mean_queue
        + history.occupancy.shares[0]
        + history.headroom.cpu
    )
    assert set(unknown) == {None}
    assert set(history.throughput) == {3}


def test_queues_outlive_the_server():
    """If the last reading cannot measure the queue, or a server starts anew, earlier measurements stay."""
    server = Server(2, 4, queue=6)
    watch = ScriptedWatch().seconds(server, 20, lambda _: server.serve(1, 3))
    before = watch.history(20, 20)
    server.queue = None
    watch.read(server.read(watch.now + 0.5)).read(ReadError("refused", "nobody"), watch.now + 1)
    down = watch.history(20, 20)
    kept = [place for place, time in enumerate(down.time) if time in before.time]
    assert len(kept) > 15
    assert {down.sockets[0].mean_queue[place] for place in kept} == {6}
    assert {down.sockets[0].queue_wait[place] for place in kept} == {2}
    server.queue = 0
    again = watch.seconds(server, 5, lambda _: server.serve(1, 3)).history(30, 30)
    assert [again.sockets[0].mean_queue[again.time.index(time)] for time in before.time if time in again.time][
        -15:
    ] == [6] * 15
    assert again.sockets[0].mean_queue[-1] == 0


@pytest.fixture(scope="module")
def steady_minutes():
    return steady(700)


@pytest.mark.parametrize(("seconds", "points"), [(3600, 600), (3600, 1), (2, 600), (300, 7), (3599.5, 599)])
def test_never_more_points_than_asked_for(steady_minutes, seconds, points):
    """Slices have whole seconds and cover the requested range."""
    step = slice_seconds(seconds, points)
    assert step == int(step) >= 1
    assert step * points >= seconds
    assert len(steady_minutes.history(seconds, points).time) <= points + 1 <= MOST_POINTS + 1


def test_others_have_their_turn_while_a_large_one_is_made():
    """Building an hour of 64x16 does not delay a loop that reads servers, even if that loop adds to the history."""
    server = Server(64, 16)
    watch = steady_large(server)

    async def run():
        turns = 0

        async def other():
            nonlocal turns
            while True:
                turns += 1
                watch.read(server.read(watch.now + 0.5))
                await asyncio.sleep(0)

        task = asyncio.create_task(other())
        history = await build_history(watch.watch, watch.clock, 60, 60)
        task.cancel()
        assert len(history.workers) == 64
        assert {len(column) for column in columns(msgspec.to_builtins(history))} == {len(history.time)}
        return turns

    assert asyncio.run(run()) > 3


def steady_large(server: Server) -> ScriptedWatch:
    return ScriptedWatch().seconds(server, 60, lambda _: server.serve(1, 3))


def test_a_reload_while_it_is_made():
    """A requested history is completed from the data at its start."""
    server = Server(64, 4)
    watch = steady_large(server)

    async def run():
        async def reload():
            server.reload(watch.now, processes=2)
            watch.read(server.read(watch.now + 0.5))

        task = asyncio.create_task(reload())
        history = await build_history(watch.watch, watch.clock, 60, 60)
        await task
        return history

    history = asyncio.run(run())
    assert len(history.workers) == 64
    assert len(watch.watch.integrals.totals.workers) == 2


def test_the_threads_of_a_worker_with_its_own_socket_are_a_limit():
    """The chart of the headroom has the limit that the verdict has: 4 threads of the worker, not all 8."""
    watch = steady(120)
    assert set(watch.history(120, 12).headroom.threads) == {2.66667}
    reading = watch.watch.reading
    mapped = Setup(Options(), 4096, "threads", {"a.sock": (1,), "b.sock": (2,)}, True)
    watch.watch.reading = replace(reading, host=replace(reading.host, setup=mapped))
    assert set(watch.history(120, 12).headroom.threads) == {2.0}


def test_threads_that_cheaper_holds_in_reserve_are_headroom():
    """As in the verdict: 2 threads are busy of 8, of which 4 are of the worker that runs."""
    server = Server(2, 4)
    watch = steady(60, server)
    server.cheap(2)
    watch.seconds(server, 120, lambda _: server.serve(1, 2, each=1.0))
    assert set(watch.history(100, 10).headroom.threads) == {4.0}


def test_nothing_contradicts_the_present_figures():
    """No wait where a queue hardly moves, and no headroom of resources while the verdict is that something else limits
    the server."""
    server, watch = Server(2, 4, queue=60), ScriptedWatch()

    def fill(_second):
        server.serve(1, 3, each=1.0, cpu=0.01)
        server.busy(4, 4)

    watch.seconds(server, 60, fill)
    server.queue = 100
    watch.seconds(server, 60, fill)
    watch.watch.limits.note(watch.now - 55, "loop_held")
    watch.watch.limits.note(watch.now - 25, None)
    history = watch.history(100, 10)
    assert set(history.queue_wait[:3]) == set(history.sockets[0].queue_wait[:3]) == {20}
    assert set(history.queue_wait[-4:]) == set(history.sockets[0].queue_wait[-4:]) == {None}
    known = [factor is not None for factor in history.headroom.factor]
    assert known == [threads is not None for threads in history.headroom.threads]
    ends = [watch.now - (time - EPOCH) for time in history.time]
    assert known == [not 25 < ago <= 55 for ago in ends]
    assert set(history.concurrency.observed) == {8}


@pytest.fixture
def path(tmp_path):
    return tmp_path / "history.sqlite"


def opened(path: Path) -> Database:
    return Database(open_to_write(path), 10**9)


def test_it_is_the_history_in_memory(path):
    """For a steady load, every column from the file has the value of the column from memory."""
    writer = HistoryWriter(path, 10**9, lambda: EPOCH + 600.0)
    watch, server = ScriptedWatch(writer=writer), Server(2, 4)
    watch.seconds(server, 600, lambda _: busy(server, 2, 1))
    writer.close(10)
    until = EPOCH + 600
    remembered = watch.history(300, 5)
    kept = build_stored_history(path, "shop", 60.0, until - 300, until, until)
    assert (kept.step, kept.since, kept.until) == (60, until - 300, until)
    assert len(kept.time) == 5
    assert {len(column) for column in columns(msgspec.to_builtins(kept))} == {5}
    middle = {
        name: value for name, value in msgspec.to_builtins(kept).items() if name not in ("time", "since", "until")
    }
    compared = 0
    for one, other in zip(
        columns(middle), columns({name: msgspec.to_builtins(remembered)[name] for name in middle}), strict=True
    ):
        if set(other) == {other[0]} and isinstance(other[0], float):
            assert one == pytest.approx(other, rel=0.001), (one, other)
            compared += 1
    assert compared > 20
    assert kept.response_times.requests == [180] * 5


def test_slices_are_sums_of_minutes(path):
    """Where only quarters are kept, slices are quarters; an unknown server has none."""
    now = time.time() // 300 * 300
    database = opened(path)
    first = int(now) // 60 - 20
    database.write([minute_at(first + number, 60 * number) for number in range(1, 18)], now)
    kept = build_stored_history(path, "shop", 300.0, now - 1200, now, now)
    assert kept.time == [now - 900, now - 600, now - 300]
    assert kept.throughput == [3.0, 8.0, 13.0]
    now = time.time() // 3600 * 3600
    first = int(now - 20 * DAY) // 60
    opened(path).write([minute_at(first + number, 60) for number in range(1, 61)], now - 20 * DAY + 3600)
    kept = build_stored_history(path, "shop", 60.0, first * 60, first * 60 + 3600, now)
    assert kept.step == 900
    assert len(kept.time) == 4
    opened(path)
    assert build_stored_history(path, "nobody", 60.0, 0, time.time(), time.time()).time == []
    with pytest.raises(HistoryFileError, match=r"missing\.sqlite: No such file"):
        build_stored_history(path.with_name("missing.sqlite"), "shop", 60.0, 0, 1, 1)


def minute_at(number: int, requests: int) -> Minute:
    """The minute that ends `number` minutes after the epoch."""
    made = minute(0, requests)
    window = replace(made.record.window, until=number * 60.0)
    return Minute("shop", number, replace(made.record, until=number * 60.0, window=window))


def test_a_gap_is_empty(path):
    """Minutes that the exporter missed have no slices; a record over an outage has no figures."""
    now = time.time() // 60 * 60
    number = int(now) // 60
    outage = minute_at(number - 5, 600)
    window = replace(outage.record.window, seconds=600.0, observed_seconds=60.0, gap_seconds=540.0, reloads=1)
    opened(path).write(
        [minute_at(number - 20, 60), Minute("shop", number - 5, replace(outage.record, window=window))], now
    )
    kept = build_stored_history(path, "shop", 60.0, now - 3600, now, now)
    assert kept.time == [now - 1200, now - 300]
    assert kept.throughput == [1.0, None]
    assert kept.events.reloads == [0, 1]


@pytest.mark.parametrize(
    ("step", "age", "tier"),
    [
        (60, DAY, MINUTES),
        (300, 13 * DAY, MINUTES),
        (60, 20 * DAY, QUARTERS),
        (900, DAY, QUARTERS),
        (1800, 7 * DAY, QUARTERS),
        (7200, 30 * DAY, HOURS),
        (60, 200 * DAY, HOURS),
        (60, 3000 * DAY, HOURS),
    ],
)
def test_the_tier(step, age, tier):
    now = 1_800_000_000.0
    assert choose_tier(step, now - age, now) == tier


def test_names_of_all_parts(path):
    """Workers, sockets, backends and routes of any part have a column; it is null where they were not."""
    now = time.time() // 60 * 60
    number = int(now) // 60
    full = replace(full_record(), until=now - 60)
    opened(path).write([minute_at(number - 2, 60), Minute("shop", number - 1, full)], now)
    kept = build_stored_history(path, "shop", 60.0, now - 600, now, now)
    assert [worker.worker_id for worker in kept.workers] == [1, 2]
    assert kept.workers[1].share[0] is None
    assert kept.workers[1].share[1] == pytest.approx(2 / 3, abs=1e-4)
    assert kept.waits.backend_names == ("db",)
    assert kept.waits.backends == [[None, 1.0]]
    assert kept.routes.routes == ("GET /", "other")
    assert kept.routes.threads[0] == [None, 0.2]
    assert [socket.name for socket in kept.sockets] == ["socket"]
    assert {len(column) for column in columns(msgspec.to_builtins(kept))} == {2}


STORED = 30  # five at a time at the same time
KNOWN = 7


@pytest.fixture
def journal_path(tmp_path):
    """A history file with events of an earlier run of the exporter; one of them is damaged."""
    journal_path = tmp_path / "history.sqlite"
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
    database = Database(open_to_write(journal_path), 10**9)
    database.write([Minute("shop", 1, None, events)], EPOCH)
    database.close()
    with contextlib.closing(sqlite3.connect(journal_path)) as damaged, damaged:
        damaged.execute("UPDATE events SET data = x'ff' WHERE CAST(data AS TEXT) LIKE '%\"workers\":[7]%'")
    return journal_path


def pages(watch: ScriptedWatch, journal_path: Path, limit: int) -> list[JournalDocument]:
    async def find_earlier(since: float, before: Cursor, count: int) -> list[Event]:
        with HistoryFile(journal_path, EPOCH) as file:
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
def test_every_event_once(journal_path, limit):
    """Whatever the size of a page, the pages together are the journal: newest first, without a damaged event."""
    watch = ScriptedWatch()
    for number in range(KNOWN):
        watch.watch.recorder.journal.add(EPOCH + number // 2, "reload", f"Reload {number}.")
    found = pages(watch, journal_path, limit)
    events = [event for page in found for event in page.events]
    assert all(len(page.events) == limit for page in found[:-1])
    assert [event.title for event in events[:KNOWN]] == [f"Reload {number}." for number in reversed(range(KNOWN))]
    assert [event.workers[0] for event in events[KNOWN:]] == [n for n in range(STORED, 0, -1) if n != 7]


def test_without_a_limit_that_matters(journal_path):
    """A journal that fits in one page has no next one."""
    (page,) = pages(ScriptedWatch(), journal_path, 1000)
    assert (len(page.events), page.next) == (STORED - 1, None)
