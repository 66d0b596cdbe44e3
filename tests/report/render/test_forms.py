"""Markdown, JSON and CSV, and the file that they are written to."""

import csv
import io
import json
import math
import os
import re
import stat
import tempfile
from typing import Any

import pytest
from msgspec.structs import replace

from uwsgi_headroom.record import AdviceSeverity
from uwsgi_headroom.report.render import RenderError, write_review
from uwsgi_headroom.report.render.markdown import escape, render_csv, render_json, render_markdown, safe_cell
from uwsgi_headroom.report.review import build_review


def test_markdown_tables_are_whole(hostile):
    """A name with pipes and line ends adds neither a cell nor a line."""
    columns = 0
    for line in render_markdown(hostile).splitlines():
        cells = line.replace("\\|", "").count("|") if line.startswith("|") else 0
        assert cells in (0, columns) or columns == 0, line
        columns = cells
    assert "\n# head" not in render_markdown(hostile)


@pytest.mark.parametrize(
    ("text", "escaped"),
    [
        ("<b>", "\\<b\\>"),
        ("a|b", "a\\|b"),
        ("`a|b`", "`a\\|b`"),
        ("a\nb", "a b"),
        ("*x* _y_ [z](u)", "\\*x\\* \\_y\\_ \\[z\\](u)"),
        ("&lt;", "&amp;lt;"),
    ],
)
def test_markdown_shows_names_as_they_are(text, escaped):
    """What Markdown takes for markup is escaped; code stays code."""
    assert escape(text) == escaped


def test_markdown_has_the_words_and_figures_of_all_sections(plain):
    """Without pictures: maps of the week are tables."""
    text = render_markdown(plain)
    for number in range(1, 11):
        assert f"\n## {number} " in text
    assert "Mean response time (ms)" in text
    assert "**Is there a problem?**" in text
    assert "| Owner, date |  |" in text


def test_json_is_valid_and_has_stable_names(plain):
    """Standard JSON without nan, and the names that docs/report.md describes."""

    def refuse(name: str) -> None:
        raise AssertionError(name)

    document = json.loads(render_json(plain), parse_constant=refuse)
    assert document["format"] == 2
    assert document["judgement"] == "act"
    (service,) = document["services"]
    assert set(service) == {
        *("service", "servers", "verdict", "utilization", "users", "balance", "time", "trend", "what_if"),
        *("recommendations", "settings"),
    }
    assert service["utilization"]["first"] == "hottest_interpreter"
    assert [row["setting"] for row in service["what_if"]["rows"]][:2] == ["4x8", "8x4"]
    assert "data" not in document


def test_csv_has_a_line_for_each_quarter_hour_and_server(plain):
    """Units are in the head, and values those of the columns."""
    rows = list(csv.DictReader(io.StringIO(render_csv(plain.data))))
    assert len(rows) == 2 * 3 * 96
    assert rows[0]["start"] == "2026-09-25T00:00:00+00:00"
    assert float(rows[0]["threads_in_service"]) == pytest.approx(plain.data.servers[0].busy[0], rel=1e-5)
    assert float(rows[0]["p95_seconds"]) == pytest.approx(plain.data.servers[0].percentiles[2][0], rel=1e-5)


def test_csv_leaves_out_what_is_unknown(plain):
    """A quarter hour without any figure has no line, and an unknown figure an empty cell."""
    server = plain.data.servers[0]
    queue = server.queue.copy()
    queue[0] = math.nan
    data = replace(plain.data, servers=(replace(server, queue=queue, percentiles=()),))
    first = next(csv.DictReader(io.StringIO(render_csv(data))))
    assert first["queue_connections"] == first["p50_seconds"] == ""


@pytest.mark.parametrize("name", ["=1+1", "+1", "-1", "@sum", "\tx"])
def test_csv_names_are_no_formulas(name):
    """A spreadsheet would compute them."""
    assert safe_cell(name) == f"'{name}"


def test_a_hostile_name_is_one_cell_of_csv(hostile):
    """Quoted, with its line end, and not a formula."""
    rows = list(csv.reader(io.StringIO(render_csv(hostile.data))))
    assert {len(row) for row in rows} == {len(rows[0])}
    assert all(row[2].startswith("'=") for row in rows[1:])


def test_a_report_replaces_a_file_only_when_it_is_whole(plain, tmp_path):
    """A directory that does not exist is a message; a good file is replaced, and nothing is left beside it."""
    with pytest.raises(RenderError, match="the report cannot be written: No such file or directory"):
        write_review(plain, tmp_path / "missing" / "review.md", "md")
    out = tmp_path / "review.md"
    out.write_text("old")
    write_review(plain, out, "md")
    assert out.read_text().startswith("# Capacity review")
    assert [path.name for path in tmp_path.iterdir()] == ["review.md"]


def test_a_link_in_place_of_the_new_file(plain, tmp_path, monkeypatch):
    """The owner of the directory puts a link in place of the temporary file: what it leads to keeps its mode."""
    victim, make = tmp_path / "victim", tempfile.mkstemp
    victim.touch(0o600)

    def exchange(**options: Any) -> tuple[int, str]:
        descriptor, name = make(**options)
        os.unlink(name)
        os.symlink(victim, name)
        return descriptor, name

    monkeypatch.setattr(tempfile, "mkstemp", exchange)
    write_review(plain, tmp_path / "review.md", "md")
    assert stat.S_IMODE(victim.stat().st_mode) == 0o600
    assert victim.read_text() == ""


def test_what_will_hurt_in_the_settings(plain):
    """It stands first, with the line, the version and when it does not matter; a later rule is named."""
    found: list[dict[str, AdviceSeverity]] = [
        {"listen": "info", "max_requests_delta": "warning"},
        {"a_later_rule": "info", "listen": "info"},
    ]
    servers = [replace(server, settings=each) for server, each in zip(plain.data.servers, found, strict=True)]
    review = build_review(replace(plain.data, servers=tuple(servers)))
    text = render_markdown(review).partition("## 9 Settings")[2].partition("## 10")[0]
    assert "1 setting will cause trouble, 2 may." in text
    assert re.findall(r"Rule \| `(\w+)`", text) == ["max_requests_delta", "listen", "a_later_rule"]
    assert "| Write | `max-requests-delta = 250` |" in text
    assert "| Needs | uWSGI 2.0.29 or later |" in text
    assert f"| Where | {servers[0].server} |" in text
    assert "| Where | all 2 servers |" in text
    assert "This version of uwsgi-headroom does not know the rule." in text
    (service,) = json.loads(render_json(review))["services"]
    assert [each["severity"] for each in service["settings"]["advice"]] == ["warning", "info", "info"]
