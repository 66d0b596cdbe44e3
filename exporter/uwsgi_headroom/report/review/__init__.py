"""Computes a capacity review from a range of quarter hours; does no I/O."""

from __future__ import annotations

from collections.abc import Sequence
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


def build_review(data: ReviewData) -> Review:
    """The review of a range. Raises nothing for missing data: a section without it says why."""
    data = escape_names(data)
    zone = ZoneInfo(data.time_zone)
    quality = assess(data)
    services = tuple(
        _review(
            service,
            data,
            [each for each in quality if each.server in {server.server for server in service.servers}],
            zone,
        )
        for service in group_services(data)
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


def _review(service: Service, data: ReviewData, quality: Sequence[ServerQuality], zone: ZoneInfo) -> ServiceReview:
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
    advice = recommend(Evidence(peaks=peaks, utilization=utilization, users=users, balance=balance, trend=trend))
    return ServiceReview(
        service=service.name,
        servers=names,
        verdict=judge(Facts(service.name, utilization, balance, trend, advice, quality, data.partial, zone, users)),
        utilization=utilization,
        users=users,
        balance=balance,
        time=review_time(peaks),
        trend=trend,
        what_if=review_what_if(server, figures, advice),
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
