"""The JSON API over HTTP: paths, parameters and refusals."""

import asyncio
import gzip
import json
import re
import threading
from urllib.parse import quote

import pytest
from prometheus_client.metrics_core import Metric
from starlette.requests import Request
from starlette.routing import Route

from tests.documents.test_openapi import validate
from tests.support.captured_documents import document, path
from tests.support.simulated_server import MovableClock
from tests.support.web_server import get, serving
from tests.web.test_app import replayed
from uwsgi_headroom import metrics
from uwsgi_headroom.config.servers import ServerConfig, make_server
from uwsgi_headroom.documents import openapi
from uwsgi_headroom.errors import ReadError
from uwsgi_headroom.metrics.exposition import render_family
from uwsgi_headroom.watch import turns as turns_module
from uwsgi_headroom.watch.fleet import Fleet
from uwsgi_headroom.watch.observation import Observation
from uwsgi_headroom.web import metrics_route, shared_builds
from uwsgi_headroom.web.shared_builds import SharedBuilds


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
    for route in (
        "servers",
        "servers/emperor",
        "servers/emperor/history",
        "servers/emperor/what-if",
        "servers/emperor/events",
        "events",
    ):
        status, _, body = get(port, f"/api/v2/{route}", method="HEAD")
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
    for route in ("servers/shop/history", "servers/shop", "openapi.json"):
        code, _, body = get(port, f"/api/v1/{route}")
        assert (code, b"/api/v2/openapi.json describes the present one" in body) == (410, True)


DOCUMENTS = ["minified", "threads_4x8_busy", "no_cores"]


def make_fleet() -> Fleet:
    return Fleet([make_server(f"file://{path(name)}", name=name) for name in DOCUMENTS])


def make_route(fleet: Fleet) -> Route:
    (route,) = metrics_route.routes(fleet, SharedBuilds(MovableClock().clock))  # no build takes time
    return route


async def scrape(route: Route, accept: str = "", encoding: str = "") -> str:
    """The body of one response."""
    headers = [(b"accept", accept.encode()), (b"accept-encoding", encoding.encode())]

    async def receive() -> object:
        return await asyncio.Event().wait()  # the client stays

    request = Request({"type": "http", "method": "GET", "path": "/metrics", "headers": headers}, receive)
    response = await route.endpoint(request)
    body = bytes(response.body)
    return (gzip.decompress(body) if response.headers.get("content-encoding") else body).decode()


async def read_and_scrape(fleet: Fleet, times: int = 1) -> list[str]:
    await asyncio.gather(*(watch.reader.read() for watch in fleet.watches()))
    route = make_route(fleet)
    return [await scrape(route) for _ in range(times)]


@pytest.mark.parametrize("broken", DOCUMENTS)
async def test_a_fault_about_one_server_is_that_servers_failure(broken, monkeypatch, caplog):
    """The server is down with the reason `internal`, logged once, without series; other servers are not affected."""
    (well,) = await read_and_scrape(make_fleet())
    words = "hunter2"

    def families(observations, health):
        if any(observation.reading for observation in observations if observation.name == broken):
            raise ZeroDivisionError(words)
        return metrics.families(observations, health)

    monkeypatch.setattr(metrics_route, "families", families)
    bodies = await read_and_scrape(make_fleet(), times=3)

    def of_others(body):
        """The names of the series, because the values of times differ."""
        lines = [line.rpartition(" ")[0] for line in body.splitlines() if not line.startswith("#")]
        return [line for line in lines if f'server="{broken}"' not in line]

    for body in bodies:
        assert of_others(body) == of_others(well)
        assert f'uwsgi_up{{server="{broken}"}} 0.0' in body
        assert words not in body
    (record,) = [record for record in caplog.records if record.getMessage() == "internal error"]
    assert record.fields == {"server": broken}


async def test_rendering_leaves_turns_to_reads(monkeypatch):
    """Reads in flight get their turns between families while a response is rendered."""
    monkeypatch.setattr(turns_module, "SHORTEST_SECONDS", 0.0)
    monkeypatch.setattr(turns_module, "LONGEST_SECONDS", 0.0)
    rendered: list[int] = []
    turns = 0

    def render(family: Metric, *, openmetrics: bool) -> str:
        rendered.append(turns)
        return render_family(family, openmetrics=openmetrics)

    monkeypatch.setattr(metrics_route, "render_family", render)

    fleet = make_fleet()
    await asyncio.gather(*(watch.reader.read() for watch in fleet.watches()))
    route = make_route(fleet)
    scraping = asyncio.gather(*(scrape(route, accept) for accept in ("", "application/openmetrics-text")))
    while not scraping.done():
        turns += 1
        await asyncio.sleep(0)
    await scraping
    assert len(rendered) == len(set(rendered)) > 100


class _CountedFleet(Fleet):
    """A fleet that counts how often it is observed."""

    observed = 0

    async def observe(self, wait: float = 0.0) -> list[Observation]:
        self.observed += 1
        await asyncio.sleep(0)
        return [make_observation(str(self.observed))]


def make_observation(name: str) -> Observation:
    (watch,) = Fleet([make_server(f"file://{path('minified')}", name=name)]).watches()
    return watch.observe(())


async def test_a_crowd_of_scrapers_shares_answers():
    """All requests between two readings share one rendering; the first one after a reading starts another."""
    fleet = _CountedFleet([make_server(f"file://{path('minified')}")])
    await fleet.watches()[0].reader.read()
    route = make_route(fleet)
    crowd = await asyncio.gather(*(scrape(route) for _ in range(100)))
    await fleet.watches()[0].reader.read()
    numbers = [re.findall(r'uwsgi_up{server="(\d+)"}', body) for body in (*crowd, await scrape(route))]
    assert numbers == [*[["1"]] * 100, ["2"]]


@pytest.mark.parametrize("large", [False, True])
async def test_a_crowd_shares_the_compressed_answer(large, monkeypatch):
    """A response is compressed once for all gzip clients; a large one in a thread, so that reads continue."""
    threads: list[bool] = []

    def compress(body):
        threads.append(threading.current_thread() is not threading.main_thread())
        return gzip.compress(body)

    monkeypatch.setattr(shared_builds, "compress", compress)
    if large:
        monkeypatch.setattr(shared_builds, "_LARGE_BYTES", 1)

    fleet = make_fleet()
    await asyncio.gather(*(watch.reader.read() for watch in fleet.watches()))
    route = make_route(fleet)
    (body,) = set(await asyncio.gather(*(scrape(route, encoding="gzip") for _ in range(5))))
    assert "uwsgi_up{" in body
    assert threads == [large]


async def test_a_fleet_that_was_never_read(monkeypatch):
    """The response says that nothing is known yet."""
    fleet = make_fleet()
    monkeypatch.setattr(Fleet.wait_for_first, "__defaults__", (0.0,))
    body = await scrape(make_route(fleet))
    assert [f'uwsgi_up{{server="{name}"}} 0.0' in body for name in DOCUMENTS] == [True] * 3
    assert not any(isinstance(watch.reader.outcome, ReadError) for watch in fleet.watches())
