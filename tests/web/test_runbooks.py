"""Runbooks on the exporter's page: their Markdown, the values that replace placeholders, and their routes."""

import json
import re
import shlex
from html import unescape
from pathlib import Path
from urllib.parse import urlencode

import pytest
from hypothesis import given
from hypothesis import strategies as st
from starlette.requests import Request

from tests.support.captured_documents import document
from tests.support.real_uwsgi import accepting, wait_until
from tests.support.web_server import get, serving
from tools.environments import ROOT
from uwsgi_headroom.analysis.findings import RUNBOOKS
from uwsgi_headroom.config.servers import ServerConfig
from uwsgi_headroom.documents import build
from uwsgi_headroom.kernel.facts import HostFacts
from uwsgi_headroom.kernel.processes import WorkerProcess
from uwsgi_headroom.kernel.setup import MasterIdentity
from uwsgi_headroom.reading import Reading
from uwsgi_headroom.source import File
from uwsgi_headroom.stats import decode
from uwsgi_headroom.stats.server import Snapshot
from uwsgi_headroom.web import live_page
from uwsgi_headroom.web import runbook_pages as pages
from uwsgi_headroom.web.shared_builds import SharedBuilds

NOBODY = pages.Target()


@pytest.mark.parametrize(
    ("text", "html"),
    [
        ("One line\nand another & more.", "<p>One line and another &amp; more.</p>"),
        ("## Verify", "<h2>Verify</h2>"),
        ("Set `a < b`.", "<p>Set <code>a &lt; b</code>.</p>"),
        ("See [it](UwsgiDown.md).", '<p>See <a href="/runbooks/UwsgiDown">it</a>.</p>'),
        ("* a\n  b\n* c", "<ul><li><p>a b</p><li><p>c</p></ul>"),
        (
            "1. a\n\n   ```sh\n   x | y\n   ```\n\n2. b",
            '<ol><li><p>a</p><pre class="sh"><code>x | y</code></pre><li><p>b</p></ol>',
        ),
        ("```promql\nup\n\ndown\n```", '<pre class="promql"><code>up</code>\n<code></code>\n<code>down</code></pre>'),
        ("| a | b |\n|---|---|\n| `c` | d |", "<table><thead><tr><th>a<th>b<tbody><tr><td><code>c</code><td>d</table>"),
        ("a\n\nb", "<p>a</p><p>b</p>"),
    ],
)
def test_what_runbooks_use_is_rendered(text, html):
    """Each construct is rendered, and no text is parsed as HTML."""
    assert pages.render_blocks(text, NOBODY) == html


@pytest.mark.parametrize(
    "text",
    [
        "<script>alert(1)</script>",
        "a <b>",
        "**bold**",
        "_it_",
        "a [link](https://example.com/)",
        "a [link](javascript:alert)",
        "![x](UwsgiDown.md)",
        "> quote",
        "# title",
        "### deeper",
        "- item",
        "    indented code",
        "```python\nx\n```",
        "```sh\nx",
        "| a | b |\n|---|---|\n| c |",
        "| a |\nno rule",
        "see https://example.com",
        "a ` b",
        "a \\ b",
    ],
)
def test_anything_else_is_refused(text):
    """Other Markdown is refused, so that a test of the runbooks finds it before a reader does."""
    with pytest.raises(pages.UnknownMarkdownError):
        pages.render_blocks(text, NOBODY)


def test_code_and_placeholders():
    of = pages.Target("a b", {"SERVER": "a b"})
    assert (
        pages.render_blocks("```sh\nls SERVER\n```", of)
        == '<pre class="sh"><code>ls <b>&#x27;a b&#x27;</b></code></pre>'
    )
    assert pages.render_inline('`"SERVER"`', of) == "<code>&quot;<b>a b</b>&quot;</code>"
    with pytest.raises(pages.UnknownMarkdownError, match="not a runbook"):
        pages.split_runbook("# A\n\n## b\n\nc")
    html = pages.fill_code("kill WORKER_PID $STATS MY_UNIT <x>", "sh", {})
    assert html == "kill <mark>WORKER_PID</mark> $STATS MY_UNIT &lt;x&gt;"
    assert typed(pages.fill_code("for pid in WORKER_PIDS; do", "sh", {"WORKER_PIDS": "7 8"})) == "for pid in 7 8; do"
    assert pages.used_placeholders(" ".join(pages.MEANINGS)) == set(pages.MEANINGS)
    assert pages.used_placeholders("`kill WORKER_PID`, SERVERS") == {"WORKER_PID"}


@pytest.mark.parametrize("book", sorted((ROOT / "alerts" / "runbooks").glob("*.md")), ids=lambda book: book.stem)
def test_every_runbook_can_be_rendered(book):
    runbook = pages.split_runbook(book.read_text())
    assert runbook.title == book.stem
    assert pages.render_inline(runbook.summary, NOBODY)
    assert pages.render_blocks(runbook.body, NOBODY).count("<h2>") == 3


def typed(html: str) -> str:
    return unescape(re.sub("<[^>]*>", "", html))


@given(st.text(min_size=1, max_size=12).filter(pages.is_typeable))
def test_a_value_is_one_word_in_shell(value):
    html = pages.fill_code("check STATS --once", "sh", {"STATS": value})
    assert shlex.split(typed(html)) == ["check", value, "--once"]
    assert html.count("<") == 2


@given(st.text(min_size=1, max_size=12).filter(pages.is_typeable))
def test_a_value_is_a_string_in_promql(value):
    """Quotation marks and backslashes are escaped, in blocks and in inline code."""
    for language in ("promql", ""):
        html = pages.fill_code('up{server="SERVER"}', language, {"SERVER": value})
        inside = unescape(html.partition("<b>")[2].partition("</b>")[0])
        assert inside.replace("\\\\", "").replace('\\"', "").count('"') == 0
        assert inside.replace("\\\\", "\0").replace('\\"', '"').replace("\0", "\\") == value


@pytest.mark.parametrize(
    "value", ["", "a\nb", "a\tb", "\x1b[0m", "a\u202eb", "a\u00a0b", "\udc80", "\u05d0", "a\u200bb"]
)
def test_what_a_terminal_shows_wrong_cannot_be_typed(value):
    """Line breaks, control characters, invisible characters and right-to-left characters are refused."""
    assert not pages.is_typeable(value)


@pytest.mark.parametrize("value", ["shop", "a b", "it's", "$(id)", "é", "日本", "<b>"])
def test_what_can_be_quoted_can_be_typed(value):
    assert pages.is_typeable(value)


def reading(pid: int, host: HostFacts) -> Reading:
    snapshot = decode(json.dumps({"pid": pid, "workers": [{"pid": 7}, {"pid": 8}]}).encode())
    return Reading(1.0, 1.0, 0.1, 0.1, 10, snapshot, host)


def pids_of(found: Reading) -> dict[str, str]:
    assert isinstance(found.snapshot, Snapshot)
    workers = found.snapshot.workers
    return pages.collect_pids(found.host, workers, workers[0])


def test_pids_of_a_proven_master():
    """In a container, those on the exporter's side."""
    found = pids_of(reading(1, HostFacts(master_pid=500, local_pids={7: 507, 8: 508})))
    assert found == {"MASTER_PID": "500", "WORKER_PIDS": "507 508", "WORKER_PID": "507"}
    processes = {pid: WorkerProcess(pid, *[None] * 9) for pid in (7, 8)}
    expected = {"MASTER_PID": "40", "WORKER_PIDS": "7 8", "WORKER_PID": "7"}
    assert pids_of(reading(40, HostFacts(master_pid=40, processes=processes))) == expected
    assert pids_of(reading(40, HostFacts(master_pid=40, processes={7: processes[7]}))) == {
        "MASTER_PID": "40",
        "WORKER_PID": "7",
    }
    first = reading(1, HostFacts(master_pid=500, identity=identity(100.0)))
    assert reading(1, HostFacts(master_pid=500, identity=identity(100.2))).has_same_master(first) is True
    assert reading(1, HostFacts(master_pid=600, identity=identity(200.0))).has_same_master(first) is False
    assert reading(1, HostFacts(master_pid=500, identity=identity(200.0))).has_same_master(first) is False
    assert reading(2, HostFacts(master_pid=500, identity=identity(100.0))).has_same_master(first) is False
    off = HostFacts(off="not proven")
    assert reading(1, off).has_same_master(reading(1, off)) is None
    assert reading(40, off).has_same_master(reading(40, off)) is True


@pytest.mark.parametrize("master", [1, 40])
def test_unproven(master):
    """An unproven uWSGI has no PIDs: here they belong to other processes."""
    assert pids_of(reading(master, HostFacts(off="the stats server is on another host"))) == {}


def identity(started: float) -> MasterIdentity:
    return MasterIdentity("host", started, None, None)


FOLDER = ROOT / "alerts" / "runbooks"
NAMES = sorted(file.name for file in FOLDER.glob("*.md"))
THREADS = document("threads_4x8_busy")
HOSTILE = "o'b\"><script>alert(1)</script>\\$(id)`id`;&-é"


@pytest.fixture(scope="module")
def stats(tmp_path_factory):
    """A captured document, at a path that needs quoting."""
    path = tmp_path_factory.mktemp("it's $(a) \"<b>") / "shop.json"
    path.write_bytes(THREADS)
    return path


@pytest.fixture(scope="module")
def port(stats):
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
    blocks = re.findall(rf'<pre class="{language}">(.*?)</pre>', html, re.DOTALL)
    return unescape(re.sub("<[^>]*>", "", "\n".join(blocks))).splitlines()


@pytest.mark.parametrize("name", NAMES)
def test_a_runbook_is_served_as_it_is_written(port, name):
    """The Markdown is served as text that no browser takes for a page."""
    status, headers, body = get(port, f"/runbooks/{name}")
    assert status == 200
    assert headers["Content-Type"] == "text/plain; charset=utf-8"
    assert headers["X-Content-Type-Options"] == "nosniff"
    assert body == (FOLDER / name).read_bytes()


@pytest.mark.parametrize("name", NAMES)
def test_a_runbook_is_a_page(port, name):
    """The page has every command with its placeholders marked, and no script."""
    text = (FOLDER / name).read_text()
    html = page(port, name.removesuffix(".md"))
    assert "<mark>" in html
    assert "<script" not in html
    for language in ("sh", "promql"):
        written = re.findall(rf"^ *```{language}\n(.*?)^ *```$", text, re.DOTALL | re.MULTILINE)
        assert commands(html, language) == [line.strip() for block in written for line in block.splitlines()]


@pytest.mark.parametrize("name", NAMES)
def test_a_runbook_is_filled_in_for_a_server(port, name):
    html = page(port, name.removesuffix(".md"), server="shop", worker="2")
    typed = "\n".join([*commands(html), *commands(html, "promql")])
    assert set(re.findall(r"\b(?:SERVER|STATS|EXPORTER)\b", typed)) == set()
    assert '<a href="/servers/shop">' in html


def test_the_values_are_those_of_the_server(port, stats):
    stuck = page(port, "UwsgiRequestStuck", server="shop", worker="2")
    assert shlex.split(commands(stuck)[0])[2] == f"file://{stats}"
    slower = page(port, "UwsgiSlower", server="shop")
    assert shlex.split(commands(slower)[0])[-1] == f"http://127.0.0.1:{port}"
    html = page(port, "UwsgiDown", server="<i>yesterday")
    assert "There is no server <b>&lt;i&gt;yesterday</b> now." in html
    assert "<mark>STATS</mark>" in html
    html = page(port, "UwsgiDown", server="gone")
    assert "uwsgi-headroom check --seconds 5 unix:///nowhere/at/all" in commands(html)
    assert "<mark>MASTER_PID</mark>" in html
    queries = commands(page(port, "UwsgiRequestStuck", server="a\u202eb"), "promql")
    assert queries == ['uwsgi_worker_oldest_request_age_seconds{server="SERVER"}']


@pytest.mark.parametrize("name", NAMES)
def test_no_command_has_a_pid_that_only_the_document_names(port, name):
    """The placeholders stay, and the page says why."""
    html = page(port, name.removesuffix(".md"), server="shop", worker="2")
    document = json.loads(THREADS)
    named = {document["pid"], *(worker["pid"] for worker in document["workers"])}
    assert not named & set(map(int, re.findall(r"\d+", html)))
    needs = re.search(r"\b(?:MASTER_PID|WORKER_PIDS?)\b", (FOLDER / name).read_text())
    assert bool(needs) == ("No PID is filled in: the stats did not come from a socket" in html)


@pytest.mark.integration
def test_the_pids_are_those_that_the_kernel_proves():
    """The commands of a running server have the PIDs of its master and of its workers."""
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


def test_links_keep_the_server(port):
    html = page(port, "UwsgiWorkerMemoryGrowing", server="shop", worker="1")
    assert '<a href="/runbooks/UwsgiRequestsLost?server=shop&amp;worker=1">UwsgiRequestsLost</a>' in html
    assert '<a href="/runbooks/?server=shop&amp;worker=1">' in html
    assert '<a href="/runbooks/UwsgiDown?server=shop">' in page(port, "", server="shop")
    html = page(port, "")
    assert re.findall(r'<li><a href="/runbooks/(\w+)">', html) == [name.removesuffix(".md") for name in NAMES]
    assert html.count("<li>") == html.count("<p>") == len(NAMES)
    assert len(NAMES) >= 20


@pytest.mark.parametrize("name", NAMES)
def test_a_hostile_name_stays_text(port, name, stats):
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


@pytest.mark.parametrize("host", ["a b", "x';id;'", "<b>", "x/y", ""])
def test_a_host_header_that_is_no_host_is_not_filled_in(port, host):
    """No part of such a header is on the page; at a loopback address, only an empty one gets that far."""
    status, _, body = get(port, "/runbooks/UwsgiSlower?server=shop", {"Host": host})
    assert status == (421 if host else 200)
    assert "--exporter EXPORTER" in "\n".join(commands(body.decode())) or status == 421
    headers = [(b"host", host.encode())]
    request = Request({"type": "http", "scheme": "http", "path": "/", "headers": headers})
    assert pages.find_exporter_address(request) is None


@pytest.mark.parametrize("code", RUNBOOKS)
def test_a_finding_leads_to_its_runbook(port, code):
    """The URL in its document leads to a page for that server, for any name."""
    for server in ("shop", HOSTILE):
        address = build.runbook_path(code, server)
        assert address is not None
        status, headers, body = get(port, address)
        assert (status, headers["Content-Type"]) == (200, "text/html; charset=utf-8")
        assert b"Commands are filled in for" in body


@pytest.mark.parametrize("code", RUNBOOKS)
def test_an_alert_leads_to_the_runbook_of_its_finding(port, code):
    """Alerts know only the code."""
    assert page(port, code, server="shop") == page(port, RUNBOOKS[code], server="shop")


def test_an_alert_of_a_finding_without_a_runbook_leads_to_its_server(port):
    """Without such a server, there is nothing to show; its URL in a document is null."""
    status, headers, _ = get(port, "/runbooks/workers_stopped?server=shop&worker=")
    assert (status, headers["Location"]) == (307, "/servers/shop")
    assert get(port, "/runbooks/workers_stopped?server=none")[0] == 404
    assert get(port, "/runbooks/workers_stopped")[0] == 404
    assert build.runbook_path("thunder_lock", "shop") is None


@pytest.mark.parametrize(
    "path",
    ["None.md", "None", "UwsgiDown.md.md", "../app.py", "..%2Fapp.py.md", "%2e%2e%2fapp.md", "/etc/passwd.md", ".md"],
)
def test_nothing_else_is_served(port, path):
    status, headers, body = get(port, f"/runbooks/{path}")
    assert status == 404
    assert headers["Content-Type"].startswith("text/plain; charset=utf-8")
    assert len(body) < 100


def test_a_request_reads_no_file(port, monkeypatch):
    """200 clients that request a runbook's text would otherwise have all runbooks read for each of their requests."""
    get(port, f"/runbooks/{NAMES[0]}")

    def fail(_path, *_):
        raise AssertionError("a file was read")

    monkeypatch.setattr(Path, "read_text", fail)
    assert get(port, f"/runbooks/{NAMES[0]}")[0] == 200
    status, _, _ = get(port, f"/runbooks/Nothing?server=a{16 * '&x'}")
    assert status == 404
    assert get(port, f"/runbooks/?server=a{16 * '&x'}")[0] == 400


def test_runbooks_take_no_place_of_the_page(port, monkeypatch):
    """A request may name any worker, so a crowd could fill all places of the kind of builds that runbooks belong to."""
    kinds = set()
    original = SharedBuilds.get

    async def get_and_note(self, kind, *arguments):
        kinds.add(kind.name)
        return await original(self, kind, *arguments)

    monkeypatch.setattr(SharedBuilds, "get", get_and_note)
    assert get(port, "/runbooks/UwsgiDown?server=shop&worker=77")[0] == 200
    assert get(port, "/runbooks/")[0] == 200
    assert kinds == {"runbooks"}
    assert get(port, "/")[0] == 200
    assert kinds == {"runbooks", "documents"}
