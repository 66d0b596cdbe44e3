"""Judges a server's document by what the user asked for: thresholds, which can make a verdict worse but never better,
and what its last reload changed (`--since-reload`, for pipelines).

A percentile of response times is judged as far as samples can show it.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from time import localtime, strftime

from msgspec import Struct
from msgspec.structs import replace

from uwsgi_headroom.analysis.findings import SEVERITIES, Severity
from uwsgi_headroom.check.request import UNSET, Threshold, Thresholds
from uwsgi_headroom.config.slo import INTERVALS
from uwsgi_headroom.documents.response_times import Percentile, find_percentile
from uwsgi_headroom.documents.schema import Finding, Server
from uwsgi_headroom.documents.sentences import describe_percentile, percentile_name
from uwsgi_headroom.errors import ConfigError
from uwsgi_headroom.words.formats import chosen, counted, duration, factor

_GRAVITY = {"ok": 0, "warning": 1, "critical": 2}


def apply_thresholds(server: Server, thresholds: Thresholds) -> Server:
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


def _passed(server: Server, thresholds: Thresholds) -> Iterator[Finding]:
    assert server.headroom
    assert server.flow
    value, limits = server.headroom.factor, thresholds.min_headroom
    severity = _severity(value, limits, falls=True)
    if severity and value is not None:
        limit = _limit(limits, severity)
        title = f"Headroom is {factor(value)}: --min-headroom wants {factor(limit)}."
        yield _finding("threshold_headroom", severity, title)
    times = (
        (
            "queue_wait",
            "Requests wait at least" if server.flow.wait_is_floor else "Requests wait",
            "in the listen queue",
            server.flow.queue_wait,
            thresholds.max_queue_wait,
        ),
        ("response_time", "Requests take", "on average", server.flow.response_time, thresholds.max_response_time),
    )
    for name, begin, end, seconds, limits in times:
        severity = _severity(seconds, limits, falls=False)
        if severity and seconds is not None:
            option = f"--max-{name.replace('_', '-')}"
            title = f"{begin} {duration(seconds)} {end}: {option} allows {chosen(_limit(limits, severity))}."
            yield _finding(f"threshold_{name}", severity, title)
    for figure in list_figures(server, thresholds):
        severity = _severity(figure.seconds, figure.limits, falls=False)
        if severity:
            title = f"{figure.sentence}: {figure.option} allows {chosen(_limit(figure.limits, severity))}."
            yield _finding(f"threshold_{figure.name}", severity, title, figure.evidence)


def _severity(value: float | None, limits: Threshold, *, falls: bool) -> Severity | None:
    """Return the severity of a value. falls: values below the limits are bad, instead of values above."""
    if value is None:
        return None
    sign = -1 if falls else 1
    if limits.critical is not None and sign * value > sign * limits.critical:
        return "critical"
    return "warning" if limits.warning is not None and sign * value > sign * limits.warning else None


def _limit(limits: Threshold, severity: Severity) -> float:
    limit = limits.critical if severity == "critical" else limits.warning
    assert limit is not None
    return limit


def _finding(code: str, severity: Severity, title: str, evidence: str = "") -> Finding:
    return Finding(code=code, severity=severity, title=title, evidence=evidence, meaning="", change="", runbook=None)


def _unknown_figure(server: Server, thresholds: Thresholds) -> str | None:
    """Return a sentence that names a threshold that cannot be judged. Without requests, no figure need be known."""
    assert server.headroom
    assert server.flow
    idle = server.flow.requests == 0
    figures = (
        (
            "--min-headroom",
            thresholds.min_headroom,
            server.headroom.factor is None and not server.headroom.far and not idle,
        ),
        ("--max-queue-wait", thresholds.max_queue_wait, server.flow.queue_wait is None and not idle),
        ("--max-response-time", thresholds.max_response_time, server.flow.response_time is None and not idle),
    )
    for option, limits, is_unknown in figures:
        if limits != UNSET and is_unknown:
            return f"{option} cannot be judged: its figure is not known here."
    for figure in list_figures(server, thresholds):
        if figure.unknown and not idle:
            return f"{figure.option} cannot be judged: {figure.unknown}."
    return None


_SLACK = 0.9
"""Sampling is never exactly as fast as configured."""


class Figure(Struct, frozen=True):
    """A percentile and its limits. percentile: None if it is not known; unknown: why it cannot be judged, as the end of
    a sentence, or empty."""

    share: float
    limits: Threshold
    percentile: Percentile | None
    unknown: str = ""

    @property
    def name(self) -> str:
        """Such as `p95`."""
        return percentile_name(self.share)

    @property
    def option(self) -> str:
        """The option that sets the limits."""
        return f"--max-{self.name}"

    @property
    def seconds(self) -> float | None:
        """The estimate; None if it is not known, or shorter than samples show."""
        return self.percentile.seconds if self.percentile and not self.unknown else None

    @property
    def sentence(self) -> str:
        """The percentile in a sentence without its end."""
        figure = describe_percentile(self.percentile, interval=False) if self.percentile else "not known"
        return f"The {100 * self.share:.0f}th percentile of response times is {figure}"

    @property
    def evidence(self) -> str:
        """The estimate with its interval."""
        if self.percentile is None:
            return ""
        return f"Inside uWSGI, estimated from samples: {describe_percentile(self.percentile)}."


def list_figures(server: Server, thresholds: Thresholds) -> Iterator[Figure]:
    """List the percentiles for which there is a threshold."""
    for share, limits in _list_limits(thresholds):
        percentile = find_percentile(server.response_times, share)
        yield Figure(share, limits, percentile, _why_unknown(server, share, limits, percentile))


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


def _why_unknown(server: Server, share: float, limits: Threshold, percentile: Percentile | None) -> str:
    section = server.response_times
    if section is None:
        return "its figure is not known here"
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
    server = replace(server, findings=findings)
    if severity == "critical" and server.status != "critical":
        return replace(server, status="critical", verdict=title)
    if unknown and server.status == "ok":
        return replace(server, status="unknown", verdict=title)
    return server
