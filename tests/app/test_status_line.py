"""The demo prints the verdict on its server, and a line of figures."""

from __future__ import annotations

import json

import pytest

from app import status_line
from tests.app.stand_in import DOCUMENT


def test_a_line_has_shares_busy_threads_and_headroom():
    """Workers without a request have no share. A server that is down says so, whatever its last verdict was."""
    line = "shares 75%/25%; 3.0 of 32 threads busy; headroom 2.5x, first limit: hottest interpreter"
    assert status_line.figures(json.dumps(DOCUMENT)) == line
    assert status_line.verdict(json.dumps(DOCUMENT)) == "WARNING: Worker 1 takes 75 % of the requests."
    assert status_line.verdict(json.dumps(DOCUMENT | {"state": "down"})) == "DOWN: the server cannot be read."


@pytest.mark.parametrize(
    ("change", "line"),
    [
        ({"workers": []}, "3.0 of 32 threads busy; headroom 2.5x, first limit: hottest interpreter"),
        ({"threads": {"available": None}}, "shares 75%/25%; headroom 2.5x, first limit: hottest interpreter"),
        ({"headroom": {"factor": None, "first": None}}, "shares 75%/25%; 3.0 of 32 threads busy"),
        ({"flow": None}, None),
        ({"state": "down"}, None),
    ],
)
def test_figures_that_are_not_known_are_left_out(change, line):
    assert status_line.figures(json.dumps(DOCUMENT | change)) == line


@pytest.mark.parametrize("text", [None, "", json.dumps(DOCUMENT | {"flow": None})])
def test_no_figures_are_no_verdict(text):
    assert status_line.verdict(text) is None
    assert status_line.figures(text) is None
