"""Each way to install has a README of one form."""

from __future__ import annotations

import re

import pytest

from tests.deploy.files import DEPLOY, OURS

CHAPTERS = ["Prerequisites", "Installation", "Customization", "Verification"]


@pytest.mark.parametrize("folder", OURS)
def test_the_chapters_are_in_order(folder: str) -> None:
    """Prerequisites, Installation, Customization, Verification."""
    assert re.findall(r"^## (.+)$", (DEPLOY / folder / "README.md").read_text(), re.MULTILINE) == CHAPTERS


@pytest.mark.parametrize("folder", OURS)
def test_links_lead_somewhere(folder: str) -> None:
    """Each relative link names a file or folder of the repository."""
    text = (DEPLOY / folder / "README.md").read_text()
    links = [link for link in re.findall(r"\]\(([^)#]+)", text) if "://" not in link]
    assert links
    assert all((DEPLOY / folder / link).exists() for link in links), links


@pytest.mark.parametrize("folder", OURS)
def test_it_says_what_was_not_tried(folder: str) -> None:
    """Limits of the trials are stated."""
    assert "Not tried:" in (DEPLOY / folder / "README.md").read_text()
