"""The load moves the counters, stays within its bounds, and knows when to stop."""

from __future__ import annotations

import asyncio
import random
import time

import pytest

from app import api, load
from tests.support import real_uwsgi


def test_clients_breathe_between_their_bounds():
    counts = [load.clients_at(second) for second in range(int(2 * load.PERIOD))]
    assert (min(counts), max(counts)) == (load.FEWEST, load.MOST)
    assert counts[0] == load.FEWEST
    assert counts[int(load.PERIOD / 2)] == load.MOST


def test_every_request_is_one_the_application_knows():
    """All kinds of requests come up, and none of them is refused."""
    rng, routes = random.Random(1), api.app.url_map.bind("127.0.0.1")
    endpoints = {routes.match(load.choose(rng).split("?")[0])[0] for _ in range(5_000)}
    assert endpoints == {"mixed", "sequence", "pong", "slow", "error"}


@pytest.mark.integration
def test_load_moves_the_counters(served):
    """What the load calls answered was served by uWSGI, and never more requests at once than clients."""
    before = served.count("requests")
    tally = run_until(served, lambda tally: tally.answered > 5)
    assert tally.refused_since is None
    assert served.count("requests") - before >= tally.answered
    assert served.count("in_request") <= load.MOST


@pytest.mark.integration
def test_load_ends_in_time(served):
    start = time.monotonic()
    asyncio.run(load.run("127.0.0.1", served.port, 0.5, random.Random(1), load.Tally()))
    assert 0.5 <= time.monotonic() - start < 10


@pytest.mark.integration
def test_exception_is_a_request_without_an_answer(served, monkeypatch):
    monkeypatch.setattr(load, "choose", lambda rng: "/error")
    assert run_until(served, lambda tally: tally.unanswered > 0).answered == 0


def run_until(served, enough) -> load.Tally:
    """The tally of a load that runs until it has `enough`, however busy the machine is."""

    async def run() -> load.Tally:
        tally = load.Tally()
        running = asyncio.ensure_future(load.run("127.0.0.1", served.port, 60.0, random.Random(1), tally))
        while not enough(tally) and not running.done():  # noqa: ASYNC110 - the tally tells nobody
            await asyncio.sleep(0.01)
        assert not running.done()
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
        return tally

    return asyncio.run(run())


def test_load_ends_when_the_server_has_gone(monkeypatch):
    """Refused for longer than its patience, it stops and says why."""
    monkeypatch.setattr(load, "PATIENCE", 0.1)
    port, start = real_uwsgi.free_port(), time.monotonic()
    assert load.main([str(port)]) == f"the application on port {port} has gone"
    assert time.monotonic() - start < 5


def test_load_outlives_a_server_that_comes_back():
    """A reload refuses connections for a moment: that is not the end."""
    tally = load.Tally(refused_since=10.0)
    assert not tally.gone(10.0 + load.PATIENCE)
    assert tally.gone(10.1 + load.PATIENCE)
    tally.refused_since = None
    assert not tally.gone(1e9)
