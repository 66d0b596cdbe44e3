"""The shipped rules and Alertmanager configuration with seconds instead of minutes, and the receivers of a test."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

from alerts import files
from alerts.thresholds import Thresholds, changed
from tests.support.mailbox import PASSWORD, Mailbox
from tests.support.notification_receiver import Receiver
from tools.environments import ROOT

FOLDER = ROOT / "alerts" / "alertmanager"
CONFIG = FOLDER / "alertmanager.yml"
SECRETS = "/etc/alertmanager/secrets"

HURRIED = (
    "window=20s",
    "load_keep=5s",
    "down_hold=2s",
    "queue_full_range=5s",
    "queue_full_hold=5s",
    "queue_filling_hold=10s",
    "queue_wait_hold=10s",
    "hot_worker_hold=4s",
    "uneven_hold=8s",
    "near_capacity_hold=5s",
    "shared_cpu_hold=5s",
    "stuck_hold=5s",
    "standstill_range=20s",
    "standstill_hold=5s",
    "harakiri_hold=5s",
    "respawn_hold=5s",
    "queue_not_measurable_hold=5s",
)
"""Durations for a Prometheus that scrapes and evaluates every second.

Some durations stay as shipped: those of memory, forecast and headroom, which need hours of figures; those of bound
interpreters and CPUs, of gaps between samples and of an exporter that is down, because all of these occur on a small
busy machine; and those of exceptions, which clients cause that are ended in the middle of a response.
"""


def rules(directory: Path, *assignments: str) -> list[Path]:
    """Writes the rule files into a directory, with short durations and these thresholds (`NAME=VALUE`)."""
    made = files.render(changed(Thresholds(), [*HURRIED, *assignments]))
    for name, text in made.items():
        (directory / name).write_text(text)
    return [directory / name for name in made]


def alertmanager(received: Receiver, mails: Mailbox, secrets: Path) -> dict[str, Any]:
    """The configuration with the addresses of the receiver and the mailbox; writes their secrets into a directory."""
    (secrets / "slack-webhook-url").write_text(received.url("/slack"))
    (secrets / "smtp-password").write_text(PASSWORD)
    (secrets / "pagerduty-routing-key").write_text("the key of the file")
    text = CONFIG.read_text().replace(SECRETS, str(secrets))
    text = text.replace("http://127.0.0.1:9099/alerts", received.url("/webhook"))
    text = text.replace("mail.example.org:587", f"127.0.0.1:{mails.port}")
    configuration: dict[str, Any] = yaml.safe_load(text)
    # The test's mail server has no certificate, and the test replaces PagerDuty.
    configuration["global"] |= {"smtp_require_tls": False, "pagerduty_url": received.url("/pagerduty")}
    configuration["templates"] = [str(FOLDER / name) for name in configuration["templates"]]
    for route in [configuration["route"], *configuration["route"]["routes"]]:
        route |= {"group_wait": "1s", "group_interval": "1s"}
    return configuration


def alertmanager_for_tests(configuration: dict[str, Any], received: Receiver) -> dict[str, Any]:
    """Adds a webhook to each receiver, at a path of its name, so that tests see what a person gets, with its labels."""
    for entry in configuration["receivers"]:
        hook = {"url": received.url(f"/{entry['name']}"), "send_resolved": True}
        entry["webhook_configs"] = [*entry.get("webhook_configs", []), hook]
    return configuration
