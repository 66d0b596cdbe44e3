"""Section 1: what page one says, for both HTML and Markdown, and its chart."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from zoneinfo import ZoneInfo

from msgspec import Struct

from uwsgi_headroom.analysis.capacity import REACHED
from uwsgi_headroom.report.render.chapters.utilization import draw_bars
from uwsgi_headroom.report.render.document import limit_name
from uwsgi_headroom.report.review.sections import Absent, Judgement, LimitUse, Review, ServiceReview
from uwsgi_headroom.report.review.wording import moment_words, short_day
from uwsgi_headroom.words.formats import counted, percent
from uwsgi_headroom.words.states import JUDGEMENTS

IN_FULL, MOST, MOST_PROBLEMS = 2, 4, 1
"""Page one has room for the answers about so many services, for so many services in all, and for so many problems
of the data."""

_SHORT = 2 * 86400.0
"""Seconds of a range below which the title has hours."""

WORDS = (
    (
        "Headroom 2x",
        f"load can double until a limit is reached: all of it is in use. From {percent(REACHED)} on, act.",
    ),
    ("Thread", "serves one request at a time."),
    ("Worker", "a process with several threads; its Python interpreter computes on one CPU at a time."),
    ("At peak", "in the busiest quarter hour of the range, unless it stands out like an incident."),
)
"""The words that a reader of page one needs."""


class Answer(Struct, frozen=True):
    """A service on page one. answers: to the questions; certainty: how sure the sentence is, where that is all there is
    room for."""

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
    questions: tuple[tuple[str, str], ...] = (
        ("What do users feel?", verdict.users),
        ("Is there a problem?", verdict.problem),
        ("What to do?", verdict.action),
        ("What does that bring?", verdict.gain),
        ("When?", verdict.when),
        ("How sure?", verdict.certainty),
    )
    if place > 0:  # the page has no room for all six, twice
        questions = tuple(pair for pair in questions if pair[1] not in (verdict.when, verdict.gain))
    in_full = place == 0 or (place < IN_FULL and verdict.judgement in ("act", "plan"))
    return Answer(
        service=service.service,
        servers=counted(len(service.servers), "server"),
        judgement=verdict.judgement,
        status=JUDGEMENTS[verdict.judgement].service,
        sentence=verdict.sentence,
        answers=tuple((question, text) for question, text in questions if text) if in_full else (),
        certainty="" if in_full else f"{verdict.confidence.capitalize()}.",
    )


MOST_SERVICES = 2
"""With more, page one has no room for the chart; section 2 has one for each service."""


def bars_of(services: Sequence[ServiceReview]) -> list[tuple[str, LimitUse]]:
    """For a single service each of its limits; for several the limit that comes first in each; nothing
    for many."""
    if len(services) > MOST_SERVICES:
        return []
    if len(services) == 1:
        used = services[0].utilization
        return [] if isinstance(used, Absent) else [(limit_name(use.limit), use) for use in used.limits]
    rows: list[tuple[str, LimitUse]] = []
    for service in services:
        used = service.utilization
        if not isinstance(used, Absent):
            rows += [
                (f"{service.service}: {limit_name(use.limit)}", use) for use in used.limits if use.limit == used.first
            ]
    return rows


def draw_verdict(services: Sequence[ServiceReview]) -> str:
    """The chart; empty without any bar."""
    rows = bars_of(services)
    title = "Use of each limit at peak" if len(services) == 1 else "Use at peak of the limit that comes first"
    return draw_bars(rows, title) if rows else ""
