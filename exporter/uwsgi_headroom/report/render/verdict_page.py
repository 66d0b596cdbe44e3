"""Section 1: what page one says, for both HTML and Markdown."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from zoneinfo import ZoneInfo

from uwsgi_headroom.report.review.sections import Judgement, Review, ServiceReview
from uwsgi_headroom.report.review.wording import moment_words, short_day
from uwsgi_headroom.words.formats import counted
from uwsgi_headroom.words.states import JUDGEMENTS

IN_FULL, MOST, MOST_PROBLEMS = 2, 4, 1
"""Page one has room for all four answers about so many services, for so many services in all, and for so many problems
of the data."""

_SHORT = 2 * 86400.0
"""Seconds of a range below which the title has hours."""

WORDS = (
    ("Headroom 2x", "load can double before a limit is reached; at 1x it is reached."),
    ("Thread", "serves one request at a time."),
    ("Worker", "a process with several threads; its Python interpreter computes on one CPU at a time."),
    ("At peak", "in the busiest quarter hour of the range, unless it stands out like an incident."),
)
"""The words that a reader of page one needs."""


@dataclass(frozen=True, slots=True)
class Answer:
    """A service on page one. answers: to the four questions; certainty: how sure the
    sentence is, where that is all there is room for."""

    service: str
    servers: str
    judgement: Judgement
    status: str
    sentence: str
    answers: tuple[tuple[str, str], ...]
    certainty: str


def title_of(review: Review, zone: ZoneInfo) -> str:
    """The title of a report, with its range."""
    words = short_day if review.until - review.since >= _SHORT else moment_words
    return f"Capacity review, {words(review.since, zone)} to {words(review.until, zone)}"


def subtitle_of(review: Review) -> str:
    """Where the figures are from."""
    partial = " This report is partial: the source failed halfway." if review.partial else ""
    return f"uWSGI servers, times in {review.time_zone}. Source: {review.source}.{partial}"


def answers_of(review: Review) -> tuple[Answer, ...]:
    """The worst services, worst first."""
    return tuple(_answer(service, place) for place, service in enumerate(review.services[:MOST]))


def more_of(review: Review) -> str:
    """What page one has no room for, as sentences; empty if it has all."""
    services, problems = review.services[MOST:], review.problems[MOST_PROBLEMS:]
    numbers = Counter(JUDGEMENTS[service.verdict.judgement].service.lower() for service in services)
    which = ", ".join(f"{number} {status}" for status, number in numbers.items())
    more = [f"And {counted(len(services), 'more service')}: {which}. See section 2."] if services else []
    if problems:
        more.append(f"Section 10 has {counted(len(problems), 'more problem')} of the data.")
    return " ".join(more)


def _answer(service: ServiceReview, place: int) -> Answer:
    verdict = service.verdict
    four = (
        ("Is there a problem?", verdict.problem),
        ("When?", verdict.when),
        ("What to do?", verdict.action),
        ("How sure?", verdict.certainty),
    )
    in_full = place == 0 or (place < IN_FULL and verdict.judgement in ("act", "plan"))
    return Answer(
        service=service.service,
        servers=counted(len(service.servers), "server"),
        judgement=verdict.judgement,
        status=JUDGEMENTS[verdict.judgement].service,
        sentence=verdict.sentence,
        answers=four if in_full else (),
        certainty="" if in_full else f"{verdict.confidence.capitalize()}.",
    )
