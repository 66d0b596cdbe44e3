"""Events on a real uWSGI reach a person, through the real exporter, Prometheus with the shipped rules, Alertmanager
with the shipped configuration, and receivers. Seconds replace minutes; see `receivers`.
"""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.alerts import receivers
from tests.alerts.receivers import Receiver, mailbox, receiver
from tests.support import alert_scenes, monitoring
from tests.support.exporter import exporter
from tests.support.monitoring import Alertmanager, Prometheus, eventually
from tools.bench.accuracy.generator import ask

pytestmark = pytest.mark.integration

UNRENDERED = re.compile(r"\{\{|\}\}|unknown|NaN|Inf|<no value>|\$\w|\?\B| {2}")
"""Signs of a template that was not filled in."""


@dataclass(frozen=True)
class Watched:
    """The programs between uWSGI and a person."""

    prometheus: Prometheus
    alertmanager: Alertmanager
    receiver: Receiver
    instance: str

    def wait_for_alert(self, name: str, status: str, to: str = "page", seconds: float = 180) -> dict[str, Any]:
        """The alert of this name and status (firing or resolved), once this receiver has got it."""

        def prometheus() -> tuple[list[dict[str, Any]], object, object]:
            alerts = [
                (alert["labels"]["alertname"], alert["state"], alert["value"]) for alert in self.prometheus.alerts()
            ]
            return self.receiver.alerts(name, status, f"/{to}"), alerts, self.prometheus.unwell()

        return eventually(prometheus, lambda answer: answer[0], f"{name} {status} to come to {to}", seconds)[0][0]

    def held_back(self, name: str, by: str) -> None:
        """Waits until Alertmanager has this alert and inhibits it because of the other one. A notification may have
        been sent before, if this alert fired first.
        """

        def sources() -> set[str]:
            names = {alert["fingerprint"]: alert["labels"]["alertname"] for alert in self.alertmanager.alerts()}
            alerts = self.alertmanager.alerts(name)
            return {names.get(source, "") for alert in alerts for source in alert["status"]["inhibitedBy"]}

        eventually(sources, lambda names: by in names, f"{name} to be held back by {by}", 60)

    def names(self) -> set[str]:
        """The names of all alerts of which a notification was sent."""
        return {
            alert["labels"]["alertname"] for _, body in self.receiver.notifications for alert in body.get("alerts", ())
        }

    def servers(self) -> set[str]:
        """All servers about which a notification was sent."""
        return {
            alert["labels"]["server"] for _, body in self.receiver.notifications for alert in body.get("alerts", ())
        }

    def labels(self, name: str, severity: str, server: str) -> dict[str, str]:
        return {"alertname": name, "severity": severity, "job": "uwsgi", "instance": self.instance, "server": server}

    def pagerduty(self, name: str) -> str:
        """The text of the page about this alert, as PagerDuty gets it."""

        def texts() -> list[str]:
            bodies = [body for path, body in self.receiver.notifications if path == "/pagerduty"]
            details = [
                body["payload"]["custom_details"]["what"] for body in bodies if body["event_action"] == "trigger"
            ]
            return [text for text in details if f"\n{name}: " in text]

        return eventually(texts, bool, f"a page about {name}")[0]


@contextlib.contextmanager
def watched(stats: dict[str, str], directory: Path, rules: Sequence[Path]) -> Iterator[Watched]:
    """Watches these stats sockets, by server name, until the block ends. The block begins when all are scraped."""
    addresses = [part for name, path in stats.items() for part in ("--stats", f"{name}=unix://{path}")]
    with (
        receiver() as received,
        mailbox() as mails,
        exporter(*addresses) as exporting,
        monitoring.alertmanager(
            receivers.alertmanager_for_tests(receivers.alertmanager(received, mails, directory), received)
        ) as manager,
        monitoring.prometheus([exporting.port], rules, manager) as prometheus,
    ):
        prometheus.wait_for("uwsgi_up == 1", lambda up: len(up) == len(stats))
        yield Watched(prometheus, manager, received, f"127.0.0.1:{exporting.port}")


def read(alert: dict[str, Any]) -> str:
    """The text of an alert that a person reads; fails if a template was not filled in."""
    summary, description = (alert["annotations"][name] for name in ("summary", "description"))
    for text in (summary, *description.splitlines()):
        assert not UNRENDERED.search(text), text
    return f"{summary}\n{description}"


def shown(name: str, text: str) -> None:
    """Prints a text (`pytest -s`), and writes it into `$PAGES_DIR`, for review."""
    print(f"\n{text}")
    if directory := os.environ.get("PAGES_DIR"):
        Path(directory, f"{name}.txt").write_text(f"{text}\n")


@pytest.mark.slow
def test_killed_uwsgi_pages_and_its_return_resolves(tmp_path: Path) -> None:
    """The page names the server and the instance, and mutes the ticket about its exceptions; an idle healthy server
    beside it causes no notification.
    """
    rules = receivers.rules(tmp_path, "exceptions_range=1m", "exceptions_hold=5s")
    with (
        alert_scenes.mortal() as server,
        alert_scenes.mortal() as healthy,
        watched({"shop": server.stats, "blog": healthy.stats}, tmp_path, rules) as prometheus,
    ):
        assert prometheus.receiver.notifications == []
        for _ in range(20):
            with contextlib.suppress(ValueError):  # an exception gets no response
                ask(server.http, "/error")
        assert read(prometheus.wait_for_alert("UwsgiExceptionsHigh", "firing", to="ticket"))
        server.kill()
        page = prometheus.wait_for_alert("UwsgiDown", "firing")
        assert page["labels"] == prometheus.labels("UwsgiDown", "critical", "shop")
        text = read(page)
        assert f"uWSGI shop on {prometheus.instance} is down" in text
        assert "refused" in text
        assert not page["annotations"].get("runbook_url"), "a link to the reader's own machine"
        assert text.splitlines()[0] in prometheus.pagerduty("UwsgiDown")
        shown("UwsgiDown", prometheus.pagerduty("UwsgiDown"))
        prometheus.held_back("UwsgiExceptionsHigh", by="UwsgiDown")
        server.start()
        assert prometheus.wait_for_alert("UwsgiDown", "resolved")["labels"] == page["labels"]
        assert prometheus.names() == {"UwsgiDown", "UwsgiExceptionsHigh"}
        assert prometheus.servers() == {"shop"}


@pytest.mark.slow
def test_full_unix_queue_pages_and_resolves_when_clients_go(tmp_path: Path) -> None:
    """uWSGI reports 0 for this queue; the page names the socket, and mutes the tickets that it explains."""
    with (
        alert_scenes.short() as server,
        watched({"shop": server.stats}, tmp_path, receivers.rules(tmp_path)) as prometheus,
    ):
        with server.overloaded():
            page = prometheus.wait_for_alert("UwsgiListenQueueOverflowing", "firing")
            labels = prometheus.labels("UwsgiListenQueueOverflowing", "critical", "shop")
            assert page["labels"] == labels | {"socket": server.web}
            assert "The listen queue is full: its limit is 20 connections " in read(page)
            shown("UwsgiListenQueueOverflowing", prometheus.pagerduty("UwsgiListenQueueOverflowing"))
            prometheus.held_back("UwsgiListenQueueFilling", by="UwsgiListenQueueOverflowing")
        prometheus.wait_for_alert("UwsgiListenQueueOverflowing", "resolved")


def test_a_standstill_pages(tmp_path: Path) -> None:
    """Every thread has a request that does not end, and others wait: no wait can be computed, because none is over. An
    idle server beside it pages nobody."""
    rules = receivers.rules(tmp_path)
    with (
        alert_scenes.short() as server,
        alert_scenes.short() as idle,
        watched({"shop": server.stats, "blog": idle.stats}, tmp_path, rules) as prometheus,
    ):
        with alert_scenes.loaded(server.web, clients=2 + 3, io_ms=3_600_000):
            page = prometheus.wait_for_alert("UwsgiRequestStuck", "firing")
            assert page["labels"] == prometheus.labels("UwsgiRequestStuck", "critical", "shop")
            text = read(page)
            assert "3 requests wait in the listen queue. For 20s, no request was completed." in text
            shown("UwsgiRequestStuck", prometheus.pagerduty("UwsgiRequestStuck"))
        assert prometheus.servers() == {"shop"}


def test_uneven_load_pages_and_resolves_when_it_is_evened(tmp_path: Path) -> None:
    """No alert fires while the load is even, nor after it is even again. The page names the worker, the part of the
    requests that is slower, and by how much; it mutes the ticket about the same.

    With clients, Prometheus and everything else on two CPUs, no interpreter can rely on 0.9 of a CPU. Here a third of a
    CPU counts as saturated, a tenth more response time as slower, and no CPU as lacking. With so low a threshold, all
    interpreters count as bound; the ticket about them keeps its shipped duration, and so does not fire.
    """
    rules = receivers.rules(tmp_path, "interpreter_full=0.35", "hot_worker_slower=1.1", "cpu_full=1")
    with alert_scenes.mapped(processes=2) as server, watched({"shop": server.stats}, tmp_path, rules) as prometheus:
        with server.loaded(hot=1, calm=1):
            prometheus.prometheus.wait_for("server:uwsgi_requests:rate20s > 5")
            assert prometheus.names() == set()
        with server.loaded(hot=8, calm=1):
            page = prometheus.wait_for_alert("UwsgiHotWorkerSaturated", "firing")
            assert page["labels"] == prometheus.labels("UwsgiHotWorkerSaturated", "critical", "shop")
            text = read(page)
            assert f"uWSGI shop on {prometheus.instance}: worker 1 is saturated and takes " in text
            assert re.search(r"Worker 1 takes [5-9]\d % of the requests, and its interpreter uses ", text)
            assert re.search(
                r"take \d+ ms in this worker, but \d+ ms in less busy workers; \d+ threads of other workers are idle\.",
                text,
            )
            assert re.search(r"[5-9]\d % of the requests: the mean response time is \d+ ms instead of \d+ ms", text)
            shown("UwsgiHotWorkerSaturated", prometheus.pagerduty("UwsgiHotWorkerSaturated"))
            prometheus.held_back("UwsgiWorkersUneven", by="UwsgiHotWorkerSaturated")
        with server.loaded(hot=1, calm=1):
            prometheus.wait_for_alert("UwsgiHotWorkerSaturated", "resolved")
        assert prometheus.names() <= {"UwsgiHotWorkerSaturated", "UwsgiWorkersUneven"}
