"""Judges a server's document by what the user asked for: thresholds, which can make a verdict worse but never better,
and what its last reload changed (`--since-reload`, for pipelines).

A percentile of response times is judged as far as samples can show it.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from msgspec.structs import replace

from uwsgi_headroom.analysis.findings import SEVERITIES, Severity
from uwsgi_headroom.analysis.percentiles import ResponseTimes, find_percentile
from uwsgi_headroom.check.request import Threshold, Thresholds
from uwsgi_headroom.check.tables import clock, find_field
from uwsgi_headroom.config.slo import INTERVALS
from uwsgi_headroom.documents.schema import FindingSection, ServerDocument
from uwsgi_headroom.documents.sentences import describe_percentile
from uwsgi_headroom.errors import ConfigError
from uwsgi_headroom.words.formats import counted, duration
from uwsgi_headroom.words.template import Facts, fill

_GRAVITY = {"ok": 0, "info": 0, "warning": 1, "critical": 2}


def apply_thresholds(server: ServerDocument, thresholds: Thresholds) -> ServerDocument:
    """Add a finding to the document for each threshold that is exceeded, and adapt the verdict.

    If the figure of a threshold is unknown, a verdict that would be ok becomes `unknown`.
    """
    if server.status == "unknown" or server.headroom is None or server.flow is None:
        return server
    server = _add(server, *_passed(server, thresholds))
    return _doubt(server, _unknown_figure(server, thresholds))


def _add(server: ServerDocument, *found: FindingSection) -> ServerDocument:
    findings = tuple(sorted((*server.findings, *found), key=lambda finding: SEVERITIES.index(finding.severity)))
    server = replace(server, findings=findings)
    worst = min(found, key=lambda finding: SEVERITIES.index(finding.severity), default=None)
    if worst and _GRAVITY[worst.severity] > _GRAVITY[server.status]:
        return replace(server, status=worst.severity, verdict=worst.title)
    return server


def _doubt(server: ServerDocument, why: str | None) -> ServerDocument:
    return replace(server, status="unknown", verdict=why) if why and server.status == "ok" else server


class Limited(NamedTuple):
    """A figure for which the user may have a threshold. name: in plugins' lines; limits: the field of `Thresholds`;
    value: its place in a document, or the share of a percentile; sentence: with `value` and `floor`."""

    name: str
    limits: str
    value: str | float
    sentence: str
    wants: str = "allows {limit:chosen}"
    unit: str = "s"
    range: str = "{:g}"
    """What is ok, as a plugin writes it; with a colon at its end, values below the limit are bad."""

    @property
    def option(self) -> str:
        return f"--{self.limits.replace('_', '-')}"


_HEADROOM = "Headroom is {value:factor}"
_REQUESTS = "uWSGI has served {value:request}"
_WAIT = "Requests wait [floor? at least ]{value:duration} in the listen queue"
_TIME = "Requests take {value:duration} on average"
_PERCENTILE = "The {th}th percentile of response times is {value}"

LIMITED = (
    Limited("headroom", "min_headroom", "headroom.factor", _HEADROOM, "wants {limit:factor}", "", "{:g}:"),
    Limited("queue_wait", "max_queue_wait", "flow.queue_wait", _WAIT),
    Limited("response_time", "max_response_time", "flow.response_time", _TIME),
    Limited("response_time_p95", "max_p95", 0.95, _PERCENTILE),
    Limited("response_time_p99", "max_p99", 0.99, _PERCENTILE),
    Limited("requests", "min_requests", "flow.requests", _REQUESTS, "wants {limit}", "", "{:g}:"),
)


def find_value(server: ServerDocument, figure: Limited) -> float | None:
    """The value of a figure with a threshold; None if it is not known."""
    if isinstance(figure.value, str):
        value: float | None = find_field(server, figure.value)
        return value
    percentile = find_percentile(server.response_times, figure.value)
    return percentile.seconds if percentile else None


def find_limits(thresholds: Thresholds, figure: Limited) -> Threshold:
    limits: Threshold = getattr(thresholds, figure.limits)
    return limits


def _passed(server: ServerDocument, thresholds: Thresholds) -> Iterator[FindingSection]:
    for figure in LIMITED:
        value, limits = find_value(server, figure), find_limits(thresholds, figure)
        if value is None or _why_unknown(server, figure, limits):
            continue
        sign = -1 if figure.range.endswith(":") else 1
        levels: tuple[tuple[Severity, float | None], ...] = ("critical", limits.critical), ("warning", limits.warning)
        for severity, limit in levels:
            if limit is not None and sign * value > sign * limit:
                yield _describe(server, figure, value, severity, limit)
                break


def _describe(
    server: ServerDocument, figure: Limited, value: float, severity: Severity, limit: float
) -> FindingSection:
    facts: Facts = {"value": value, "floor": find_field(server, "flow.wait_is_floor"), "limit": limit}
    evidence = ""
    if isinstance(figure.value, float):
        percentile = find_percentile(server.response_times, figure.value)
        assert percentile
        facts |= {"th": f"{100 * figure.value:.0f}", "value": describe_percentile(percentile, interval=False)}
        evidence = f"Inside uWSGI, estimated from samples: {describe_percentile(percentile)}."
    title = fill(f"{figure.sentence}: {figure.option} {figure.wants}.", facts)
    return _finding(f"threshold_{figure.limits[len('max_') :]}", severity, title, evidence)


def _finding(code: str, severity: Severity, title: str, evidence: str = "") -> FindingSection:
    return FindingSection(
        code=code, severity=severity, title=title, evidence=evidence, meaning="", change="", runbook=None
    )


def _unknown_figure(server: ServerDocument, thresholds: Thresholds) -> str | None:
    """A sentence that names a threshold that cannot be judged. Without requests, no figure need be known."""
    if server.flow and server.flow.requests == 0:
        return None
    reasons = ((each.option, _why_unknown(server, each, find_limits(thresholds, each))) for each in LIMITED)
    return next((f"{option} cannot be judged: {why}." for option, why in reasons if why), None)


_NOT_KNOWN = "its figure is not known here"


def _why_unknown(server: ServerDocument, figure: Limited, limits: Threshold) -> str:
    """Why a figure cannot be judged, as the end of a sentence; empty if it can, or has no threshold."""
    if limits.least is None:
        return ""
    if isinstance(figure.value, float):
        return _why_no_percentile(server.response_times, figure.value, limits.least)
    is_far = figure.name == "headroom" and server.headroom and server.headroom.far
    return _NOT_KNOWN if find_value(server, figure) is None and not is_far else ""


def _why_no_percentile(section: ResponseTimes | None, share: float, least: float) -> str:
    if section is None:
        return _NOT_KNOWN
    percentile = find_percentile(section, share)
    if percentile and percentile.under is not None and percentile.under <= least:
        return ""  # whatever samples show: the mean proves it
    shown = INTERVALS * section.interval
    if least < _SLACK * shown:
        return f"the server is sampled every {duration(section.interval)}, which shows times from {duration(shown)} on"
    if percentile is None:
        return f"it needs {1 / (1 - share):.0f} requests, and there were {counted(section.requests, 'request')}"
    return ""


_SLACK = 0.9
"""Sampling is never exactly as fast as configured."""


def refuse_too_short(thresholds: Thresholds, samples_per_second: float) -> None:
    """Raise ConfigError if a threshold is too short for the sampling rate."""
    needed = INTERVALS / samples_per_second
    for figure in LIMITED:
        least = find_limits(thresholds, figure).least
        if isinstance(figure.value, float) and least is not None and least < needed - 1e-9:
            raise ConfigError(
                f"{figure.option}: {least * 1000:g}ms cannot be judged with {samples_per_second:g} samples per second; "
                f"the least is {math.ceil(needed * 1000)}ms, two times between samples: raise it"
            )


CODE = "since_reload"

POLL_SECONDS = 5.0
"""Seconds between two requests while a pipeline waits."""


def apply_deploy(server: ServerDocument, not_before: float | None) -> ServerDocument:
    """Add what the last reload changed to the document, and adapt the verdict: critical if something is worse, and
    unknown if it is not known yet. not_before: an earlier reload (epoch seconds) does not count."""
    if server.status == "unknown":
        return server
    deploy = server.deploy
    if deploy is None or (not_before is not None and deploy.time < not_before):
        since = not_before and clock(not_before)
        why = fill("The exporter has seen no reload[since?  since {since}].", {"since": since})
        return _doubt(_add(server, _finding(CODE, "info", why)), why)
    severity: Severity = "critical" if deploy.status == "worse" else "info"
    server = _add(server, _finding(CODE, severity, deploy.sentence))
    return _doubt(server, deploy.sentence) if deploy.status in ("early", "unknown") else server


def is_undecided(servers: Iterable[ServerDocument]) -> bool:
    """Whether waiting may bring a verdict about one of these servers, and none is worse."""
    servers = list(servers)
    decided = [server for server in servers if server.deploy and server.deploy.status in ("worse", "better", "same")]
    return not any(server.status == "critical" for server in servers) and (
        len(decided) < len(servers) or any(server.status == "unknown" for server in servers)
    )
