"""The room for documents in transfer: real listeners that send slowly or fast, and one budget for all of them."""

import asyncio
import re
import tempfile
from contextlib import asynccontextmanager

import pytest

from tests.support.simulated_server import MovableClock
from uwsgi_headroom.errors import SourceError
from uwsgi_headroom.source import Room, Share, Unix, read_document
from uwsgi_headroom.source.stream import FREE_BYTES, MOST_BYTES, UNKNOWN_COST, NoRoomError

LARGE = b"{" + b" " * 3_000_000 + b"}"


@asynccontextmanager
async def listening(number, first):
    """Servers that send the first bytes of LARGE, and the rest once the event is set; how often each was asked."""
    go_on, asked = asyncio.Event(), [0] * number

    async def send(place, writer):
        asked[place] += 1
        try:
            writer.write(LARGE[:first])
            await writer.drain()
            await go_on.wait()
            writer.write(LARGE[first:])
            await writer.drain()
        except ConnectionError:
            pass
        finally:
            writer.close()

    with tempfile.TemporaryDirectory(prefix="room-") as folder:
        paths = [f"{folder}/{place}" for place in range(number)]
        servers = [
            await asyncio.start_unix_server(lambda _, writer, place=place: send(place, writer), path)
            for place, path in enumerate(paths)
        ]
        try:
            yield [Unix(path) for path in paths], go_on, asked
        finally:
            go_on.set()
            for server in servers:
                server.close()


async def read(address, share, timeout=30.0):
    return await read_document(address, timeout=timeout, size_cap=6_000_000, share=share)


async def until(condition):
    for _ in range(3000):
        if condition():
            return
        await asyncio.sleep(0.01)
    raise AssertionError("it did not happen")


async def test_a_fast_server_takes_the_room_of_slow_ones():
    """These begin again; one that loses it again and again is down, and the reason says what to do."""
    room = Room(4_000_000)
    async with listening(2, 2_000_000) as (slow, _, _), listening(1, 3_000_000) as (fast, go_on, _):
        shares = [Share(room) for _ in slow]
        reads = [asyncio.create_task(read(*each)) for each in zip(slow, shares, strict=True)]
        await until(lambda: room.left < 400_000)
        go_on.set()
        share = Share(room)
        share.complete(len(LARGE))
        share.cost = 0.0
        while not any(task.done() for task in reads):
            assert len((await read(fast[0], share)).body) == len(LARGE)
            await until(lambda: room.left < 400_000 or any(task.done() for task in reads))
        failed = next(task.exception() for task in reads if task.done())
        assert isinstance(failed, SourceError)
        assert re.search(r"came so slowly .* that other servers needed the memory|has not asked", str(failed))
        assert any("that other servers needed the memory: run uWSGI" in str(each.loss) for each in shares)
        for task in reads:
            task.cancel()
        await asyncio.wait(reads)
    assert room.left == room.most


async def test_many_slow_servers_never_hold_more_than_the_room():
    """Of 40 documents that stop after 2 MB, no more are received at a time than there is room for."""
    room = Room(8_000_000)
    async with listening(40, 2_000_000) as (slow, _, asked):
        reads = [asyncio.create_task(read(address, Share(room), timeout=2.0)) for address in slow]
        await until(lambda: all(asked))
        assert room.left >= 0
        outcomes = await asyncio.gather(*reads, return_exceptions=True)
        assert all(isinstance(outcome, SourceError) for outcome in outcomes)
        assert any("the exporter has not asked the server" in str(outcome) for outcome in outcomes)
    assert room.left == room.most


async def test_an_unknown_document_waits_for_room_and_is_read_again():
    room = Room(4_000_000)
    holder = Share(room)
    assert room.take(holder, 2_000_000)
    async with listening(1, len(LARGE)) as (addresses, go_on, asked):
        go_on.set()
        share = Share(room)
        reading = asyncio.create_task(read(addresses[0], share))
        await until(lambda: asked[0] and share.sock is None)
        holder.end()
        assert len((await reading).body) == len(LARGE)
        assert asked[0] == 2


async def test_a_small_document_needs_no_room():
    room = Room(1_000)
    assert room.take(Share(room), 1_000)
    share = Share(room)
    await share.begin(6_000_000, 0.0)
    share.hold(FREE_BYTES)
    with pytest.raises(NoRoomError):
        share.hold(FREE_BYTES + 1)


def test_who_loses_its_room():
    """The read that has cost most, if it has cost more than the other usually does; nobody, if that is not enough."""
    hands = MovableClock()
    room = Room(100, hands.clock.monotonic)
    long, short, known = Share(room), Share(room), Share(room)
    assert room.take(long, 60)
    hands.move(5.0)
    assert room.take(short, 40)
    hands.move(1.0)
    assert not room.take(known, 50)  # an unknown one has to wait
    assert UNKNOWN_COST > 60 * 6.0
    known.cost = 100.0
    assert not room.take(known, 70)  # only one of them has cost more than 100 byte-seconds
    assert (long.loss, short.loss) == (None, None)
    assert room.take(known, 50)
    assert long.loss is not None
    assert (long.taken, short.taken, known.taken, room.left) == (0, 40, 50, 10)


@pytest.mark.parametrize("seconds", [0.5, 2.0, 5.0, 20.0])
def test_equals_do_not_take_the_room_in_turns(seconds):
    """Of three slow servers there is room for two: all are read before one has lost its room three times."""
    hands = MovableClock()
    room = Room(monotonic=hands.clock.monotonic)
    waiting, reading, losses = [Share(room) for _ in range(3)], [], []
    end = hands.clock.monotonic() + 1000
    while waiting or reading:
        assert hands.clock.monotonic() < end
        for share in [*reading]:
            if share.loss or hands.clock.monotonic() - share.since >= seconds:
                reading.remove(share)
                if share.loss:
                    losses.append(share)
                    waiting.append(share)
                    share.loss = None
                share.end()
        for share in [*waiting]:
            if room.take(share, 6_000_000):
                waiting.remove(share)
                reading.append(share)
        hands.move(0.25)
    assert all(losses.count(share) < 3 for share in losses)


async def test_a_document_larger_than_all_room_takes_all():
    room = Room(1_000_000)
    async with listening(1, len(LARGE)) as (addresses, go_on, _):
        go_on.set()
        assert len((await read(addresses[0], Share(room))).body) == len(LARGE)
    assert room.left == room.most


def test_two_of_the_largest_documents_have_room():
    assert MOST_BYTES >= 2 * 6_000_000
