"""Scrapes when something is wrong with one server, or with the exporter."""

import asyncio
import gzip
import re
import threading

import pytest
from prometheus_client.metrics_core import Metric
from starlette.requests import Request
from starlette.routing import Route

from tests.support.captured_documents import path
from tests.support.clock import MovableClock
from uwsgi_headroom import metrics
from uwsgi_headroom.config.servers import make_server
from uwsgi_headroom.errors import ReadError
from uwsgi_headroom.metrics.exposition import render_family
from uwsgi_headroom.watch import turns as turns_module
from uwsgi_headroom.watch.fleet import Fleet
from uwsgi_headroom.watch.observation import Observation
from uwsgi_headroom.web import metrics_route, shared_builds
from uwsgi_headroom.web.shared_builds import SharedBuilds

NAMES = ["minified", "threads_4x8_busy", "no_cores"]


def make_fleet() -> Fleet:
    return Fleet([make_server(f"file://{path(name)}", name=name) for name in NAMES])


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


@pytest.mark.parametrize("broken", NAMES)
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
    assert [f'uwsgi_up{{server="{name}"}} 0.0' in body for name in NAMES] == [True] * 3
    assert not any(isinstance(watch.reader.outcome, ReadError) for watch in fleet.watches())
