"""The servers that probes ask for: how many are kept, for how long, and how they end."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from tests.support import bad_servers
from tests.support.captured_documents import document
from tests.support.simulated_server import MovableClock
from tests.watch.sampling import sampling, until
from uwsgi_headroom.config.servers import make_server, parse_pattern
from uwsgi_headroom.config.settings import ProbeConfig
from uwsgi_headroom.reading import Reading
from uwsgi_headroom.store.writer import HistoryWriter
from uwsgi_headroom.watch import probed as module
from uwsgi_headroom.watch.fleet import Fleet
from uwsgi_headroom.watch.probed import FORGET_SECONDS, MOST_PROBED, NoPlaceError, ProbedServers
from uwsgi_headroom.watch.watch import Watch


def make_fleet(*patterns: str, named: str = "", clock: MovableClock | None = None) -> tuple[Fleet, ProbedServers]:
    servers = [make_server(named, name="shop")] if named else []
    probe = ProbeConfig(tuple(parse_pattern(pattern, "test") for pattern in patterns))
    fleet = Fleet(servers, clock=clock.clock if clock else None, probe=probe)
    assert fleet.probed
    return fleet, fleet.probed


LEAVES_NO_TASK = True


def expect(watch: Watch | None) -> Watch:
    assert watch is not None
    return watch


async def test_a_configured_server_is_watched_once():
    fleet, probed = make_fleet("/run/uwsgi/*.stats", named="/run/uwsgi/shop.stats")
    watches = fleet.watches()
    for target in ("shop", "/run/uwsgi/shop.stats", "unix:///run/uwsgi/shop.stats"):
        assert probed.find(target, watches) is watches[0]
    assert not probed.watches()
    fleet, probed = make_fleet("*.internal:1717", named="tcp://shop.internal:1717")
    assert probed.find("Shop.internal:1717", fleet.watches()) is fleet.watches()[0]
    assert not probed.watches()
    await fleet.close()


def test_a_configured_address_that_no_pattern_allows():
    fleet, probed = make_fleet(named="/run/uwsgi/shop.stats")
    assert probed.find("/run/uwsgi/shop.stats", fleet.watches()) is None


async def test_a_server_that_the_configuration_gets_later():
    """The watch of probes ends: uWSGI's master is read by one watch."""
    fleet, probed = make_fleet("/run/uwsgi/*.stats")
    expect(probed.find("/run/uwsgi/shop.stats", fleet.watches()))
    later, _ = make_fleet(named="/run/uwsgi/shop.stats")
    assert probed.find("/run/uwsgi/shop.stats", later.watches()) is later.watches()[0]
    assert not probed.watches()
    await fleet.close()


async def test_its_name_is_its_address():
    fleet, probed = make_fleet("127.0.0.*:1", "http://127.0.0.*:1", "/nowhere/*")
    for target, name in {
        "tcp://127.0.0.1:1": "127.0.0.1:1",
        "127.0.0.1:1": "127.0.0.1:1",
        "http://127.0.0.1:1": "http://127.0.0.1:1",
        "unix:///nowhere/x.stats": "/nowhere/x.stats",
    }.items():
        assert expect(probed.find(target, [])).name == name
    assert len(probed.watches()) == 3
    await fleet.close()


async def test_forgotten_after_a_while_without_probes():
    clock = MovableClock()
    fleet, probed = make_fleet("127.0.0.*:1", clock=clock)
    first, second = (expect(probed.find(f"127.0.0.{number}:1", [])) for number in (1, 2))
    clock.move(FORGET_SECONDS - 1)
    assert probed.find("127.0.0.1:1", []) is first
    clock.move(1)
    probed.forget_idle()
    assert probed.watches() == [first]
    assert probed.find("127.0.0.2:1", []) is not second
    await fleet.close()


async def test_the_fleet_forgets_without_any_probe(monkeypatch):
    monkeypatch.setattr(module, "FORGET_SECONDS", 0.0)
    fleet, probed = make_fleet("127.0.0.*:1")
    expect(probed.find("127.0.0.1:1", []))
    async with sampling(fleet):
        await until(lambda: not probed.watches())
        await until(lambda: not [task for task in asyncio.all_tasks() if task.get_name().startswith("sample")])


async def test_five_hundred_targets_in_a_minute():
    """Those in use stay; the others are refused, at no cost, until one is forgotten."""
    clock = MovableClock()
    fleet, probed = make_fleet("127.0.*.*:1", clock=clock)
    kept = [expect(probed.find(f"127.0.0.{number}:1", [])) for number in range(MOST_PROBED)]
    for number in range(MOST_PROBED, 500):
        clock.move(0.1)
        with pytest.raises(NoPlaceError, match=f"^{MOST_PROBED} addresses are probed already"):
            probed.find(f"127.0.{number // 256}.{number % 256}:1", [])
    assert probed.watches() == kept
    assert probed.find("127.0.0.1:1", []) is kept[1]
    clock.move(FORGET_SECONDS)
    expect(probed.find("127.0.1.244:1", []))
    assert len(probed.watches()) == 1
    await fleet.close()


async def test_its_figures_are_sampled(monkeypatch):
    with bad_servers.answers("unix", document("minified")) as address:
        fleet, probed = make_fleet(f"{Path(address).parent}/*")
        watch = expect(probed.find(address, fleet.watches()))
        reads, third = 0, asyncio.Event()
        record = watch.reader._on_outcome

        def count(*outcome: Any) -> None:
            nonlocal reads
            reads += 1
            record(*outcome)
            if reads == 3:
                third.set()

        monkeypatch.setattr(watch.reader, "_on_outcome", count)
        async with sampling(fleet):
            await third.wait()
        assert isinstance(watch.reader.outcome, Reading)
        assert watch.history.seconds > 0
        assert watch.pace.interval == 1 / fleet.settings.samples_per_second
        assert (fleet.watches(), watch.writer) == ([], None)


async def test_no_probe_writes_to_the_history(tmp_path):
    writer = HistoryWriter(tmp_path / "history", 10**9)
    probe = ProbeConfig((parse_pattern("127.0.0.1:1", "test"),))
    fleet = Fleet([make_server("/nowhere", name="shop")], writer=writer, probe=probe)
    assert fleet.probed
    assert fleet.watches()[0].writer is writer
    assert expect(fleet.probed.find("127.0.0.1:1", fleet.watches())).writer is None
    await fleet.close()


async def test_pause_and_resume():
    with bad_servers.answers("unix", document("minified")) as address:
        fleet, probed = make_fleet(f"{Path(address).parent}/*", "127.0.0.1:1")
        async with sampling(fleet):
            watch = expect(probed.find(address, []))
            await fleet.pause()
            with pytest.raises(NoPlaceError, match="stopping"):
                probed.find("127.0.0.1:1", [])
            assert watch.reader._under_way is None
            assert probed.find(address, []) is watch
            fleet.resume()
            await watch.reader.finished_first.wait()
            assert isinstance(watch.reader.outcome, Reading)


async def test_at_the_end_of_the_exporter_a_read_in_flight_ends_at_once():
    with bad_servers.accepts_and_never_writes("unix") as address:
        fleet, probed = make_fleet(f"{Path(address).parent}/*")
        async with sampling(fleet):
            watch = expect(probed.find(address, []))
            await until(lambda: watch.reader._under_way)
            await asyncio.wait_for(fleet.close(), 4)  # sooner than the deadline of a read
            assert watch.reader.finished_first.is_set()
            assert watch.reader._under_way is None
            with pytest.raises(NoPlaceError, match="stopping"):
                probed.find(address, [])
