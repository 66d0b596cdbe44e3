"""Judges a server by what its last reload changed, for pipelines: `check --since-reload`."""

from __future__ import annotations

from collections.abc import Iterable
from time import localtime, strftime

import msgspec

from uwsgi_headroom.analysis.findings import SEVERITIES, Severity
from uwsgi_headroom.documents.schema import Finding, Server

CODE = "since_reload"

POLL_SECONDS = 5.0
"""Seconds between two requests while a pipeline waits."""


def apply_deploy(server: Server, not_before: float | None) -> Server:
    """Add what the last reload changed to the document, and adapt the verdict: critical if something is worse, and
    unknown if it is not known yet. not_before: an earlier reload (epoch seconds) does not count."""
    if server.status == "unknown":
        return server
    deploy = server.deploy
    if deploy is None or (not_before is not None and deploy.time < not_before):
        since = "" if not_before is None else f" since {strftime('%H:%M:%S', localtime(not_before))}"
        return _add(server, "info", f"The exporter has seen no reload{since}.", unknown=True)
    if deploy.status == "worse":
        return _add(server, "critical", deploy.sentence)
    return _add(server, "info", deploy.sentence, unknown=deploy.status in ("early", "unknown"))


def is_undecided(servers: Iterable[Server]) -> bool:
    """Whether waiting may bring a verdict about one of these servers, and none is worse."""
    servers = list(servers)
    decided = [server for server in servers if server.deploy and server.deploy.status in ("worse", "better", "same")]
    return not any(server.status == "critical" for server in servers) and (
        len(decided) < len(servers) or any(server.status == "unknown" for server in servers)
    )


def _add(server: Server, severity: Severity, title: str, *, unknown: bool = False) -> Server:
    finding = Finding(code=CODE, severity=severity, title=title, evidence="", meaning="", change="", runbook=None)
    findings = tuple(sorted((*server.findings, finding), key=lambda each: SEVERITIES.index(each.severity)))
    server = msgspec.structs.replace(server, findings=findings)
    if severity == "critical" and server.status != "critical":
        return msgspec.structs.replace(server, status="critical", verdict=title)
    if unknown and server.status == "ok":
        return msgspec.structs.replace(server, status="unknown", verdict=title)
    return server
