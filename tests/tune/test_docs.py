"""docs/settings.md says what the program does."""

from __future__ import annotations

import re

import pytest

from tools.environments import ROOT
from uwsgi_headroom.tune import request
from uwsgi_headroom.tune.application import application
from uwsgi_headroom.tune.application.ini import GROUPS, find_group
from uwsgi_headroom.tune.finish import CHART, DIFF, INI, MEASURED, REPORT, RUNS
from uwsgi_headroom.tune.search import evidence, search

TEXT = (ROOT / "docs" / "settings.md").read_text()
ROWS = dict(re.findall(r"^\| ([a-zA-Z ]+) \| (`.*) \|$", TEXT, re.MULTILINE))


@pytest.mark.parametrize("group", GROUPS)
def test_options_that_are_left_out(group: str) -> None:
    """Each group has a row, and the options in it are left out as that."""
    names = re.findall(r"`([^`]+)`", ROWS[group].replace("`cache2`", ""))
    assert names
    assert {find_group(name) for name in names} == {group}


def test_numbers() -> None:
    """Those of the code."""
    text = " ".join(TEXT.split())
    assert f"a closed loop: {request.LEAST_CLIENTS} clients" in text
    assert f"from a long log, {application.MOST_PATHS} requests at random" in text
    assert f"less than {100 * evidence.SUSTAINED:.0f} % of the requests is rejected" in text
    assert f"by {100 * evidence.MORE_ERRORS:.0f} % of all" in text
    assert f"at most {100 * search.EQUAL:.0f} % behind it" in text
    assert f"or {application.FIRST} (4 processes with 1 thread each)" in text
    assert search.MOST_ROUNDS == 4
    assert "up to four times each" in text


def test_files() -> None:
    """All that is written has a row."""
    assert all(f"`{name}`" in TEXT for name in (CHART, DIFF, INI, MEASURED, REPORT, RUNS))
