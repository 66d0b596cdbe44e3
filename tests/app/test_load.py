"""A load makes the declared requests, stays within its bounds, and stops in time."""

import asyncio
import json
import os
import random
import subprocess
import sys
import threading
import time
from urllib.parse import parse_qs, urlsplit

import pytest

from app import api, fibonacci, load
from app.load import Load, Tally
from tests.support import real_uwsgi
from tools.environments import ROOT
from tools.scenarios.scenario import Load as ScenarioLoad


def test_clients_swing_between_their_bounds():
    """Without a period, all of them ask."""
    counts = [load.awake_clients(Load(clients=10, fewest=2, period=60), second) for second in range(120)]
    assert (min(counts), max(counts)) == (2, 10)
    assert (counts[0], counts[30]) == (2, 10)
    assert [load.awake_clients(Load(clients=10, fewest=2), second) for second in (0, 30)] == [10, 10]


def test_loads_survive_the_command_line_and_an_absent_server():
    chance, declared = random.Random(1), Load(path="/mixed?a=1", io_ms=100, cpu_ms=10, spread=0.5)
    targets = [urlsplit(load.target(declared, chance)) for _ in range(500)]
    assert {url.path for url in targets} == {"/mixed"}
    for name, least, most in (("io_ms", 50, 150), ("cpu_ms", 5, 15)):
        drawn = [float(parse_qs(url.query)[name][0]) for url in targets]
        assert least <= min(drawn) < least * 1.1
        assert most * 0.9 < max(drawn) <= most
    loads = [(Load(clients=3, socket="second"), ("127.0.0.1", 80)), (Load(rate=2.0, path="/x?y=1"), "/run/web")]
    assert load.from_json(load.as_json(loads)) == loads
    ((restored, _),) = load.from_json(load.as_json([(ScenarioLoad(part=0.5, rate=7.0), "/run/web")]))
    assert restored == Load(rate=7.0)
    port = real_uwsgi.free_port()
    assert run_until_at(port, [Load(clients=1)], lambda tally: tally.refused > 2).answered == 0


@pytest.mark.integration
def test_load_moves_the_counters(served):
    """uWSGI has served the requests that the load counts as answered, to both kinds of clients."""
    before = served.count("requests")
    tally = run_until(served, [Load(clients=2, path="/pong"), Load(rate=50, path="/pong")], lambda t: t.answered > 20)
    assert served.count("requests") - before >= tally.answered
    assert (tally.refused, tally.failed, tally.left_out) == (0, 0, 0)
    assert 0 < tally.summary()["mean"] <= tally.longest
    assert run_until(served, [Load(clients=1, path="/error")], lambda tally: tally.failed > 0).answered == 0


@pytest.mark.integration
def test_clients_with_limits(served):
    tally = run_until(served, [Load(rate=100, path="/slow?s=1", most=2)], lambda tally: tally.left_out > 10)
    assert served.count("in_request") <= 2
    assert tally.refused == 0
    begun = time.monotonic()
    tally = run_until(served, [Load(clients=1, path="/slow?s=1", patience_ms=100)], lambda tally: tally.failed > 0)
    assert (tally.answered, time.monotonic() - begun >= 0.1) == (0, True)
    assert run_until(served, [Load(clients=1, path="/pong", patience_ms=20_000)], lambda t: t.answered > 0).failed == 0
    tally = run_until(served, [Load(clients=1, path="/pong", late_ms=300)], lambda tally: tally.answered > 1)
    assert tally.failed == 0
    assert tally.summary()["mean"] >= 0.3


@pytest.mark.integration
def test_the_program_ends_in_time_with_its_number_of_requests(served):
    tally = Tally()
    loads = [(Load(clients=2, path="/pong", requests=3), ("127.0.0.1", served.port))]

    async def run():
        await asyncio.gather(*load.started(loads, tally))

    asyncio.run(run())
    assert tally.answered == 6
    loads = load.as_json([(Load(clients=1, path="/pong"), ("127.0.0.1", served.port))])
    command = [sys.executable, "-m", "app.load", loads, "--seconds", "0.5"]
    start = time.monotonic()
    ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True, timeout=60)
    assert time.monotonic() - start >= 0.5
    assert json.loads(ended.stdout)["answered"] > 0


def run_until(served, loads, enough):
    return run_until_at(served.port, loads, enough)


def run_until_at(port, loads, enough):
    """Runs loads until their tally is `enough`, however busy the machine is; returns the tally."""

    async def run():
        tally = Tally()
        tasks = load.started([(declared, ("127.0.0.1", port)) for declared in loads], tally)
        end = time.monotonic() + 60
        while not enough(tally) and time.monotonic() < end:  # noqa: ASYNC110 - the tally signals no changes
            await asyncio.sleep(0.01)
        assert enough(tally), tally
        assert not any(task.done() for task in tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        return tally

    return asyncio.run(run())


def test_clients_that_keep_their_connections():
    connections = []

    async def serve(reader, writer):
        connections.append(writer)
        for _ in range(3):
            await reader.readuntil(b"\r\n\r\n")
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nok\n")
        writer.close()

    async def both():
        server = await asyncio.start_server(serve, "127.0.0.1", 0)
        host, port = server.sockets[0].getsockname()
        async with server:
            return await load.run([(Load(clients=2, think_ms=20, keep_alive=True), (host, port))], 0.5)

    tally = asyncio.run(both())
    assert tally.answered > 6
    assert tally.failed == tally.refused == 0
    assert len(connections) == pytest.approx(tally.answered / 3, abs=2)


@pytest.fixture
def client():
    return api.app.test_client()


def test_a_sequence_ends_with_the_first_value_above_the_number(client):
    """/9000 returns 22 numbers. It goes beyond a number that is in the sequence."""
    sequence = client.get("/9000").json
    assert len(sequence) == 22
    assert sequence[:4] == [0, 1, 1, 2]
    assert sequence[-2:] == [6765, 10946]
    assert client.get("/8").json[-2:] == [8, 13]
    assert client.get("/0").json == [0, 1]
    assert [fibonacci.naive(n) for n in range(8)] == fibonacci.beyond(8)


def test_huge_numbers_are_refused(client):
    """A short URL cannot request a huge response."""
    assert client.get(f"/{10**100}").status_code == 200
    refused = client.get(f"/{10**100 + 1}")
    assert (refused.status_code, refused.text) == (400, "the number can be at most 1 followed by 100 zeros\n")
    refused = client.get("/fib/36")
    assert refused.status_code == 400
    assert "at most 35" in refused.text


def test_plain_responses(client):
    answer = client.get("/pong")
    assert (answer.text, answer.mimetype, answer.content_length) == ("Pong!", "text/plain", 5)
    thread = threading.current_thread().name
    assert client.get("/fib/10").json == {"value": 55, "pid": os.getpid(), "thread": thread}
    text = client.get("/").text
    own = [rule.rule.split("<")[0] for rule in api.app.url_map.iter_rules() if rule.endpoint != "static"]
    assert [route for route in own if route not in text] == []


def test_what_a_request_uses(client):
    """/mixed uses the requested CPU time, and its wait adds none; /slow only waits."""
    cpu, wall = time.thread_time(), time.monotonic()
    answer = client.get("/mixed?cpu_ms=30&io_ms=60")
    cpu, wall = time.thread_time() - cpu, time.monotonic() - wall
    assert answer.json == {"cpu_ms": 30, "io_ms": 60}
    assert wall >= 0.09
    assert 0.03 <= cpu < 0.08
    cpu, wall = time.thread_time(), time.monotonic()
    assert client.get("/slow?s=0.05").json == {"s": 0.05}
    assert time.monotonic() - wall >= 0.05
    assert time.thread_time() - cpu < 0.04


@pytest.mark.parametrize("text", ["-1", "nan", "inf", "1e9", "much", "1,5"])
@pytest.mark.parametrize(("route", "name"), [("/mixed", "cpu_ms"), ("/mixed", "io_ms"), ("/slow", "s")])
def test_nonsense_is_refused_by_name(client, route, name, text):
    refused = client.get(f"{route}?{name}={text}")
    assert refused.status_code == 400
    assert refused.text.startswith(f"{name} must be a number from 0 to ")
    assert repr(text) in refused.text


def test_error_escapes_from_flask(client):
    """The exception reaches uWSGI; Flask does not turn it into a 500, which uWSGI would count as a success."""
    with pytest.raises(RuntimeError, match="asked to fail"):
        client.get("/error")


@pytest.mark.parametrize("path", ["/abc", "/-5", "/fib/-1", "/fib/x"])
def test_anything_else_is_not_found(client, path):
    assert client.get(path).status_code == 404
