"""Markdown and JSON, and the file that they are written to."""

import json
import os
import re
import stat
import tempfile
from datetime import date, timedelta
from html.parser import HTMLParser
from typing import Any

import pytest

from tests.report.conftest import HOSTILE
from tests.support.browser import browser
from uwsgi_headroom.errors import HeadroomError
from uwsgi_headroom.report.command import render, write_file
from uwsgi_headroom.report.render.charts import draw_trend, shade
from uwsgi_headroom.report.render.markdown import escape, render_json, render_markdown
from uwsgi_headroom.report.review import write_review
from uwsgi_headroom.words.colours import contrast


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
        *("service", "servers", "verdict", "lines", "utilization", "users", "trend", "recommendations")
    }
    assert service["utilization"]["first"] == "hottest_interpreter"
    assert set(service["verdict"]) == {"judgement", "sentence", "users", "action", "certainty", "confidence"}
    assert b"\\u202e" in render_json(hostile)
    render_json(hostile).decode("ascii")


def test_a_report_replaces_a_file_only_when_it_is_whole(plain, tmp_path):
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


KNOWN = {
    *("html", "head", "meta", "title", "style", "body", "main", "section", "figure", "b"),
    *("h1", "h2", "h3", "p", "ul", "li", "span", "code"),
    *("table", "caption", "thead", "tbody", "tr", "th", "td"),
    *("svg", "polyline", "polygon", "circle", "text"),
}


class _Parts(HTMLParser):
    """Collects tags, attributes and the text outside of the style."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.attributes: list[tuple[str, str]] = []
        self.texts: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.attributes += [(name, value or "") for name, value in attrs]

    def handle_data(self, data: str) -> None:
        self.texts.append(data)


def _parse(html: str) -> _Parts:
    parts = _Parts()
    parts.feed(html)
    return parts


def test_hostile_names_are_text(hostile_page):
    """No tag but those of the form, no attribute that runs or loads anything, and no character that is invisible or
    moves others."""
    parts = _parse(hostile_page)
    assert parts.tags <= KNOWN, parts.tags - KNOWN
    assert not [name for name, _ in parts.attributes if name.startswith("on")]
    assert "<script>alert(1)</script></style>" in "".join(parts.texts)
    assert not re.search("[\x1b\u202e]", hostile_page)


def test_hostile_names_do_not_end_the_style(hostile_page):
    """The style element ends once, and before the body."""
    assert hostile_page.count("</style>") == len(re.findall(r"<style[ >]", hostile_page))
    assert HOSTILE not in hostile_page


def test_nothing_is_loaded_from_elsewhere(page):
    """There are no links, and the policy forbids the rest."""
    parts = _parse(page)
    assert not [value for name, value in parts.attributes if name in ("href", "src", "xlink:href")]
    assert "@import" not in page
    assert not re.search(r"url\((?!#)", page)
    assert ("content", "default-src 'none'; style-src 'unsafe-inline'") in parts.attributes


def test_all_sections_are_there(page):
    """Six numbered sections; one without data says why."""
    heads = re.findall(r"<h2>(\d+) ([^<]+)</h2>", page)
    assert [int(number) for number, _ in heads] == list(range(1, 7))
    assert re.search(r'<p class="absent">[^<]+needs? \d+ days', page)


def test_figures_of_heat_maps_are_legible(page):
    """The number in each cell has a contrast of 4.5 to 1 to its shade."""
    cells = re.findall(r'style="background:(#\w{6});color:(#\w{6})"', page)
    assert len(cells) > 100
    assert [cell for cell in cells if contrast(*cell) < 4.5] == []


def test_noise_is_no_pattern():
    """Response times that differ by 0.4 ms of 200 have nearly one shade; by half, they have the whole scale."""
    low, high = [int(style[12:14], 16) for style in shade([[0.2, 0.2004]])[0]]
    assert abs(low - high) <= 3
    colours = {style[11:18] for style in shade([[0.1, 0.2]])[0]}
    assert colours == {style[11:18] for style in shade([[0.0, 1.0]])[0]}
    assert len(colours) == 2


def test_a_chart_follows_the_page_and_is_always_the_same():
    """Its colours are those of the page, so that a dark screen changes them; each day is a dot."""
    days = [date(2026, 9, 1) + timedelta(days=place) for place in range(30)]
    peaks = [(day, 0.5 + 0.01 * place) for place, day in enumerate(days)]
    svg = draw_trend(peaks, None, [days[3]])
    assert svg == draw_trend(peaks, None, [days[3]])
    assert svg.count("<circle") == 30
    assert set(re.findall(r'(?:fill|stroke)="([^"]+)"', svg)) <= {"none", *re.findall(r"var\(--\w+\)", svg)}
    assert draw_trend([], None, [])


@pytest.mark.integration
def test_it_fits_on_paper(page):
    """No table is wider than an A4 page within its margins (12, 14 and 15 mm, at 96 pixels a inch)."""
    with browser() as running:
        paper = running.new_page(viewport={"width": 688, "height": 1016})
        paper.emulate_media(media="print")
        paper.set_content(page)
        assert paper.evaluate("document.documentElement.scrollWidth <= innerWidth")
