"""The alert on the error budget of a service level objective: multi-window, multi-burn-rate.

The Site Reliability Workbook, chapter 5, "Alerting on SLOs". Servers without an objective raise no alert.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from alerts.burn_rates import bad_share, burn_rate, requests
from alerts.rule import Alert, Group
from alerts.thresholds import Thresholds
from alerts.words import CHECK, DURATION, INSTANCE, SERVER, SERVER_DASHBOARD, TENTH, WHOLE, answer, asked

MONTH = 30 * 86400
"""Seconds of the period that the budget is for."""

_LOOKS = 60
"""Times within the long window at which the rule looks whether the server had its objective."""


@dataclass(frozen=True)
class _Windows:
    """long, short: the windows; minutes: the length of the long one; seconds: of the short one."""

    long: str
    short: str
    minutes: int
    seconds: int


_HOUR, _HOURS = _Windows("1h", "5m", 60, 300), _Windows("6h", "30m", 360, 1800)
_DAY, _DAYS = _Windows("1d", "2h", 1440, 7200), _Windows("3d", "6h", 4320, 21600)


def groups(t: Thresholds) -> Sequence[Group]:
    """The group of `objective.yaml`."""
    return [Group("uwsgi-headroom objective", _burning(t))]


def _burning(t: Thresholds) -> Sequence[Alert]:
    """A page if the budget of a month would be gone within days, a ticket if it would be gone before the month is."""
    ticket = Alert(
        alert="UwsgiErrorBudgetBurning",
        expr=f"{_burns(_DAY, t.burn_ticket_1d, t)}\nor\n{_burns(_DAYS, t.burn_ticket_3d, t)}",
        hold=t.burn_hold,
        severity="warning",
        summary=f"uWSGI {SERVER} on {INSTANCE} will miss its service level objective: in the last 2h, {_bad('2h')} of "
        "its requests were too slow, refused or lost",
        acts=ACTS,
        evidence=_figures(t, "2h", "6h", "1d", "3d"),
        dashboard=SERVER_DASHBOARD,
        deploys=True,
    )
    page = replace(
        ticket,
        expr=f"{_burns(_HOUR, t.burn_page_1h, t)}\nor\n{_burns(_HOURS, t.burn_page_6h, t)}",
        keep=t.load_keep,
        severity="critical",
        summary=f"uWSGI {SERVER} on {INSTANCE} fails its users: in the last 5m, {_bad('5m')} of its requests were too "
        "slow, refused or lost",
        evidence=_figures(t, "5m", "30m", "1h", "6h"),
    )
    return [ticket, page]


def _burns(windows: _Windows, least: float, t: Thresholds) -> str:
    """The burn rate over the long window, where it is at least this high over both windows. As in `check`, nothing is
    taken to have burnt before the server had its objective: its first minutes do not use up the budget of a month."""
    had = f"count_over_time(uwsgi_slo_objective_ratio[{windows.long}:{windows.minutes // _LOOKS}m])"
    return f"""
(
  {burn_rate("server", windows.long)} * clamp_max({had} / {_LOOKS}, 1) >= {least:g}
  and {burn_rate("server", windows.short)} >= {least:g}
  and {windows.seconds} * {requests("server", windows.short)} >= {t.burn_requests}
)""".strip()


def _figures(t: Thresholds, *windows: str) -> str:
    """The description: the share of bad requests in each window, and what to do."""
    first, *others = windows
    shares = ", ".join(f"{_bad(window)} in {window}" for window in others)
    reasons = {
        reason: f'round(increase(uwsgi_slo_bad_requests_total{{reason="{reason}",$self}}[{first}])) > 0'
        for reason in ("waited", "lost", "refused")
    }
    words = {
        "waited": "Requests that were too slow only because of the wait in the listen queue",
        "lost": "Requests that were lost when workers exited or were killed",
        "refused": "Requests that were refused because the listen queue was full",
    }
    counts = "".join(
        f"{{{{ with {asked(query)} }}}} {words[reason]}, in the last {first}: "
        f"{{{{ . | first | value | {WHOLE} }}}}.{{{{ end }}}}"
        for reason, query in reasons.items()
    )
    return (
        f"In the last {first}, {_bad(first)} of the requests missed the objective, which permits "
        f"{answer('100 * (1 - uwsgi_slo_objective_ratio{$self})', TENTH)} %. Over longer periods, the share of "
        f"requests that missed the objective was {shares}. A request misses the objective if it takes longer than "
        f"{answer('uwsgi_slo_threshold_seconds{$self}', DURATION)}, including the wait in the listen queue, or if it "
        f"is refused or lost. {_budget()}{counts}"
    )


ACTS = (
    "If another alert about this uWSGI is firing, first do what that alert says: it names the cause.",
    f"Run {CHECK}: it shows where requests spend their time, and what to do.",
    "If a backend is slow, tell the team that runs it. If one kind of request is slow, tell the developers. If clients "
    "send more requests than uWSGI can serve, rate-limit the clients in the web server.",
)


def _budget() -> str:
    """How long the budget of a month lasts at this rate, as a sentence. At a rate near 1 it lasts a month: then that is
    said without a figure, because the rate is a mean over days that changes little."""
    left = f'printf "{MONTH} / %g" $value | query | first | value'
    return (
        "{{ if lt $value 1.05 }}At this rate, nothing is left of the error budget at the end of the month.{{ else }}At "
        f"this rate, the error budget for a month is used up in {{{{ {DURATION} ({left}) }}}}.{{{{ end }}}}"
    )


def _bad(window: str) -> str:
    return answer(f"100 * {bad_share('server', window)}{{$self}}", TENTH) + " %"
