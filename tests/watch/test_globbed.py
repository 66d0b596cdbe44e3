"""Servers that a pattern finds: which of them are watched, expected and missing."""

import asyncio
import contextlib
import os
import socket
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from msgspec.structs import replace

from tests.support import bad_servers, real_uwsgi, stored_days
from tests.support.captured_documents import document
from tests.support.simulated_server import MovableClock
from tests.support.simulated_server import emperor as simulated_emperor
from tests.watch.sampling import sampling, until
from tests.watch.test_fleet import listening
from uwsgi_headroom.config.servers import ServerConfig, make_server
from uwsgi_headroom.config.settings import Settings
from uwsgi_headroom.errors import HistoryFileError
from uwsgi_headroom.stats.raw import Blacklisted, EmperorSnapshot, ListedVassal
from uwsgi_headroom.store.file import HistoryFile
from uwsgi_headroom.store.record import DAY, Record
from uwsgi_headroom.store.retired import read_retired, retire
from uwsgi_headroom.watch import fleet as fleet_module
from uwsgi_headroom.watch import globbed
from uwsgi_headroom.watch.fleet import Fleet
from uwsgi_headroom.watch.globbed import FORGET_SECONDS, GLOB_SECONDS, LONG_ENOUGH, Remembered, ends_after, remember
from uwsgi_headroom.watch.observation import Pattern

LONG = {"shop": 3600.0}
LATER = 1e10
"""After every time of a MovableClock."""


@pytest.fixture
def folder(monkeypatch):
    """A directory with a short path, in which real stats servers have directories of their own."""
    with tempfile.TemporaryDirectory(prefix="globs-") as name:
        monkeypatch.setattr(tempfile, "tempdir", name)
        yield Path(name)


def leave_socket(path: Path) -> None:
    path.parent.mkdir(exist_ok=True)
    with socket.socket(socket.AF_UNIX) as left:
        left.bind(str(path))


@contextlib.contextmanager
def answering_once(path: Path) -> Iterator[None]:
    """A stats server that ends after one answer, and leaves its socket behind."""
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))
        listener.listen()

        def answer() -> None:
            connection, _ = listener.accept()
            with connection:
                connection.sendall(document("minified"))

        thread = threading.Thread(target=answer)
        thread.start()
        yield
        thread.join(60)


class Globs(Fleet):
    """The fleet of one pattern, and its clock."""

    def __init__(
        self, pattern: object, memory: Remembered = globbed.NO_MEMORY, most: int = 400, **more: object
    ) -> None:
        self.hands = MovableClock()
        entry = ServerConfig("", None, str(pattern), **more)
        super().__init__([entry], Settings(max_servers=most), self.hands.clock, memory=memory)

    def turn(self, seconds: float = GLOB_SECONDS) -> list[str]:
        asyncio.run(read_all(self))
        self.hands.move(seconds)
        return self.refreshed()

    def refreshed(self) -> list[str]:
        self.refresh()
        return [watch.name for watch in self.watches()]

    @property
    def addresses(self) -> list[str]:
        return [str(watch.address) for watch in self.watches()]


async def read_all(fleet: Fleet) -> None:
    await asyncio.gather(*(watch.reader.read() for watch in fleet.watches()))


def retiring(history: Path, up_seconds: dict[str, float]) -> Remembered:
    return Remembered(up_seconds, lambda: read_retired(history, LATER))


def count(fleet: Fleet) -> Pattern:
    (servers,) = fleet.health.patterns
    return servers


def test_links_to_a_socket_are_no_other_servers(tmp_path):
    run = tmp_path / "run"
    run.mkdir()
    leave_socket(tmp_path / "else.stats")
    for name, to in (("a", "shop.stats"), ("else", "../else.stats"), ("z", "shop.stats")):
        (run / f"{name}.stats").symlink_to(to)
    leave_socket(run / "shop.stats")
    fleet = Globs(run / "*.stats")
    assert fleet.refreshed() == ["else", "shop"]
    (run / "0.stats").symlink_to("shop.stats")
    fleet.hands.move(GLOB_SECONDS)
    assert fleet.refreshed() == ["else", "shop"]


def test_a_server_that_was_up_for_an_hour_is_not_forgotten(folder, monkeypatch):
    monkeypatch.setattr(globbed, "LONG_ENOUGH", 8 * GLOB_SECONDS)
    fleet = Globs(folder / "*" / "stats")
    with bad_servers.answers("unix", document("minified")) as shop:
        fleet.refresh()
        for _ in range(4):
            fleet.turn()
        with bad_servers.answers("unix", document("minified")) as blog:
            for _ in range(5):
                fleet.turn()
            assert sorted(fleet.turn()) == sorted([Path(shop).parent.name, Path(blog).parent.name])
    for _ in range(3):
        fleet.turn(FORGET_SECONDS)
    assert [(watch.name, watch.state) for watch in fleet.watches()] == [(Path(shop).parent.name, "down")]
    assert count(fleet) == Pattern(str(folder / "*" / "stats"), found=0, expected=1, missing=1)


def test_a_suspended_exporter_has_not_seen_the_server_up(folder):
    fleet = Globs(folder / "*" / "stats")
    with bad_servers.answers("unix", document("minified")):
        fleet.refresh()
        fleet.turn(7 * 3600)
    fleet.turn(FORGET_SECONDS)
    assert fleet.turn(FORGET_SECONDS) == []


def test_a_server_of_the_past_is_down_from_the_start(tmp_path):
    fleet = Globs(tmp_path / "*.stats", Remembered({"shop": 3600.0, "blog": 3599.0, "no/path": 9999.0}))
    assert fleet.turn() == ["shop"]
    asyncio.run(read_all(fleet))
    (shop,) = fleet.watches()
    assert shop.error.reason == "not_found"
    assert count(fleet).missing == 1


def test_what_the_configuration_expects(tmp_path):
    """A name is there and down until its server comes, which is the same one then; a number only says how many."""
    fleet = Globs(tmp_path / "*.stats", expect_names=("shop",))
    assert fleet.turn() == ["shop"]
    with listening(tmp_path / "shop.stats"), listening(tmp_path / "blog.stats"):
        before = fleet.watches()
        assert fleet.refreshed() == ["blog", "shop"]
        assert fleet.watches()[1] is before[0]
        assert count(fleet) == Pattern(str(tmp_path / "*.stats"), found=2, expected=1)
        fleet = Globs(tmp_path / "*.stats", expect_number=3)
        fleet.refresh()
    assert count(fleet) == Pattern(str(tmp_path / "*.stats"), found=2, expected=3)


def test_retiring_ends_the_expectation(tmp_path):
    """The socket that it left behind is no server for an exporter that starts later either."""
    history, path = tmp_path / "history.sqlite", tmp_path / "run" / "shop.stats"
    leave_socket(path)
    fleet = Globs(tmp_path / "run" / "*.stats", retiring(history, LONG))
    assert fleet.turn() == ["shop"]
    retire(history, "shop", os.stat(path).st_mtime + 10)
    assert Globs(tmp_path / "run" / "*.stats", retiring(history, {})).refreshed() == []
    retire(history, "shop", 1.0)
    assert fleet.turn() == []
    assert fleet.turn() == []
    assert count(fleet) == Pattern(str(tmp_path / "run" / "*.stats"))
    path.unlink()
    fleet.refresh()
    with listening(path):
        assert fleet.refreshed() == ["shop"]
        assert count(fleet).expected == 0


def test_what_the_configuration_expects_cannot_be_retired(tmp_path, caplog):
    history = tmp_path / "history.sqlite"
    fleet = Globs(tmp_path / "*.stats", retiring(history, {}), expect_names=("shop",))
    fleet.refresh()
    retire(history, "shop", 1.0)
    assert fleet.turn() == ["shop"]
    assert "retired, but the configuration expects it" in caplog.text


def test_a_retired_server_that_runs_stays(folder):
    history = folder / "history.sqlite"
    with bad_servers.answers("unix", document("minified")) as address:
        name = Path(address).parent.name
        fleet = Globs(folder / "*" / "stats", retiring(history, {name: 3600.0}))
        fleet.refresh()
        fleet.turn()
        assert count(fleet).expected == 1
        retire(history, name, fleet.hands.clock.epoch())
        assert fleet.turn(1) == [name]
        assert count(fleet).expected == 0


def test_there_are_at_most_so_many(tmp_path, caplog):
    fleet = Globs(tmp_path / "*.stats", most=3)
    for number in range(5):
        leave_socket(tmp_path / f"{number}.stats")
    for _ in range(3):
        assert len(fleet.turn()) == 3
    assert count(fleet) == Pattern(str(tmp_path / "*.stats"), found=3, left_out=2)
    for number in range(5):
        (tmp_path / f"{number}.stats").unlink()
    fleet.turn()
    assert caplog.text.count("more sockets than servers that may be watched") == 1
    assert count(fleet).left_out == 0


def test_a_socket_that_answers_takes_the_place_of_one_that_never_did(folder):
    fleet = Globs(folder / "*" / "stats", most=2)
    with bad_servers.answers("unix", document("minified")) as first:
        fleet.refresh()
        asyncio.run(read_all(fleet))
        for name in "abc":
            leave_socket(folder / name / "stats")
        fleet.turn(1)
        with bad_servers.answers("unix", document("minified")) as second:
            fleet.turn(1)
            assert str(second) not in set(fleet.addresses)
            asyncio.run(fleet._globbed.try_left_out())
            addresses = {f"unix://{address}" for address in (first, second)}
            assert set(fleet.addresses) == addresses
            fleet.turn(1)
            asyncio.run(fleet._globbed.try_left_out())
            assert set(fleet.addresses) == addresses
    assert count(fleet).left_out == 3


def test_sockets_on_which_somebody_listens_come_first(folder):
    fleet = Globs(folder / "*" / "stats", most=1)
    with bad_servers.answers("unix", document("minified")) as address:
        os.utime(address, (1e9, 1e9))
        for name in "abc":
            leave_socket(folder / name / "stats")
        fleet.refresh()
        assert fleet.addresses == [f"unix://{address}"]


async def test_sampling_tries_the_sockets_without_a_place(folder, monkeypatch):
    monkeypatch.setattr(fleet_module, "GLOB_SECONDS", 0.01)
    leave_socket(folder / "0" / "stats")
    fleet = Globs(folder / "*" / "stats", most=1)
    fleet.refresh()
    await read_all(fleet)
    with bad_servers.answers("unix", document("minified")) as address:
        async with sampling(fleet):
            await until(lambda: fleet.addresses == [f"unix://{address}"])


def test_a_flood_of_new_sockets_starves_none_that_waits(folder, monkeypatch):
    monkeypatch.setattr(globbed, "_list_listening", set)
    fleet = Globs(folder / "*" / "stats", most=1)

    def flood(number: int) -> None:
        for place in range(100):
            leave_socket(folder / f"{number}-{place}" / "stats")

    flood(0)
    fleet.refresh()
    asyncio.run(read_all(fleet))
    with bad_servers.answers("unix", document("minified")) as address:
        os.utime(address, (1e9, 1e9))
        for number in range(1, 7):
            flood(number)
            fleet.hands.move(GLOB_SECONDS)
            fleet.refresh()
            asyncio.run(fleet._globbed.try_left_out())
        assert fleet.addresses == [f"unix://{address}"]


def test_a_server_that_has_not_answered_for_long_gives_up_its_place(folder):
    """A program that answers once and leaves its socket behind does not keep the place; a short restart does."""
    fleet = Globs(folder / "*" / "stats", most=1)
    (folder / "left").mkdir()
    with answering_once(folder / "left" / "stats"):
        fleet.refresh()
        fleet.turn(1)
        (left,) = fleet.watches()
        assert left.reading
    with bad_servers.answers("unix", document("minified")) as address:
        fleet.turn(FORGET_SECONDS - 10)
        asyncio.run(fleet._globbed.try_left_out())
        assert fleet.watches() == [left]
        fleet.turn(20)
        asyncio.run(fleet._globbed.try_left_out())
        assert fleet.addresses == [f"unix://{address}"]


def test_an_expected_server_comes_before_sockets_that_never_answered(tmp_path):
    for number in range(5):
        leave_socket(tmp_path / f"{number}.stats")
    fleet = Globs(tmp_path / "*.stats", Remembered(LONG), most=2, expect_names=("blog",))
    assert fleet.turn() == ["blog", "shop"]


async def test_the_trial_of_sockets_ends_with_the_fleet(folder, monkeypatch):
    monkeypatch.setattr(globbed, "_list_listening", set)  # the silent server has no place, although it listens
    with bad_servers.accepts_and_never_writes("unix") as address:
        os.utime(address, (1e9, 1e9))
        fleet = Globs(folder / "*" / "stats", most=1)
        leave_socket(folder / "0" / "stats")
        fleet.refresh()
        await read_all(fleet)
        for end in (fleet.pause, fleet.close):
            fleet._try_left_out()
            await asyncio.sleep(0.05)
            assert not fleet._trial.done()
            await end()
            assert fleet._trial.done()


def test_a_pattern_without_a_socket_is_said(tmp_path, caplog):
    """At the start, once an hour, and when a socket comes."""
    fleet = Globs(tmp_path / "*.stats")
    for seconds in (0.0, GLOB_SECONDS, globbed.SAY_SECONDS):
        fleet.turn(seconds)
    assert caplog.text.count("no socket matches the pattern") == 2
    with listening(tmp_path / "shop.stats"), caplog.at_level("INFO"):
        fleet.refresh()
        fleet.refresh()
    assert caplog.text.count("a socket matches the pattern") == 1


def test_a_reload_keeps_what_is_expected(tmp_path):
    fleet = Globs(tmp_path / "*.stats", Remembered(LONG))
    assert fleet.turn() == ["shop"]
    before = fleet.watches()
    servers = [make_server(f"{tmp_path}/*.stats"), make_server("tcp://localhost:1", name="other")]
    asyncio.run(fleet.reconfigure(servers, Settings(max_servers=7)))
    assert [watch.name for watch in fleet.watches()] == ["other", "shop"]
    assert fleet.watches()[1] is before[0]
    assert fleet._globbed.most == 7


def test_two_entries_of_one_pattern_are_counted_once(tmp_path):
    fleet = Fleet([make_server(f"{tmp_path}/*.stats")] * 2, clock=MovableClock().clock)
    with listening(tmp_path / "shop.stats"):
        fleet.refresh()
    assert count(fleet).found == 1


UNTIL = 1.75e9 // DAY * DAY
"""The end of the stored days, in epoch seconds."""


@pytest.fixture(scope="module")
def history(tmp_path_factory):
    path = tmp_path_factory.mktemp("history") / "history.sqlite"
    stored_days.write(path, "shop", UNTIL, days=2, minutes=15)
    return path


@pytest.mark.parametrize(
    ("now", "seconds"),
    [
        (UNTIL, LONG_ENOUGH),
        (UNTIL + globbed.PAST_SECONDS - LONG_ENOUGH - 1800, LONG_ENOUGH),
        (UNTIL + globbed.PAST_SECONDS, 0.0),
    ],
    ids=["now", "nearly a week ago", "a week ago"],
)
def test_a_week_of_history_counts(history, now, seconds):
    assert remember(history, now).up_seconds.get("shop", 0.0) >= seconds
    if not seconds:
        assert remember(history, now).up_seconds == {}


def test_what_was_before_a_retirement_does_not_count(tmp_path):
    path = tmp_path / "history.sqlite"
    stored_days.write(path, "shop", UNTIL, days=2, minutes=15)
    retire(path, "shop", UNTIL - 1800)
    assert 0 < remember(path, UNTIL).up_seconds["shop"] < LONG_ENOUGH
    retire(path, "shop", UNTIL)
    assert remember(path, UNTIL).up_seconds == {}


@pytest.mark.parametrize("content", [None, b"", b"no database"])
def test_a_file_that_cannot_be_read_knows_nothing(tmp_path, content, caplog):
    """The exporter starts all the same; the log says why, if there is a file."""
    path = tmp_path / "history.sqlite"
    if content is not None:
        path.write_bytes(content)
    assert remember(path, UNTIL).up_seconds == {}
    assert ("servers of the past are not known" in caplog.text) == bool(content)
    assert remember(Path("/nowhere") / ("y" * 5000), UNTIL).up_seconds == {}  # a folder that may not be entered


def test_an_emperor_that_lists_a_vassal_has_not_ended_it():
    watch = Fleet([make_server("/nowhere/stats")]).watches()[0]
    assert ends_after((watch, ListedVassal(name="shop.ini")), "") is None
    running = ListedVassal(name="shop.ini", pid=7, on_demand="shop.sock")
    for vassals, throttled, after in [
        ((), (), globbed.ENDED_SECONDS),
        ((running,), (), None),
        ((), (Blacklisted(name="shop.ini", attempt=3),), None),
        ((), (Blacklisted(name="shop.ini"),), globbed.ENDED_SECONDS),
        ((ListedVassal(name="shop.ini", pid=-1, on_demand="shop.sock"),), (), 0.0),
        ((ListedVassal(name="shop.ini", pid=-1),), (), None),
    ]:
        snapshot = EmperorSnapshot("2.0.31", 1, vassals, throttled)
        watch.reading = replace(simulated_emperor(time.monotonic()), snapshot=snapshot)
        assert ends_after((watch, ListedVassal(name="shop.ini")), "") == after


def test_a_configuration_that_is_gone_has_ended_its_vassal(tmp_path):
    file = tmp_path / "shop.ini"
    file.touch()
    assert ends_after(None, str(file)) is None
    file.unlink()
    assert ends_after(None, str(file)) == globbed.ENDED_SECONDS
    assert ends_after(None, str(tmp_path / "elsewhere" / "shop.ini")) is None
    assert ends_after(None, "") is None


VASSAL = "[uwsgi]\nmaster = true\nwsgi-file = {app}\nhttp-socket = {name}.http\nstats = {name}.stats\n"


@pytest.mark.integration
async def test_a_vassal_that_its_emperor_ends_is_not_expected(monkeypatch):
    """The socket that uWSGI leaves behind is no server that is down; a vassal whose Emperor is killed is one."""
    for name, seconds in {"LONG_ENOUGH": 1.0, "ENDED_SECONDS": 2.0, "GLOB_SECONDS": 0.2}.items():
        monkeypatch.setattr(globbed, name, seconds)
    monkeypatch.setattr("uwsgi_headroom.watch.fleet.GLOB_SECONDS", 0.2)
    files = {f"vassals/{name}.ini": VASSAL.format(app=real_uwsgi.APP, name=name) for name in ("shop", "blog")}

    def states() -> dict[str, str]:
        return {watch.name: watch.state for watch in fleet.watches()}

    with real_uwsgi.bare("--emperor", "vassals", "--emperor-stats", "{directory}/stats", files=files) as server:
        directory = server.directory
        patterns = make_server(str(directory / "stats"), name="emperor"), make_server(f"{directory}/vassals/*.stats")
        fleet = Fleet(patterns)
        async with sampling(fleet):
            await until(lambda: states() == {"emperor": "up", "shop": "up", "blog": "up"})
            await until(lambda: fleet.health.patterns[0].expected == 2)
            (directory / "vassals" / "blog.ini").unlink()
            await until(lambda: states() == {"emperor": "up", "shop": "up"})
            assert fleet.health.patterns[0].expected == 1
            real_uwsgi._end(server.process)
            await until(lambda: states() == {"emperor": "down", "shop": "down"})
            assert fleet.health.patterns[0].expected == 1


RESTING = "[uwsgi]\nmaster = true\nwsgi-file = {app}\nstats = rest.stats\ncheap = true\nidle = 2\ndie-on-idle = true\n"


@pytest.mark.integration
async def test_a_vassal_that_rests_is_not_down(monkeypatch):
    """Its Emperor starts it with the next request: it is left out meanwhile, and is watched again."""
    monkeypatch.setattr("uwsgi_headroom.watch.fleet.GLOB_SECONDS", 0.2)
    options = ("--emperor", "vassals", "--emperor-stats", "{directory}/stats", "--emperor-on-demand-extension")
    with real_uwsgi.bare(*options, ".socket", files={"vassals/empty": ""}) as server:
        vassals = server.directory / "vassals"
        (vassals / "rest.ini.socket").write_text(server.socket)
        (vassals / "rest.ini").write_text(RESTING.format(app=real_uwsgi.APP))
        fleet = Fleet((make_server(server.stats, name="emperor"), make_server(f"{vassals}/*.stats")))
        async with sampling(fleet):
            for _ in range(2):
                await until(lambda: real_uwsgi.accepts(server.socket) and fleet._globbed.on_demand())
                await until(lambda: [watch.name for watch in fleet.watches()] == ["emperor"])


def test_a_server_that_cannot_be_read_costs_itself_only(tmp_path, monkeypatch):
    path, read = tmp_path / "history.sqlite", HistoryFile.records
    for server in ("blog", "shop"):
        stored_days.write(path, server, UNTIL, days=0.25, minutes=15)

    def records(file: HistoryFile, server: str, *rest: float) -> Iterator[Record]:
        if server == "blog":
            raise HistoryFileError("a page is damaged")
        return read(file, server, *rest)

    monkeypatch.setattr(HistoryFile, "records", records)
    assert set(remember(path, UNTIL).up_seconds) == {"shop"}
