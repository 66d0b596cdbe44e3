"""What `top` reads, by its arguments; and one snapshot of it."""

import asyncio
import socket
import sys

import pytest

from tests.support.bad_servers import answers, answers_http
from tests.support.captured_documents import document, path
from tests.support.real_uwsgi import free_port
from tests.support.web_server import serving
from tests.test_cli import ended
from uwsgi_headroom.check.exporter_client import ApiError
from uwsgi_headroom.config import defaults
from uwsgi_headroom.config.servers import ServerConfig
from uwsgi_headroom.errors import ConfigError, HeadroomError
from uwsgi_headroom.extras import REQUIREMENTS
from uwsgi_headroom.source import Unix
from uwsgi_headroom.top.feeds import LocalFeed, RemoteFeed, attach, exit_status

SHOP = "shop=/nowhere/shop.stats"


def nothing() -> tuple[ServerConfig, ...]:
    raise HeadroomError("none found")


def kinds(*arguments: str) -> list[type]:
    return [type(feed) for feed in attach(arguments, nothing).feeds]


def test_an_exporters_url_with_and_without_its_scheme():
    """An exporter identifies itself; its documents are then read by name."""
    with serving(SHOP) as port:
        for address in (f"http://127.0.0.1:{port}/", f"http://127.0.0.1:{port}", f"127.0.0.1:{port}"):
            assert kinds(address) == [RemoteFeed]
        (exporter,) = attach([f"127.0.0.1:{port}"], nothing).feeds
        (summary,) = asyncio.run(exporter.servers(None)).servers
        assert summary.name == "shop"
        assert asyncio.run(exporter.server("shop", None)).address == "unix:///nowhere/shop.stats"
        assert asyncio.run(exporter.trend("shop", 60, 10)).headroom.factor == []
        with pytest.raises(ApiError, match="an exporter without this server"):
            asyncio.run(exporter.server("other", None))


def test_addresses_of_feeds():
    """Stats servers are one feed, as are pages of one exporter."""
    with answers("tcp", document("minified")) as raw, answers_http("tcp", document("minified")) as web:
        assert kinds("/nowhere/stats", raw, f"http://{web}") == [LocalFeed]
        with serving(SHOP) as port:
            assert kinds("/nowhere/stats", f"127.0.0.1:{port}", raw) == [RemoteFeed, LocalFeed]
    with serving(SHOP) as port, serving(SHOP) as other:
        addresses = [f"http://127.0.0.1:{port}", f"http://127.0.0.1:{other}/servers/b", f"127.0.0.1:{port}"]
        attached = attach([*addresses, f"http://127.0.0.1:{other}/servers/a"], nothing)
    assert len(attached.feeds) == 2
    assert attached.server == (1, "b")
    for arguments in (["nonsense"], ["a=/x", "a=/y"]):
        with pytest.raises(ConfigError):
            attach(arguments, nothing)
    port = free_port()
    with pytest.raises(HeadroomError, match="neither an exporter nor a stats server"):
        attach([f"http://127.0.0.1:{port}"], nothing)
    assert kinds(f"127.0.0.1:{port}") == [LocalFeed]


def test_an_address_that_was_copied_from_a_browser():
    """The URL of any page means its exporter; the page of a server selects that server, also in decoded form."""
    with serving(SHOP) as port:
        for page, server in (("/servers/caf\u00e9#workers", "caf\u00e9"), ("/#bottom", None), ("/metrics", None)):
            attached = attach([f"http://127.0.0.1:{port}{page}"], nothing)
            assert [str(feed.where) for feed in attached.feeds] == [f"http://127.0.0.1:{port}"]
            assert attached.server == (None if server is None else (0, server))


def test_an_exporter_that_hangs_as_top_starts():
    """An http:// address that accepts connections but is silent counts as an exporter, which may answer later."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        attached = attach([f"http://127.0.0.1:{port}/servers/a"], nothing)
    assert [type(feed) for feed in attached.feeds] == [RemoteFeed]
    assert attached.server == (0, "a")


def test_without_arguments_the_exporter_of_this_machine_or_what_is_found(monkeypatch):
    """The exporter has an hour of history, and already reads uWSGI."""
    with serving(SHOP) as port:
        monkeypatch.setattr(defaults, "LISTEN_ADDRESS", f"127.0.0.1:{port}")
        assert kinds() == [RemoteFeed]
    with pytest.raises(HeadroomError, match="none found"):
        attach([], nothing)
    (feed,) = attach([], lambda: (ServerConfig("found", Unix("/nowhere/stats")),)).feeds
    assert isinstance(feed, LocalFeed)


def test_an_answer_that_is_none():
    """An exporter that is gone, or of another version, is reported with its URL."""
    with serving(SHOP) as port:
        (exporter,) = attach([f"127.0.0.1:{port}"], nothing).feeds
    with pytest.raises(ApiError, match=f"127.0.0.1:{port}: nothing listens there"):
        asyncio.run(exporter.servers(None))
    with answers_http("tcp", b'{"openapi": "3.1.0"}') as other:
        (exporter,) = attach([other], nothing).feeds
        with pytest.raises(ApiError, match="does not match this version of the API"):
            asyncio.run(exporter.servers(None))


FIXTURE = path("2.0.31_threads")
NOWHERE = "unix:///nowhere/stats"


@pytest.mark.parametrize(
    ("states", "status"), [(["up"], 0), (["up", "up"], 0), (["down"], 3), (["up", "down"], 3), (["stale"], 3), ([], 3)]
)
def test_the_status_is_3_if_a_server_could_not_be_read(states, status):
    """As for `check`, one server that is down or stale is enough, and so is an empty list."""
    assert exit_status(states) == status


@pytest.mark.parametrize("how", ["--once", "--json"])
@pytest.mark.parametrize(
    ("servers", "status", "said"),
    [([NOWHERE], 3, "down"), ([f"file://{FIXTURE}", NOWHERE], 3, FIXTURE.stem), ([f"file://{FIXTURE}"], 0, "up")],
)
def test_a_snapshot(capsys, how, servers, status, said):
    """It says why a server could not be read, and the status is 3 then."""
    ended_with, out, _ = ended(capsys, "top", how, "--seconds", "2", *servers)
    assert (ended_with, said in out) == (status, True)


def test_a_snapshot_of_an_exporter(capsys):
    """The exporter answers, so there is a snapshot; if its server could not be read, the status is 3."""
    with serving(f"shop={NOWHERE}") as port:
        status, out, _ = ended(capsys, "top", "--once", f"http://127.0.0.1:{port}")
    assert (status, "down" in out) == (3, True)


def test_what_does_not_fit_is_said(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "99999999999")
    status, out, _ = ended(capsys, "top", "--once", "--seconds", "2", f"file://{FIXTURE}")
    assert status == 0
    assert max(map(len, out.splitlines())) <= 500


def test_without_rich_it_names_the_command_that_installs_it(capsys, monkeypatch):
    """The command installs into the running environment what setup.cfg requires; no index has the package."""
    import uwsgi_headroom.top as package  # noqa: PLC0415

    for name in [name for name in sys.modules if name.split(".")[0] == "rich"]:
        monkeypatch.setitem(sys.modules, name, None)
    for name in [name for name in sys.modules if name.startswith("uwsgi_headroom.top.")]:
        monkeypatch.delitem(sys.modules, name)
        monkeypatch.delattr(package, name.rpartition(".")[2], raising=False)
    python = "/opt/my tools/bin/python"
    monkeypatch.setattr(sys, "executable", python)
    status, _, err = ended(capsys, "top", "--once", NOWHERE)
    assert status == 1
    assert f"uwsgi-headroom: top needs rich: '{python}' -m pip install '{REQUIREMENTS['rich']}' " in err
