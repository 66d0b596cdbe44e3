"""What happens to a real uWSGI reaches a person: exporter, Prometheus, Alertmanager and a receiver, all real."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests import monitoring
from tests.alerts import scenes
from tests.exporter import exporter
from tests.monitoring import Alertmanager, Prometheus, eventually
from tests.receiver import Receiver, receiver

pytestmark = pytest.mark.integration

RULES = """\
groups:
  - name: own
    rules:
      - alert: Down
        expr: uwsgi_up == 0
        for: 1s
        labels: {severity: critical}
        annotations: {summary: "{{ $labels.server }} does not answer"}
      - alert: QueueFull
        expr: uwsgi_socket_queue_length >= uwsgi_socket_max_queue_length > 0
        for: 3s
        labels: {severity: critical}
      - alert: Uneven
        expr: |
          max without (worker_id) (rate(uwsgi_worker_requests_total[10s]))
            / avg without (worker_id) (rate(uwsgi_worker_requests_total[10s])) > 1.5
        for: 5s
        labels: {severity: warning}
"""
"""Rules with the windows of a test."""


@pytest.fixture
def rules(tmp_path: Path) -> list[Path]:
    (tmp_path / "own.yaml").write_text(RULES)
    return sorted(tmp_path.glob("*.yaml"))


@dataclass(frozen=True)
class Watched:
    """Everything between uWSGI and a person."""

    prometheus: Prometheus
    alertmanager: Alertmanager
    receiver: Receiver

    def arrives(self, name: str, status: str, seconds: float = 60) -> dict[str, Any]:
        """The alert of this name and status (firing or resolved), once the receiver has it."""

        def seen() -> tuple[list[dict[str, Any]], object, object]:
            return self.receiver.alerts(name, status), self.prometheus.alerts(name), self.prometheus.unwell()

        return eventually(seen, lambda it: it[0], f"{name} {status} to arrive", seconds)[0][0]


@contextlib.contextmanager
def watched(stats: dict[str, str], rules: Sequence[Path]) -> Iterator[Watched]:
    """Watch these stats sockets, by their servers' names, until the block ends, which begins when all are scraped."""
    addresses = [part for name, path in stats.items() for part in ("--stats", f"{name}=unix://{path}")]
    with (
        receiver() as received,
        exporter(*addresses) as exporting,
        monitoring.alertmanager(at_once(received)) as manager,
        monitoring.prometheus([exporting.port], rules, manager) as prometheus,
    ):
        prometheus.wait_for("uwsgi_up == 1", lambda up: len(up) == len(stats))
        yield Watched(prometheus, manager, received)


def at_once(received: Receiver) -> dict[str, Any]:
    """Alertmanager's configuration: every alert goes to the receiver, in a second."""
    return {
        "route": {"receiver": "all", "group_by": ["..."], "group_wait": "0s", "group_interval": "1s"},
        "receivers": [{"name": "all", "webhook_configs": [{"url": received.url(), "send_resolved": True}]}],
    }


def test_killed_uwsgi_pages_and_its_return_resolves(rules: list[Path]) -> None:
    """The page says which server and where; nothing arrives before uWSGI is killed."""
    with scenes.mortal() as server, watched({"shop": server.stats}, rules) as seen:
        assert seen.receiver.notifications == []
        server.kill()
        page = seen.arrives("Down", "firing")
        instance = dict(*seen.prometheus.query("uwsgi_up"))["instance"]
        expected = {"alertname": "Down", "severity": "critical", "server": "shop", "job": "uwsgi", "instance": instance}
        assert page["labels"] == expected
        assert page["annotations"] == {"summary": "shop does not answer"}
        server.start()
        assert seen.arrives("Down", "resolved")["labels"] == expected
        eventually(seen.prometheus.alerts, lambda alerts: not alerts, "no alert to be left")


def test_full_unix_queue_pages_and_resolves_when_clients_go(rules: list[Path]) -> None:
    """uWSGI says 0 of this queue; the page names the socket."""
    with scenes.short() as server, watched({"shop": server.stats}, rules) as seen:
        with server.overloaded():
            assert seen.arrives("QueueFull", "firing")["labels"]["socket"] == server.web
        seen.arrives("QueueFull", "resolved")
        assert {it.body["commonLabels"]["alertname"] for it in seen.receiver.notifications} == {"QueueFull"}


def test_uneven_load_pages_and_resolves_when_it_is_evened(rules: list[Path]) -> None:
    """As long as the load is even there is nothing to say, nor when it is so again."""
    with scenes.mapped() as server, watched({"shop": server.stats}, rules) as seen:
        with server.loaded(hot=2, calm=4):
            seen.prometheus.wait_for("sum(rate(uwsgi_worker_requests_total[10s])) > 5")
        with server.loaded(hot=10, calm=2):
            assert seen.arrives("Uneven", "firing")["labels"]["server"] == "shop"
        with server.loaded(hot=2, calm=4):
            seen.arrives("Uneven", "resolved")
        assert {it.body["commonLabels"]["alertname"] for it in seen.receiver.notifications} == {"Uneven"}
