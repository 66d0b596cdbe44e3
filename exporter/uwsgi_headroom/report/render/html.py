"""Writes a report as one HTML document without external resources. All text is escaped: names are hostile input."""

from __future__ import annotations

import re
from importlib import resources
from zoneinfo import ZoneInfo

from jinja2 import Environment, FunctionLoader, StrictUndefined
from markupsafe import Markup, escape

from uwsgi_headroom.report.render.charts.limits import CAPTION
from uwsgi_headroom.report.render.charts.verdict import bars_of, draw_verdict
from uwsgi_headroom.report.render.report import chapters_of
from uwsgi_headroom.report.render.verdict_page import MOST_PROBLEMS, WORDS, answers_of, more_of, subtitle_of, title_of
from uwsgi_headroom.report.review import Review
from uwsgi_headroom.words.formats import percent

_CODE = re.compile(r"`([^`]+)`")


def render_html(review: Review) -> str:
    """The document."""
    zone = ZoneInfo(review.time_zone)
    bars = bars_of(review.services)
    template = _environment().get_template("report.html.j2")
    return template.render(
        title=title_of(review, zone),
        subtitle=subtitle_of(review),
        css=Markup(_read("report.css")),  # noqa: S704 a file of this package
        judgement=review.judgement,
        answer=review.answer,
        answers=answers_of(review),
        chart=Markup(draw_verdict(review.services)),  # noqa: S704 matplotlib escapes text
        chart_words="; ".join(f"{name} {percent(1 / use.factor)}" for name, use in bars if use.factor),
        chart_caption=CAPTION,
        problems=review.problems[:MOST_PROBLEMS],
        more=more_of(review),
        words=WORDS,
        chapters=chapters_of(review),
    )


def prose(text: str) -> Markup:
    """Escaped text, in which `code` in backticks is code."""
    return Markup(_CODE.sub(r"<code>\1</code>", str(escape(text))))  # noqa: S704 escaped first


def _environment() -> Environment:
    environment = Environment(
        autoescape=True, loader=FunctionLoader(_read), undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    environment.filters["prose"] = prose
    environment.filters["svg"] = Markup
    environment.tests["of"] = lambda block, name: type(block).__name__ == name
    return environment


def _read(name: str) -> str:
    return (
        resources.files("uwsgi_headroom.report.render").joinpath("templates").joinpath(name).read_text(encoding="utf-8")
    )
