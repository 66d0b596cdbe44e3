"""Writes a report as one HTML document without external resources, and prints that as PDF, through Chromium.

All text is escaped: names are hostile input.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import tempfile
from importlib import resources
from pathlib import Path
from zoneinfo import ZoneInfo

from jinja2 import Environment, FunctionLoader, StrictUndefined
from markupsafe import Markup, escape

from uwsgi_headroom.errors import HeadroomError
from uwsgi_headroom.report.render.chapters import chapters_of
from uwsgi_headroom.report.render.chapters.utilization import CAPTION
from uwsgi_headroom.report.render.verdict_page import (
    MOST_PROBLEMS,
    WORDS,
    answers_of,
    bars_of,
    draw_verdict,
    more_of,
    subtitle_of,
    title_of,
)
from uwsgi_headroom.report.review import Review
from uwsgi_headroom.words.formats import percent

_CODE = re.compile(r"`([^`]+)`")


def render_html(review: Review) -> str:
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


BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")

SECONDS = 120.0
"""The longest time for printing."""

_ARGUMENTS = (
    "--headless",
    "--no-sandbox",  # needed as root and in containers; the document has no scripts and no external resources
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
    "--no-pdf-header-footer",
)


class PdfError(HeadroomError):
    """There is no PDF; the message says why and what to do."""


def print_pdf(html: str) -> bytes:
    """The PDF of a document. Raises PdfError."""
    browser = next((path for name in BROWSERS if (path := shutil.which(name))), None)
    if browser is None:
        raise PdfError(
            "a PDF needs Chromium or Google Chrome on PATH, and there is none; write HTML (--out review.html) and "
            "print it in a browser, or install one: apt-get install --no-install-recommends chromium"
        )
    with tempfile.TemporaryDirectory(prefix="uwsgi-headroom-pdf-") as directory:
        source, target = Path(directory, "report.html"), Path(directory, "report.pdf")
        source.write_text(html, encoding="utf-8")
        command = [
            browser,
            *_ARGUMENTS,
            f"--user-data-dir={directory}/profile",
            f"--print-to-pdf={target}",
            str(source),
        ]
        try:
            done = subprocess.run(command, capture_output=True, timeout=SECONDS, check=False)
        except (OSError, subprocess.TimeoutExpired) as error:
            raise PdfError(f"{browser} did not print the report: {error}") from error
        if done.returncode or not target.exists():
            last = done.stderr.decode(errors="replace").strip().splitlines()[-1:] or ["it gave no reason"]
            raise PdfError(f"{browser} did not print the report: {last[0]}")
        return target.read_bytes()
