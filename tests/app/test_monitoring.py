"""Prometheus and Alertmanager listen on loopback, load their rules, find each other, and write only their directory."""

import contextlib
import os
import socket
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import psutil
import pytest

from app import demo_monitoring, monitoring
from app.programs import ProgramError, running
from tests.support.monitoring import Alertmanager, Prometheus, eventually, find
from tests.support.real_uwsgi import free_port
from tools.environments import ROOT

ALWAYS = """\
groups:
  - name: always
    rules:
      - {alert: Always, expr: vector(1), labels: {severity: info}}
      - {record: "a:b:c", expr: up + 1}
"""


@pytest.mark.integration
def test_alert_of_a_rule_file_reaches_alertmanager_on_loopback_alone(tmp_path):
    """No port is open to other hosts, even for gossip; nothing is written elsewhere; links lead to loopback."""
    rules = tmp_path / "always.yaml"
    rules.write_text(ALWAYS)
    page, alerts = free_port(), free_port()
    programs = [
        monitoring.alertmanager(find("alertmanager"), alerts, tmp_path, monitoring.NOBODY),
        monitoring.prometheus(
            find("prometheus"),
            page,
            tmp_path,
            targets=[page],
            rules=[Path(os.path.relpath(rules))],
            alertmanager=alerts,
        ),
    ]
    with running(programs, tmp_path, cwd=Path("/")):
        prometheus, alertmanager = Prometheus(page), Alertmanager(alerts)
        (alert,) = eventually(alertmanager.alerts, bool, "the alert to reach Alertmanager")
        assert alert["labels"] == {"alertname": "Always", "severity": "info"}
        assert alert["generatorURL"].startswith(f"http://127.0.0.1:{page}/")
        (labels,) = prometheus.wait_for("a:b:c == 2")
        assert dict(labels)["job"] == "uwsgi"
        assert _listening() == {("127.0.0.1", page), ("127.0.0.1", alerts)}
    assert _listening() == set()


@pytest.mark.integration
def test_wrong_rule_ends_prometheus_with_its_complaint(tmp_path):
    """Prometheus ends, rather than run with fewer rules than expected."""
    rules = tmp_path / "wrong.yaml"
    rules.write_text(ALWAYS.replace("up + 1", "up +"))
    wrong = monitoring.prometheus(find("prometheus"), free_port(), tmp_path, targets=[], rules=[rules])
    with (
        pytest.raises(ProgramError, match=r"(?s)prometheus ended \(status [12]\).*wrong\.yaml"),
        running([wrong], tmp_path, tmp_path),
    ):
        pass


@pytest.mark.integration
def test_a_port_that_another_process_took_meanwhile_is_replaced(tmp_path, monkeypatch):
    """Each program was given a port that was free when it was chosen; Prometheus uses the later one."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]
        chosen = [port, free_port(), port, free_port()]
        ports = iter(chosen)
        monkeypatch.setattr(demo_monitoring, "free_port", lambda preferred: next(ports))
        places = {name: find(name) for name in demo_monitoring.PORTS}
        demo = demo_monitoring.DemoMonitoring(places, free_port(), tmp_path)
        with running(demo.programs(), tmp_path, ROOT) as up:
            assert up.names() == ["alertmanager", "prometheus"]
            assert demo.ports == {"alertmanager": chosen[1], "prometheus": chosen[3]}
            assert f"127.0.0.1:{chosen[1]}" in (tmp_path / "prometheus.yml").read_text()
            assert _listening() == {("127.0.0.1", chosen[1]), ("127.0.0.1", chosen[3])}


@pytest.mark.parametrize(
    ("pages", "shown"),
    [
        (["/alerts"], ["/alerts"]),
        (["/classic/alerts"], ["/classic/alerts"]),
        (["/alerts", "/classic/alerts"], ["/classic/alerts"]),  # Debian 13: the first says that there is no such page
        ([], ["/api/v1/rules", "/api/v1/alerts"]),
    ],
)
def test_page_of_the_alerts_is_one_that_is_there(pages, shown):
    with _serving(pages) as port:
        addresses = monitoring.pages(port)
        assert list(addresses) == [f"http://127.0.0.1:{port}{path}" for path in shown]
        assert [words.endswith("(JSON)") for words in addresses.values()] == [not pages] * len(shown)


def _listening():
    """The addresses on which programs started by this process listen, for TCP and UDP."""
    started = {child.pid for child in psutil.Process().children()}
    ours = [connection for connection in psutil.net_connections("inet") if connection.pid in started]
    return {
        tuple(connection.laddr) for connection in ours if connection.status in (psutil.CONN_LISTEN, psutil.CONN_NONE)
    }


@contextlib.contextmanager
def _serving(pages):
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            self.send_response(200 if self.path in pages else 404)
            self.end_headers()

        def log_message(self, *_):
            """Logs nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()
        yield server.server_port
        server.shutdown()
        thread.join()
