"""`--check-config` says what the exporter would do, and what is wrong, and changes nothing."""

import contextlib
import os
import socket
import sqlite3

import pytest

from tests.web.security.certificates import write_certificates
from uwsgi_headroom import cli, logs
from uwsgi_headroom.store.file import VERSION, open_to_write

CONFIGURATION = """
servers:
  - {name: shop, stats: ./shop.stats, log: LOG}
  - {stats: "./vassals/*.sock", expect: [blog, wiki]}
history: history.sqlite
web: {listen_address: ":9238", config_file: tls/web.yml}
routes: true
"""
WEB = "tls_server_config: {cert_file: server.pem, key_file: server.key}\nbasic_auth_users: {me: $2b$04$HASH}\n"
HASH = "abcdefghijklmnopqrstuu5Lh1CBKVWJFL1eFNpWSJlGsPyfTfMYy"


@pytest.fixture
def path(tmp_path, monkeypatch):
    """A configuration file that names others beside it. The working directory is another one."""
    (tmp_path / "tls").mkdir()
    (tmp_path / "vassals").mkdir()
    write_certificates(tmp_path / "tls")
    (tmp_path / "tls" / "web.yml").write_text(WEB.replace("HASH", HASH))
    (tmp_path / "shop.log").touch()
    file = tmp_path / "headroom.yml"
    file.write_text(CONFIGURATION.replace("LOG", str(tmp_path / "shop.log")))
    monkeypatch.chdir("/")
    monkeypatch.setattr(logs, "configure", lambda *_: None)
    return file


def checked(capsys, path, *more):
    status = cli.main(["--check-config", "--config", str(path), *more])
    return status, *capsys.readouterr()


def test_what_the_exporter_would_do(path, capsys):
    """Servers with their names, what is missing of them now, addresses and files; nothing is written."""
    with contextlib.ExitStack() as listeners:
        for name in ("blog", "news"):
            listener = listeners.enter_context(socket.socket(socket.AF_UNIX))
            listener.bind(str(path.parent / "vassals" / f"{name}.sock"))
        before = sorted(path.parent.rglob("*"))
        status, out, err = checked(capsys, path)
        assert (status, err, sorted(path.parent.rglob("*"))) == (0, "", before)
    rows = {line.partition(" ")[0]: line[13:] for line in out.splitlines()}
    assert rows["settings"].startswith(f"{path}, as user ")
    assert rows["server"] == f"shop: unix://{path.parent}/shop.stats (not there now)"
    assert (
        rows["pattern"] == f"{path.parent}/vassals/*.sock: 2 sockets now: blog and news; expected, and not there: wiki"
    )
    assert rows["listen"] == "https://*:9238/, with a login"
    assert rows["history"] == f"{path.parent}/history.sqlite, 1.0 GB at most"
    assert rows["opt-in"] == "routes"
    assert out.splitlines()[-1] == "ok"


@pytest.mark.parametrize(
    ("before", "after", "said"),
    [
        ("routes:", "ruotes:", "headroom.yml:7: unknown key 'ruotes'; did you mean 'routes'?"),
        ("history:", "  - shop=/run/other\nhistory:", "another server is already named 'shop'"),
        ("tls/web.yml", "web.yml", "web.yml: No such file"),
        (", config_file: tls/web.yml", "", "--routes: other machines can reach :::9238, where there is no login"),
        ('":9238"', "no.such.host.invalid:1", "no.such.host.invalid"),
        ("shop.log", "gone.log", "gone.log: No such file"),
        ("shop.log", "vassals", "vassals: not a regular file"),
        ("history.sqlite", "none/history.sqlite", "none: no such directory"),
        ("history.sqlite", "shop.log", ""),
        ("history.sqlite", "tls/web.yml", "web.yml is not a history file"),
        ("history.sqlite", "vassals", "vassals is not an ordinary file"),
    ],
)
def test_what_is_wrong(path, capsys, before, after, said):
    """One sentence on standard error, and the exit status 1. An empty file may become a history file."""
    text = path.read_text()
    assert before in text
    path.write_text(text.replace(before, after))
    status, out, err = checked(capsys, path)
    assert (status, said in err, out.endswith("ok\n")) == ((1, True, False) if said else (0, True, True))


def test_what_this_user_may_not_read(path, capsys, monkeypatch):
    """The user is named, because the exporter may run as another one; a stats socket is no fault of the settings."""
    (path.parent / "shop.stats").touch()
    monkeypatch.setattr(os, "access", lambda *_: False)
    status, out, err = checked(capsys, path)
    assert status == 1
    assert f"{path.parent}/shop.stats (user " in out
    assert [line.rpartition(": ")[2].startswith("user ") for line in err.splitlines()] == [True, True]


def test_a_history_file_is_left_as_it_is(path, capsys):
    """It is recognized by its header, without SQLite's own files beside it; a newer version's is refused."""
    history = path.parent / "history.sqlite"
    database = open_to_write(history)
    database.close()
    before = history.read_bytes()
    assert checked(capsys, path)[0] == 0
    assert (history.read_bytes(), list(path.parent.glob("history*"))) == (before, [history])
    with contextlib.closing(sqlite3.connect(history)) as newer:
        newer.execute(f"PRAGMA user_version = {VERSION + 1}")
    assert "was written by a newer version" in checked(capsys, path)[2]
    with contextlib.closing(sqlite3.connect(history)) as other:
        other.execute("PRAGMA application_id = 7")
    assert "is a database of another program" in checked(capsys, path)[2]


def test_flags_are_part_of_the_settings(path, capsys):
    """As for `serve`: they override the file, and a wrong one is an error."""
    status, out, _ = checked(capsys, path, "--web.listen-address", "127.0.0.1:1", "--stats", "a=tcp://127.0.0.1:2")
    assert status == 0
    assert "listen       https://127.0.0.1:1/, with a login\n" in out
    assert "server       a: tcp://127.0.0.1:2\n" in out
    assert checked(capsys, path, "--window", "1d")[0] == 1
