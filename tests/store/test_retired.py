"""`retire` and its file beside the history, which an exporter reads that remembers its servers over a restart."""

import argparse
import os
import stat
import time
from pathlib import Path

import pytest

from tests.store.test_database import opened
from tests.support import stored_days
from tests.support.exporter import exporter
from tests.support.real_uwsgi import wait_until
from uwsgi_headroom import cli
from uwsgi_headroom.config import defaults
from uwsgi_headroom.errors import HeadroomError, HistoryFileError
from uwsgi_headroom.store.record import DAY, Minute
from uwsgi_headroom.store.retired import MOST_BYTES, read_retired, retire, retired_path
from uwsgi_headroom.watch.retire_command import run


def test_the_last_retirement_counts(tmp_path):
    """Each server has the time of its last one; a name may have spaces."""
    history = tmp_path / "history.sqlite"
    assert read_retired(history) == {}
    retire(history, "shop", 1000.0)
    retire(history, "my shop", 1500.0)
    retire(history, "shop", 2000.0)
    assert read_retired(history) == {"shop": 2000.0, "my shop": 1500.0}


def test_other_users_can_read_it(tmp_path):
    """Root writes it with any umask, and the exporter's user reads it."""
    before = os.umask(0o077)
    try:
        retire(tmp_path / "history", "shop", 1.0)
    finally:
        os.umask(before)
    assert stat.S_IMODE(retired_path(tmp_path / "history").stat().st_mode) == 0o644


@pytest.mark.parametrize(
    "make", [os.symlink, os.link, lambda _, path: os.mkfifo(path)], ids=["symlink", "link", "pipe"]
)
def test_only_a_regular_file_is_used(make, tmp_path):
    """The directory belongs to the exporter's user, who could else have root write anywhere, or wait without end."""
    target = tmp_path / "target"
    target.write_text("as it was\n")
    target.chmod(0o600)
    make(target, retired_path(tmp_path / "history"))
    with pytest.raises(HistoryFileError):
        retire(tmp_path / "history", "shop", 1.0)
    assert target.read_text() == "as it was\n"
    assert stat.S_IMODE(target.stat().st_mode) == 0o600
    assert read_retired(tmp_path / "history") == {}


@pytest.mark.parametrize(
    "content",
    [b"", b"\n\n", b"shop\n", b"x shop\n", b"-1 shop\n", b"1e9 shop\n", b"9" * 400 + b" shop\n", b"\xff \xff\n"],
)
def test_a_damaged_line_costs_itself_only(tmp_path, content):
    retired_path(tmp_path / "history").write_bytes(content + b"\n7 blog\n")
    assert read_retired(tmp_path / "history") == {"blog": 7.0}


def test_the_end_of_a_huge_file_is_read(tmp_path):
    """The exporter's memory does not depend on its size, and the latest retirement has an effect."""
    history = tmp_path / "history"
    retired_path(history).write_bytes(b"8 " + b"x" * (3 * MOST_BYTES) + b"\n7 blog\n")
    retire(history, "shop", 2000.0)
    assert read_retired(history) == {"blog": 7.0, "shop": 2000.0}


def test_a_retirement_of_a_clock_that_was_ahead_is_ignored(tmp_path):
    """Otherwise the server would not be expected for years."""
    history = tmp_path / "history"
    retire(history, "shop", 1000.0)
    retire(history, "blog", 1000.0 + 4 * 365 * DAY)
    assert read_retired(history, 2000.0) == {"shop": 1000.0}


def test_a_full_disk_is_said_and_costs_one_line(tmp_path, monkeypatch):
    """Half of a line is written: the next retirement counts all the same."""
    history, write = tmp_path / "history", os.write
    with monkeypatch.context() as patch:
        patch.setattr(os, "write", lambda descriptor, data: write(descriptor, data[: max(1, len(data) // 2)]))
        with pytest.raises(HistoryFileError, match="no space is left"):
            retire(history, "shop", 1000.0)
    retire(history, "blog", 2000.0)
    assert read_retired(history)["blog"] == 2000.0


def test_a_line_break_is_no_part_of_a_name(tmp_path):
    with pytest.raises(HistoryFileError):
        retire(tmp_path / "history", "shop\n1 blog", 1.0)


@pytest.fixture
def written(tmp_path):
    """A history file of the server `shop`, to which a writer has a connection."""
    path = tmp_path / "history.sqlite"
    stored_days.write(path, "shop", time.time() - 600, days=0.02)
    database = opened(path)
    database.write([Minute("other", int(time.time()) // 60, None, [])], time.time())
    assert Path(f"{path}-wal").exists()
    yield path
    database.close()


def run_for(names, path, *, force=False):
    return run(argparse.Namespace(names=names, history=str(path), config=None, force=force))


def test_a_server_of_the_history_is_retired(written):
    assert run_for(["shop"], written) == 0
    assert set(read_retired(written)) == {"shop"}


@pytest.mark.parametrize(("name", "hint"), [("shp", "did you mean 'shop'?"), ("zzz", "add --force for those")])
def test_a_name_that_the_history_does_not_know_is_refused(written, name, hint):
    """None of the names is noted then, so that the command can be repeated; with --force all are."""
    with pytest.raises(HeadroomError, match=f"has no server '{name}'") as refused:
        run_for(["shop", name], written)
    assert hint in str(refused.value)
    assert set(read_retired(written)) == set()
    assert run_for(["shop", name], written, force=True) == 0
    assert set(read_retired(written)) == {"shop", name}


SHOP = 'uwsgi_up{server="shop"}'


@pytest.mark.integration
def test_after_a_reboot_without_uwsgi_its_server_is_down_until_it_is_retired(tmp_path):
    """The history knows the server; no socket is there. The page of a retired server resolves within seconds."""
    history = tmp_path / "history.sqlite"
    stored_days.write(history, "shop", time.time() - 600, days=1, minutes=15)
    (tmp_path / "run").mkdir()
    flags = ("--stats", f"{tmp_path}/run/*.stats", "--history", str(history))
    with exporter(*flags) as running:
        wait_until(lambda: running.scrape().get(SHOP) == 0.0, what="the server to be down")
        pattern = f'pattern="{tmp_path}/run/*.stats"'
        missing = f'uwsgi_exporter_pattern_servers{{{pattern},state="missing"}}'
        assert running.scrape()[missing] == 1.0
        wait_until(lambda: Path(f"{history}-wal").exists(), what="the exporter to write")
        assert cli.main(["retire", "shp", "--history", str(history)]) == 1
        assert running.scrape().get(SHOP) == 0.0
        assert cli.main(["retire", "shop", "--history", str(history)]) == 0
        wait_until(lambda: SHOP not in running.scrape(), what="the server to be forgotten")
        wait_until(
            lambda: running.lines("no longer expected", "server=shop", "an operator has retired it"),
            what="the log to say so",
        )
    with exporter(*flags) as running:
        assert SHOP not in running.scrape()


def test_the_file_is_that_of_the_configuration(tmp_path, monkeypatch):
    """A flag, the exporter's variable, its configuration file, or the place of the shipped unit."""
    for name in ("flag", "variable", "file", "shipped"):
        (tmp_path / name).mkdir()
    (tmp_path / "headroom.yml").write_text(f"history: {tmp_path}/file/history\n")
    monkeypatch.setattr("uwsgi_headroom.watch.retire_command.SHIPPED_HISTORY", f"{tmp_path}/shipped/history")
    assert cli.main(["retire", "a"]) == 0
    monkeypatch.setenv("UWSGI_HEADROOM_CONFIG", str(tmp_path / "headroom.yml"))
    assert cli.main(["retire", "b"]) == 0
    monkeypatch.setenv("UWSGI_HEADROOM_HISTORY", f"{tmp_path}/variable/history")
    assert cli.main(["retire", "c"]) == 0
    assert cli.main(["retire", "d", "e", "--history", f"{tmp_path}/flag/history"]) == 0
    found = {name: set(read_retired(tmp_path / name / "history")) for name in ("shipped", "file", "variable", "flag")}
    assert found == {"shipped": {"a"}, "file": {"b"}, "variable": {"c"}, "flag": {"d", "e"}}


def test_without_a_history_there_is_nothing_to_write(tmp_path, monkeypatch, capsys):
    """The message says what to do instead."""
    monkeypatch.setattr("uwsgi_headroom.watch.retire_command.SHIPPED_HISTORY", f"{tmp_path}/nowhere/history")
    assert cli.main(["retire", "shop"]) == 2
    assert "to retire a server, restart that exporter" in capsys.readouterr().err


def test_the_shipped_unit_has_its_history_there():
    """The command finds the file of the unit without a flag."""
    unit = (Path(__file__).parents[2] / "deploy/systemd/uwsgi-headroom.service").read_text()
    assert "StateDirectory=uwsgi-headroom\n" in unit
    assert "HISTORY=%S/uwsgi-headroom/history.sqlite\n" in unit
    assert defaults.SHIPPED_HISTORY == "/var/lib/uwsgi-headroom/history.sqlite"
