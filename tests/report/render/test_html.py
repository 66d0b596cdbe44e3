"""The HTML form: one file, without scripts or external resources, and names are only text."""

from __future__ import annotations

import re
from html.parser import HTMLParser

from tests.report.render.conftest import HOSTILE
from uwsgi_headroom.report.render.chapters.utilization import draw_bars
from uwsgi_headroom.report.review.sections import Review
from uwsgi_headroom.words.colours import contrast

KNOWN = {
    *("html", "head", "meta", "title", "style", "body", "main", "section", "article", "header", "nav", "figure", "div"),
    *("h1", "h2", "h3", "p", "dl", "dt", "dd", "ul", "ol", "li", "a", "span", "code", "figcaption"),
    *("table", "caption", "thead", "tbody", "tr", "th", "td"),
    *("svg", "g", "defs", "path", "use", "text", "rect", "clippath"),
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


def test_hostile_names_are_text(hostile_page: str) -> None:
    """No tag but those of the template, and no attribute that runs or loads anything."""
    parts = _parse(hostile_page)
    assert parts.tags <= KNOWN, parts.tags - KNOWN
    assert not [name for name, _ in parts.attributes if name.startswith("on")]
    assert "<script>alert(1)</script></style>" in "".join(parts.texts)


def test_nothing_is_loaded_from_elsewhere(page: str) -> None:
    """Links lead only into the document, and the policy forbids the rest."""
    parts = _parse(page)
    links = [value for name, value in parts.attributes if name in ("href", "src", "xlink:href")]
    assert links
    assert all(link.startswith("#") for link in links)
    assert "@import" not in page
    assert not re.search(r"url\((?!#)", page)
    assert ("content", "default-src 'none'; style-src 'unsafe-inline'") in parts.attributes


def test_all_sections_are_there(page: str) -> None:
    """Page one, and nine numbered sections; one without data says why."""
    heads = re.findall(r"<h2>(\d+) ([^<]+)</h2>", page)
    assert [int(number) for number, _ in heads] == list(range(2, 11))
    assert 'id="verdict"' in page
    assert re.search(r'<p class="absent">No day is complete|<p class="absent">[^<]+needs? \d+ days', page)


def test_text_of_charts_is_text(page: str) -> None:
    """Readers can search and copy the words of a chart; colours follow the page."""
    assert re.search(r"<text [^>]*>hottest interpreter</text>", page)
    assert "var(--ink" in page
    assert "DejaVu" not in page


def test_figures_of_heat_maps_are_legible(page: str) -> None:
    """The number in each cell has a contrast of 4.5 to 1 to its shade."""
    cells = re.findall(r'<rect [^>]*fill="(#\w{6})"/><text [^>]*fill="(#\w{6})">', page)
    assert len(cells) > 100
    assert [cell for cell in cells if contrast(*cell) < 4.5] == []


def test_two_drawings_are_the_same(plain: Review) -> None:
    """No date of writing and no random id, so that a change of a report shows what changed."""
    rows = [(use.limit, use) for use in plain.services[0].utilization.limits]
    assert draw_bars(rows) == draw_bars(rows)


def test_hostile_names_do_not_end_the_style(hostile_page: str) -> None:
    """The style element ends once, and before the body."""
    assert hostile_page.count("</style>") == len(re.findall(r"<style[ >]", hostile_page))
    assert HOSTILE not in hostile_page
