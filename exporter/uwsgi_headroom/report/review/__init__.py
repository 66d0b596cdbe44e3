"""Computes a capacity review from a range of quarter hours, and writes its sections; does no I/O."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import chain
from types import ModuleType
from typing import TypeVar
from zoneinfo import ZoneInfo

from msgspec import Struct

from uwsgi_headroom.analysis.capacity import REACHED
from uwsgi_headroom.analysis.findings import correct_headroom
from uwsgi_headroom.documents.build import build_past
from uwsgi_headroom.documents.schema import TextLine
from uwsgi_headroom.report.quarters import STEP, Absent, ReviewData, ServerHistory, running_seconds
from uwsgi_headroom.report.render import document as doc
from uwsgi_headroom.report.render.document import UNKNOWN, Block, Document, Heading, Items, Section, Table, Text, absent
from uwsgi_headroom.report.review import recommendations, trend, users, utilization
from uwsgi_headroom.report.review.peaks import Service, find_peaks, group_services
from uwsgi_headroom.report.review.recommendations import (
    MOST_URGENT_FIRST,
    Evidence,
    Judgement,
    Recommendation,
    recommend,
)
from uwsgi_headroom.report.review.trend import Trend, review_trend
from uwsgi_headroom.report.review.users import Users, review_users
from uwsgi_headroom.report.review.utilization import Utilization, review_utilization
from uwsgi_headroom.report.review.verdict import ServiceVerdict, judge_service, unknown_verdict
from uwsgi_headroom.same_fields import copy_fields
from uwsgi_headroom.store.record import Record
from uwsgi_headroom.words.formats import counted, listed, percent
from uwsgi_headroom.words.states import JUDGEMENTS
from uwsgi_headroom.words.template import fill

T = TypeVar("T")


NO_PEAK = Absent(reason="The range has no quarter hour in which its threads in service are known.")


class ServiceReview(Struct, frozen=True, kw_only=True):
    """lines: the server with the least headroom, and what `check` prints of its figures at peak."""

    service: str
    servers: tuple[str, ...]
    verdict: ServiceVerdict
    lines: tuple[TextLine, ...] = ()
    utilization: Utilization | Absent = NO_PEAK
    users: Users | Absent = NO_PEAK
    trend: Trend | Absent = NO_PEAK
    recommendations: tuple[Recommendation, ...] = ()


class ServerQuality(Struct, frozen=True, kw_only=True):
    """How complete a server's data is. covered: share of the range; first, last: of its data; unknown: names of figures
    without a value."""

    server: str
    service: str
    host: str
    covered: float
    first: float | None
    last: float | None
    unknown: tuple[str, ...]


class Review(Struct, frozen=True, kw_only=True):
    """A capacity review. The JSON form of a report is made of this, so its names are stable (docs/report.md): plain
    numbers, None where a figure is unknown; times in epoch seconds, durations in seconds, sizes in bytes."""

    since: float
    until: float
    time_zone: str
    source: str
    partial: bool
    judgement: Judgement
    answer: str
    services: tuple[ServiceReview, ...]
    quality: tuple[ServerQuality, ...]
    problems: tuple[str, ...]


def build_review(data: ReviewData) -> Review:
    """The review of a range. Raises nothing for missing data: a section without it says why."""
    services = [_review(service, data) for service in group_services(data)]
    ordered = tuple(sorted(services, key=lambda service: MOST_URGENT_FIRST.index(service.verdict.judgement)))
    return copy_fields(
        Review,
        data,
        judgement=next((each.verdict.judgement for each in ordered), "unknown"),
        answer=_answer(ordered),
        services=ordered,
        quality=tuple(assess(server, data) for server in data.servers),
    )


_FIGURES: dict[str, Callable[[Record], object]] = {
    "CPU use": lambda record: record.window.cpu,
    "CPU use of other programs": lambda record: record.window.cpu and record.window.cpu.others_seconds is not None,
    "usable CPUs": lambda record: record.levels.cpus,
    "listen queue": lambda record: record.window.queue_seconds,
    "memory of a worker": lambda record: record.levels.memory_per_worker,
    "available memory": lambda record: record.levels.memory_available,
    "running time": running_seconds,
    "response times by bound": lambda record: record.response_times,
    "wait states": lambda record: record.window.waits,
}
"""Figures without which a part of the review is missing."""


def assess(server: ServerHistory, data: ReviewData) -> ServerQuality:
    ends, records = list(server.quarters), server.records
    return copy_fields(
        ServerQuality,
        server,
        covered=min(1.0, server.sampled / max(STEP, data.until - data.since)),
        first=next((end - STEP for end in ends), None),
        last=next(reversed(ends), None),
        unknown=tuple(words for words, get in _FIGURES.items() if records and not any(map(get, records))),
    )


ANSWERS: Mapping[Judgement, str] = {
    "act": "{names} {count:needs|need} action now.",
    "plan": "{names} {count:needs|need} a plan.",
    "unknown": "{names} cannot be judged yet.",
    "ok": "{names} {count:has|have} enough capacity.",
}


def _answer(services: Sequence[ServiceReview]) -> str:
    said = []
    for judgement, template in ANSWERS.items():
        if names := [each.service for each in services if each.verdict.judgement == judgement]:
            said.append(fill(template, {"names": listed(names, 3), "count": len(names)}))
    return " ".join(said) or "No verdict: the source has no server in this range."


def _review(service: Service, data: ReviewData) -> ServiceReview:
    zone, names = ZoneInfo(data.time_zone), tuple(server.server for server in service.servers)
    peaks = find_peaks(service, zone)
    if peaks is None:
        return ServiceReview(service=service.name, servers=names, verdict=unknown_verdict(NO_PEAK.reason))
    covered = min(assess(server, data).covered for server in service.servers)
    sections = review_utilization(peaks), review_users(peaks), review_trend(peaks)
    evidence = Evidence(peaks, *sections, covered, data.partial)
    advice = recommend(evidence)
    tightest = evidence.utilization.server or next(iter(peaks.present))
    past = build_past(tightest, peaks.until, correct_headroom(peaks.present[tightest]))
    codes = {"users_wait", "served", "time", "stuck", "outside", "headroom" * bool(evidence.utilization.headroom)}
    return copy_fields(
        ServiceReview,
        evidence,
        service=service.name,
        servers=names,
        verdict=judge_service(evidence, advice),
        lines=(
            TextLine(code="server", label="at peak", parts=(tightest,), tone=None, rank=0),
            *[line for line in past.lines if line.code in codes],
        ),
        recommendations=advice,
    )


_FULL = f"load can double until a limit is fully used. From {percent(REACHED)} on, act."
WORDS = (
    ("Headroom 2x:", _FULL),
    ("Thread:", "serves one request at a time."),
    ("Worker:", "a process with several threads; its Python interpreter computes on one CPU at a time."),
    ("At peak:", "in the busiest quarter hour of the range, unless it stands out like an incident."),
)


def write_review(review: Review) -> Document:
    zone = ZoneInfo(review.time_zone)
    partial = " This report is partial: the source failed halfway." * review.partial
    return Document(
        title=f"Capacity review, {doc.moment(review.since, zone)} to {doc.moment(review.until, zone)}",
        subtitle=f"uWSGI servers, times in {review.time_zone}. Source: {review.source}.{partial}",
        sections=[Section("Verdict", "", list(_write_verdict(review))), *_write_sections(review, zone)],
    )


def _write_verdict(review: Review) -> Iterator[Block]:
    for problem in review.problems[:1]:
        more = fill("[more?  (and {more} more: see section 6)]", {"more": len(review.problems) - 1 or None})
        yield Text(f"{problem}{more}", "absent")
    yield Text(review.answer, "answer")
    for service in review.services:
        verdict = service.verdict
        chip = JUDGEMENTS[verdict.judgement].service
        yield Heading(f"{service.service} ({counted(len(service.servers), 'server')})", chip, verdict.judgement)
        yield Text(verdict.sentence, "sentence")
        yield Items([(line.label or line.code, line.text) for line in service.lines])
        questions = ("What do users feel?", "What to do?", "How sure?")
        yield Items([*zip(questions, (verdict.users, verdict.action, verdict.certainty), strict=True)])
    yield Items(WORDS)


def _write_sections(review: Review, zone: ZoneInfo) -> Iterator[Section]:
    def part(section: T | Absent, write: Callable[..., Iterable[Block]], *context: object) -> Iterable[Block]:
        return [absent(section)] if isinstance(section, Absent) else write(section, *context)

    sections: Sequence[tuple[str, ModuleType, Callable[[ServiceReview], Iterable[Block]]]] = (
        ("Utilization and balance at peak", utilization, lambda of: part(of.utilization, utilization.write, zone)),
        ("What users felt", users, lambda of: part(of.users, users.write)),
        ("Trend and forecast", trend, lambda of: part(of.trend, trend.write)),
        ("Recommendations", recommendations, lambda of: recommendations.write(of.recommendations, len(of.servers))),
    )
    for title, module, write in sections:
        blocks = ([Heading(service.service), *write(service)] for service in review.services)
        yield Section(title, module.INTRODUCTION, list(chain(*blocks)))
    yield Section("Quality of the data", "How complete the data is.", list(_write_quality(review, zone)))


def _write_quality(review: Review, zone: ZoneInfo) -> Iterator[Block]:
    if review.problems:
        yield Items(review.problems)
    yield Table(
        heads=("server", "service", "host", "measured", "first", "last", "not known"),
        rows=[_write_row(each, zone) for each in review.quality],
        caption="Measured: share of the range that was sampled.",
        numbers=(3,),
    )


def _write_row(each: ServerQuality, zone: ZoneInfo) -> tuple[str, ...]:
    return (
        each.server,
        each.service or UNKNOWN,
        each.host or UNKNOWN,
        doc.show(percent, each.covered),
        *(doc.show(partial(doc.moment, zone=zone), end) for end in (each.first, each.last)),
        ", ".join(each.unknown) or "nothing",
    )
