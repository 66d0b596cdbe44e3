"""The shipped Alertmanager configuration, and the receivers that its tests have."""

import contextlib
import http.client
import json
import re
import smtplib
import socket
import subprocess
from datetime import datetime, timedelta, timezone
from typing import Any

import pytest
from msgspec import Struct

from tests.alerts import receivers
from tests.alerts.receivers import CONFIG, Mailbox, Receiver, mailbox, part, receiver
from tests.support import monitoring
from tests.support.monitoring import eventually, find

RUNBOOK = "http://10.0.0.1:9238/runbooks/UwsgiHotWorkerSaturated?server=shop"
DASHBOARD = "http://grafana/d/uwsgi-headroom-server?var-job=uwsgi&var-server=shop"


def amtool(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([find("amtool"), *words], capture_output=True, text=True, timeout=60, check=False)


def test_amtool_accepts_the_configuration_which_has_no_secret():
    """Its template is found. The files with the secrets need not exist."""
    checked = amtool("check-config", str(CONFIG))
    assert checked.returncode == 0, checked.stderr
    assert "1 templates" in checked.stdout
    secret = re.compile(r"^[\s-]*\S*(api_url|routing_key|service_key|password|secret|token|credentials):", re.MULTILINE)
    assert not secret.search(CONFIG.read_text())
    assert secret.search("    - routing_key: x"), "the pattern finds none anywhere"


@pytest.mark.parametrize(
    ("labels", "receiver"),
    [
        ("alertname=UwsgiDown severity=critical job=uwsgi instance=a:9238 server=shop", "page"),
        ("alertname=UwsgiHotWorkerSaturated severity=critical job=uwsgi instance=a:9238 server=shop", "page"),
        ("alertname=UwsgiUsersHurt severity=critical server=shop cluster=west", "page"),
        ("alertname=UwsgiWorkersUneven severity=warning job=uwsgi instance=a:9238 server=shop", "ticket"),
        ("alertname=UwsgiExporterDown severity=warning job=uwsgi instance=a:9238", "ticket"),
        ("alertname=UwsgiHeadroomForecast severity=info job=uwsgi server=shop", "info"),
        ("alertname=SomethingElse", "ticket"),
        ("alertname=UwsgiDown severity=disaster", "ticket"),
    ],
)
def test_a_severity_has_its_receiver(labels, receiver):
    """Critical alerts page, warnings are tickets, info is info; alerts of no known severity are tickets, too."""
    tested = amtool(
        "config", "routes", "test", f"--config.file={CONFIG}", f"--verify.receivers={receiver}", *labels.split()
    )
    assert tested.returncode == 0, tested.stdout + tested.stderr


class Running(Struct, frozen=True):
    """An Alertmanager with the shipped configuration but short intervals, and the notifications from it."""

    manager: monitoring.Alertmanager
    receiver: Receiver
    mailbox: Mailbox

    def post(self, *alerts: dict[str, Any]) -> None:
        connection = http.client.HTTPConnection("127.0.0.1", self.manager.port, timeout=60)
        with contextlib.closing(connection):
            connection.request("POST", "/api/v2/alerts", json.dumps(alerts), {"Content-Type": "application/json"})
            answer = connection.getresponse()
            assert answer.status == 200, answer.read()

    def find_bodies(self, words: str, *paths: str) -> list[dict[str, Any]]:
        """The bodies received at these paths that contain the words."""
        bodies = [body for path, body in self.receiver.notifications if path in paths]
        return [body for body in bodies if words in json.dumps(body, ensure_ascii=False)]

    def wait(self, words: str, *paths: str, count: int = 1) -> list[dict[str, Any]]:
        """The same, once `count` have arrived."""
        return eventually(
            lambda: self.find_bodies(words, *paths), lambda bodies: len(bodies) >= count, f"{words!r} at {paths}"
        )

    def slack(self, words: str, count: int = 1) -> dict[str, Any]:
        """The attachment of the last of `count` Slack messages, each of which has one."""
        *_, last = self.wait(words, "/slack", count=count)
        attachment: dict[str, Any]
        (attachment,) = last["attachments"]
        return attachment | {"channel": last["channel"]}


@pytest.fixture(scope="module")
def running(tmp_path_factory):
    """Runs the shipped file with other addresses, test secrets, and seconds instead of minutes."""
    secrets = tmp_path_factory.mktemp("secrets")
    with (
        receiver() as received,
        mailbox() as mails,
        monitoring.alertmanager(receivers.alertmanager(received, mails, secrets)) as manager,
    ):
        yield Running(manager, received, mails)


def alert(name: str, severity: str, server: str, *, instance: str = "10.0.0.1:9238", **more: Any) -> dict[str, Any]:
    """An alert as Prometheus posts it, firing from now on. (Alertmanager does not wait if it began before
    group_wait.)"""
    labels = {"alertname": name, "severity": severity, "job": "uwsgi", "instance": instance}
    return {
        "labels": labels | ({"server": server} if server else {}),
        "annotations": {
            "summary": f"{name} of {server} on {instance}.",
            "description": f"Numbers of {server}, and what to do first.",
            "runbook_url": RUNBOOK,
            "dashboard_url": DASHBOARD,
        },
        "startsAt": datetime.now(timezone.utc).isoformat(),
    } | more


def two_hours_ago() -> str:
    return (datetime.now(timezone.utc) - timedelta(hours=2)).isoformat()


def over(ended: dict[str, Any]) -> dict[str, Any]:
    """The same alert just after it has ended."""
    return ended | {"endsAt": datetime.now(timezone.utc).isoformat()}


@pytest.mark.integration
def test_a_page_says_what_to_do_and_where_to_look(running):
    """Slack and PagerDuty get status, summary, numbers, runbook, dashboard and the time of the start."""
    hot = alert("UwsgiHotWorkerSaturated", "critical", "page", startsAt=two_hours_ago())
    running.post(hot)
    slack = running.slack("of page")
    began = datetime.fromisoformat(hot["startsAt"]).strftime("%Y-%m-%d %H:%M UTC")
    assert slack["channel"] == "#incidents"
    assert slack["title"] == "CRITICAL: UwsgiHotWorkerSaturated of page on 10.0.0.1:9238."
    assert slack["title_link"] == DASHBOARD
    assert slack["color"] == "danger"
    assert slack["text"] == (
        f"Firing since {began}.\n"
        "Numbers of page, and what to do first.\n"
        f"<{RUNBOOK}|Runbook> · <{DASHBOARD}|Dashboard> · "
        "UwsgiHotWorkerSaturated: instance 10.0.0.1:9238, job uwsgi, server page"
    )
    (duty,) = running.wait("of page", "/pagerduty")
    assert duty["routing_key"] == "the key of the file"
    assert duty["event_action"] == "trigger"
    assert duty["payload"]["summary"] == slack["title"]
    assert duty["payload"]["severity"] == "critical"
    assert duty["payload"]["custom_details"]["what"].splitlines()[:4] == [
        "UwsgiHotWorkerSaturated of page on 10.0.0.1:9238.",
        f"Firing since {began}.",
        "",
        "Numbers of page, and what to do first.",
    ]
    assert [link["href"] for link in duty["links"]] == [RUNBOOK, DASHBOARD]


@pytest.mark.integration
def test_a_page_without_links(running):
    """Where no address is known, there is no link, and nothing leads to an empty address."""
    page = alert("UwsgiUsersHurt", "critical", "nolinks")
    page["annotations"] = {name: page["annotations"][name] for name in ("summary", "description")}
    running.post(page)
    assert "Runbook" not in running.slack("of nolinks")["text"]
    (duty,) = running.wait("of nolinks", "/pagerduty")
    assert "Runbook" not in duty["payload"]["custom_details"]["what"]
    assert not duty.get("links")


@pytest.mark.integration
def test_a_page_is_taken_back(running):
    """When the alert ends, Slack says so and how long it lasted, and PagerDuty's incident is resolved."""
    saturated = alert("UwsgiUsersHurt", "critical", "repaired", startsAt=two_hours_ago())
    running.post(saturated)
    (first,) = running.wait("of repaired", "/pagerduty")
    running.slack("of repaired")
    running.post(over(saturated))
    slack = running.slack("of repaired", count=2)
    assert slack["title"] == "RESOLVED: UwsgiUsersHurt of repaired on 10.0.0.1:9238."
    assert slack["color"] == "good"
    assert re.match(r"Resolved at 2\d\d\d-\d\d-\d\d \d\d:\d\d UTC, after 2 h\. ", slack["text"])
    _, last = running.wait(first["dedup_key"], "/pagerduty", count=2)
    assert last["event_action"] == "resolve"


@pytest.mark.integration
def test_a_ticket_is_a_mail_and_json(running):
    """The mail has a subject, text and HTML that say the same; the webhook has every annotation."""
    running.post(alert("UwsgiWorkersUneven", "warning", "ticket<b>"))
    observation = "WARNING: UwsgiWorkersUneven of ticket<b> on 10.0.0.1:9238."
    mails = eventually(
        lambda: [mail for mail in running.mailbox.mails if mail["Subject"] == observation], bool, "the mail to arrive"
    )
    (mail,) = mails
    assert mail["To"] == "web-team@example.org"
    text, html = part(mail, "plain"), part(mail, "html")
    for line in ("Numbers of ticket<b>, and what to do first.", f"Runbook:   {RUNBOOK}", f"Dashboard: {DASHBOARD}"):
        assert line in text.splitlines()
    assert ">Numbers of ticket&lt;b&gt;, and what to do first.</p>" in html
    assert f'<a href="{RUNBOOK}">Runbook</a>' in html
    assert f'<a href="{DASHBOARD.replace("&", "&amp;")}">Dashboard</a>' in html
    (body,) = running.wait("of ticket<b>", "/webhook")
    assert body["status"] == "firing"
    assert body["commonAnnotations"]["runbook_url"] == RUNBOOK


@pytest.mark.integration
def test_one_notification_for_a_service(running):
    machines = [f"10.0.0.{number}:9238" for number in range(11, 24)]
    running.post(
        *(alert("UwsgiUsersHurt", "critical", "fleet", instance=machine) for machine in machines),
        alert("UwsgiUsersHurt", "critical", "lonely"),
    )
    assert "more" not in running.slack("of lonely")["text"]
    slack = running.slack("of fleet")
    assert slack["title"] == "CRITICAL: UwsgiUsersHurt of fleet on 10.0.0.11:9238. And 12 more."
    lines = slack["text"].splitlines()
    assert lines.count("Numbers of fleet, and what to do first.") == 1
    assert lines[3] == "*12 more of the same service:*"
    assert len(lines[4:]) == 11
    assert lines[-1] == "• and 2 others"


@pytest.mark.integration
def test_an_alert_of_other_rules_can_be_read(running):
    """An alert without annotations and severity is a ticket with its name, and no text is empty or broken."""
    running.post({"labels": {"alertname": "DiskFull", "server": "foreign"}})
    (body,) = running.wait('"server": "foreign"', "/webhook")
    assert body["receiver"] == "ticket"
    (mail,) = eventually(
        lambda: [mail for mail in running.mailbox.mails if mail["Subject"] == "ALERT: DiskFull"], bool, "the mail"
    )
    title, since, nothing, where = part(mail, "plain").strip().splitlines()
    assert (title, nothing, where) == ("DiskFull", "", "DiskFull: server foreign")
    assert since.startswith("Firing since 2")
    assert "href" not in part(mail, "html")


DOWN, EXPORTER = ("UwsgiDown", "critical"), ("UwsgiExporterDown", "warning")
HURT, WILL_HURT = ("UwsgiUsersHurt", "critical"), ("UwsgiWillHurt", "warning")
HOT, UNEVEN = ("UwsgiHotWorkerSaturated", "critical"), ("UwsgiWorkersUneven", "warning")
LOW, FORECAST = ("UwsgiHeadroomLow", "warning"), ("UwsgiHeadroomForecast", "info")
BUDGET, SLOW_BURN = ("UwsgiErrorBudgetBurning", "critical"), ("UwsgiErrorBudgetBurning", "warning")


@pytest.mark.integration
@pytest.mark.parametrize(
    ("source", "held_back"),
    [
        (DOWN, [HURT, WILL_HURT, HOT, UNEVEN, LOW, FORECAST, BUDGET]),
        (EXPORTER, [WILL_HURT, UNEVEN, FORECAST]),
        (HURT, [WILL_HURT, UNEVEN, LOW, FORECAST]),
        (HOT, [UNEVEN, LOW]),
        (LOW, [FORECAST]),
    ],
    ids=lambda value: value[0] if isinstance(value, tuple) else "",
)
def test_what_explains_holds_back_the_rest(running, source, held_back):
    """For one server, only the alert that explains the others is sent; those of other servers are."""
    name, here, there = source[0], f"here-{source[0]}", f"there-{source[0]}"
    machine = f"{name.lower()}:9238"  # the alert on an exporter mutes all alerts of its machine
    explained = "" if source == EXPORTER else here
    running.post(
        alert(*source, server=explained, instance=machine),
        *(alert(alertname, severity, server=here, instance=machine) for alertname, severity in held_back),
        *(alert(alertname, severity, server=f"{there}-{alertname}") for alertname, severity in held_back),
    )
    for alertname, _ in held_back:
        running.wait(f"{alertname} of {there}-{alertname} on", "/slack", "/webhook")
    running.wait(f"{name} of {explained} on {machine}", "/slack", "/webhook")
    for alertname, _ in held_back:
        assert not running.find_bodies(f"{alertname} of {here} on", "/slack", "/webhook", "/pagerduty")


@pytest.mark.integration
def test_no_ticket_holds_back_a_page(running):
    machine = "10.0.3.1:9238"
    running.post(alert(*EXPORTER, "", instance=machine), alert(*HURT, server="open", instance=machine))
    running.wait(f"UwsgiUsersHurt of open on {machine}", "/slack")


@pytest.mark.integration
def test_a_page_holds_back_the_ticket_of_its_own_name(running):
    machine = "10.0.2.1:9238"
    page, held_back, other = (
        alert("UwsgiServersMissing", severity, "", instance=machine) for severity in ("critical", "warning", "warning")
    )
    for missing, pattern in ((page, "/run/a"), (held_back, "/run/a"), (other, "/run/b")):
        missing["labels"]["pattern"] = pattern
    running.post(page, held_back, other, *(alert(*of, server="burns", instance=machine) for of in (BUDGET, SLOW_BURN)))
    running.wait(f"UwsgiServersMissing of  on {machine}", "/slack")
    *_, ticket = running.wait(f"UwsgiServersMissing of  on {machine}", "/webhook")
    assert [labels["pattern"] for alert in ticket["alerts"] if "pattern" in (labels := alert["labels"])] == ["/run/b"]
    running.wait(f"UwsgiErrorBudgetBurning of burns on {machine}", "/slack")
    assert not running.find_bodies(f"UwsgiErrorBudgetBurning of burns on {machine}", "/webhook")


@pytest.mark.integration
def test_the_ticket_about_uneven_workers_says_whether_they_hurt(running):
    for server, code in (("hurts", "unevenness_hurts"), ("leaks", "memory_growing")):
        judged = alert(*WILL_HURT, server=server)
        judged["labels"]["code"] = code
        running.post(judged, alert(*UNEVEN, server=server))
    for words in ("UwsgiWillHurt of hurts", "UwsgiWillHurt of leaks", "UwsgiWorkersUneven of leaks"):
        running.wait(words, "/webhook")
    assert not running.find_bodies("UwsgiWorkersUneven of hurts", "/webhook")


@pytest.mark.integration
def test_what_is_over_meanwhile_is_told_beside_what_is_not(running):
    """A group that still fires lists its alerts that have ended."""
    ended, stays = (alert("UwsgiUsersHurt", "critical", "half", instance=f"10.0.0.{host}:9238") for host in (1, 2))
    running.post(ended, stays)
    running.slack("of half")
    running.post(over(ended))
    slack = running.slack("of half", count=2)
    assert slack["title"] == "CRITICAL: UwsgiUsersHurt of half on 10.0.0.2:9238."
    assert slack["text"].splitlines()[-2:] == ["*Resolved meanwhile:*", "• UwsgiUsersHurt of half on 10.0.0.1:9238."]


def test_a_whole_mail_is_kept():
    """It is kept as it was sent, with lines that begin with a dot."""
    with mailbox() as box:
        with smtplib.SMTP("127.0.0.1", box.port) as client:
            client.sendmail("a@example.org", "b@example.org", "Subject: hello\r\n\r\n.dot\r\n")
        (mail,) = box.mails
    assert (mail["Subject"], mail.get_content().splitlines()) == ("hello", [".dot"])
    with mailbox() as box:
        with socket.create_connection(("127.0.0.1", box.port)) as client:
            client.sendall(b"DATA\r\nSubject: half")
        mails = box.mails
    assert mails == []
