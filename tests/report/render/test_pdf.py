"""The PDF form, through a real Chromium, and what is said where there is none."""

from __future__ import annotations

from pathlib import Path

import pytest

from tools import chromium
from uwsgi_headroom.report.render import PdfError, write_review
from uwsgi_headroom.report.review.outlook_model import Review


def test_without_a_browser_it_says_what_to_do(plain: Review, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No file is written, and the message names the two ways out."""
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(PdfError, match=r"write HTML .* and print it in a browser, or install one"):
        write_review(plain, tmp_path / "review.pdf", "pdf")
    assert list(tmp_path.iterdir()) == []


def test_a_browser_that_fails_is_reported(plain: Review, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With the last line of what it wrote."""
    browser = tmp_path / "chromium"
    browser.write_text("#!/bin/sh\necho 'no display' >&2\nexit 3\n")
    browser.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/bin:/usr/bin")
    with pytest.raises(PdfError, match="did not print the report: no display"):
        write_review(plain, tmp_path / "review.pdf", "pdf")


@pytest.mark.integration
def test_it_is_a_pdf_of_several_pages(plain: Review, tmp_path: Path) -> None:
    """Page one is the verdict alone, so there are more."""
    chromium.find_browser()
    write_review(plain, tmp_path / "review.pdf", "pdf")
    content = (tmp_path / "review.pdf").read_bytes()
    assert content.startswith(b"%PDF-")
    assert content.count(b"/Type /Page\n") + content.count(b"/Type /Page ") + content.count(b"/Type /Page/") >= 2
