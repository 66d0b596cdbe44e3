"""The exporter serves the runbooks to which its alerts link, as pages and as Markdown."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterator
from html import unescape
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest
from starlette.requests import Request

from tests.support.captured_documents import document
from tests.support.real_uwsgi import accepting, wait_until
from tests.support.web_server import get, serving
from tools.environments import ROOT
from uwsgi_headroom.analysis.findings.kind import RUNBOOKS
from uwsgi_headroom.config.servers import ServerConfig
from uwsgi_headroom.documents import build
from uwsgi_headroom.source import File
from uwsgi_headroom.web import live_page, runbook_pages
from uwsgi_headroom.web.shared_builds import Answer, Kind, SharedBuilds

FOLDER = ROOT / "alerts" / "runbooks"
NAMES = sorted(file.name for file in FOLDER.glob("*.md"))
THREADS = document("threads_4x8_busy")
HOSTILE = "o'b\"><script>alert(1)</script>\\$(id)`id`;&-é"


@pytest.fixture(scope="module")
def stats(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A captured document, at a path that needs quoting."""
    path = tmp_path_factory.mktemp("it's $(a) \"<b>") / "shop.json"
    path.write_bytes(THREADS)
    return path


@pytest.fixture(scope="module")
def port(stats: Path) -> Iterator[int]:
    """The port of an exporter of one server that does not answer and of three that do."""
    servers = [ServerConfig(name, File(str(stats)), where="test") for name in ("shop", HOSTILE, "a\u202eb")]
    with serving("gone=/nowhere/at/all", *servers, sampling=True) as listening:
        yield listening


def page(port: int, name: str, **query: str) -> str:
    status, headers, body = get(port, f"/runbooks/{name}?{urlencode(query)}")
    assert status == 200
    assert headers["Content-Type"] == "text/html; charset=utf-8"
    assert headers["Content-Security-Policy"] == live_page.HEADERS["Content-Security-Policy"]
    return body.decode()


def commands(html: str, language: str = "sh") -> list[str]:
    """The commands that a person copies from the page."""
    blocks = re.findall(rf'<pre class="{language}">(.*?)</pre>', html, re.DOTALL)
    return unescape(re.sub("<[^>]*>", "", "\n".join(blocks))).splitlines()


def test_there_are_runbooks() -> None:
    """There is at least one runbook to test."""
    assert len(NAMES) >= 20


@pytest.mark.parametrize("name", NAMES)
def test_a_runbook_is_served_as_it_is_written(port: int, name: str) -> None:
    """The Markdown is served as text that no browser takes for a page."""
    status, headers, body = get(port, f"/runbooks/{name}")
    assert status == 200
    assert headers["Content-Type"] == "text/plain; charset=utf-8"
    assert headers["X-Content-Type-Options"] == "nosniff"
    assert body == (FOLDER / name).read_bytes()


@pytest.mark.parametrize("name", NAMES)
def test_a_runbook_is_a_page(port: int, name: str) -> None:
    """The page has every command with its placeholders marked, and no script."""
    text = (FOLDER / name).read_text()
    html = page(port, name.removesuffix(".md"))
    assert "<mark>" in html
    assert "<script" not in html
    for language in ("sh", "promql"):
        written = re.findall(rf"^ *```{language}\n(.*?)^ *```$", text, re.DOTALL | re.MULTILINE)
        assert commands(html, language) == [line.strip() for block in written for line in block.splitlines()]


@pytest.mark.parametrize("name", NAMES)
def test_a_runbook_is_filled_in_for_a_server(port: int, name: str) -> None:
    """The commands contain the known values."""
    html = page(port, name.removesuffix(".md"), server="shop", worker="2")
    typed = "\n".join([*commands(html), *commands(html, "promql")])
    assert set(re.findall(r"\b(?:SERVER|STATS|EXPORTER)\b", typed)) == set()
    assert '<a href="/servers/shop">' in html


def test_the_values_are_those_of_the_server(port: int, stats: Path) -> None:
    """The values are the server's address, and the exporter's as the reader reached it."""
    stuck = page(port, "UwsgiRequestStuck", server="shop", worker="2")
    assert shlex.split(commands(stuck)[0])[2] == f"file://{stats}"
    slower = page(port, "UwsgiSlower", server="shop")
    assert shlex.split(commands(slower)[0])[-1] == f"http://127.0.0.1:{port}"


@pytest.mark.parametrize("name", NAMES)
def test_no_command_has_a_pid_that_only_the_document_names(port: int, name: str) -> None:
    """The placeholders stay, and the page says why."""
    html = page(port, name.removesuffix(".md"), server="shop", worker="2")
    document = json.loads(THREADS)
    named = {document["pid"], *(worker["pid"] for worker in document["workers"])}
    assert not named & set(map(int, re.findall(r"\d+", html)))
    needs = re.search(r"\b(?:MASTER_PID|WORKER_PIDS?)\b", (FOLDER / name).read_text())
    assert bool(needs) == ("No PID is filled in: the stats did not come from a socket" in html)


@pytest.mark.integration
def test_the_pids_are_those_that_the_kernel_proves() -> None:
    """The commands of a running server have the PIDs of its master and of its workers. Until a worker is chosen, by a
    link, its PID is left open, so that nobody ends the wrong one."""
    with accepting("--processes", "2") as server, serving(f"shop={server.stats}", sampling=True) as port:
        wait_until(lambda: "worker=2" in page(port, "UwsgiRequestStuck", server="shop"), what="the workers")
        html = page(port, "UwsgiRequestStuck", server="shop")
        assert "kill WORKER_PID" in commands(html)
        document = json.loads(server.document(), strict=False)
        pids = [worker["pid"] for worker in document["workers"]]
        (link,) = re.findall(r'<a href="([^"]*worker=2)">2</a>', html)
        chosen = get(port, unescape(link))[2].decode()
        assert f"py-spy dump --pid {pids[1]}" in commands(chosen)
        assert "aria-current=true>2</a>" in chosen
        full = commands(page(port, "UwsgiListenQueueOverflowing", server="shop"))
        assert f"for pid in {pids[0]} {pids[1]}; do py-spy dump --pid $pid; done" in full
        assert f"ss -lntxp | grep -w pid={document['pid']}" in full


def test_links_keep_the_server(port: int) -> None:
    """Links to other runbooks and to the list keep the server."""
    html = page(port, "UwsgiWorkerMemoryGrowing", server="shop", worker="1")
    assert '<a href="/runbooks/UwsgiRequestsLost?server=shop&amp;worker=1">UwsgiRequestsLost</a>' in html
    assert '<a href="/runbooks/?server=shop&amp;worker=1">' in html
    assert '<a href="/runbooks/UwsgiDown?server=shop">' in page(port, "", server="shop")


@pytest.mark.parametrize("name", NAMES)
def test_a_hostile_name_stays_text(port: int, name: str, stats: Path) -> None:
    """A hostile name is no element in HTML, one word in shell, and part of a string in PromQL."""
    html = page(port, name.removesuffix(".md"), server=HOSTILE)
    assert "<script" not in html
    assert HOSTILE not in html
    for command in commands(html):
        if "file://" in command:
            assert f"file://{stats}" in shlex.split(command)
        if "compare" in command:
            assert HOSTILE in shlex.split(command)
    escaped = HOSTILE.replace("\\", "\\\\").replace('"', '\\"')
    queries = "\n".join(commands(html, "promql"))
    assert (f'server="{escaped}"' in queries) == ('server="' in queries)


def test_a_name_that_cannot_be_read_right_is_not_filled_in(port: int) -> None:
    """A character that reverses the direction of text would hide the effect of a command."""
    queries = commands(page(port, "UwsgiRequestStuck", server="a\u202eb"), "promql")
    assert queries == ['uwsgi_worker_oldest_request_age_seconds{server="SERVER"}']


@pytest.mark.parametrize("host", ["a b", "x';id;'", "<b>", "x/y", ""])
def test_a_host_header_that_is_no_host_is_not_filled_in(port: int, host: str) -> None:
    """No part of such a header is on the page; at a loopback address, only an empty one gets that far."""
    status, _, body = get(port, "/runbooks/UwsgiSlower?server=shop", {"Host": host})
    assert status == (421 if host else 200)
    assert "--exporter EXPORTER" in "\n".join(commands(body.decode())) or status == 421
    headers = [(b"host", host.encode())]
    request = Request({"type": "http", "scheme": "http", "path": "/", "headers": headers})
    assert runbook_pages.find_exporter_address(request) is None


def test_a_server_that_is_gone_is_named(port: int) -> None:
    """A link of yesterday's alert still leads to the runbook."""
    html = page(port, "UwsgiDown", server="<i>yesterday")
    assert "There is no server <b>&lt;i&gt;yesterday</b> now." in html
    assert "<mark>STATS</mark>" in html


def test_of_a_server_that_was_never_read_the_address_is_known(port: int) -> None:
    """The address of a server that was never read is filled in, because runbooks are for servers that are down."""
    html = page(port, "UwsgiDown", server="gone")
    assert "uwsgi-headroom check --seconds 5 unix:///nowhere/at/all" in commands(html)
    assert "<mark>MASTER_PID</mark>" in html


@pytest.mark.parametrize("code", RUNBOOKS)
def test_a_finding_leads_to_its_runbook(port: int, code: str) -> None:
    """The URL in its document leads to a page for that server, for any name."""
    for server in ("shop", HOSTILE):
        address = build.runbook_path(code, server)
        assert address is not None
        status, headers, body = get(port, address)
        assert (status, headers["Content-Type"]) == (200, "text/html; charset=utf-8")
        assert b"Commands are filled in for" in body


@pytest.mark.parametrize("code", RUNBOOKS)
def test_an_alert_leads_to_the_runbook_of_its_finding(port: int, code: str) -> None:
    """Alerts know only the code."""
    assert page(port, code, server="shop") == page(port, RUNBOOKS[code], server="shop")


def test_an_alert_of_a_finding_without_a_runbook_leads_to_its_server(port: int) -> None:
    """The page of the server has the finding; without such a server, there is nothing to show."""
    status, headers, _ = get(port, "/runbooks/workers_stopped?server=shop&worker=")
    assert (status, headers["Location"]) == (307, "/servers/shop")
    assert get(port, "/runbooks/workers_stopped?server=none")[0] == 404
    assert get(port, "/runbooks/workers_stopped")[0] == 404


def test_a_finding_without_a_runbook_leads_nowhere() -> None:
    """The URL is null, also for an unknown code."""
    assert build.runbook_path("thunder_lock", "shop") is None


def test_the_runbooks_are_listed(port: int) -> None:
    """Each runbook is listed with a link and its summary."""
    html = page(port, "")
    assert re.findall(r'<li><a href="/runbooks/(\w+)">', html) == [name.removesuffix(".md") for name in NAMES]
    assert html.count("<li>") == html.count("<p>") == len(NAMES)


@pytest.mark.parametrize(
    "path",
    [
        "None.md",
        "None",
        "UwsgiDown.md.md",
        "../app.py",
        "..%2Fapp.py.md",
        "%2e%2e%2fapp.md",
        "/etc/passwd.md",
        ".md",
    ],
)
def test_nothing_else_is_served(port: int, path: str) -> None:
    """A name that is not a runbook's is not found, whatever path it contains."""
    status, headers, body = get(port, f"/runbooks/{path}")
    assert status == 404
    assert headers["Content-Type"].startswith("text/plain; charset=utf-8")
    assert len(body) < 100


def test_a_request_reads_no_file(port: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """200 clients that request a runbook's text would otherwise have all runbooks read for each of their requests."""
    get(port, f"/runbooks/{NAMES[0]}")

    def fail(_path: Path, *_: object) -> str:
        raise AssertionError("a file was read")

    monkeypatch.setattr(Path, "read_text", fail)
    assert get(port, f"/runbooks/{NAMES[0]}")[0] == 200
    status, _, _ = get(port, f"/runbooks/Nothing?server=a{16 * '&x'}")
    assert status == 404
    assert get(port, f"/runbooks/?server=a{16 * '&x'}")[0] == 400


def test_runbooks_take_no_place_of_the_page(port: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """A request may name any worker, so a crowd could fill all places of the kind of builds that runbooks belong to."""
    kinds = set()
    original = SharedBuilds.get

    async def get_and_note(self: SharedBuilds, kind: Kind, *arguments: Any) -> Answer:
        kinds.add(kind.name)
        return await original(self, kind, *arguments)

    monkeypatch.setattr(SharedBuilds, "get", get_and_note)
    assert get(port, "/runbooks/UwsgiDown?server=shop&worker=77")[0] == 200
    assert get(port, "/runbooks/")[0] == 200
    assert kinds == {"runbooks"}
    assert get(port, "/")[0] == 200
    assert kinds == {"runbooks", "documents"}
