"""The PDF form, through a real Chromium, and what is said where there is none."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tools import prepare
from uwsgi_headroom.report.render.html import PdfError, print_pdf


def test_without_a_browser_it_says_what_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The message names the two ways out."""
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(PdfError, match=r"write HTML .* and print it in a browser, or install one"):
        print_pdf("<p>a report</p>")


def test_a_browser_that_fails_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With the last line of what it wrote."""
    browser = tmp_path / "chromium"
    browser.write_text("#!/bin/sh\necho 'no display' >&2\nexit 3\n")
    browser.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/bin:/usr/bin")
    with pytest.raises(PdfError, match="did not print the report: no display"):
        print_pdf("<p>a report</p>")


@pytest.mark.integration
def test_page_one_is_the_verdict_alone(page: str) -> None:
    """Chromium prints several pages, of which the first ends with the words that it needs."""
    prepare.find_browser()
    content = print_pdf(page)
    assert content.startswith(b"%PDF-")
    assert len(re.findall(rb"/Type /Page\b(?!s)", content)) >= 3
