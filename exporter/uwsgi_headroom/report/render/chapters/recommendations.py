"""Section 8: recommendations. Short, but a module of its own: there is one for each chapter."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from uwsgi_headroom.report.render.document import Block, Table, Text
from uwsgi_headroom.report.review.sections import Recommendation, ServiceReview
from uwsgi_headroom.words.states import JUDGEMENTS

INTRODUCTION = "What to do, most urgent first, one change at a time. Owner and date are for the meeting to fill in."


def write(service: ServiceReview) -> Iterator[Block]:
    if not service.recommendations:
        yield Text("Nothing to change.")
    for number, each in enumerate(service.recommendations, 1):
        yield Table(
            heads=(f"{number}. {JUDGEMENTS[each.judgement].urgency}", each.title),
            rows=list(_rows(each, len(service.servers))),
            style="advice",
        )


def _rows(each: Recommendation, servers: int) -> Iterator[tuple[str, str]]:
    yield "What to do", each.action
    if each.servers:
        yield "Where", show_place(each.servers, servers)
    for place, harm in enumerate(each.harms):
        yield "" if place else "What users felt", harm
    yield "Evidence", each.evidence
    if each.effect:
        yield "Expected effect", each.effect
    yield "How to verify", each.verify
    yield "How to roll back", each.roll_back
    yield "Owner, date", ""


def show_place(names: Sequence[str], servers: int) -> str:
    """The servers of a service that something is about; `servers`: how many the service has."""
    return f"all {servers} servers" if len(names) == servers > 1 else ", ".join(names)
