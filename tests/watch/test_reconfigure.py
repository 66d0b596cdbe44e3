"""A changed configuration changes what is watched; servers whose entries did not change keep everything."""

import asyncio
import contextlib
import socket
import threading
from collections.abc import Sequence
from dataclasses import replace

import pytest
from msgspec import structs

from tests.support import bad_servers
from tests.support.captured_documents import document
from tests.support.real_uwsgi import wait_until
from tests.watch.sampling import Written, sampling, until
from tests.watch.test_fleet import listening
from uwsgi_headroom.clock import Clock
from uwsgi_headroom.config.servers import ServerConfig, make_server
from uwsgi_headroom.config.settings import DEFAULT_SETTINGS, Settings
from uwsgi_headroom.config.slo import Slo
from uwsgi_headroom.watch.fleet import Fleet
from uwsgi_headroom.watch.globbed import GlobbedServers
from uwsgi_headroom.watch.watch import Watch

DOCUMENT = document("minified")


def reconfigured(
    before: Sequence[ServerConfig],
    after: Sequence[ServerConfig],
    old: Settings = DEFAULT_SETTINGS,
    new: Settings = DEFAULT_SETTINGS,
) -> tuple[dict[str, Watch], dict[str, Watch], tuple[int, int]]:
    async def change() -> tuple[dict[str, Watch], dict[str, Watch], tuple[int, int]]:
        fleet = Fleet(before, old)
        fleet.refresh()
        first = {watch.name: watch for watch in fleet.watches()}
        counts = await fleet.reconfigure(after, new)
        return first, {watch.name: watch for watch in fleet.watches()}, counts

    return asyncio.run(change())


def test_only_what_changed_is_replaced():
    shop, api, blog = (make_server(f"/run/{name}", name=name) for name in ("shop", "api", "blog"))
    moved = make_server("/run/elsewhere", name="api")
    first, then, counts = reconfigured([shop, api, blog], [moved, make_server("/run/new", name="new"), shop])
    assert list(then) == ["api", "new", "shop"]
    assert then["shop"] is first["shop"]
    assert then["api"] is not first["api"]
    assert str(then["api"].address) == "unix:///run/elsewhere"
    assert counts == (2, 2)


def test_limits_change_in_place():
    first, then, counts = reconfigured(
        [make_server("/run/shop", name="shop")],
        [structs.replace(make_server("/run/shop", name="shop"), timeout=9.0, size_cap=5000)],
        new=replace(DEFAULT_SETTINGS, stuck_seconds=300.0),
    )
    assert then["shop"] is first["shop"]
    assert then["shop"].stuck_seconds == 300.0
    assert (then["shop"].reader.timeout, then["shop"].reader.size_cap) == (9.0, 5000)
    assert counts == (0, 0)
    # Another line of the file is no change.
    entry = structs.replace(make_server("/run/shop", name="shop"), where="x.yml:2", slo=Slo(1.0, 0.99, "x.yml:3"))
    moved = structs.replace(entry, where="x.yml:9", slo=Slo(1.0, 0.99, "x.yml:10"))
    first, then, counts = reconfigured([entry], [moved])
    assert then["shop"] is first["shop"]
    assert counts == (0, 0)


def test_an_objective_changes_its_servers():
    own = structs.replace(make_server("/run/own", name="own"), slo=Slo(2.0, 0.9))
    servers = [own, make_server("/run/shop", name="shop")]
    first, then, counts = reconfigured(servers, servers, new=replace(DEFAULT_SETTINGS, slo=Slo(1.0, 0.99)))
    assert then["own"] is first["own"]
    assert then["shop"].slo == Slo(1.0, 0.99)
    assert counts == (1, 1)


async def test_windows_change_and_other_settings_stay():
    fleet = Fleet([], DEFAULT_SETTINGS)
    changed = replace(DEFAULT_SETTINGS, windows=(30.0,), cpu_residency=True, samples_per_second=1.0)
    await fleet.reconfigure([], changed)
    assert fleet.settings == replace(DEFAULT_SETTINGS, windows=(30.0,))


def test_sockets_that_are_still_found_keep_their_servers_unless_their_names_change(tmp_path):
    with listening(tmp_path / "shop.stats"), listening(tmp_path / "api.stats"):
        every, shops = make_server(f"{tmp_path}/*.stats"), make_server(f"{tmp_path}/s*.stats")
        shops = structs.replace(shops, timeout=7.0)
        first, then, counts = reconfigured([every], [shops])
        assert then == {"shop": first["shop"]}
        assert then["shop"].reader.timeout == 7.0
        assert counts == (0, 1)
        other = make_server(f"/{'x/' * len(tmp_path.parts[1:])}*.sock")  # as deep: names keep their endings beside it
        first, then, counts = reconfigured([every], [every, other])
        assert sorted(then) == [f"{tmp_path}/api.stats"[1:], f"{tmp_path}/shop.stats"[1:]]
        assert counts == (2, 2)


def test_a_socket_becomes_named_and_back(tmp_path):
    with listening(tmp_path / "shop.stats"):
        glob, named = make_server(f"{tmp_path}/*.stats"), make_server(f"{tmp_path}/shop.stats", name="shop")
        for before, after in ([glob], [glob, named]), ([glob, named], [glob]):
            first, then, counts = reconfigured(before, after)
            assert then == first
            assert counts == (0, 0)
        first, then, _ = reconfigured([glob], [glob, make_server(f"{tmp_path}/shop.stats", name="store")])
        assert list(then) == ["store"]


async def test_a_lost_socket_is_still_reported(tmp_path):
    glob, more = make_server(f"{tmp_path}/*.stats"), make_server("/run/api", name="api")
    fleet = Fleet([glob])
    with listening(tmp_path / "shop.stats"):
        fleet.refresh()
    (shop,) = fleet.watches()
    assert await fleet.reconfigure([more, glob], DEFAULT_SETTINGS) == (1, 0)
    assert fleet.watches()[1] is shop
    assert await fleet.reconfigure([more], DEFAULT_SETTINGS) == (0, 1)
    assert [watch.name for watch in fleet.watches()] == ["api"]


async def test_a_master_never_has_two_connections():
    open_now = most = 0

    def behave(connection: socket.socket, _ended: object) -> None:
        nonlocal open_now, most
        open_now += 1
        most = max(most, open_now)
        connection.settimeout(60)
        with contextlib.suppress(OSError):
            connection.recv(1)  # the sampler sends nothing: returns when it has closed the connection for writing
            while not bad_servers.has_left(connection):
                pass
        open_now -= 1

    with bad_servers.serving("unix", behave) as address:
        fleet = Fleet([make_server(address, name="old")])
        async with sampling(fleet):
            await until(lambda: open_now)
            for name in ("new", "newer"):
                await fleet.reconfigure([make_server(address, name=name)], DEFAULT_SETTINGS)
                await asyncio.sleep(0.1)
    assert most == 1


def test_a_directory_that_hangs(monkeypatch):
    """It stops neither the event loop at a reload, nor the end of the exporter."""
    answers, asked, answered = threading.Event(), list[object](), list[bool]()

    def hang(*globs: object) -> None:
        asked.append(globs)
        answered.append(answers.wait(10))

    async def change() -> None:
        changing = asyncio.create_task(Fleet([]).reconfigure([make_server("/mnt/*.stats")], DEFAULT_SETTINGS))
        await until(lambda: asked)
        changing.cancel()

    monkeypatch.setattr(GlobbedServers, "expand", hang)
    asyncio.run(change())
    answers.set()
    wait_until(lambda: answered)
    assert answered == [True]


async def test_sampling_follows_at_once():
    written = Written()
    with bad_servers.answers("unix", DOCUMENT) as shop, bad_servers.answers("unix", DOCUMENT) as api:
        kept, gone = make_server(shop, name="shop"), make_server(shop, name="gone")
        fleet = Fleet([kept, gone], clock=Clock(), writer=written)

        async def samples(watch: Watch, count: int) -> None:
            await until(lambda: watch.integrals.totals.samples >= count)

        async with sampling(fleet):
            removed = fleet.watches()[1]
            await samples(removed, 5)
            before, earlier = fleet.watches()[0].integrals.totals.samples, -1
            while len(written.of("gone")) != earlier:  # a minute has ended meanwhile: the next one needs samples, too
                earlier = len(written.of("gone"))
                await samples(removed, removed.integrals.totals.samples + 3)
            await fleet.reconfigure([kept, make_server(api, name="api")], DEFAULT_SETTINGS)
            after = removed.integrals.totals.samples
            await samples(fleet.watches()[1], 2)
            await samples(fleet.watches()[0], before + 2)
            assert removed.integrals.totals.samples == after
            assert len(written.of("gone")) == earlier + 1
            assert not [task for task in asyncio.all_tasks() if task.get_name() == "sample gone"]


async def test_a_change_during_a_pause_reads_nothing():
    with bad_servers.answers("unix", DOCUMENT) as address:
        fleet = Fleet([])
        async with sampling(fleet):
            await fleet.pause()
            await fleet.reconfigure([make_server(address, name="shop")], DEFAULT_SETTINGS)
            (shop,) = fleet.watches()
            await asyncio.sleep(0.1)
            assert shop.reader.attempts == 0
            fleet.resume()
            await asyncio.wait_for(shop.reader.finished_first.wait(), 60)


@pytest.mark.parametrize("again", [False, True])
async def test_a_change_that_is_cancelled_loses_no_minute(again):
    written = Written()
    with bad_servers.answers("unix", DOCUMENT) as address:
        fleet = Fleet([make_server(address, name="shop")], writer=written)
        (shop,) = fleet.watches()
        for _ in range(2):
            await shop.reader.read()
            await asyncio.sleep(0.3)
        await shop.reader.read()
        changing = asyncio.create_task(fleet.reconfigure([], DEFAULT_SETTINGS))
        while fleet.watches():  # noqa: ASYNC110 - no later than in the turn after the change
            await asyncio.sleep(0)
        if again:
            await changing
        changing.cancel()
        await asyncio.wait({changing})
        await fleet.close()
    assert [minute.server for minute in written.minutes if minute.record] == ["shop"]
