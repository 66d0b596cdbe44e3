"""The program's name alone, in a terminal: a list of every uWSGI, then what is wrong with the worst one."""

import contextlib
import os
import signal
import subprocess
import sys

import pytest
from rich.cells import cell_len

from tests.support.driven_top import LEFT, driven
from tests.support.exporter import run
from tests.support.real_uwsgi import Uwsgi, uwsgi
from tests.test_end_to_end import in_service
from uwsgi_headroom import cli, discover
from uwsgi_headroom.check import command, look
from uwsgi_headroom.check.request import Request
from uwsgi_headroom.config.servers import ServerConfig
from uwsgi_headroom.discover import Everything
from uwsgi_headroom.source import ProcessOfApp, parse_address
from uwsgi_headroom.top.look import Row, render_list

NOBODY = Everything((), {})
SICK = Row("shop", "www-data", "stats", 8, 8, 12, "critical", "Requests wait in the listen queue.")
HOSTILE = Row("\x1b[2J\u202e盗" * 9, "\r\n", "kernel", 1, 4, 0)
ROWS = (
    Row("blog", "www-data", "stats", 2, 8, 0, "ok", "Headroom 4x: threads run out first."),
    HOSTILE,
    Row("router", "root", "stats"),
    SICK,
)

LOOK = """
import sys
from uwsgi_headroom import cli, discover
from uwsgi_headroom.check import look
from uwsgi_headroom.config.servers import ServerConfig
from uwsgi_headroom.source import parse_address

def find():
    own = [word.split("=") for word in sys.argv[1:]]
    servers = tuple(ServerConfig(name, parse_address(address)) for name, address in own)
    return discover.Everything(servers, {name: "www-data" for name, _ in own}, hidden=("shop",))

look.find_everything = find
sys.exit(cli.main([]))
"""
"""The command without an argument, for the servers of a test alone."""


@pytest.mark.parametrize("columns", [40, 53, 60, 80, 200])
@pytest.mark.parametrize("height", [6, 24])
def test_the_list_fits(columns, height):
    """The worst server comes first, and no name reaches the terminal as it is. What does not fit is left out."""
    lines = render_list(ROWS, Everything((), {}, hidden=("a", "b")), 7.2, columns, height)
    assert len(lines) <= height
    assert all(line.plain.isprintable() for line in lines)
    assert lines[0].plain == "4 uWSGIs; the answer follows in 7 s (Ctrl-C: now)"
    assert lines[3].plain.startswith("shop ")
    assert lines[3].plain.endswith("critical: Requests wait in the listen queue.")
    assert lines[-1].plain == "2 more uWSGIs: not looked at"
    assert any("... and 3 more" in line.plain for line in lines) == (height == 6)
    begins = {cell_len(line.plain.partition(": ")[0]) for line in lines[3:5] if ": " in line.plain}
    assert all(begin <= columns + 8 for begin in begins)


def test_the_order_of_the_list():
    """The worst verdict, then the least headroom, come first; before there are verdicts, the longest queue, then the
    busiest server; what is unknown, last."""
    rows = [Row("a", "u", "stats"), Row("b", "u", "stats", 3, 4, 0), Row("c", "u", "stats", 1, 4, 2)]
    rows += [Row("d", "u", "stats", 9, 9, 9, "ok", "Far.", 7.0), Row("e", "u", "stats", 0, 9, 0, "ok", "Near.", 1.5)]
    lines = render_list(rows, NOBODY, 10, 80, 24)
    assert [line.plain.split()[0] for line in lines[3:]] == ["e", "d", "c", "b", "a"]
    assert lines[-1].plain.split()[2:5] == ["-", "of", "-"]


@contextlib.contextmanager
def looking(*servers: tuple[str, Uwsgi], **kwargs):
    found = [
        f"{name}={f'unix://{server.stats}' if os.path.exists(server.stats) else f'pid:{server.pid}'}"
        for name, server in servers
    ]
    with driven(command=(sys.executable, "-c", LOOK, *found), **kwargs) as terminal:
        yield terminal


@pytest.mark.integration
def test_it_looks_and_leaves():
    """The list has each server by its stats or by the kernel; Ctrl-C prints the answer so far below what was there, and
    what to type next."""
    with (
        uwsgi("--processes", "1", "--threads", "2") as sick,
        uwsgi("--processes", "2", stats=False) as well,
        contextlib.ExitStack() as requests,
        looking(("shop", sick), ("blog", well), columns=120, lines=40) as terminal,
    ):
        for _ in range(4):
            requests.enter_context(in_service(sick))
        screen = terminal.wait(lambda text: "2 of 2" in text and "critical: " in text)
        assert screen.splitlines()[3].split()[:5] == ["shop", "www-data", "2", "of", "2"]
        assert "kernel" in screen.splitlines()[4]
        assert "1 more uWSGI: not looked at" in screen
        terminal.press("\x03")
        assert terminal.ended() == 0
        assert terminal.written.count(LEFT) == 1
    answer = terminal.written.rpartition(LEFT)[2].decode()
    assert (
        answer.index("CRITICAL  ") < answer.index("1 other server:") < answer.index("1 uWSGI of other users (shop: 1)")
    )
    assert f"serve --stats shop=unix://{sick.stats}" in answer
    assert f"top unix://{sick.stats}" in answer


@pytest.mark.integration
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_signal_restores_the_terminal(number):
    with uwsgi() as server, looking(("shop", server), columns=40) as terminal:
        terminal.wait(lambda text: "0 of 1" in text)
        terminal.resize(80, 12)
        terminal.process.send_signal(signal.SIGWINCH)
        terminal.wait(lambda text: "(Ctrl-C: now)" in text)
        terminal.process.send_signal(number)
        assert terminal.ended() == -number
        assert terminal.is_as_it_was()


@pytest.mark.integration
def test_check_without_an_address_prints_the_same():
    """Every server of this machine, also those without stats; as JSON, each is whole."""
    with uwsgi() as server, uwsgi(stats=False) as other:
        found = discover.find_everything()
        ran = run("check", "--seconds", "2")
        nowhere = run("check", "/nowhere/stats")
    addresses = {str(each.address) for each in found.servers}
    assert {f"unix://{server.stats}", f"pid:{other.pid}"} <= addresses
    assert {each.name for each in found.servers} == found.users.keys()
    assert "All figures:   " in ran.stdout
    assert ran.returncode in (0, 1, 2, 3)
    assert "which run here:\n" in nowhere.stdout
    assert f"  unix://{server.stats}\n" in nowhere.stdout


@pytest.mark.integration
def test_a_name_alone_is_no_server(capsys):
    """A process that was found by its name, and is no uWSGI or has ended, is left out, whatever the others are."""
    with uwsgi() as server, subprocess.Popen(["sleep", "100"]) as forged:
        servers = [ServerConfig("shop", parse_address(f"unix://{server.stats}"))]
        servers += [ServerConfig("forged", ProcessOfApp(forged.pid)), ServerConfig("ended", ProcessOfApp(2**22 + 1))]
        try:
            status = command.run(Request(seconds=2), servers)
        finally:
            forged.kill()
    printed = capsys.readouterr().out
    assert status == 0
    assert "shop" in printed
    assert not {"forged", "ended"} & set(printed.split())


def test_nothing_to_look_at(capsys, monkeypatch):
    """It says what was looked for, or how many there are of other users."""
    monkeypatch.setattr(look, "find_everything", lambda: NOBODY)
    assert cli.main(["check"]) == 3
    assert "Looked for: processes named uwsgi" in capsys.readouterr().err
    monkeypatch.setattr(look, "find_everything", lambda: Everything((), {}, hidden=("shop", "shop", "blog")))
    assert cli.main(["check"]) == 3
    assert "3 uWSGIs of other users (shop: 2, blog: 1):" in capsys.readouterr().err


@pytest.mark.parametrize(("others", "found"), [([3], [3]), ([], [2])])
def test_an_emperor_serves_nothing_itself(others, found, monkeypatch):
    """It is looked at by its stats; without, only if nothing else is there."""
    masters = [discover.FoundMaster(2, "root", role="emperor"), *[discover.FoundMaster(pid, "root") for pid in others]]

    async def find_masters(_seconds):
        return masters

    monkeypatch.setattr(discover, "find_masters", find_masters)
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    assert [each.address for each in discover.find_everything().servers] == [ProcessOfApp(pid) for pid in found]


def test_there_are_bounds(monkeypatch):
    """Of very many masters, some are looked at; a process named twice is looked at once."""
    many = [discover.FoundMaster(pid, "root") for pid in (*range(2, 300), 2)]

    async def find_masters(_seconds):
        return many

    monkeypatch.setattr(discover, "find_masters", find_masters)
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    found = discover.find_everything()
    assert (len(found.servers), found.left_out) == (discover.MOST_FOUND, 298 - discover.MOST_FOUND)
    assert found.servers[0] == ServerConfig("pid-2", ProcessOfApp(2))


@pytest.mark.parametrize(
    ("group", "is_terminal", "variables", "looks"),
    [
        (7, True, {}, True),
        (8, True, {}, False),
        (7, False, {}, False),
        (7, True, {"NOTIFY_SOCKET": "/run/notify"}, False),
        (7, True, {"UWSGI_HEADROOM_STATS": "/run/a.stats"}, False),
    ],
)
def test_who_looks_and_who_serves(monkeypatch, group, is_terminal, variables, looks):
    """A person in the foreground of a terminal looks; a unit, a container with settings, a pipe and a background job
    serve, as does any argument."""
    monkeypatch.setattr(os, "tcgetpgrp", lambda _: group)
    monkeypatch.setattr(os, "getpgrp", lambda: 7)
    monkeypatch.setattr(sys, "stdin", open(os.devnull))  # noqa: SIM115 - pytest's has no descriptor
    monkeypatch.setattr(sys.stdout, "isatty", lambda: is_terminal)
    for name in [name for name in os.environ if name.startswith("UWSGI_HEADROOM_")]:
        monkeypatch.delenv(name)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(cli, "_look", lambda: 42)
    monkeypatch.setitem(cli._COMMANDS, "serve", lambda _line, _options: 43)
    assert cli.main([]) == (42 if looks else 43)
    assert cli.main(["serve"]) == 43
