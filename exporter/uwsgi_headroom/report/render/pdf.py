"""Prints an HTML report as PDF, through Chromium."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from pathlib import Path

from uwsgi_headroom.errors import HeadroomError

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
