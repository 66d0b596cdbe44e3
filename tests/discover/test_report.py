"""The report of discovery."""

from __future__ import annotations

import shlex

import pytest

from uwsgi_headroom.arguments.commands import make_command_line
from uwsgi_headroom.discover import FoundMaster, report
from uwsgi_headroom.discover.report import choose_names, render_report
from uwsgi_headroom.source import Tcp, Unix

SHOP = FoundMaster(
    10,
    "www-data",
    address=Unix("/run/shop.stats"),
    what="uWSGI 2.0.31, 4 workers of 8 threads",
    configuration="/etc/uwsgi/shop.ini",
    directory="/srv/shop",
    emperor=9,
)


def test_nothing_found() -> None:
    assert "uwsgi-headroom --stats tcp://HOST:PORT" in render_report([])[0]


def test_each_finding_says_what_to_do() -> None:
    """Readable masters come with the command, unreadable ones with the reason, others with the missing option."""
    masters = [
        SHOP,
        FoundMaster(11, "www-data", address=Unix("/run/api.stats"), trouble="permission denied: run as uWSGI's user"),
        FoundMaster(12, "nobody", trouble="this user may not inspect its sockets"),
        FoundMaster(13, "root", configuration="mute.ini"),
    ]
    assert render_report(masters) == [
        "shop: uWSGI 2.0.31, 4 workers of 8 threads",
        "  master 10 of user www-data, /etc/uwsgi/shop.ini, in /srv/shop, vassal of 9",
        "  unix:///run/shop.stats",
        "",
        "Cannot be read: permission denied: run as uWSGI's user",
        "  master 11 of user www-data: unix:///run/api.stats",
        "",
        "Cannot be read: this user may not inspect its sockets",
        "  PID 12 of user nobody",
        "",
        "uWSGI without a stats server; `uwsgi-headroom discover` prints the steps that turn it on:",
        "  master 13 of user root, mute.ini",
        "",
        "To watch it:",
        "  uwsgi-headroom --stats shop=unix:///run/shop.stats",
    ]


def test_a_reason_is_given_once() -> None:
    """A user without permissions reads one line for each other user, not two for each master."""
    masters = [FoundMaster(pid, user, trouble="not allowed") for user in ("a", "b") for pid in range(1, 13)]
    assert render_report(masters) == [
        "Cannot be read: not allowed",
        "  PIDs 1, 2, 3, 4, 5, 6, 7, 8 and 4 more of user a",
        "  PIDs 1, 2, 3, 4, 5, 6, 7, 8 and 4 more of user b",
    ]


def test_one_command_serves_all() -> None:
    """The report has one shell command that the command line accepts, with a name for each server."""
    masters = [SHOP, FoundMaster(20, "root", address=Unix("/run/it's here/stats"), directory="/srv/wiki")]
    lines = render_report(masters)
    command = " ".join(line.removesuffix("\\") for line in lines[lines.index("To watch them all:") + 1 :])
    assert make_command_line().parse(shlex.split(command)[1:]).stats == [
        "shop=unix:///run/shop.stats",
        "wiki=unix:///run/it's here/stats",
    ]


def test_names_differ() -> None:
    def master(address: Unix | Tcp, configuration: str = "", directory: str = "") -> FoundMaster:
        return FoundMaster(1, "root", address=address, configuration=configuration, directory=directory)

    assert choose_names(
        [
            master(Unix("/run/shop.stats"), directory="/srv/old-shop"),
            master(Unix("/run/a/stats"), "shop.ini"),
            master(Unix("/run/b/stats"), "uwsgi.ini", "/srv/blog"),
            master(Tcp("127.0.0.1", 1717), "uwsgi.ini", "/srv/app"),
            master(Unix("/run/c/api.stats"), "x.ini"),
            master(Unix("/run/d/api.stats"), "x.ini"),
        ]
    ) == ["old-shop", "shop", "b", "tcp-127.0.0.1-1717", "unix-run-c-api.stats", "unix-run-d-api.stats"]


def test_names_of_others_do_nothing_to_a_terminal(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """No escape sequence or line break in names of users, versions, files or sockets is printed."""
    evil = "\x1b]0;pwned\x07\nTo watch it:\u202e\x9b2J"

    async def find_masters() -> list[FoundMaster]:
        return [FoundMaster(10, f"eve{evil}", address=Unix(f"/run/{evil}"), what=evil, configuration=f"{evil}.ini")]

    monkeypatch.setattr(report, "find_masters", find_masters)
    assert report.run() == 0
    out = capsys.readouterr().out
    assert all(line.isprintable() for line in out.splitlines())
    assert out.count("\nTo watch it:\n") == 1
    assert "user eve\\x1b]0;pwned\\x07\\nTo watch it:" in out
