"""Each route answers as promised, and refuses more than its limit."""

import os
import threading
import time

import pytest

from app import api, fibonacci


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
