"""The larger example of a capacity review can be made in every form; docs/examples has the small one."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tools.environments import ROOT
from tools.report_example import FILE


def run(out: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "tools.report_example", str(out)]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)


@pytest.mark.slow
def test_three_services_with_known_answers(tmp_path: Path) -> None:
    """The verdict has found what the program put in, and the review says that it is made up."""
    out = tmp_path / "review.html"
    ran = run(out)
    assert (ran.returncode, ran.stderr) == (0, "")
    text = out.read_text()
    assert "SYNTHETIC EXAMPLE" in text
    for sentence in ("shop needs action now", "checkout needs a plan", "search has enough capacity"):
        assert sentence in text
    assert "<svg" in text


def test_an_unknown_form_is_refused(tmp_path: Path) -> None:
    """The ending of the file is its form; the message lists those that there are."""
    ran = run(tmp_path / "review.doc")
    assert ran.returncode == 2
    assert "is written as one of html, pdf, md, json, csv" in ran.stderr
    assert list(tmp_path.iterdir()) == []


def test_the_committed_example_is_small_and_says_that_it_is_made_up() -> None:
    """It is for reading on the repository's page: no line of it is the text of a chart."""
    text = FILE.read_text()
    assert len(text) < 30_000
    assert "> SYNTHETIC EXAMPLE: these services do not exist" in text
    assert re.search(r"\*\*checkout needs a plan\.\*\*", text)
