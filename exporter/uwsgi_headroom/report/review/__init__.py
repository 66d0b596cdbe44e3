"""Computes a capacity review from a range of quarter hours; does no I/O."""

from __future__ import annotations

from collections.abc import Sequence
from math import inf
from zoneinfo import ZoneInfo

from uwsgi_headroom.analysis.figures import Figures
from uwsgi_headroom.report.columns import ReviewData, ServerData
from uwsgi_headroom.report.review.balance import review_balance
from uwsgi_headroom.report.review.peaks import Peaks, Service, find_peaks, group_services
from uwsgi_headroom.report.review.quality import assess
from uwsgi_headroom.report.review.recommendations import Evidence, recommend, review_settings
from uwsgi_headroom.report.review.sections import (
    MOST_URGENT_FIRST,
    Absent,
    Judgement,
    Review,
    ServerQuality,
    ServiceReview,
    Utilization,
    WhatIfReview,
)
from uwsgi_headroom.report.review.time_use import review_time
from uwsgi_headroom.report.review.trend import review_trend
from uwsgi_headroom.report.review.users import review_users
from uwsgi_headroom.report.review.utilization import review_utilization
from uwsgi_headroom.report.review.verdict import Facts, judge, unknown_verdict
from uwsgi_headroom.report.review.what_if import review_what_if
from uwsgi_headroom.report.review.wording import escape_names
from uwsgi_headroom.same_fields import copy_fields
from uwsgi_headroom.words.formats import listed

FEW_SERVICES, LITTLE_HEADROOM = 6, 3.0
"""With more services, only those with less headroom are predicted in section 7."""


def build_review(data: ReviewData) -> Review:
    """The review of a range. Raises nothing for missing data: a section without it says why."""
    data = escape_names(data)
    zone = ZoneInfo(data.time_zone)
    quality = assess(data)
    groups = group_services(data)
    services = tuple(
        _review(
            service,
            data,
            [each for each in quality if each.server in {server.server for server in service.servers}],
            zone,
            predict_below=inf if len(groups) <= FEW_SERVICES else LITTLE_HEADROOM,
        )
        for service in groups
    )
    ordered = tuple(sorted(services, key=lambda service: MOST_URGENT_FIRST.index(service.verdict.judgement)))
    judgement: Judgement = ordered[0].verdict.judgement if ordered else "unknown"
    return copy_fields(
        Review, data, judgement=judgement, answer=_answer(ordered), services=ordered, quality=quality, data=data
    )


def _answer(services: Sequence[ServiceReview]) -> str:
    """The answer for all services together, in a sentence."""
    if not services:
        return "No verdict: the source has no server in this range."
    parts = (
        ("act", "needs action now", "need action now"),
        ("plan", "needs a plan", "need a plan"),
        ("unknown", "cannot be judged yet", "cannot be judged yet"),
        ("ok", "has enough capacity", "have enough capacity"),
    )
    return " ".join(
        f"{listed(found, 3 if len(found) > 4 else 4)} {one if len(found) == 1 else many}."
        for judgement, one, many in parts
        if (found := [each.service for each in services if each.verdict.judgement == judgement])
    )


def _review(
    service: Service, data: ReviewData, quality: Sequence[ServerQuality], zone: ZoneInfo, *, predict_below: float
) -> ServiceReview:
    """One service. predict_below: the headroom below which other settings are predicted."""
    peaks = find_peaks(service, zone)
    names = tuple(server.server for server in service.servers)
    if peaks is None:
        reason = "The range has no quarter hour in which its threads in service are known."
        absent = Absent(reason=reason)
        return ServiceReview(
            service=service.name,
            servers=names,
            verdict=unknown_verdict(service.name, reason),
            utilization=absent,
            users=absent,
            balance=absent,
            time=absent,
            trend=absent,
            what_if=absent,
            recommendations=(),
            settings=review_settings(service.servers),
        )
    utilization, users, balance = review_utilization(peaks), review_users(peaks), review_balance(peaks)
    trend = review_trend(peaks)
    server, figures = _tightest(peaks, utilization)
    predicted: WhatIfReview | Absent = Absent(
        reason=f"Not predicted: with more than {FEW_SERVICES} services, only those with headroom below "
        f"{LITTLE_HEADROOM:g}x are. `uwsgi-headroom check --what-if` predicts any."
    )
    advice = recommend(Evidence(peaks=peaks, utilization=utilization, users=users, balance=balance, trend=trend))
    if (utilization.headroom or inf) <= predict_below:
        predicted = review_what_if(server, figures, advice)
    return ServiceReview(
        service=service.name,
        servers=names,
        verdict=judge(Facts(service.name, utilization, balance, trend, advice, quality, data.partial, zone, users)),
        utilization=utilization,
        users=users,
        balance=balance,
        time=review_time(peaks),
        trend=trend,
        what_if=predicted,
        recommendations=advice,
        settings=review_settings(service.servers),
    )


def _tightest(peaks: Peaks, utilization: Utilization) -> tuple[ServerData, Figures]:
    """The server that reaches a limit first; else the first one that is known."""
    return next(
        ((server, figures) for server, figures in peaks.present if server.server == utilization.server),
        peaks.present[0],
    )


__all__ = ["Review", "build_review"]
