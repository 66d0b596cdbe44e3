"""Response times of a real uWSGI, against those that its application wrote down."""

import http.client
import json
import random
import socket
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.history.response_times import timed_app
from tests.support.exporter import exporter
from tests.support.real_uwsgi import uwsgi, wait_until

pytestmark = pytest.mark.integration

REQUESTS = 160


def test_percentiles_of_a_real_server():
    """All are counted, their sum is the application's, the slow ones are found, the 95th percentile is true."""
    chance = random.Random(1)
    seconds = [(0.9 if place % 10 == 5 else 0.04) * chance.uniform(0.9, 1.1) for place in range(REQUESTS)]
    with (
        uwsgi("--processes", "2", "--threads", "8", app=Path(timed_app.__file__)) as server,
        exporter("--stats", f"shop={server.stats}", "--samples-per-second", "10", "--slo", "500ms:95%") as running,
    ):

        def ask(each):
            client = http.client.HTTPConnection("127.0.0.1", server.http, timeout=60)
            client.request("GET", f"/{each:.3f}")
            return client.getresponse().status

        wait_until(lambda: "uwsgi_response_time_seconds_count" in running.metrics(), what="the first sample")
        with ThreadPoolExecutor(8) as pool:
            assert set(pool.map(ask, seconds)) == {200}
        wait_until(lambda: running.value("uwsgi_response_time_seconds_count") == REQUESTS, what="all to be counted")
        _, body = running.get("/api/v2/servers/shop")
        values = running.scrape()
        truth = sorted(
            float(line) for file in server.directory.glob("times-*") for line in file.read_text().splitlines()
        )
    times, objective = json.loads(body)["response_times"], json.loads(body)["objective"]
    assert len(truth) == times["requests"] == REQUESTS
    assert values['uwsgi_response_time_seconds_sum{server="shop"}'] == pytest.approx(sum(truth), rel=0.1)
    percentiles = {percentile["share"]: percentile for percentile in times["percentiles"]}
    assert percentiles[0.95]["seconds"] == pytest.approx(truth[int(0.95 * REQUESTS)], rel=0.3)
    assert percentiles[0.5]["low"] <= truth[REQUESTS // 2]
    slow = sum(each > 0.5 for each in truth)
    assert objective["windows"][0]["slow"] == pytest.approx(slow, abs=2)
    assert values['uwsgi_slo_bad_requests_total{reason="slow",server="shop"}'] == pytest.approx(slow, abs=3)


@pytest.mark.parametrize("place", ["TCP", "UNIX"])
def test_waits_in_the_queue_of_a_real_server(place):
    """The oldest request is seen while it waits, and the percentiles are those of the clients' clocks."""
    with (
        uwsgi("--processes", "1", "--http-socket", "web", app=Path(timed_app.__file__)) as server,
        exporter("--stats", f"shop={server.stats}", "--samples-per-second", "10") as running,
    ):
        name = 'uwsgi_listen_queue_oldest_wait_seconds{server="shop"}'
        wait_until(lambda: running.scrape().get(name) == 0, what="the first sample")

        def ask(_):
            client = socket.socket(socket.AF_INET if place == "TCP" else socket.AF_UNIX)
            client.connect(("127.0.0.1", server.http) if place == "TCP" else str(server.directory / "web"))
            began = time.monotonic()
            client.sendall(b"GET /0.3 HTTP/1.0\r\n\r\n")
            while client.recv(4096):
                pass
            client.close()
            return time.monotonic() - began

        with ThreadPoolExecutor(12) as pool:
            asked = pool.map(ask, range(12))
            wait_until(lambda: running.scrape().get(name, 0.0) > 1.5, what="a request that waits long")
            took = sorted(asked)
        wait_until(lambda: running.value("uwsgi_response_time_seconds_count") == 12, what="all to be counted")
        _, body = running.get("/api/v2/servers/shop")
        served = [float(line) for file in server.directory.glob("times-*") for line in file.read_text().splitlines()]
        assert running.scrape()[name] == 0
    document = json.loads(body)
    waits = [time - sum(served) / len(served) for time in took]
    assert document["flow"]["queue_wait"] == pytest.approx(sum(waits) / 12, rel=0.15)
    percentiles = {percentile["share"]: percentile for percentile in document["queue_waits"]["percentiles"]}
    assert percentiles[0.9]["seconds"] == pytest.approx(waits[10], rel=0.15)
    assert percentiles[0.5]["low"] <= waits[5]


def test_a_real_server_beside_clients_that_send_nothing():
    """No percentile is one that the mean makes impossible, and the histogram has no request of a second."""
    ended = threading.Event()
    with (
        uwsgi("--processes", "1", "--threads", "4", app=Path(timed_app.__file__)) as server,
        exporter("--stats", f"shop={server.stats}") as running,
        ThreadPoolExecutor(4) as pool,
    ):

        def say_nothing():
            while not ended.wait(0.02):
                with socket.create_connection(("127.0.0.1", server.http), timeout=60):
                    ended.wait(1.0)

        wait_until(lambda: "uwsgi_response_time_seconds_count" in running.metrics(), what="the first sample")
        silent = [pool.submit(say_nothing) for _ in range(2)]
        try:
            for _ in range(REQUESTS * 4):
                client = http.client.HTTPConnection("127.0.0.1", server.http, timeout=60)
                client.request("GET", "/0.001")
                client.getresponse().read()
                client.close()
                time.sleep(0.01)
        finally:
            ended.set()
            for each in silent:
                each.result()
        wait_until(lambda: running.value("uwsgi_response_time_seconds_count") == REQUESTS * 4, what="all to be counted")
        _, body = running.get("/api/v2/servers/shop")
        values = running.scrape()
    document = json.loads(body)
    mean = document["flow"]["response_time"]
    for percentile in document["response_times"]["percentiles"]:
        most = mean / (1 - percentile["share"])
        assert (percentile["seconds"] or percentile["under"]) <= 1.001 * most
    slow = REQUESTS * 4 - values['uwsgi_response_time_seconds_bucket{le="0.8",server="shop"}']
    assert 0.8 * slow <= values['uwsgi_response_time_seconds_sum{server="shop"}']
