"""A turn counts while every sampler moves on; a background task that ends is restarted."""

import asyncio
import contextlib
import logging
from collections import Counter

import pytest
from msgspec.structs import replace

from tests.support import bad_servers
from tests.support.captured_documents import document
from tests.support.simulated_server import MovableClock
from tests.watch.sampling import sampling, until
from uwsgi_headroom.config.servers import make_server
from uwsgi_headroom.watch import fleet as fleet_module
from uwsgi_headroom.watch import tasks
from uwsgi_headroom.watch.fleet import Fleet
from uwsgi_headroom.watch.globbed import GLOB_SECONDS
from uwsgi_headroom.watch.tasks import SLACK_SECONDS, Progress, longest_seconds, supervise
from uwsgi_headroom.watch.watch import Watch


class Turns:
    """The progress of watches on a clock that a test moves; `count` turns were completed."""

    def __init__(self, *names: str) -> None:
        self.hands = MovableClock()
        self.watches = [Watch(name, make_server(f"/run/{name}").address) for name in names]
        self.count = 0
        self.progress = Progress(self.hands.clock.monotonic, self._note)

    def _note(self, watches: object) -> None:
        assert watches == self.watches
        self.count += 1

    def turn(self, *attempted: Watch, seconds: float = GLOB_SECONDS) -> bool:
        before = self.count
        self.hands.move(seconds)
        for watch in attempted:
            watch.reader.attempts += 1
        self.progress.end_turn(self.watches)
        return self.count > before

    def turns_until_still(self, *attempted: Watch) -> float:
        began = self.hands.clock.monotonic()
        while self.turn(*attempted):
            assert self.hands.clock.monotonic() - began < 1000, "no turn stands still"
        return self.hands.clock.monotonic() - began


def test_no_server_is_no_standstill():
    turns = Turns()
    assert [turns.turn() for _ in range(100)] == [True] * 100


def test_one_sampler_that_stands_still_stops_turns_and_is_named(caplog):
    turns = Turns("well", "stuck")
    well, stuck = turns.watches
    assert turns.turn(well, stuck)
    seconds = turns.turns_until_still(well)
    assert longest_seconds(stuck) < seconds <= longest_seconds(stuck) + GLOB_SECONDS
    assert "sampling stands still" in caplog.text
    assert caplog.records[-1].fields == {"servers": "stuck"}
    assert turns.turn(well, stuck)


def test_a_long_timeout_is_no_standstill():
    turns = Turns("slow")
    (slow,) = turns.watches
    slow.reader.timeout = 60.0
    assert turns.turn(slow)
    assert turns.turns_until_still() > 60.0 + SLACK_SECONDS


def test_a_restart_of_a_sampler_is_no_standstill():
    turns = Turns("shop")
    (shop,) = turns.watches

    async def fails() -> None:
        raise ZeroDivisionError

    shop.sample = fails
    with contextlib.suppress(ZeroDivisionError):
        asyncio.run(turns.progress.sample(shop))
    assert turns.turns_until_still() > tasks.RESTART_SECONDS[-1] + longest_seconds(shop)
    assert turns.turn(shop)
    assert turns.turns_until_still() < tasks.RESTART_SECONDS[-1]


def test_a_process_that_was_stopped_is_no_standstill():
    turns = Turns("shop")
    (shop,) = turns.watches
    assert turns.turn(shop)
    assert turns.turn(seconds=3600)
    assert turns.turns_until_still() < longest_seconds(shop) + 2 * GLOB_SECONDS


def test_a_server_that_is_no_longer_watched_is_forgotten():
    turns = Turns("gone", "well")
    gone, well = turns.watches
    assert turns.turn(gone, well)
    turns.turns_until_still(well)
    turns.watches = [well]
    assert turns.turn(well)
    assert turns.progress._attempts.keys() == {well}


@pytest.mark.parametrize("what", ["silent", "answering", "refusing", "none"])
def test_a_fleet_completes_turns(monkeypatch, what):
    monkeypatch.setattr(fleet_module, "GLOB_SECONDS", 0.01)
    counts: list[int] = []

    async def sampled(*addresses: str) -> None:
        servers = [make_server(address, name=f"s{number}") for number, address in enumerate(addresses)]
        servers = [replace(server, timeout=0.1) for server in servers]
        fleet = Fleet(servers, on_turn=lambda watches: counts.append(len(watches)))
        async with sampling(fleet):
            await until(lambda: len(counts) >= 20)

    with contextlib.ExitStack() as stack:
        addresses = {
            "silent": lambda: [stack.enter_context(bad_servers.accepts_and_never_writes("unix")) for _ in range(3)],
            "answering": lambda: [stack.enter_context(bad_servers.answers("unix", document("minified")))],
            "refusing": lambda: ["/nowhere"],
            "none": list,
        }[what]()
        asyncio.run(sampled(*addresses))
    assert set(counts) == {len(addresses)}


async def test_a_fleet_whose_sampler_hangs_completes_no_turn(monkeypatch):
    monkeypatch.setattr(fleet_module, "GLOB_SECONDS", 0.01)
    hands = MovableClock()
    counts: list[int] = []

    async def hangs(*_arguments: object, **_more: object) -> None:
        await asyncio.Event().wait()

    monkeypatch.setattr("uwsgi_headroom.source.read_document", hangs)
    servers = [make_server("tcp://127.0.0.1:1", name="shop")]
    fleet = Fleet(servers, clock=hands.clock, on_turn=lambda watches: counts.append(len(watches)))
    async with sampling(fleet):
        await until(lambda: counts)
        for _ in range(8):
            hands.move(GLOB_SECONDS)
            await asyncio.sleep(0.03)
        before = len(counts)
        await asyncio.sleep(0.1)
        assert len(counts) == before


@pytest.mark.parametrize("fault", [ZeroDivisionError("broken"), None])
async def test_work_that_ends_begins_again(fault, caplog, monkeypatch):
    monkeypatch.setattr(tasks, "RESTART_SECONDS", (0.001, 0.002))
    caplog.set_level(logging.INFO)
    restarts: Counter[str] = Counter()
    begun = 0

    async def work() -> None:
        nonlocal begun
        begun += 1
        if begun == 4:
            await asyncio.Event().wait()
        if fault:
            raise fault

    supervised = asyncio.create_task(supervise("sample", work, restarts))
    await until(lambda: begun >= 4)
    supervised.cancel()
    await asyncio.wait({supervised})
    assert supervised.cancelled()
    assert restarts == {"sample": 3}
    assert [bool(record.exc_info and record.exc_info[1]) for record in caplog.records] == [fault is not None] * 3
