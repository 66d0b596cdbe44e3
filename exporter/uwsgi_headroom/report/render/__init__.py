"""Writes a capacity review as HTML, PDF, Markdown, JSON or CSV."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from uwsgi_headroom.errors import HeadroomError
from uwsgi_headroom.report.render.html import PdfError, print_pdf, render_html
from uwsgi_headroom.report.render.markdown import render_csv, render_json, render_markdown
from uwsgi_headroom.report.request import Format
from uwsgi_headroom.report.review import Review


class RenderError(HeadroomError):
    """A report cannot be written; the message is a sentence that says why."""


def write_review(review: Review, out: Path, file_format: Format) -> None:
    """Write a review to a file. Raises PdfError if there is no Chromium for a PDF, and RenderError if the file cannot
    be written; the file is then as it was before."""
    content = render(review, file_format)
    try:
        _replace(out, content)
    except OSError as error:
        raise RenderError(f"{out}: the report cannot be written: {error.strerror or error}") from error


def render(review: Review, file_format: Format) -> bytes:
    """The content of the file. Raises PdfError."""
    match file_format:
        case "html":
            return render_html(review).encode()
        case "pdf":
            return print_pdf(render_html(review))
        case "md":
            return render_markdown(review).encode()
        case "json":
            return render_json(review).encode()
        case "csv":
            return render_csv(review.data).encode()


def _replace(out: Path, content: bytes) -> None:
    """Write a file beside the old one and then put it in its place. What is no regular file, such as /dev/stdout, is
    written directly. Raises OSError."""
    if out.exists() and not out.is_file():
        out.write_bytes(content)
        return
    descriptor, temporary = tempfile.mkstemp(prefix=f".{out.name}.", dir=out.parent)
    try:
        umask = os.umask(0)
        os.umask(umask)
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
            # Not by its name: in a directory of another user, that may lead elsewhere by now.
            os.fchmod(descriptor, out.stat().st_mode & 0o777 if out.exists() else 0o666 & ~umask)
        Path(temporary).replace(out)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise


__all__ = ["Format", "PdfError", "RenderError", "render", "write_review"]
