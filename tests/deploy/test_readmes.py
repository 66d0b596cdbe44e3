"""What the deployment's pages tell a person to write."""

from __future__ import annotations

import re
import subprocess

import pytest

from tests.deploy.files import DEPLOY, OURS, ROOT, load, sidecar_patch
from tests.support import promtool
from tests.support.monitoring import find

CHAPTERS = ["Prerequisites", "Installation", "Customization", "Verification"]


@pytest.mark.parametrize("folder", OURS)
def test_the_chapters_are_in_order(folder: str) -> None:
    assert re.findall(r"^## (.+)$", (DEPLOY / folder / "README.md").read_text(), re.MULTILINE) == CHAPTERS


@pytest.mark.parametrize("folder", OURS)
def test_links_lead_somewhere(folder: str) -> None:
    text = (DEPLOY / folder / "README.md").read_text()
    links = [link for link in re.findall(r"\]\(([^)#]+)", text) if "://" not in link]
    assert links
    assert all((DEPLOY / folder / link).exists() for link in links), links


@pytest.mark.parametrize("folder", OURS)
def test_it_says_what_was_not_tried(folder: str) -> None:
    assert "Not tried:" in (DEPLOY / folder / "README.md").read_text()


PROMETHEUS = ("prometheus/prometheus.yml", "compose/prometheus.yml")
ALERTMANAGER = ("prometheus/alertmanager.yml", "compose/alertmanager.yml")


@pytest.mark.parametrize("name", PROMETHEUS)
def test_promtool_accepts(name: str) -> None:
    assert promtool.complaints("check", "config", "--syntax-only", DEPLOY / name) == ""


@pytest.mark.parametrize("name", ALERTMANAGER)
def test_amtool_accepts(name: str) -> None:
    ran = subprocess.run([find("amtool"), "check-config", DEPLOY / name], capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr


@pytest.mark.parametrize("name", [*PROMETHEUS, "prometheus/kubernetes.yml"])
def test_jobs_have_names_that_the_rules_expect(name: str) -> None:
    """UwsgiExporterDown asks for jobs that begin with uwsgi."""
    jobs = [job["job_name"] for job in load(DEPLOY / name)["scrape_configs"]]
    assert jobs
    assert all(job.startswith("uwsgi") for job in jobs)
    assert 'up{job=~"uwsgi.*"}' in (ROOT / "alerts" / "rules" / "alerts.yaml").read_text()


def test_pods_are_found_by_the_name_of_the_sidecars_port() -> None:
    """The job for pods keeps the port that the sidecar has."""
    (job,) = load(DEPLOY / "prometheus" / "kubernetes.yml")["scrape_configs"]
    assert job["relabel_configs"][0]["regex"] == sidecar_patch()["ports"][0]["name"]


def test_the_route_takes_every_alert() -> None:
    names = {
        rule["alert"]
        for path in (ROOT / "alerts" / "rules").glob("*.yaml")
        for group in load(path)["groups"]
        for rule in group["rules"]
        if "alert" in rule
    }
    route = load(DEPLOY / "prometheus" / "alertmanager.yml")["route"]["routes"][0]
    pattern = re.fullmatch(r'alertname =~ "(.+)"', route["matchers"][0])
    assert len(names) > 10
    assert all(re.fullmatch(pattern[1], name) for name in names)


def test_links_in_alerts_of_compose_lead_to_the_published_port() -> None:
    """The rules link to `instance`, and no browser knows the name of a container."""
    assert "http://{{ $labels.instance }}/runbooks/" in (ROOT / "alerts/rules/alerts.yaml").read_text()
    (job,) = load(DEPLOY / "compose/prometheus.yml")["scrape_configs"]
    ports = load(DEPLOY / "compose/compose.yaml")["services"]["app"]["ports"]
    host, _, port = job["static_configs"][0]["labels"]["instance"].rpartition(":")
    assert host == "localhost"
    assert any(published.endswith(f"{port}}}:{port}") for published in ports)


def test_compose_leaves_out_rules_for_a_migration_only() -> None:
    """Its patterns match every rule file but one."""
    folder = ROOT / "alerts" / "rules"
    patterns = [name.rpartition("/")[2].replace("[^", "[!") for name in load(DEPLOY / PROMETHEUS[1])["rule_files"]]
    matched = {path.name for pattern in patterns for path in folder.glob(pattern)}
    assert {path.name for path in folder.glob("*.yaml")} - matched == {"compat-uwsgi-exporter.yaml"}
