"""The JSON API over HTTP: paths, parameters and refusals."""

import gzip
import json
from urllib.parse import quote

import pytest

from tests.documents.test_openapi import validate
from tests.support.captured_documents import document
from tests.support.web_server import get, serving
from tests.web.test_app import replayed
from uwsgi_headroom.config.servers import ServerConfig, make_server
from uwsgi_headroom.documents import openapi


@pytest.fixture(scope="module")
def port():
    """The port of an exporter of a server, an emperor and a server that is down."""
    with serving(replayed("threads_4x8_busy"), replayed("emperor"), "gone=/nowhere/stats") as listening:
        yield listening


def test_the_list(port):
    """Every server is listed, unreadable ones first, each with the path of its document."""
    status, headers, body = get(port, "/api/v2/servers")
    document = json.loads(body)
    validate(document, "Servers")
    assert (status, headers["Content-Type"]) == (200, "application/json")
    assert (headers["Cache-Control"], headers["X-Content-Type-Options"]) == ("no-store", "nosniff")
    assert "Access-Control-Allow-Origin" not in headers
    assert document["servers"][0]["name"] == "gone"
    for server in document["servers"]:
        server_document = json.loads(get(port, server["path"])[2])
        validate(server_document, "ServerDocument")
        assert (server_document["name"], server_document["status"]) == (server["name"], server["status"])


@pytest.mark.parametrize(
    ("path", "schema"),
    [
        ("", "ServerDocument"),
        ("?window=300", "ServerDocument"),
        ("?window=300.0", "ServerDocument"),
        ("/findings", "Findings"),
        ("/findings?window=60", "Findings"),
        ("/history", "HistoryDocument"),
        ("/history?seconds=300&points=600", "HistoryDocument"),
        ("/history?until=1700000000.5&seconds=2&points=1", "HistoryDocument"),
        ("/history?seconds=&points=", "HistoryDocument"),
        ("/journal", "JournalDocument"),
        ("/journal?seconds=0.5", "JournalDocument"),
        ("/journal?limit=1&before=1e9,1", "JournalDocument"),
        ("/what-if", "WhatIf"),
        ("/what-if?settings=8x4,4x8", "WhatIf"),
    ],
)
@pytest.mark.parametrize("name", ["threads_4x8_busy", "emperor", "gone"])
def test_documents_of_a_server(port, name, path, schema):
    status, _, body = get(port, f"/api/v2/servers/{name}{path}")
    assert status == 200
    validate(json.loads(body), schema)


@pytest.mark.parametrize(
    ("path", "status", "words"),
    [
        ("servers/nobody", 404, "'nobody'"),
        ("servers/", 404, "/api/v2/servers"),
        ("servers/nobody/history", 404, "no server"),
        ("servers/emperor/future", 404, "no server"),
        ("servers/emperor/history/", 404, "no server"),
        ("", 404, "openapi.json"),
        ("nothing", 404, "openapi.json"),
        ("servers?window=61", 400, "60 or 300"),
        ("servers/emperor?window=1m", 400, "'1m'"),
        ("servers/emperor?window=nan", 400, "window"),
        ("servers/emperor/events?window=0", 400, "window"),
        ("events?window=x", 400, "window"),
        ("servers/emperor/findings?window=-60", 400, "window"),
        ("servers/emperor/history?seconds=1", 400, "from 2 to 3600"),
        ("servers/emperor/journal?seconds=3601", 400, "from 0 to 3600"),
        ("servers/emperor/journal?limit=1001", 400, "from 1 to 1000"),
        ("servers/emperor/journal?before=1", 400, "`next`"),
        ("servers/emperor/journal?before=nan,1", 400, "before"),
        ("servers/emperor/journal?before=1,1,1", 400, "before"),
        ("servers/emperor/history?seconds=3601", 400, "seconds"),
        ("servers/emperor/history?seconds=inf", 400, "seconds"),
        ("servers/emperor/history?points=0", 400, "from 1 to 600"),
        ("servers/emperor/history?points=601", 400, "points"),
        ("servers/emperor/history?points=2.5", 400, "whole number"),
        ("servers/emperor/history?points=many", 400, "'many'"),
        ("servers/emperor/history?until=nan", 400, "until"),
        ("servers/emperor/history?until=-1", 400, "until"),
        ("servers/emperor/what-if?settings=8x", 400, "such as 8x4"),
        ("servers/emperor/what-if?settings=8x4,0x1", 400, "1 to 1024"),
        ("servers/emperor/what-if?settings=1e9x1", 400, "'1e9x1'"),
        ("servers/emperor/what-if?settings=-1x1", 400, "settings"),
        ("servers/emperor/what-if?settings=1x1,1x2,1x3,1x4,1x5,1x6,1x7,1x8,1x9,2x1,2x2,2x3,2x4", 400, "at most 12"),
        ("servers/emperor/what-if?settings=" + ",".join(map(str, range(1500))), 400, "1500 settings are too many"),
        ("servers/nobody/what-if", 404, "no server"),
        ("servers?window=60" + 16 * "&a", 400, "16 parameters"),
        ("servers/emperor/history?" + 4000 * "a&", 400, "16 parameters"),
    ],
)
def test_what_is_refused(port, path, status, words):
    """A refusal is a document that says what is allowed."""
    code, headers, body = get(port, f"/api/v2/{path}")
    document = json.loads(body)
    validate(document, "Problem")
    assert (code, headers["Content-Type"], headers["Cache-Control"]) == (status, "application/json", "no-store")
    assert words in document["error"]


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH", "OPTIONS"])
def test_nothing_can_be_changed(port, method):
    """Only reading is possible, and no other site's page may read."""
    status, headers, _ = get(port, "/api/v2/servers", method=method, headers={"Origin": "http://elsewhere.example"})
    assert status == 405
    assert not [name for name in headers if name.lower().startswith("access-control")]


def test_head_of_everything(port):
    """HEAD returns only headers, even for a stream, which then does not stay open."""
    for path in (
        "servers",
        "servers/emperor",
        "servers/emperor/history",
        "servers/emperor/what-if",
        "servers/emperor/events",
        "events",
    ):
        status, _, body = get(port, f"/api/v2/{path}", method="HEAD")
        assert (status, body) == (200, b"")


def test_the_description_is_served(port):
    """Large documents are compressed for who takes it. None has a variable of a request."""
    status, headers, body = get(port, "/api/v2/openapi.json")
    assert (status, headers["Content-Type"]) == (200, "application/json")
    assert body == openapi.render()
    _, headers, packed = get(port, "/api/v2/openapi.json", headers={"Accept-Encoding": "gzip, deflate, br"})
    assert (headers["Content-Encoding"], headers["Vary"]) == ("gzip", "Accept-Encoding")
    assert gzip.decompress(packed) == openapi.render()
    _, headers, _ = get(port, "/api/v2/servers", headers={"Accept-Encoding": "gzip"})
    assert headers["Content-Encoding"] is None
    with serving(replayed("hostile_everything")) as hostile:
        for part in ("", "/findings", "/history"):
            body = get(hostile, f"/api/v2/servers/hostile_everything{part}")[2].decode()
            assert "HTTP_" not in body
            assert "cookie" not in body.lower()


NAMES = ["/run/a/b.stats", "a/b/history", "a b", "quo\"te's", "ünï-✓", "x?y#z", "100%", "a+b", "..", "events"]
NAMES += ["x\n# HELP evil y\n"]


@pytest.mark.parametrize("name", NAMES)
def test_any_name(tmp_path, name):
    """A name may be a path with any characters, and its slashes may be written as slashes. Each server has a page."""
    (tmp_path / "stats").write_bytes(document("minified"))
    address = make_server(f"file://{tmp_path}/stats").address
    with serving(ServerConfig(name, address)) as port:
        (listed,) = json.loads(get(port, "/api/v2/servers")[2])["servers"]
        for path in (listed["path"], f"/api/v2/servers/{quote(name, safe='/')}"):
            for part in ("", "/history", "/findings", "/what-if"):
                status, _, body = get(port, path + part)
                assert (status, json.loads(body)["name"]) == (200, name)
        assert get(port, f"/servers/{quote(name, safe='')}")[0] == 200


def test_a_path_that_no_string_can_hold():
    with serving(make_server("/nowhere/\udcff")) as port:
        (listed,) = json.loads(get(port, "/api/v2/servers")[2])["servers"]
        status, _, body = get(port, listed["path"])
    assert status == 200
    assert "\\udcff" in json.loads(body)["address"]


def test_the_version_before_has_ended(port):
    """Its paths answer 410 with one sentence that names the present version; but the list of servers is still there."""
    assert get(port, "/api/v1/servers")[2] == get(port, "/api/v2/servers")[2]
    for path in ("servers/shop/history", "servers/shop", "openapi.json"):
        code, _, body = get(port, f"/api/v1/{path}")
        assert (code, b"/api/v2/openapi.json describes the present one" in body) == (410, True)
