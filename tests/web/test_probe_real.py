"""The Prometheus configuration of docs/api.md, with a real Prometheus, the shipped rules and two loaded uWSGI."""

import contextlib
import json
import time
from collections.abc import Iterator
from typing import Any

import pytest
import yaml

from tests.alerts import receivers
from tests.support import alert_scenes, monitoring, real_uwsgi
from tests.support.exporter import exporter
from tests.support.markdown import blocks
from tests.support.monitoring import Prometheus
from tests.support.real_uwsgi import free_port
from tools.bench.accuracy.generator import APP
from tools.environments import ROOT
from uwsgi_headroom.config.yaml_file import load_file

pytestmark = pytest.mark.integration

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
