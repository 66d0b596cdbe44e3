"""Section 10: what in the settings of uWSGI will cause trouble, or may.

The exporter keeps the names of the rules that speak, and never a setting. Their words are those of this version.
"""

from __future__ import annotations

from collections.abc import Sequence

from uwsgi_headroom.analysis.settings_table import describe_rule
from uwsgi_headroom.record import AdviceSeverity
from uwsgi_headroom.report.columns import ServerData
from uwsgi_headroom.report.review.sections import Absent, SettingAdvice, SettingsReview

_NOT_REVIEWED = (
    "No settings were reviewed: the exporter could not read uWSGI's options, or its data is older than this review. "
    "`uwsgi-headroom review` on the machine does it now."
)


def review_settings(servers: Sequence[ServerData]) -> SettingsReview | Absent:
    """What the rules say about the settings of a service's servers, when they were last reviewed."""
    hit: dict[tuple[AdviceSeverity, str], list[str]] = {}
    for server in servers:
        for rule, severity in (server.settings or {}).items():
            hit.setdefault((severity, rule), []).append(server.server)
    unknown = tuple(server.server for server in servers if server.settings is None)
    if len(unknown) == len(servers):
        return Absent(reason=_NOT_REVIEWED)
    found = [_describe(rule, severity, names) for (severity, rule), names in hit.items()]
    return SettingsReview(advice=tuple(sorted(found, key=lambda each: each.severity == "info")), unknown=unknown)


def _describe(rule: str, severity: AdviceSeverity, servers: Sequence[str]) -> SettingAdvice:
    known = describe_rule(rule, severity)
    return SettingAdvice(
        rule=rule,
        severity=severity,
        title=known.title if known else "This version of uwsgi-headroom does not know the rule.",
        reason=known.reason if known else "",
        change=known.change if known else "",
        lines=known.lines if known else (),
        needs=known.needs if known else "",
        unless=known.unless if known else "",
        servers=tuple(servers),
    )
