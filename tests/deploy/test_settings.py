"""Settings and pages of the deployment are those that the exporter and its tools understand."""

import re
import subprocess

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
from tests.support import promtool
from tests.support.monitoring import find
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


def variables(path):
    """The exporter's variables that a file names, without the prefix and in lower case."""
    return {name.lower() for name in re.findall(rf"\b{PREFIX}([A-Z_]*[A-Z])\b", path.read_text())}


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(DEPLOY)))
def test_variables_exist(path):
    assert variables(path) <= {setting.name for setting in FLAGS}


def test_flags_exist():
    line = make_command_line()
    compose = load(COMPOSE)["services"]["exporter"]["command"]
    chart = ["--stats", "app=/run/uwsgi/stats", *load(CHART / "ci" / "tls-values.yaml")["sidecar"]["args"]]
    for words in (compose, chart, sidecar_patch()["args"]):
        assert line.parse(words).command == "serve"
    assert "- --stats\n" in (CHART / "templates" / "_sidecar.tpl").read_text()
    assert variables(COMPOSE) == {"stats", "web_listen_address", "history"}
    assert len(FILES) > 30


def test_the_port_and_the_user_are_the_same():
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
    for path in (CONTAINERFILE, APP_CONTAINERFILE):
        assert ("USER", f"{USER}:{USER}") in last_stage(path)
    values, context = load(CHART / "values.yaml")["sidecar"], sidecar_patch()["securityContext"]
    assert {values["runAsUser"], values["runAsGroup"]} == {int(USER)}
    assert {context["runAsUser"], context["runAsGroup"]} == {int(USER)}


def test_files_of_an_image_exist():
    place = "/opt/uwsgi-headroom/healthcheck.py"
    assert ("COPY", f"deploy/container/healthcheck.py {place}") in last_stage(CONTAINERFILE)
    assert place in dict(last_stage(CONTAINERFILE))["HEALTHCHECK"]
    assert place in (CHART / "templates" / "_sidecar.tpl").read_text()
    for path in (CONTAINERFILE, APP_CONTAINERFILE):
        for line in re.findall(r"^COPY (?!--from)(.+)$", path.read_text(), re.MULTILINE):
            *sources, _ = line.split()
            assert all((ROOT / source).exists() for source in sources), line


CHAPTERS = ["Prerequisites", "Installation", "Customization", "Verification"]


@pytest.mark.parametrize("folder", OURS)
def test_chapters_of_a_readme(folder):
    text = (DEPLOY / folder / "README.md").read_text()
    assert re.findall(r"^## (.+)$", text, re.MULTILINE) == CHAPTERS
    assert "tried](../../docs/cannot-see.md)" in " ".join(text.split())


PROMETHEUS = ("prometheus/prometheus.yml", "compose/prometheus.yml")
ALERTMANAGER = ("prometheus/alertmanager.yml", "compose/alertmanager.yml")


@pytest.mark.parametrize("name", PROMETHEUS)
def test_promtool_accepts(name):
    assert promtool.complaints("check", "config", "--syntax-only", DEPLOY / name) == ""


@pytest.mark.parametrize("name", ALERTMANAGER)
def test_amtool_accepts(name):
    ran = subprocess.run([find("amtool"), "check-config", DEPLOY / name], capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr


@pytest.mark.parametrize("name", [*PROMETHEUS, "prometheus/kubernetes.yml"])
def test_jobs_have_names_that_the_rules_expect(name):
    """UwsgiExporterDown asks for jobs that begin with uwsgi."""
    jobs = [job["job_name"] for job in load(DEPLOY / name)["scrape_configs"]]
    assert jobs
    assert all(job.startswith("uwsgi") for job in jobs)
    assert 'up{job=~"uwsgi.*"}' in (ROOT / "alerts" / "rules" / "alerts.yaml").read_text()


def test_snippets_fit_what_they_are_for():
    """Pods are found by the sidecar's port; alerts link to compose's; rules for a migration are left out."""
    (job,) = load(DEPLOY / "prometheus" / "kubernetes.yml")["scrape_configs"]
    assert job["relabel_configs"][0]["regex"] == sidecar_patch()["ports"][0]["name"]
    assert "http://{{ $labels.instance }}/runbooks/" in (ROOT / "alerts/rules/alerts.yaml").read_text()
    (job,) = load(DEPLOY / "compose/prometheus.yml")["scrape_configs"]
    ports = load(DEPLOY / "compose/compose.yaml")["services"]["app"]["ports"]
    host, _, port = job["static_configs"][0]["labels"]["instance"].rpartition(":")
    assert host == "localhost"
    assert any(published.endswith(f"{port}}}:{port}") for published in ports)
    folder = ROOT / "alerts" / "rules"
    patterns = [name.rpartition("/")[2].replace("[^", "[!") for name in load(DEPLOY / PROMETHEUS[1])["rule_files"]]
    matched = {path.name for pattern in patterns for path in folder.glob(pattern)}
    assert {path.name for path in folder.glob("*.yaml")} - matched == {"compat-uwsgi-exporter.yaml"}


def test_the_route_takes_every_alert():
    rules = promtool.list_rules((ROOT / "alerts" / "rules").glob("*.yaml"))
    names = {rule["alert"] for rule in rules if "alert" in rule}
    route = load(DEPLOY / "prometheus" / "alertmanager.yml")["route"]["routes"][0]
    pattern = re.fullmatch(r'alertname =~ "(.+)"', route["matchers"][0])
    assert len(names) > 10
    assert all(re.fullmatch(pattern[1], name) for name in names)
