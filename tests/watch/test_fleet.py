"""A fleet has a reader for each configured server, and for each socket that its globs match over time."""

import asyncio
import contextlib
import os
import socket
from collections.abc import Iterator
from pathlib import Path
from unittest.mock import AsyncMock

import pytest
from msgspec.structs import replace

from tests.support import bad_servers
from tests.support.captured_documents import document
from tests.support.simulated_server import MovableClock
from tests.watch.sampling import sampling, until
from uwsgi_headroom.config.servers import make_server, parse_server_argument
from uwsgi_headroom.errors import ReadError
from uwsgi_headroom.metrics.exporter import EXPORTER
from uwsgi_headroom.reading import Reading
from uwsgi_headroom.source import ProcessOfApp
from uwsgi_headroom.watch import fleet as module
from uwsgi_headroom.watch import tasks
from uwsgi_headroom.watch.fleet import Fleet
from uwsgi_headroom.watch.globbed import GLOB_SECONDS, GONE_SECONDS, GlobbedServers
from uwsgi_headroom.watch.observation import Observation
from uwsgi_headroom.watch.watch import Watch

DOCUMENT = document("minified")


@contextlib.contextmanager
def listening(path: Path) -> Iterator[None]:
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))
        listener.listen()
        yield
    path.unlink()


def names(fleet: Fleet) -> list[str]:
    fleet.refresh()
    return [watch.name for watch in fleet.watches()]


async def sampled(fleet: Fleet) -> list[Observation]:
    await asyncio.gather(*(watch.reader.read() for watch in fleet.watches()))
    return await fleet.observe()


def globbing(pattern: str, *more: str, hands: MovableClock | None = None) -> Fleet:
    servers = [parse_server_argument(argument, "test") for argument in (pattern, *more)]
    return Fleet(servers, clock=(hands or MovableClock()).clock)


def test_named_servers_in_their_order():
    """Servers come in the order of the configuration, with the same reader each time."""
    fleet = globbing("b=/run/b", "a=tcp://localhost:1")
    assert names(fleet) == ["b", "a"]
    assert fleet.watches()[0] is fleet.watches()[0]
    # They share one reading of the machine.
    machines = {id(watch.reader._host._cpu._machine) for watch in globbing("b=/run/b", "a=tcp://localhost:1").watches()}
    assert len(machines) == 1


async def test_a_server_without_answers_keeps_its_settings(monkeypatch):
    fleet = Fleet([replace(make_server("/run/b", name="b"), stuck_seconds=90.0)])
    (watch,) = fleet.watches()
    monkeypatch.setattr(tasks, "RESTART_SECONDS", (0.001, 0.002))
    monkeypatch.setattr(Watch, "sample", AsyncMock(side_effect=ZeroDivisionError))
    other, sample = watch._make_other(ProcessOfApp(os.getpid()))
    assert (other.name, other.stuck_seconds) == ("b", 90.0)
    sampling_it = asyncio.create_task(sample())
    await until(lambda: fleet.restarts["sample"] > 1)
    sampling_it.cancel()


def test_sockets_found_are_named_after_their_files(tmp_path):
    (tmp_path / "file.stats").write_text("")
    (tmp_path / "folder.stats").mkdir()
    (tmp_path / "dangling.stats").symlink_to("nowhere")
    with listening(tmp_path / "shop.stats"), listening(tmp_path / "api.v2.stats"), listening(tmp_path / "other"):
        assert names(globbing(f"{tmp_path}/*.stats")) == ["api.v2", "shop"]


def test_a_refresh_finds_new_sockets(tmp_path):
    fleet = globbing(f"{tmp_path}/*.stats")
    assert names(fleet) == []
    with listening(tmp_path / "shop.stats"):
        assert fleet.watches() == []
        assert names(fleet) == ["shop"]
        (first,) = fleet.watches()
        with listening(tmp_path / "api.stats"):
            assert names(fleet) == ["api", "shop"]
            assert fleet.watches()[1] is first


async def test_sampling_finds_new_sockets(tmp_path, monkeypatch):
    monkeypatch.setattr(module, "GLOB_SECONDS", 0.01)
    monkeypatch.setattr(tasks, "RESTART_SECONDS", (0.001, 0.002))
    fleet = globbing(f"{tmp_path}/*.stats")
    async with sampling(fleet):
        await asyncio.sleep(0)  # the first refresh is done
        assert fleet.watches() == []
        with monkeypatch.context() as faulty:
            faulty.setattr(GlobbedServers, "expand", lambda _: 1 / 0)
            await until(lambda: fleet.restarts["globs"])
        with listening(tmp_path / "shop.stats"):
            await until(fleet.watches)
            assert [watch.name for watch in fleet.watches()] == ["shop"]
    assert EXPORTER["uwsgi_exporter_restarted_tasks_total{task}"][1](fleet.health)["globs"] == fleet.restarts["globs"]


async def test_a_paused_fleet_finds_no_socket(tmp_path, monkeypatch):
    monkeypatch.setattr(module, "GLOB_SECONDS", 0.001)
    fleet = globbing(f"{tmp_path}/*.stats")
    with listening(tmp_path / "shop.stats"):
        await fleet.pause()
        async with sampling(fleet):
            await asyncio.sleep(0.03)
            assert fleet.watches() == []
            fleet.resume()
            await until(fleet.watches)


@pytest.mark.parametrize("call", ["pause", "resume", "close"])
async def test_pausing_looks_nothing_up(tmp_path, call):
    fleet = globbing(f"{tmp_path}/*.stats")
    with listening(tmp_path / "shop.stats"):
        done = getattr(fleet, call)()
        if done is not None:
            await done
        assert fleet.watches() == []
        assert names(fleet) == ["shop"]


def test_a_socket_that_is_gone_is_down_and_then_forgotten(tmp_path):
    assert 2 * GLOB_SECONDS < GONE_SECONDS < 120
    hands = MovableClock()
    fleet = globbing(f"{tmp_path}/*.stats", hands=hands)
    with listening(tmp_path / "shop.stats"):
        assert names(fleet) == ["shop"]
    hands.move(GLOB_SECONDS + 1)
    assert names(fleet) == ["shop"]
    (observation,) = asyncio.run(sampled(fleet))
    assert observation.outcome.reason == "not_found"
    hands.move(GONE_SECONDS - GLOB_SECONDS - 2)
    assert names(fleet) == ["shop"]
    hands.move(GLOB_SECONDS + 1)
    assert names(fleet) == []


def test_a_socket_that_returns_is_the_server_it_was(tmp_path):
    hands = MovableClock()
    fleet = globbing(f"{tmp_path}/*.stats", hands=hands)
    with listening(tmp_path / "shop.stats"):
        fleet.refresh()
        first = fleet.watches()
    hands.move(GONE_SECONDS / 2)
    fleet.refresh()
    assert [watch.name for watch in first] == ["shop"]
    assert fleet.watches() == first
    with listening(tmp_path / "shop.stats"):
        for _ in range(2):
            hands.move(GONE_SECONDS * 0.9)
            fleet.refresh()
            assert fleet.watches() == first


@pytest.mark.parametrize("first", ["a", "b"])
def test_two_sockets_of_one_file_name_are_named_after_their_directories(tmp_path, first):
    for folder in ("a", "b"):
        (tmp_path / folder).mkdir()
    second = "ab".replace(first, "")
    pattern = f"{tmp_path}/*/shop*.stats"
    fleet = globbing(pattern)
    with contextlib.ExitStack() as stack:
        stack.enter_context(listening(tmp_path / second / "shop.stats"))
        with listening(tmp_path / first / "shop.stats"):
            assert names(fleet) == names(globbing(pattern)) == ["a/shop", "b/shop"]
        assert names(globbing(pattern)) == [f"{second}/shop"]
        assert names(fleet) == ["a/shop", "b/shop"]
    late = globbing(pattern)
    with listening(tmp_path / first / "shop.stats"):
        assert names(late) == [f"{first}/shop"]
        with listening(tmp_path / second / "shop.stats"):
            assert names(late) == ["a/shop", "b/shop"]


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        # A socket does not get the name of a configured server, and one that is configured is not found again.
        (["{}/*.stats", "shop=tcp://localhost:1"], ["shop", "api", "{}/shop.stats"]),
        (["{}/*.stats", "store={}/shop.stats"], ["store", "api"]),
        (["{}/*.stats", "{}/shop.st*"], ["api.stats", "shop.stats"]),  # two globs that find one socket have one server
    ],
)
def test_names_of_sockets_that_are_found(tmp_path, arguments, expected):
    with listening(tmp_path / "shop.stats"), listening(tmp_path / "api.stats"):
        assert names(globbing(*(each.format(tmp_path) for each in arguments))) == [
            each.format(tmp_path) for each in expected
        ]


def test_a_path_that_the_configuration_gave_as_a_name_is_taken(tmp_path):
    path = f"{tmp_path}/shop.stats"
    with listening(Path(path)):
        named = [make_server("tcp://localhost:1", name=path), make_server("tcp://localhost:2", name="shop")]
        fleet = Fleet([*named, make_server(f"{tmp_path}/*.stats")], clock=MovableClock().clock)
        assert names(fleet) == [path, "shop", f"{path}#2"]


def test_names_that_are_not_utf8_stay_different(tmp_path):
    paths = [Path(os.fsdecode(os.fsencode(tmp_path) + b"/caf" + end + b".stats")) for end in (b"\xe9", b"\xe8")]
    with listening(paths[0]), listening(paths[1]):
        written = [name.encode("utf-8", "replace") for name in names(globbing(f"{tmp_path}/*.stats"))]
    assert len(set(written)) == 2


def test_one_that_is_silent_costs_the_others_nothing():
    with contextlib.ExitStack() as stack:
        silent = [stack.enter_context(bad_servers.accepts_and_never_writes("unix")) for _ in range(5)]
        well = stack.enter_context(bad_servers.answers("unix", DOCUMENT))
        servers = [make_server(address, name=f"silent{place}") for place, address in enumerate(silent)]
        quick = [replace(server, timeout=0.5) for server in servers]
        observations = asyncio.run(sampled(Fleet([*quick, make_server(well, name="well")])))
    assert [observation.name for observation in observations] == [f"silent{place}" for place in range(5)] + ["well"]
    assert [isinstance(observation.outcome, Reading) for observation in observations] == [False] * 5 + [True]


async def test_observing_reads_nothing():
    clients = 0

    def behave(connection: socket.socket, _ended: object) -> None:
        nonlocal clients
        clients += 1
        connection.sendall(DOCUMENT)

    with bad_servers.serving("unix", behave) as address:
        fleet = Fleet([make_server(address)])
        await asyncio.gather(*(watch.reader.read() for watch in fleet.watches()))
        assert clients == 1
        for observations in await asyncio.gather(*(fleet.observe() for _ in range(50))):
            assert [isinstance(observation.outcome, Reading) for observation in observations] == [True]
        assert clients == 1


async def test_a_scrape_waits_for_a_server_that_was_never_read_and_not_for_long():
    with bad_servers.accepts_and_never_writes("unix") as silent, bad_servers.answers("unix", DOCUMENT) as well:
        fleet = Fleet([make_server(silent, name="silent"), make_server(well, name="well")])
        async with sampling(fleet):
            await fleet.wait_for_first(fleet.watches(), 0.3)
            observations = [watch.observe((60.0,)) for watch in fleet.watches()]
    assert [isinstance(observation.outcome, Reading) for observation in observations] == [False, True]


async def test_sampling_that_fails_begins_again(monkeypatch):
    monkeypatch.setattr(tasks, "RESTART_SECONDS", (0.001, 0.002))
    with bad_servers.answers("unix", DOCUMENT) as address:
        fleet = Fleet([make_server(address, name="shop"), make_server(address, name="api")])
        shop = fleet.watches()[0]
        pause, ends = shop.pace.pause, fleet.restarts
        monkeypatch.setattr(shop.pace, "pause", lambda outcome: pause(outcome) if ends["sample"] >= 2 else 1 / 0)
        async with sampling(fleet):
            await until(lambda: all(watch.integrals.totals.samples >= 4 for watch in fleet.watches()))
            assert fleet.health.restarts == {"sample": 2}


async def test_closing_ends_every_read():
    with bad_servers.accepts_and_never_writes("unix") as address:
        fleet = Fleet([make_server(address, name="silent")])
        reading = asyncio.create_task(fleet.watches()[0].reader.read())
        await asyncio.sleep(0)
        await fleet.close()
        assert isinstance(await asyncio.wait_for(reading, 60), ReadError)
