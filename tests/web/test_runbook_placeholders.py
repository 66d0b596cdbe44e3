"""Values in the commands of runbooks: one word in shell, part of a string in PromQL, and text in HTML."""

from __future__ import annotations

import re
import shlex
from html import unescape

import pytest
from hypothesis import given
from hypothesis import strategies as st

from uwsgi_headroom.web.runbook_values import MEANINGS, fill_code, is_typeable, used_placeholders


def typed(html: str) -> str:
    return unescape(re.sub("<[^>]*>", "", html))


def test_what_is_not_known_is_marked() -> None:
    """Placeholders without a value are marked, and only whole words are placeholders."""
    html = fill_code("kill WORKER_PID $STATS MY_UNIT <x>", "sh", {})
    assert html == "kill <mark>WORKER_PID</mark> $STATS MY_UNIT &lt;x&gt;"


@given(st.text(min_size=1).filter(is_typeable))
def test_a_value_is_one_word_in_shell(value: str) -> None:
    """Any value is one word."""
    html = fill_code("check STATS --once", "sh", {"STATS": value})
    assert shlex.split(typed(html)) == ["check", value, "--once"]
    assert html.count("<") == 2


@given(st.text(min_size=1).filter(is_typeable))
def test_a_value_is_a_string_in_promql(value: str) -> None:
    """Quotation marks and backslashes are escaped, in blocks and in inline code."""
    for language in ("promql", ""):
        html = fill_code('up{server="SERVER"}', language, {"SERVER": value})
        inside = unescape(html.partition("<b>")[2].partition("</b>")[0])
        assert inside.replace("\\\\", "").replace('\\"', "").count('"') == 0
        assert inside.replace("\\\\", "\0").replace('\\"', '"').replace("\0", "\\") == value


def test_several_workers_are_several_words() -> None:
    """The PIDs of workers are several words, for a loop."""
    assert typed(fill_code("for pid in WORKER_PIDS; do", "sh", {"WORKER_PIDS": "7 8"})) == "for pid in 7 8; do"


@pytest.mark.parametrize(
    "value", ["", "a\nb", "a\tb", "\x1b[0m", "a\u202eb", "a\u00a0b", "\udc80", "\u05d0", "a\u200bb"]
)
def test_what_a_terminal_shows_wrong_cannot_be_typed(value: str) -> None:
    """Line breaks, control characters, invisible characters and right-to-left characters are refused."""
    assert not is_typeable(value)


@pytest.mark.parametrize("value", ["shop", "a b", "it's", "$(id)", "é", "日本", "<b>"])
def test_what_can_be_quoted_can_be_typed(value: str) -> None:
    """Characters that need quoting are accepted."""
    assert is_typeable(value)


def test_placeholders_are_found() -> None:
    """All placeholders are found, the longest match first."""
    assert used_placeholders(" ".join(MEANINGS)) == set(MEANINGS)
    assert used_placeholders("`kill WORKER_PID`, SERVERS") == {"WORKER_PID"}
