"""The HTML form: without scripts, names are only text, charts and maps are legible, it prints on A4."""

import re
from datetime import date, timedelta
from html.parser import HTMLParser

import pytest

from tests.report.render.conftest import HOSTILE
from tests.support.browser import browser
from uwsgi_headroom.report.render.charts import draw_trend, shade
from uwsgi_headroom.words.colours import contrast

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
