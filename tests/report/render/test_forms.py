"""Markdown and JSON, and the file that they are written to."""

import json
import os
import stat
import tempfile
from typing import Any

import pytest

from uwsgi_headroom.errors import HeadroomError
from uwsgi_headroom.report.command import render, write_file
from uwsgi_headroom.report.render.markdown import escape, render_json, render_markdown
from uwsgi_headroom.report.review import write_review


def test_markdown_tables_are_whole(hostile):
    """A name with pipes and line ends adds neither a cell nor a line."""
    columns = 0
    for line in render_markdown(write_review(hostile)).splitlines():
        cells = line.replace("\\|", "").count("|") if line.startswith("|") else 0
        assert cells in (0, columns) or columns == 0, line
        columns = cells
    assert "\n# head" not in render_markdown(write_review(hostile))


@pytest.mark.parametrize(
    ("text", "escaped"),
    [
        ("<b>", "\\<b\\>"),
        ("a|b", "a\\|b"),
        ("`a|b`", "`a\\|b`"),
        ("a\nb", "a b"),
        ("*x* _y_ [z](u)", "\\*x\\* \\_y\\_ \\[z\\](u)"),
        ("&lt;", "&amp;lt;"),
        ("a`<b>", "a\\`\\<b\\>"),
        ("```<b>`", "\\`\\``<b>`"),
        ("a\u202eb\x1b", "a\\\\u202eb\\\\x1b"),
    ],
)
def test_markdown_shows_names_as_they_are(text, escaped):
    """What Markdown takes for markup is escaped; code stays code, and nothing is invisible."""
    assert escape(text) == escaped


def test_markdown_has_the_words_and_figures_of_all_sections(plain):
    """Without pictures: maps of the week are tables."""
    text = render_markdown(write_review(plain))
    for number in range(1, 7):
        assert f"\n## {number} " in text
    assert "Mean response time (ms), by weekday and hour." in text
    assert "**What do users feel?**" in text
    assert "| Owner, date |  |" in text


def test_json_is_valid_and_has_stable_names(plain, hostile):
    """Standard JSON in ASCII without nan, and the names that docs/report.md describes."""

    def refuse(name: str) -> None:
        raise AssertionError(name)

    document = json.loads(render_json(plain), parse_constant=refuse)
    assert document["format"] == 3
    assert document["judgement"] == "act"
    (service,) = document["services"]
    assert set(service) == {
        *("service", "servers", "verdict", "lines", "utilization", "users", "trend", "recommendations"),
    }
    assert service["utilization"]["first"] == "hottest_interpreter"
    assert set(service["verdict"]) == {"judgement", "sentence", "users", "action", "certainty", "confidence"}
    assert b"\\u202e" in render_json(hostile)
    render_json(hostile).decode("ascii")


def test_a_report_replaces_a_file_only_when_it_is_whole(plain, tmp_path):
    """A directory that does not exist is a message; a good file is replaced, and nothing is left beside it."""
    with pytest.raises(HeadroomError, match="the report cannot be written: No such file or directory"):
        write_file(tmp_path / "missing" / "review.md", b"")
    out = tmp_path / "review.md"
    out.write_text("old")
    write_file(out, render(plain, "md"))
    assert out.read_text().startswith("# Capacity review")
    assert [path.name for path in tmp_path.iterdir()] == ["review.md"]


def test_a_link_in_place_of_the_new_file(tmp_path, monkeypatch):
    """The owner of the directory puts a link in place of the temporary file: what it leads to keeps its mode."""
    victim, make = tmp_path / "victim", tempfile.mkstemp
    victim.touch(0o600)

    def exchange(**options: Any) -> tuple[int, str]:
        descriptor, name = make(**options)
        os.unlink(name)
        os.symlink(victim, name)
        return descriptor, name

    monkeypatch.setattr(tempfile, "mkstemp", exchange)
    write_file(tmp_path / "review.md", b"a review")
    assert stat.S_IMODE(victim.stat().st_mode) == 0o600
    assert victim.read_text() == ""
