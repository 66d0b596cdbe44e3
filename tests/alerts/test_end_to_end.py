"""Events on a real uWSGI reach a person, through the real exporter, Prometheus with the shipped rules, Alertmanager
with the shipped configuration, and receivers. Seconds replace minutes; see `receivers`.
"""

import contextlib
import re
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from msgspec import Struct

from app.monitoring import NOBODY
from tests.alerts import receivers
from tests.alerts.receivers import Receiver, mailbox, receiver
from tests.support import alert_scenes, monitoring, promtool
from tests.support.exporter import exporter
from tests.support.monitoring import Alertmanager, Prometheus, eventually

pytestmark = pytest.mark.integration

UNRENDERED = re.compile(r"\{\{|\}\}|unknown|NaN|Inf|<no value>|\$\w|\?\B| {2}")
"""Signs of a template that was not filled in."""


class Watched(Struct, frozen=True):
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

    def names(self) -> set[str]:
        return {name for name, _ in self.names_and_codes()}

    def names_and_codes(self) -> set[tuple[str, str | None]]:
        return {
            (alert["labels"]["alertname"], alert["labels"].get("code"))
            for _, body in self.receiver.notifications
            for alert in body.get("alerts", ())
        }

    def servers(self) -> set[str]:
        return {
            alert["labels"]["server"] for _, body in self.receiver.notifications for alert in body.get("alerts", ())
        }

    def pagerduty(self, name: str) -> str:
        def texts() -> list[str]:
            bodies = [body for path, body in self.receiver.notifications if path == "/pagerduty"]
            details = [
                body["payload"]["custom_details"]["what"] for body in bodies if body["event_action"] == "trigger"
            ]
            return [text for text in details if f"\n{name}: " in text]

        return eventually(texts, bool, f"a page about {name}")[0]


@contextlib.contextmanager
def watched(stats: dict[str, str], directory: Path) -> Iterator[Watched]:
    """Watches these stats sockets, by server name, until the block ends. The block begins when all are scraped."""
    addresses = [part for name, path in stats.items() for part in ("--stats", f"{name}=unix://{path}")]
    with (
        receiver() as received,
        mailbox() as mails,
        exporter(*addresses) as exporting,
        monitoring.alertmanager(
            receivers.alertmanager_for_tests(receivers.alertmanager(received, mails, directory), received)
        ) as manager,
        monitoring.prometheus([exporting.port], receivers.rules(directory), manager) as prometheus,
    ):
        prometheus.wait_for("uwsgi_up == 1", lambda up: len(up) == len(stats))
        yield Watched(prometheus, manager, received, f"127.0.0.1:{exporting.port}")


def read(alert: dict[str, Any]) -> str:
    """The text of an alert that a person reads; fails if a template was not filled in."""
    summary, description = (alert["annotations"][name] for name in ("summary", "description"))
    for text in (summary, *description.splitlines()):
        assert not UNRENDERED.search(text), text
    return f"{summary}\n{description}"


def test_a_standstill_pages(tmp_path):
    """Every thread has a request that does not end, and others wait. An idle server beside it pages nobody."""
    with (
        alert_scenes.short() as server,
        alert_scenes.short() as idle,
        watched({"shop": server.stats, "blog": idle.stats}, tmp_path) as prometheus,
    ):
        with alert_scenes.loaded(server.web, clients=2 + 3, io_ms=3_600_000):
            page = prometheus.wait_for_alert("UwsgiUsersHurt", "firing")
            labels = {"severity": "critical", "job": "uwsgi", "instance": prometheus.instance, "server": "shop"}
            assert labels.items() <= page["labels"].items()
            text = read(page)
            assert text.startswith(f"uWSGI shop on {prometheus.instance}: ")
            assert text.splitlines()[0] in prometheus.pagerduty("UwsgiUsersHurt")
        assert prometheus.servers() == {"shop"}


@pytest.mark.slow
def test_a_page_takes_two_minutes():
    """Of a standstill and of a full listen queue, with the shipped rules, a sample a second and 15 s between scrapes. A
    look every 10 s, a scrape and an evaluation later, it is 126 s at the worst; then Alertmanager waits (`group_wait`).
    """
    with alert_scenes.short() as stuck, alert_scenes.short() as full, contextlib.ExitStack() as healthy:
        addresses = [f"--stats={name}=unix://{server.stats}" for name, server in (("stuck", stuck), ("full", full))]
        exporting = healthy.enter_context(exporter(*addresses, "--samples-per-second=1"))
        manager = healthy.enter_context(monitoring.alertmanager(NOBODY))
        rules = [promtool.RULES / name for name in ("alerts.yaml", "recording.yaml")]
        healthy.enter_context(monitoring.prometheus([exporting.port], rules, manager, every="15s"))
        with alert_scenes.loaded(stuck.web, 1, 50), alert_scenes.loaded(full.web, 1, 50):
            observed = 'uwsgi_exporter_observed_seconds_total{server="full"}'
            eventually(lambda: exporting.scrape().get(observed, 0.0), lambda seconds: seconds > 70, "a minute", 120)
        began = time.monotonic()
        with alert_scenes.loaded(stuck.web, 5, 3_600_000), full.overloaded():
            for name in ("stuck", "full"):
                what = f"the page of a server that is {name}"
                eventually(partial(paged, manager), lambda servers, name=name: name in servers, what, 135)
                print(f"{what}: {time.monotonic() - began:.0f} s")


def paged(manager: Alertmanager) -> set[str]:
    return {alert["labels"]["server"] for alert in manager.alerts() if alert["labels"]["severity"] == "critical"}


@pytest.mark.slow
def test_killed_uwsgi_pages_and_its_return_resolves(tmp_path):
    """The page names the server and the instance; an idle healthy server beside it causes no notification."""
    with (
        alert_scenes.mortal() as server,
        alert_scenes.mortal() as healthy,
        watched({"shop": server.stats, "blog": healthy.stats}, tmp_path) as prometheus,
    ):
        assert prometheus.receiver.notifications == []
        server.kill()
        page = prometheus.wait_for_alert("UwsgiDown", "firing")
        assert f"uWSGI shop on {prometheus.instance} is down" in read(page)
        assert page["annotations"]["runbook_url"] == f"http://{prometheus.instance}/runbooks/UwsgiDown?server=shop"
        assert "uWSGI shop" in prometheus.pagerduty("UwsgiDown")
        server.start()
        assert prometheus.wait_for_alert("UwsgiDown", "resolved")["labels"] == page["labels"]
        assert prometheus.servers() == {"shop"}


@pytest.mark.slow
def test_uneven_load_is_a_ticket(tmp_path):
    """No alert about workers fires while the load is even. The alert does not need the judge; its ticket is sent unless
    the judge's says that unevenness hurts."""
    with alert_scenes.mapped(processes=2) as server, watched({"shop": server.stats}, tmp_path) as prometheus:
        with server.loaded(hot=2, calm=2):
            prometheus.prometheus.wait_for("server:uwsgi_active_requests:rate5m > 5")
            assert prometheus.names() == set()
        with server.loaded(hot=12, calm=1):

            def firing() -> list[dict[str, Any]]:
                alerts = prometheus.prometheus.alerts("UwsgiWorkersUneven")
                return [alert for alert in alerts if alert["state"] == "firing"]

            alert, *_ = eventually(firing, bool, "the alert about workers", 180)
            assert re.search(r"one worker has taken 1\.[5-9] times an even share", read(alert))
            said = {("UwsgiWorkersUneven", None), ("UwsgiWillHurt", "unevenness_hurts")}
            eventually(lambda: prometheus.names_and_codes() & said, bool, "a ticket", 180)
