"""Every flag, variable, user and port in a file below deploy/ is one that the exporter has, and the same everywhere."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.deploy.files import (
    APP_CONTAINERFILE,
    CHART,
    COMPOSE,
    CONTAINERFILE,
    DEPLOY,
    OURS,
    ROOT,
    last_stage,
    load,
    sidecar_patch,
)
from uwsgi_headroom.arguments.commands import make_command_line
from uwsgi_headroom.config import defaults
from uwsgi_headroom.config.settings import FLAGS, PREFIX

FILES = [
    path
    for folder in OURS
    for path in sorted((DEPLOY / folder).rglob("*"))
    if path.is_file() and path.suffix in ("", ".yaml", ".yml", ".md", ".tpl", ".py") and "files/" not in str(path)
]
USER = "10001"
PORT = 9238


def variables(path: Path) -> set[str]:
    """The exporter's variables that a file names, without the prefix and in lower case."""
    return {name.lower() for name in re.findall(rf"\b{PREFIX}([A-Z_]*[A-Z])\b", path.read_text())}


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(DEPLOY)))
def test_variables_exist(path: Path) -> None:
    assert variables(path) <= {setting.name for setting in FLAGS}


def test_flags_exist() -> None:
    line = make_command_line()
    compose = load(COMPOSE)["services"]["exporter"]["command"]
    chart = ["--stats", "app=/run/uwsgi/stats", *load(CHART / "ci" / "tls-values.yaml")["sidecar"]["args"]]
    for words in (compose, chart, sidecar_patch()["args"]):
        assert line.parse(words).command == "serve"
    assert "- --stats\n" in (CHART / "templates" / "_sidecar.tpl").read_text()
    assert variables(COMPOSE) == {"stats", "web_listen_address", "history"}
    assert len(FILES) > 30


def test_the_port_is_the_same() -> None:
    assert defaults.LISTEN_ADDRESS.endswith(f":{PORT}")
    assert ("EXPOSE", str(PORT)) in last_stage(CONTAINERFILE)
    assert f"DEFAULT_PORT = {PORT}\n" in (DEPLOY / "container" / "healthcheck.py").read_text()
    compose = load(COMPOSE)["services"]
    assert compose["exporter"]["environment"]["UWSGI_HEADROOM_WEB_LISTEN_ADDRESS"] == f":{PORT}"
    assert any(port.endswith(f":{PORT}") for port in compose["app"]["ports"])
    assert load(CHART / "values.yaml")["sidecar"]["port"] == PORT
    patch = sidecar_patch()
    assert patch["env"] == [{"name": "UWSGI_HEADROOM_WEB_LISTEN_ADDRESS", "value": f":{PORT}"}]
    assert patch["ports"] == [{"name": "headroom", "containerPort": PORT}]


def test_the_user_is_the_same() -> None:
    """Both images, the chart and the component have one user: the exporter needs that of uWSGI."""
    for path in (CONTAINERFILE, APP_CONTAINERFILE):
        assert ("USER", f"{USER}:{USER}") in last_stage(path)
    values, context = load(CHART / "values.yaml")["sidecar"], sidecar_patch()["securityContext"]
    assert {values["runAsUser"], values["runAsGroup"]} == {int(USER)}
    assert {context["runAsUser"], context["runAsGroup"]} == {int(USER)}


def test_files_of_an_image_exist() -> None:
    place = "/opt/uwsgi-headroom/healthcheck.py"
    assert ("COPY", f"deploy/container/healthcheck.py {place}") in last_stage(CONTAINERFILE)
    assert place in dict(last_stage(CONTAINERFILE))["HEALTHCHECK"]
    assert place in (CHART / "templates" / "_sidecar.tpl").read_text()
    for path in (CONTAINERFILE, APP_CONTAINERFILE):
        for line in re.findall(r"^COPY (?!--from)(.+)$", path.read_text(), re.MULTILINE):
            *sources, _ = line.split()
            assert all((ROOT / source).exists() for source in sources), line
