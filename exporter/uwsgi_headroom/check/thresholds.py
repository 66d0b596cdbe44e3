"""Judges a server's document by what the user asked for: thresholds, which can make a verdict worse but never better,
and what its last reload changed (`--since-reload`, for pipelines).

A percentile of response times is judged as far as samples can show it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from time import localtime, strftime

from msgspec import Struct
from msgspec.structs import replace

from uwsgi_headroom.analysis.findings import SEVERITIES, Severity
from uwsgi_headroom.analysis.percentiles import Percentile, find_percentile
from uwsgi_headroom.check.request import UNSET, Threshold, Thresholds
from uwsgi_headroom.config.slo import INTERVALS
from uwsgi_headroom.documents.schema import FindingSection, ServerDocument
from uwsgi_headroom.documents.sentences import describe_percentile, percentile_name
from uwsgi_headroom.errors import ConfigError
from uwsgi_headroom.words.formats import chosen, counted, duration, factor
from uwsgi_headroom.words.template import Facts, fill

_GRAVITY = {"ok": 0, "warning": 1, "critical": 2}


def apply_thresholds(server: ServerDocument, thresholds: Thresholds) -> ServerDocument:
    """Add a finding to the document for each threshold that is exceeded, and adapt the verdict.

    If the figure of a threshold is unknown, a verdict that would be ok becomes `unknown`.
    """
    if server.status == "unknown" or server.headroom is None or server.flow is None:
        return server
    passed = sorted(_passed(server, thresholds), key=lambda finding: SEVERITIES.index(finding.severity))
    findings = tuple(sorted((*server.findings, *passed), key=lambda finding: SEVERITIES.index(finding.severity)))
    server = replace(server, findings=findings)
    if passed and _GRAVITY[passed[0].severity] > _GRAVITY[server.status]:
        return replace(server, status=passed[0].severity, verdict=passed[0].title)
    unknown = _unknown_figure(server, thresholds)
    if unknown and server.status == "ok":
        return replace(server, status="unknown", verdict=unknown)
    return server


class Figure(Struct, frozen=True):
    """A figure with the user's limits for it. value: None if it is not known; unknown: why it cannot be judged, as the
    end of a sentence, or empty; sentence: the figure in a sentence without its end."""

    name: str
    option: str
    limits: Threshold
    value: float | None
    unknown: str
    sentence: str
    write: Callable[[float], str] = chosen
    verb: str = "allows"
    evidence: str = ""

    @property
    def severity(self) -> Severity | None:
        """How bad the value is. Of a least factor, values below the limits are bad, else values above."""
        if self.value is None or self.unknown:
            return None
        sign = -1 if self.verb == "wants" else 1
        if self.limits.critical is not None and sign * self.value > sign * self.limits.critical:
            return "critical"
        return "warning" if self.limits.warning is not None and sign * self.value > sign * self.limits.warning else None


def _passed(server: ServerDocument, thresholds: Thresholds) -> Iterator[FindingSection]:
    for figure in list_figures(server, thresholds):
        severity = figure.severity
        limit = figure.limits.critical if severity == "critical" else figure.limits.warning
        if severity and limit is not None:
            title = f"{figure.sentence}: {figure.option} {figure.verb} {figure.write(limit)}."
            yield _finding(f"threshold_{figure.name}", severity, title, figure.evidence)


def _finding(code: str, severity: Severity, title: str, evidence: str = "") -> FindingSection:
    return FindingSection(
        code=code, severity=severity, title=title, evidence=evidence, meaning="", change="", runbook=None
    )


def _unknown_figure(server: ServerDocument, thresholds: Thresholds) -> str | None:
    """Return a sentence that names a threshold that cannot be judged. Without requests, no figure need be known."""
    if server.flow and server.flow.requests == 0:
        return None
    figures = list_figures(server, thresholds)
    return next((f"{each.option} cannot be judged: {each.unknown}." for each in figures if each.unknown), None)


_NOT_KNOWN = "its figure is not known here"


def list_figures(server: ServerDocument, thresholds: Thresholds) -> Iterator[Figure]:
    """List the figures for which there is a threshold."""
    room, flow = server.headroom, server.flow
    assert room
    assert flow
    if thresholds.min_headroom != UNSET:
        unknown = fill("[is? {why}]", {"is": room.factor is None and not room.far, "why": _NOT_KNOWN})
        text = f"Headroom is {factor(room.factor or 0.0)}"
        yield Figure("headroom", "--min-headroom", thresholds.min_headroom, room.factor, unknown, text, factor, "wants")
    wait, time = flow.queue_wait, flow.response_time
    if thresholds.max_queue_wait != UNSET:
        facts: Facts = {"floor": flow.wait_is_floor, "wait": wait or 0.0}
        text = fill("Requests wait [floor? at least ]{wait:duration} in the listen queue", facts)
        unknown = _NOT_KNOWN if wait is None else ""
        yield Figure("queue_wait", "--max-queue-wait", thresholds.max_queue_wait, wait, unknown, text)
    if thresholds.max_response_time != UNSET:
        text = f"Requests take {duration(time or 0.0)} on average"
        unknown = _NOT_KNOWN if time is None else ""
        yield Figure("response_time", "--max-response-time", thresholds.max_response_time, time, unknown, text)
    for share, limits in _list_limits(thresholds):
        yield _make_percentile(server, share, limits)


def _make_percentile(server: ServerDocument, share: float, limits: Threshold) -> Figure:
    percentile, name = find_percentile(server.response_times, share), percentile_name(share)
    known = describe_percentile(percentile, interval=False) if percentile else ""
    return Figure(
        name,
        f"--max-{name}",
        limits,
        percentile.seconds if percentile else None,
        _why_unknown(server, share, limits, percentile),
        f"The {100 * share:.0f}th percentile of response times is {known}",
        evidence=f"Inside uWSGI, estimated from samples: {describe_percentile(percentile)}." if percentile else "",
    )


_SLACK = 0.9
"""Sampling is never exactly as fast as configured."""


def refuse_too_short(thresholds: Thresholds, samples_per_second: float) -> None:
    """Raise ConfigError if a threshold is too short for the sampling rate."""
    needed = INTERVALS / samples_per_second
    for share, limits in _list_limits(thresholds):
        if limits.least is not None and limits.least < needed - 1e-9:
            raise ConfigError(
                f"--max-{percentile_name(share)}: {limits.least * 1000:g}ms cannot be judged with "
                f"{samples_per_second:g} samples per second; the least is {math.ceil(needed * 1000)}ms, two times "
                "between samples: raise it"
            )


def _list_limits(thresholds: Thresholds) -> Iterator[tuple[float, Threshold]]:
    for share, limits in ((0.95, thresholds.max_p95), (0.99, thresholds.max_p99)):
        if limits.least is not None:
            yield share, limits


def _why_unknown(server: ServerDocument, share: float, limits: Threshold, percentile: Percentile | None) -> str:
    section = server.response_times
    if section is None:
        return _NOT_KNOWN
    if percentile and percentile.under is not None and limits.least is not None and percentile.under <= limits.least:
        return ""  # whatever samples show: the mean proves it
    if limits.least is not None and limits.least < _SLACK * INTERVALS * section.interval:
        return (
            f"the server is sampled every {duration(section.interval)}, which shows times from "
            f"{duration(INTERVALS * section.interval)} on"
        )
    if percentile is None:
        return f"it needs {1 / (1 - share):.0f} requests, and there were {counted(section.requests, 'request')}"
    return ""


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
        since = "" if not_before is None else f" since {strftime('%H:%M:%S', localtime(not_before))}"
        return _add(server, "info", f"The exporter has seen no reload{since}.", unknown=True)
    if deploy.status == "worse":
        return _add(server, "critical", deploy.sentence)
    return _add(server, "info", deploy.sentence, unknown=deploy.status in ("early", "unknown"))


def is_undecided(servers: Iterable[ServerDocument]) -> bool:
    """Whether waiting may bring a verdict about one of these servers, and none is worse."""
    servers = list(servers)
    decided = [server for server in servers if server.deploy and server.deploy.status in ("worse", "better", "same")]
    return not any(server.status == "critical" for server in servers) and (
        len(decided) < len(servers) or any(server.status == "unknown" for server in servers)
    )


def _add(server: ServerDocument, severity: Severity, title: str, *, unknown: bool = False) -> ServerDocument:
    finding = _finding(CODE, severity, title)
    findings = tuple(sorted((*server.findings, finding), key=lambda each: SEVERITIES.index(each.severity)))
    server = replace(server, findings=findings)
    if severity == "critical" and server.status != "critical":
        return replace(server, status="critical", verdict=title)
    if unknown and server.status == "ok":
        return replace(server, status="unknown", verdict=title)
    return server
