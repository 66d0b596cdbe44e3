"""Which servers are expected: those of the history file, and vassals until their Emperor ends them."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from tools.support import real_uwsgi, stored_days
from tools.support.simulated_server import emperor as simulated_emperor
from uwsgi_headroom.config.servers import make_server
from uwsgi_headroom.errors import HistoryFileError
from uwsgi_headroom.stats.emperor_router import Blacklisted, EmperorSnapshot, Vassal
from uwsgi_headroom.store.reader import HistoryFile
from uwsgi_headroom.store.record import DAY, Record
from uwsgi_headroom.store.retired import retire
from uwsgi_headroom.watch import globbed
from uwsgi_headroom.watch.fleet import Fleet
from uwsgi_headroom.watch.globbed import LONG_ENOUGH, PAST_SECONDS, is_ended, remember

UNTIL = 1.75e9 // DAY * DAY
"""The end of the stored days, in epoch seconds."""


@pytest.fixture(scope="module")
def history(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The history of a server that ran for two days."""
    path = tmp_path_factory.mktemp("history") / "history.sqlite"
    stored_days.write(path, "shop", UNTIL, days=2, minutes=15)
    return path


@pytest.mark.parametrize(
    ("now", "seconds"),
    [(UNTIL, LONG_ENOUGH), (UNTIL + PAST_SECONDS - LONG_ENOUGH - 1800, LONG_ENOUGH), (UNTIL + PAST_SECONDS, 0.0)],
    ids=["now", "nearly a week ago", "a week ago"],
)
def test_a_week_of_history_counts(history: Path, now: float, seconds: float) -> None:
    """A server that was up for an hour within the week is known to have been."""
    assert remember(history, now).up_seconds.get("shop", 0.0) >= seconds
    if not seconds:
        assert remember(history, now).up_seconds == {}


def test_what_was_before_a_retirement_does_not_count(tmp_path: Path) -> None:
    """A retired server is expected again after an hour of its own."""
    path = tmp_path / "history.sqlite"
    stored_days.write(path, "shop", UNTIL, days=2, minutes=15)
    retire(path, "shop", UNTIL - 1800)
    assert 0 < remember(path, UNTIL).up_seconds["shop"] < LONG_ENOUGH
    retire(path, "shop", UNTIL)
    assert remember(path, UNTIL).up_seconds == {}


@pytest.mark.parametrize("content", [None, b"", b"no database"])
def test_a_file_that_cannot_be_read_knows_nothing(
    tmp_path: Path, content: bytes | None, caplog: pytest.LogCaptureFixture
) -> None:
    """The exporter starts all the same; the log says why, if there is a file."""
    path = tmp_path / "history.sqlite"
    if content is not None:
        path.write_bytes(content)
    assert remember(path, UNTIL).up_seconds == {}
    assert ("servers of the past are not known" in caplog.text) == bool(content)


def test_an_emperor_that_lists_a_vassal_has_not_ended_it() -> None:
    """A vassal that runs or is throttled is expected; so is one of an Emperor that is down itself."""
    watch = Fleet([make_server("/nowhere/stats")]).watches()[0]
    assert not is_ended((watch, "shop.ini"), "")
    running, tried, ended = (
        Vassal(name="shop.ini"),
        Blacklisted(name="shop.ini", attempt=3),
        Blacklisted(name="shop.ini"),
    )
    for vassals, throttled, is_it in [
        ((), (), True),
        ((running,), (), False),
        ((), (tried,), False),
        ((), (ended,), True),
    ]:
        snapshot = EmperorSnapshot("2.0.31", 1, vassals, throttled)
        watch.reading = replace(simulated_emperor(time.monotonic()), snapshot=snapshot)
        assert is_ended((watch, "shop.ini"), "") == is_it


def test_a_configuration_that_is_gone_has_ended_its_vassal(tmp_path: Path) -> None:
    """Only if the directory of the file is there: otherwise the exporter may just not see it."""
    file = tmp_path / "shop.ini"
    file.touch()
    assert not is_ended(None, str(file))
    file.unlink()
    assert is_ended(None, str(file))
    assert not is_ended(None, str(tmp_path / "elsewhere" / "shop.ini"))
    assert not is_ended(None, "")


VASSAL = "[uwsgi]\nmaster = true\nwsgi-file = {app}\nhttp-socket = {name}.http\nstats = {name}.stats\n"


@pytest.mark.integration
def test_a_vassal_that_its_emperor_ends_is_not_expected(monkeypatch: pytest.MonkeyPatch) -> None:
    """The socket that uWSGI leaves behind is no server that is down; a vassal whose Emperor is killed is one."""
    for name, seconds in {"LONG_ENOUGH": 1.0, "ENDED_SECONDS": 2.0, "GLOB_SECONDS": 0.2}.items():
        monkeypatch.setattr(globbed, name, seconds)
    monkeypatch.setattr("uwsgi_headroom.watch.fleet.GLOB_SECONDS", 0.2)
    files = {f"vassals/{name}.ini": VASSAL.format(app=real_uwsgi.APP, name=name) for name in ("shop", "blog")}

    async def until(fleet: Fleet, states: dict[str, str], seconds: float = 40) -> None:
        end = time.monotonic() + seconds
        while (found := {watch.name: watch.state for watch in fleet.watches()}) != states:
            assert time.monotonic() < end, found
            await asyncio.sleep(0.1)

    async def look(directory: Path, kill: object) -> None:
        servers = [make_server(str(directory / "stats"), name="emperor"), make_server(f"{directory}/vassals/*.stats")]
        fleet = Fleet(servers)
        sampling = asyncio.create_task(fleet.run())
        try:
            await until(fleet, {"emperor": "up", "shop": "up", "blog": "up"})
            await asyncio.sleep(3)  # so that both count as expected
            (directory / "vassals" / "blog.ini").unlink()
            await until(fleet, {"emperor": "up", "shop": "up"})
            assert fleet.health.patterns[0].expected == 1
            kill()  # type: ignore[operator]
            await until(fleet, {"emperor": "down", "shop": "down"})
            assert fleet.health.patterns[0].expected == 1
        finally:
            sampling.cancel()
            await fleet.close()

    with real_uwsgi.bare("--emperor", "vassals", "--emperor-stats", "{directory}/stats", files=files) as server:
        asyncio.run(look(server.directory, lambda: real_uwsgi._end(server.process)))


def test_a_path_that_cannot_be_looked_at_is_an_empty_history() -> None:
    """The exporter starts with a history in a folder that it may not enter, or with a name that is too long."""
    assert remember(Path("/nowhere") / ("y" * 5000), UNTIL).up_seconds == {}


def test_a_server_that_cannot_be_read_costs_itself_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The others of the file are expected all the same."""
    path, read = tmp_path / "history.sqlite", HistoryFile.records
    for server in ("blog", "shop"):
        stored_days.write(path, server, UNTIL, days=0.25, minutes=15)

    def records(file: HistoryFile, server: str, *rest: float) -> Iterator[Record]:
        if server == "blog":
            raise HistoryFileError("a page is damaged")
        return read(file, server, *rest)  # type: ignore[arg-type]

    monkeypatch.setattr(HistoryFile, "records", records)
    assert set(remember(path, UNTIL).up_seconds) == {"shop"}
