"""Chapters 2 to 10 of a report, one module each: its words, its table and its chart."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar
from zoneinfo import ZoneInfo

from uwsgi_headroom.report.render.chapters import (
    appendix,
    balance,
    recommendations,
    settings_review,
    time_use,
    trend,
    users,
    utilization,
    what_if,
)
from uwsgi_headroom.report.render.document import Block, Chapter, Heading, absent
from uwsgi_headroom.report.review import Review
from uwsgi_headroom.report.review.sections import Absent, ServiceReview

T = TypeVar("T")


def chapters_of(review: Review) -> list[Chapter]:
    """All of them; the first chapter is page one, which each form writes in its own way."""
    zone = ZoneInfo(review.time_zone)
    of_services: Sequence[tuple[str, str, Callable[[ServiceReview], Iterable[Block]]]] = (
        (
            "Utilization at peak",
            utilization.INTRODUCTION,
            lambda of: _write(of.utilization, lambda used: utilization.write(used, zone)),
        ),
        ("What users felt", users.INTRODUCTION, lambda of: _write(of.users, users.write)),
        ("Balance", balance.INTRODUCTION, lambda of: _write(of.balance, balance.write)),
        ("Where the time goes", time_use.INTRODUCTION, lambda of: _write(of.time, time_use.write)),
        ("Trend and forecast", trend.INTRODUCTION, lambda of: _write(of.trend, lambda each: trend.write(each, zone))),
        ("What if", what_if.INTRODUCTION, lambda of: _write(of.what_if, what_if.write)),
        ("Recommendations", recommendations.INTRODUCTION, recommendations.write),
        (
            "Settings",
            settings_review.INTRODUCTION,
            lambda of: _write(of.settings, lambda found: settings_review.write(found, len(of.servers))),
        ),
    )
    chapters = [
        Chapter(number, title, introduction, _of_services(review, write))
        for number, (title, introduction, write) in enumerate(of_services, 2)
    ]
    return [*chapters, Chapter(10, "Appendix", appendix.INTRODUCTION, list(appendix.write(review, zone)))]


def _of_services(review: Review, write: Callable[[ServiceReview], Iterable[Block]]) -> list[Block]:
    blocks: list[Block] = []
    for service in review.services:
        blocks.append(Heading(service.service))
        blocks.extend(write(service))
    return blocks


def _write(section: T | Absent, write: Callable[[T], Iterable[Block]]) -> Iterable[Block]:
    return [absent(section.reason)] if isinstance(section, Absent) else write(section)
