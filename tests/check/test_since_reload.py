"""`check --since-reload` and `compare` say what a deploy changed, for pipelines and for people."""

import json
import os
import signal
import time

import pytest
from msgspec.structs import replace

from tests.check.documents import busy_server
from tests.support.exporter import exporter, run
from tests.support.real_uwsgi import accepting, free_port, wait_until
from uwsgi_headroom.analysis.deploys.judgement import Status
from uwsgi_headroom.check.compare_command import parse_moment
from uwsgi_headroom.check.thresholds import apply_deploy, is_undecided
from uwsgi_headroom.documents.deploys import Deploy, DeploySide
from uwsgi_headroom.documents.schema import ServerDocument
from uwsgi_headroom.errors import ConfigError

SIDE = DeploySide(requests=9000, seconds=1200.0, throughput=7.5, p95=0.4, queue_wait=None)


def deployed(status: Status, at: float = 1000.0) -> ServerDocument:
    """A server that is well, and what its exporter says of a reload."""
    deploy = Deploy(
        time=at,
        first=at,
        reloads=1,
        status=status,
        sentence=f"It is {status}.",
        before=SIDE,
        after=SIDE,
        changes=(),
        bound=None,
        needed=None,
        expected=1.0,
        is_over=False,
        parts=(),
        routes=(),
    )
    return replace(busy_server(), deploy=deploy)


@pytest.mark.parametrize(
    ("status", "verdict", "waits"),
    [
        ("worse", "critical", False),
        ("same", "ok", False),
        ("better", "ok", False),
        ("early", "unknown", True),
        ("unknown", "unknown", True),
    ],
)
def test_the_status_of_a_deploy(status, verdict, waits):
    """Worse is critical, what is not known is unknown and worth waiting for, and nothing makes a verdict better."""
    judged = apply_deploy(deployed(status), None)
    assert (judged.status, is_undecided([judged])) == (verdict, waits)
    assert f"It is {status}." in [finding.title for finding in judged.findings]
    ill = replace(deployed(status), status="critical")
    assert apply_deploy(ill, None).status == "critical"


def test_which_reload_and_which_server_counts():
    """Not an earlier reload; one that is worse ends the waiting for others."""
    assert apply_deploy(deployed("worse", at=1000.0), 1000.0).status == "critical"
    judged = apply_deploy(deployed("worse", at=999.0), 1000.0)
    assert (judged.status, is_undecided([judged])) == ("unknown", True)
    assert "has seen no reload since" in judged.verdict
    worse, early = (apply_deploy(deployed(status), None) for status in ("worse", "early"))
    assert not is_undecided([worse, early])


def test_moments():
    now = time.mktime((2026, 11, 26, 14, 30, 0, 0, 0, -1))
    assert parse_moment("14:02", now) == now - 28 * 60
    assert parse_moment("14:40", now) == now + 10 * 60 - 86_400
    assert parse_moment("2026-11-26T14:20", now) == now - 600
    assert parse_moment("1795000000.5", now) == 1_795_000_000.5
    for wrong in ("25:00", "yesterday", "9" * 30, ""):
        with pytest.raises(ConfigError):
            parse_moment(wrong, now)


@pytest.mark.integration
def test_end_to_end():
    """A real reload is seen; with so little before it, `compare` and `check` say that nothing is known."""
    with accepting("--processes", "2", "--lazy-apps") as server, exporter(f"--stats=shop={server.stats}") as watching:
        page = f"http://127.0.0.1:{watching.port}/servers/shop"
        wait_until(lambda: '"state":"up"' in watching.get("/api/v2/servers/shop")[1], what="the first reading")
        asked = run("compare", page)
        assert asked.returncode == 1
        assert "saw no reload of shop: give the time that divides before from after, as in `--around" in asked.stderr
        other = run("compare", page.replace("shop", "ship")).stderr
        assert "it has no server ship; it watches shop" in other
        nobody = run("compare", f"http://127.0.0.1:{free_port()}/servers/shop").stderr
        assert "nothing listens" in nobody
        unseen = run("check", page, "--since-reload", "--wait", "1s")
        assert (unseen.returncode, "has seen no reload" in unseen.stdout) == (3, True), unseen
        began = time.time()
        os.kill(server.pid, signal.SIGHUP)
        wait_until(lambda: json.loads(watching.get("/api/v2/servers/shop")[1])["deploy"] is not None, what="the reload")
        compared = run("compare", "shop", "--exporter", f"http://127.0.0.1:{watching.port}", "--json")
        deploy = json.loads(compared.stdout)["deploy"]
        assert (deploy["status"], deploy["reloads"]) == ("unknown", 1)
        assert "of the 10 min before this time are known" in deploy["sentence"]
        assert "before" in run("compare", page, "--around", str(began), "--before", "10m", "--after", "1m").stdout
        checked = run("check", page, "--since-reload", "--not-before", str(began - 1))
        assert (checked.returncode, "nothing can be said" in checked.stdout) == (3, True), checked
        refused = run("check", server.stats, "--since-reload")
        assert refused.returncode == 3
        assert "only an exporter knows" in refused.stdout + refused.stderr
