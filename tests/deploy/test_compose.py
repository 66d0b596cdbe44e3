"""compose.yaml mounts what exists, publishes on loopback only and leaves every container locked down."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from app import load
from tests.deploy.files import COMPOSE, DEPLOY
from tests.deploy.files import load as load_yaml

DOCUMENT: dict[str, Any] = load_yaml(COMPOSE)
SERVICES: dict[str, dict[str, Any]] = DOCUMENT["services"]

services = pytest.mark.parametrize("name", SERVICES)


@services
def test_mounts_exist(name: str) -> None:
    """Files of the repository that a service mounts are there, and read-only; other mounts are declared volumes."""
    for mount in SERVICES[name].get("volumes", ()):
        source, _, mode = mount.split(":", 2) if mount.count(":") > 1 else (*mount.split(":"), "rw")
        if source.startswith("."):
            assert (COMPOSE.parent / source).exists(), mount
            assert mode == "ro", mount
        else:
            assert source in DOCUMENT["volumes"], mount


@services
def test_ports_are_published_on_loopback(name: str) -> None:
    """No other machine reaches them."""
    for port in SERVICES[name].get("ports", ()):
        assert re.fullmatch(r"127\.0\.0\.1:\$\{[A-Z]+_PORT:-\d+\}:\d+", port)


@services
def test_services_are_locked_down(name: str) -> None:
    """Read-only, without capabilities, and without a way to get any."""
    service = SERVICES[name]
    assert service["read_only"] is True
    assert service["cap_drop"] == ["ALL"]
    assert service["security_opt"] == ["no-new-privileges:true"]


@services
def test_images_are_built_here_or_have_a_complete_name_with_a_version(name: str) -> None:
    """`latest` would change without notice."""
    image = SERVICES[name]["image"]
    assert image in ("uwsgi-headroom", "uwsgi-headroom-demo-app") or re.fullmatch(r"docker\.io/\w+/\w+:v?[\d.]+", image)
    if build := SERVICES[name].get("build"):
        assert (COMPOSE.parent / build["context"] / build["dockerfile"]).is_file()


def test_the_exporter_shares_what_it_needs() -> None:
    """The processes and the network of the application, and the volume with the stats socket."""
    app, exporter = SERVICES["app"], SERVICES["exporter"]
    assert exporter["pid"] == f"container:{app['container_name']}"
    assert exporter["network_mode"] == "service:app"
    assert "run:/run/uwsgi" in app["volumes"]
    assert "run:/run/uwsgi" in exporter["volumes"]


def test_no_image_is_checked_for_what_it_does_not_run() -> None:
    """A service with another entry point than its image's has no use for the image's health check: it would fail."""
    for name, service in SERVICES.items():
        if service["image"] in ("uwsgi-headroom", "uwsgi-headroom-demo-app"):
            assert ("entrypoint" in service) == (service.get("healthcheck") == {"disable": True}), name


def test_the_load_is_understood() -> None:
    """The argument of the service `load` is one of `app.load`, and goes to the application."""
    ((requests, address),) = load.from_json(SERVICES["load"]["command"][0])
    assert address == ("app", 8000)
    assert requests.rate > 0


def test_grafana_finds_what_is_mounted() -> None:
    """The provider reads the directory that compose mounts; the data source takes the variable that compose sets."""
    provider = load_yaml(DEPLOY / "grafana" / "provisioning" / "dashboards" / "uwsgi-headroom.yaml")["providers"][0]
    mounts = dict(mount.split(":")[:2] for mount in SERVICES["grafana"]["volumes"])
    assert mounts["../../dashboards/out"] == provider["options"]["path"]
    assert json.dumps(SERVICES["grafana"]["environment"]).count("PROMETHEUS_URL") == 1
    source = load_yaml(DEPLOY / "grafana" / "provisioning" / "datasources" / "prometheus.yaml")["datasources"][0]
    assert source["url"] == "$PROMETHEUS_URL"
