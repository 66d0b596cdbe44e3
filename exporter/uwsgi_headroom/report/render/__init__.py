"""Writes a capacity review as HTML, PDF, Markdown, JSON or CSV."""

from __future__ import annotations

from pathlib import Path
from typing import Literal, get_args

from uwsgi_headroom.errors import HeadroomError
from uwsgi_headroom.report.review import Review

Format = Literal["html", "pdf", "md", "json", "csv"]
FORMATS: tuple[Format, ...] = get_args(Format)
"""The names of the formats are also the endings of the files."""


class RenderError(HeadroomError):
    """A report cannot be written; the message is a sentence that says why."""


def write_review(review: Review, out: Path, format: Format) -> None:
    """Write a review to a file. Raises RenderError if there is no Chromium for a PDF, or if the file cannot be
    written; the file is then as it was before."""
    raise NotImplementedError


__all__ = ["FORMATS", "Format", "RenderError", "write_review"]
