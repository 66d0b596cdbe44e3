"""`uwsgi-headroom retire`, and an exporter that remembers its servers over a restart."""

import time
from pathlib import Path

import pytest

from tests.support import stored_days
from tests.support.exporter import exporter
from tests.support.real_uwsgi import wait_until
from uwsgi_headroom import cli
from uwsgi_headroom.config import defaults
from uwsgi_headroom.store.retired import read_retired

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
    unit = (Path(__file__).parents[1] / "deploy/systemd/uwsgi-headroom.service").read_text()
    assert "StateDirectory=uwsgi-headroom\n" in unit
    assert "HISTORY=%S/uwsgi-headroom/history.sqlite\n" in unit
    assert defaults.SHIPPED_HISTORY == "/var/lib/uwsgi-headroom/history.sqlite"
