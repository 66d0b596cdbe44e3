"""`/probe`: what it answers, and what it never connects to."""

import asyncio
import contextlib
import gzip
import http.client
import json
import signal
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
import yaml
from msgspec.structs import replace
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import BaseRoute

from tests.alerts import receivers
from tests.support import alert_scenes, bad_servers, monitoring, observations, real_uwsgi
from tests.support.bad_servers import counted_server
from tests.support.cancellation import cancelled_everywhere
from tests.support.captured_documents import document
from tests.support.exporter import Exporter, exporter
from tests.support.markdown import blocks
from tests.support.monitoring import Prometheus
from tests.support.real_uwsgi import free_port, wait_until
from tools.environments import ROOT
from tools.scenarios.scenario import APP
from uwsgi_headroom import metrics
from uwsgi_headroom.config.defaults import SIZE_CAP
from uwsgi_headroom.config.servers import make_server, parse_pattern
from uwsgi_headroom.config.settings import ProbeConfig
from uwsgi_headroom.config.yaml_file import load_file
from uwsgi_headroom.watch.fleet import Fleet
from uwsgi_headroom.watch.probed import MOST_PROBED
from uwsgi_headroom.web import metrics_route
from uwsgi_headroom.web.app import create_application
from uwsgi_headroom.web.request_values import RefusedError
from uwsgi_headroom.web.shared_builds import SharedBuilds


@contextlib.contextmanager
def probing(directory: Path, *targets: str, servers: list[dict[str, str]], history: bool = False) -> Iterator[Exporter]:
    """Runs an exporter with these patterns."""
    configuration: dict[str, object] = {"servers": servers, "probe": {"targets": targets}}
    if history:
        configuration["history"] = str(directory / "history.sqlite")
    path = directory / "config.yml"
    path.write_text(json.dumps(configuration))  # JSON is YAML
    with exporter("--config", str(path)) as running:
        yield running


def probe(exporter: Exporter, target: str) -> tuple[int, str]:
    return exporter.get(f"/probe?target={quote(target, safe='')}")


def series(body: str) -> list[str]:
    return [line.rpartition(" ")[0] for line in body.splitlines() if not line.startswith("#")]


@contextlib.contextmanager
def port_counting_connections() -> Iterator[tuple[int, list[object]]]:
    """A listener on every loopback address, IPv6 too, that notes who connects."""
    seen: list[object] = []
    with socket.create_server(("", 0), family=socket.AF_INET6, dualstack_ipv6=True) as listener:
        listener.settimeout(0.02)
        ended = threading.Event()

        def accept() -> None:
            while not ended.is_set():
                with contextlib.suppress(OSError):
                    connection, address = listener.accept()
                    seen.append(address)
                    connection.close()

        thread = threading.Thread(target=accept)
        thread.start()
        try:
            yield listener.getsockname()[1], seen
        finally:
            ended.set()
            thread.join()


def test_a_scan_of_ports_connects_to_nothing(tmp_path):
    """Whatever is no allowed target is answered alike, whether it exists or not, and is never connected to."""
    with (
        port_counting_connections() as (port, seen),
        bad_servers.answers("unix", document("minified")) as shop,
        bad_servers.answers("unix", document("threads_4x8_busy")) as other,
        probing(
            tmp_path, f"{Path(other).parent}/*", "127.0.0.9:1", servers=[{"name": "shop", "stats": shop}], history=True
        ) as running,
    ):
        hosts = ["127.0.0.1", "127.1", "2130706433", "0x7f000001", "localhost", "LOCALHOST", "[::1]", "0", ""]
        hosts += ["[::ffff:127.0.0.1]", "user@127.0.0.1", "127.0.0.9:1@127.0.0.1", "%31%32%37.0.0.1"]
        hosts += ["127.0.0.9", "127.0.0.2"]
        refused = [f"{scheme}{host}:{port}" for scheme in ("", "tcp://", "http://", "https://") for host in hosts]
        refused += [f"127.0.0.1:{near}" for near in (*range(port - 20, port), port + 1)]  # ports where nothing listens
        refused += [f"file://{tmp_path}/config.yml", "file:///etc/passwd", f"{tmp_path}/config.yml", "/nowhere", shop]
        refused += [f"127.0.0.9:1\r\nHost: 127.0.0.1:{port}", f"127.0.0.9:1#@127.0.0.1:{port}", "@uwsgi", "shop "]
        answers = {probe(running, target) for target in refused}
        assert len(answers) == 1
        assert answers == {(403, f"{metrics_route._NOT_ALLOWED}\n")}
        assert seen == []

        status, body = probe(running, "shop")
        assert status == 200
        assert 'uwsgi_up{server="shop"} 1.0' in body
        status, body = probe(running, other)
        assert status == 200
        assert {"probe_success", "probe_duration_seconds"} <= set(series(body))
        assert [line for line in series(body) if f'server="{other}"' not in line and line[:6] != "probe_"] == []
        assert len(series(body)) > 100
        for path in ("/metrics", "/api/v2/servers", "/", "/api/v2/servers/shop/journal"):
            assert other not in running.get(path)[1]
        assert running.get(f"/api/v2/servers/{other}")[0] == 404
        running.process.send_signal(signal.SIGTERM)
        running.process.wait(60)
        kept = b"".join(file.read_bytes() for file in tmp_path.glob("history.sqlite*"))
        assert b"shop" in kept
        assert other.encode() not in kept
        assert seen == []


def test_success_is_that_stats_were_read():
    """Not while they are silent, and the kernel's figures are shown in their place."""
    for observation in (observations.up("minified"), replace(observations.up("minified"), is_silent=True)):
        made = {family.name: family for family in metrics_route._probe_families(observation, 0.1)}
        success, up = (made[name].samples[0].value for name in ("probe_success", "uwsgi_up"))
        assert success == up == (not observation.is_silent)


@pytest.fixture
def shop():
    """The address of a server that can be probed."""
    with bad_servers.answers("unix", document("minified")) as address:
        yield address


class Sampled(Fleet):
    """A fleet that samples from its making until it is closed."""

    def __init__(self, *patterns: str, named: tuple[str, ...] = ()) -> None:
        servers = [make_server(address, name=f"server{number}") for number, address in enumerate(named)]
        super().__init__(servers, probe=ProbeConfig(tuple(parse_pattern(pattern, "test") for pattern in patterns)))
        self.running = asyncio.create_task(self.run())

    async def close(self) -> None:
        self.running.cancel()
        await super().close()


async def ask(fleet: Fleet, target: str, *headers: tuple[bytes, bytes], query: str | None = None) -> Response:
    return await request(make_route(fleet), target, *headers, query=query)


def make_route(fleet: Fleet) -> BaseRoute:
    _, route = metrics_route.routes(fleet, SharedBuilds(fleet.clock))
    return route


async def request(route: object, target: str, *headers: tuple[bytes, bytes], query: str | None = None) -> Response:
    text = f"target={quote(target, safe='')}" if query is None else query
    scope = {
        "type": "http",
        "method": "GET",
        "path": "/probe",
        "query_string": text.encode(),
        "headers": list(headers),
        "server": ("127.0.0.1", 80),
        "scheme": "http",
    }

    async def receive() -> object:
        return await asyncio.Event().wait()  # the client stays

    try:
        response: Response = await route.endpoint(Request(scope, receive))
    except RefusedError as error:
        return PlainTextResponse(str(error), error.status)
    return response


async def test_answers_of_a_target_that_is_down(tmp_path):
    """An allowed target that cannot be read has a successful answer, which says so, as /metrics does."""
    expected = {
        "127.0.0.9:1": "refused",
        f"{tmp_path}/none.stats": "not_found",
        "localhost:1": "unreachable",  # a name that leads to loopback
    }

    fleet = Sampled("127.0.0.9:1", "localhost:1", f"{tmp_path}/*.stats")
    for target, reason in expected.items():
        response = await ask(fleet, target)
        body = bytes(response.body).decode()
        assert response.status_code == 200
        assert "\nprobe_success 0.0\n" in body
        assert f'uwsgi_up{{server="{target}"}} 0.0' in body
        assert f'uwsgi_exporter_read_errors_total{{reason="{reason}",server="{target}"}} 1.0' in body
    await fleet.close()


def test_off_unless_configured():
    paths = [getattr(route, "path", "") for route in create_application(Fleet([])).routes]
    assert "/probe" not in paths
    assert "/metrics" in paths
    assert make_route(Fleet([], probe=ProbeConfig()))


@pytest.mark.parametrize(
    "query",
    [
        "",
        "target",
        "target=",
        "target=a&target=b",
        "target=a&module=x",
        "module=x",
        "Target=a",
        "target=a&",
        "&target=a",
        "target=a;target=b&x=1",
        "=a",
        "&" * 1000,
    ],
)
async def test_parameters(query):
    response = await ask(Sampled(), "", query=query)
    assert (response.status_code, bytes(response.body).decode()) == (400, metrics_route._USAGE)


async def test_many_probes_share_one_reading_and_its_rendering(monkeypatch):
    """A hundred at a time cause no read of their own, and one rendering of each format."""
    rendered = 0

    def families(observations):
        nonlocal rendered
        rendered += 1
        return metrics.families(observations)

    monkeypatch.setattr(metrics_route, "families", families)

    with counted_server() as server:
        fleet = Sampled(f"{Path(server.address).parent}/*")
        route = make_route(fleet)
        answers = await asyncio.gather(*(request(route, server.address) for _ in range(100)))
        assert {answer.status_code for answer in answers} == {200}
        assert len(server.reads) <= 2
        assert rendered == 1
        assert len({bytes(answer.body) for answer in answers}) == 1
        await fleet.close()


async def test_formats(shop):
    """Text or OpenMetrics, compressed or not, as the client accepts."""
    fleet = Sampled(f"{Path(shop).parent}/*")
    route = make_route(fleet)
    response = await request(route, shop, (b"accept", b"application/openmetrics-text"), (b"accept-encoding", b"gzip"))
    assert response.headers["content-encoding"] == "gzip"
    body = gzip.decompress(bytes(response.body))
    assert body.endswith(b"# EOF\n")
    assert "openmetrics" in response.headers["content-type"]
    response = await request(route, shop)
    assert b"# EOF" not in bytes(response.body)
    assert response.headers["content-type"].startswith("text/plain; version=0.0.4")
    await fleet.close()


async def test_a_full_house():
    """A sentence, and when to try again; configured servers are not affected."""
    fleet = Sampled("127.0.*.*:1", named=("file:///nowhere",))
    for number in range(MOST_PROBED):
        fleet.probed.find(f"127.0.0.{number}:1", [])
    response = await ask(fleet, "127.0.1.0:1")
    assert (response.status_code, response.headers["retry-after"]) == (503, "60")
    assert b"50 addresses are probed already" in bytes(response.body)
    await fleet.watches()[0].reader.read()
    assert (await ask(fleet, "server0")).status_code == 200
    await fleet.close()


async def test_an_error_about_a_target_is_that_targets_failure(monkeypatch, caplog, shop):
    """As in /metrics: down, with the reason `internal`, logged once and without the document's words."""
    words = "hunter2"

    def families(observations):
        if observations[0].reading:
            raise ZeroDivisionError(words)
        return metrics.families(observations)

    monkeypatch.setattr(metrics_route, "families", families)

    fleet = Sampled(f"{Path(shop).parent}/*")
    for _ in range(2):
        body = bytes((await ask(fleet, shop)).body).decode()
        assert "\nprobe_success 0.0\n" in body
        assert f'uwsgi_up{{server="{shop}"}} 0.0' in body
    await fleet.close()
    assert [record.getMessage() for record in caplog.records].count("internal error") == 1
    assert words not in caplog.text


async def test_cancelled_at_every_await(shop):
    """The next probe of the same target works."""
    fleet = Sampled(f"{Path(shop).parent}/*")
    route = make_route(fleet)

    async def works():
        assert b'uwsgi_up{server="' in bytes((await asyncio.wait_for(request(route, shop), 60)).body)

    async def read_and_ask():
        for watch in fleet.probed.watches() if fleet.probed else ():
            await watch.reader.read()  # so that a new answer is built
        await request(route, shop)

    assert await cancelled_everywhere(read_and_ask, works) >= 1
    await fleet.close()


@pytest.mark.slow
def test_targets_that_misbehave(tmp_path):
    """Servers that hang, dribble, never end or send a document of the largest size: the probe is answered within the
    timeout of a read, other targets and /metrics meanwhile at once; the end of the exporter waits for none of them."""
    large = json.dumps({"version": "2.0.31", "workers": [], "padding": "x" * (SIZE_CAP - 100)}).encode()
    with (
        bad_servers.accepts_and_never_writes("tcp") as hanging,
        bad_servers.drips("tcp", document("minified"), 0.1) as dripping,
        bad_servers.endless("tcp") as endless,
        bad_servers.answers("tcp", large) as largest,
        bad_servers.answers("tcp", large + b" " * 200) as too_large,
        bad_servers.answers("unix", document("minified")) as shop,
    ):
        expected = {hanging: "timeout", dripping: "timeout", endless: "too_large", largest: "", too_large: "too_large"}
        with probing(tmp_path, *expected, servers=[{"name": "shop", "stats": shop}]) as running:
            answers: dict[str, str] = {}

            def one(target):
                answers[target] = probe(running, target)[1]

            threads = [threading.Thread(target=one, args=(target,)) for target in expected for _ in range(3)]
            for thread in threads:
                thread.start()
            for path in ("/probe?target=shop", "/metrics"):
                assert 'uwsgi_up{server="shop"} 1.0' in running.get(path)[1]
            assert hanging not in answers
            for thread in threads:
                thread.join(60)
            for target, reason in expected.items():
                assert f"\nprobe_success {0 if reason else 1}.0\n" in answers[target]
                errors = [
                    line for line in answers[target].splitlines() if line.startswith("uwsgi_exporter_read_errors")
                ]
                assert {line.split('"')[1] for line in errors if not line.endswith(" 0.0")} == ({reason} - {""})
            running.process.send_signal(signal.SIGTERM)
            assert running.process.wait(60) == -signal.SIGTERM


def test_a_probe_while_the_exporter_ends(tmp_path):
    """A probe that waits for its first reading is answered at the end, and nothing is logged as a fault."""
    with (
        bad_servers.accepts_and_never_writes("unix") as hanging,
        probing(tmp_path, f"{Path(hanging).parent}/*", servers=[]) as running,
    ):
        answers: list[object] = []

        def one():
            with contextlib.suppress(OSError, http.client.HTTPException):
                answers.append(probe(running, hanging))

        thread = threading.Thread(target=one)
        thread.start()
        wait_until(lambda: connections(running.pid, hanging), what="the probe's read")
        running.process.send_signal(signal.SIGTERM)
        assert running.process.wait(60) == -signal.SIGTERM
        thread.join(60)
        assert not thread.is_alive()
        assert not running.lines("Traceback")
        assert not running.lines("level=error")


def connections(pid: int, path: str) -> int:
    """How many sockets are connected to a UNIX path."""
    lines = [line.split() for line in Path(f"/proc/{pid}/net/unix").read_text(errors="replace").splitlines()[1:]]
    return sum(1 for line in lines if line[-1] == path and line[5] == "03")


WINDOW = "20s"
RECORDED = {"uwsgi_throughput_requests_per_second": "server:uwsgi_active_requests:rate5m"}
"""Gauges, and the recorded series of the same figures."""


def documented(first: str) -> dict[str, Any]:
    """The block of YAML in docs/api.md that begins with this comment."""
    (text,) = [
        block.text
        for block in blocks((ROOT / "docs" / "api.md").read_text())
        if block.language == "yaml" and block.text.startswith(f"# {first}")
    ]
    read: dict[str, Any] = yaml.safe_load(text)
    return read


@pytest.mark.integration
def test_the_documented_configuration_of_the_exporter(tmp_path):
    path = tmp_path / "config.yml"
    path.write_text(json.dumps(documented("/etc/uwsgi-headroom/uwsgi-headroom.yml")))
    config = load_file(path)
    assert [pattern.text for pattern in config.probe.targets] == [
        "10.0.3.*:1717",
        "*.uwsgi.internal:1717",
        "/run/uwsgi/*.stats",
    ]


@contextlib.contextmanager
def loaded_server(clients: int) -> Iterator[str]:
    """A uWSGI of 2x4 with its stats on TCP; yields their address."""
    address = f"127.0.0.1:{free_port()}"
    options = ["--master", "--need-app", "--disable-logging", "--wsgi-file", str(APP), "--stats", address]
    options += ["--processes", "2", "--threads", "4", "--http-socket", "{directory}/web"]
    host, _, port = address.partition(":")
    with (
        real_uwsgi.bare(*options, ready=(host, int(port))) as server,
        alert_scenes.loaded(str(server.directory / "web"), clients=clients, io_ms=60, cpu_ms=3),
    ):
        yield address


def values(prometheus: Prometheus, expression: str, at: float) -> dict[str, float]:
    """Values of the service `shop` by instance; all of them must have the same other labels."""
    found = {
        dict(labels).get("instance", ""): (dict(labels), value)
        for labels, value in prometheus.query(expression, at).items()
    }
    assert {labels["server"] for labels, _ in found.values()} == {"shop"}
    assert not any("exported_server" in labels for labels, _ in found.values())
    return {instance: value for instance, (_, value) in found.items()}


@pytest.mark.integration
@pytest.mark.slow
def test_two_hosts_of_one_service(tmp_path):
    """`instance` is the target and `server` the service; recorded figures of a host equal the exporter's."""
    recording, _ = receivers.rules(tmp_path)
    with loaded_server(4) as first, loaded_server(2) as second, contextlib.ExitStack() as stack:
        path = tmp_path / "config.yml"
        path.write_text(json.dumps({"probe": {"targets": [first, second]}, "sampling": {"windows": [WINDOW]}}))
        exporting = stack.enter_context(exporter("--config", str(path)))
        (jobs,) = documented("prometheus.yml").values()
        text = json.dumps(jobs)
        for example, real in {
            "10.0.3.7:1717": first,
            "10.0.3.8:1717": second,
            "127.0.0.1:9238": f"127.0.0.1:{exporting.port}",
        }.items():
            assert example in text
            text = text.replace(example, real)
        prometheus = stack.enter_context(monitoring.prometheus([], [recording], scrape_configs=json.loads(text)))
        whole = f"uwsgi_exporter_observed_seconds_total offset {WINDOW}"
        prometheus.wait_for(whole, lambda found: len(found) == 2, seconds=90)
        time.sleep(5)  # more than the first window, so that `rate` extrapolates less
        at = time.time() - 1
        for gauge, recorded in RECORDED.items():
            said = values(prometheus, gauge, at)
            assert said.keys() == {first, second}
            assert values(prometheus, recorded, at) == pytest.approx(said, rel=0.1)
        assert prometheus.query("probe_success", at).keys() == {
            frozenset({"__name__": "probe_success", "job": "uwsgi", "instance": target, "server": "shop"}.items())
            for target in (first, second)
        }
        assert prometheus.query('uwsgi_exporter_build_info{job="uwsgi-headroom"}', at)
        assert not prometheus.query('uwsgi_exporter_build_info{job="uwsgi"}', at)
        assert not prometheus.query('uwsgi_up{job="uwsgi-headroom"}', at)
        assert prometheus.unwell() == {}
