"""Section 1: what page one says, for both HTML and Markdown."""

from __future__ import annotations

from dataclasses import dataclass
from zoneinfo import ZoneInfo

from uwsgi_headroom.report.render.words import STATUS
from uwsgi_headroom.report.review.dates import short_day
from uwsgi_headroom.report.review.model import Absent, Judgement
from uwsgi_headroom.report.review.outlook_model import Review, ServiceReview

IN_FULL = 3
"""Services with all four answers on page one; the others have their sentence."""

WORDS = (
    ("Headroom 2x", "load can double before a limit is reached; at 1x it is reached."),
    ("Thread", "serves one request at a time."),
    ("Worker", "a process with several threads; its Python interpreter computes on one CPU at a time."),
    ("At peak", "in the busiest quarter hour of the range, unless it stands out like an incident."),
)
"""The words that a reader of page one needs."""


@dataclass(frozen=True, slots=True)
class Answer:
    """A service on page one. factor: headroom as a big number, or a dash."""

    service: str
    servers: str
    judgement: Judgement
    status: str
    sentence: str
    answers: tuple[tuple[str, str], ...]


def title_of(review: Review, zone: ZoneInfo) -> str:
    """The title of a report, with its range."""
    return f"Capacity review, {short_day(review.since, zone)} to {short_day(review.until, zone)}"


def subtitle_of(review: Review) -> str:
    """Where the figures are from."""
    partial = " This report is partial: the source failed halfway." if review.partial else ""
    return f"uWSGI servers, times in {review.time_zone}. Source: {review.source}.{partial}"


def answers_of(review: Review) -> tuple[Answer, ...]:
    """All services, worst first."""
    return tuple(_answer(service, place) for place, service in enumerate(review.services))


def _answer(service: ServiceReview, place: int) -> Answer:
    verdict = service.verdict
    four = (
        ("Is there a problem?", verdict.problem),
        ("When?", verdict.when),
        ("What to do?", verdict.action),
        ("How sure?", verdict.certainty),
    )
    count = len(service.servers)
    return Answer(
        service=service.service,
        servers=f"{count} server{'' if count == 1 else 's'}",
        judgement=verdict.judgement,
        status=STATUS[verdict.judgement],
        sentence=verdict.sentence,
        answers=four if place < IN_FULL else (),
    )


def has_limits(service: ServiceReview) -> bool:
    """Whether there is anything to draw for a service on page one."""
    return not isinstance(service.utilization, Absent) and bool(service.utilization.limits)
