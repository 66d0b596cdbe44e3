"""Runs `review`: prints what will cause trouble in the settings of a uWSGI, and returns the exit status."""

from __future__ import annotations

import json
import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import asdict

from uwsgi_headroom.analysis.settings import GENERAL, Advice, review
from uwsgi_headroom.settings.running import Subject, read_subjects
from uwsgi_headroom.terminal_text import escape_text, print_lines
from uwsgi_headroom.words.formats import counted

_WIDTH = 100

_PARTLY = (
    "Not every option is known (a file that cannot be read, a condition, or a placeholder), so nothing is said about "
    "options that may be missing."
)


def run(words: Sequence[str], *, as_json: bool = False) -> int:
    """Review each subject and return the exit status: 0 if nothing will cause trouble, else 1. Raises HeadroomError."""
    subjects = read_subjects(list(words))
    reviews = [(subject, [] if subject.problem else review(subject.options, subject.seen)) for subject in subjects]
    print_lines(_render_json(reviews) if as_json else _render(reviews))
    return int(any(advice.severity == "warning" for _, found in reviews for advice in found))


def _render_json(reviews: Sequence[tuple[Subject, Sequence[Advice]]]) -> list[str]:
    documents = [
        {
            "name": subject.name,
            "problem": subject.problem,
            "all_options_known": subject.options.complete,
            "advice": [{key: value for key, value in asdict(advice).items() if key != "sets"} for advice in found],
        }
        for subject, found in reviews
    ]
    return json.dumps(documents, indent=2).splitlines()


def _render(reviews: Sequence[tuple[Subject, Sequence[Advice]]]) -> list[str]:
    blocks = [list(_render_one(subject, found)) for subject, found in reviews]
    return [line for number, block in enumerate(blocks) for line in ([""] if number else []) + block]


def _render_one(subject: Subject, found: Sequence[Advice]) -> Iterator[str]:
    warnings = sum(advice.severity == "warning" for advice in found)
    yield escape_text(f"{subject.name}: {_summarize(warnings, len(found) - warnings, subject)}")
    if not subject.problem and not subject.options.complete:
        yield from textwrap.wrap(_PARTLY, _WIDTH, initial_indent="  ", subsequent_indent="  ")
    for number, advice in enumerate(found, 1):
        yield ""
        yield from _paragraph(f"{number}. {advice.severity.upper()}: ", advice.title, indent=3)
        yield from _paragraph("   ", advice.reason)
        yield from _paragraph("   " if advice.seen == GENERAL else "   Seen: ", advice.seen)
        if advice.change:
            yield from _paragraph("   ", advice.change)
        for place, line in enumerate(advice.lines):
            yield ("   Write: " if place == 0 else "          ") + line
        if advice.needs:
            yield f"   Needs: uWSGI {advice.needs} or later."
        yield from _paragraph("   It does not matter if ", advice.unless)
        yield f"   Source: {advice.source}"


def _summarize(warnings: int, others: int, subject: Subject) -> str:
    if subject.problem:
        return f"no review: {subject.problem.rstrip('.')}."
    if not warnings and not others:
        return "no setting that is known will cause trouble."
    will = f"{counted(warnings, 'setting')} will cause trouble" if warnings else "no setting is known to cause trouble"
    return f"{will}, {others} may." if others else f"{will}."


def _paragraph(begin: str, text: str, indent: int = 3) -> list[str]:
    return textwrap.wrap(escape_text(text), _WIDTH, initial_indent=begin, subsequent_indent=" " * indent)
