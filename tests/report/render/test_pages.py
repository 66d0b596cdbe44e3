"""The HTML and PDF forms: without scripts, names are only text, charts are legible, page one is one page."""

import re
from html.parser import HTMLParser

import pytest
from msgspec.structs import replace

from tests.report.render.conftest import HOSTILE
from tests.support.browser import browser
from tools import prepare
from uwsgi_headroom.report.render import html
from uwsgi_headroom.report.render.chapters import balance, users
from uwsgi_headroom.report.render.chapters.utilization import draw_bars
from uwsgi_headroom.report.render.charts import shorten
from uwsgi_headroom.report.render.html import PdfError, print_pdf
from uwsgi_headroom.report.review.sections import HeatMap, Review
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


def test_hostile_names_are_text(hostile_page):
    """No tag but those of the template, and no attribute that runs or loads anything."""
    parts = _parse(hostile_page)
    assert parts.tags <= KNOWN, parts.tags - KNOWN
    assert not [name for name, _ in parts.attributes if name.startswith("on")]
    assert "<script>alert(1)</script></style>" in "".join(parts.texts)


def test_nothing_is_loaded_from_elsewhere(page):
    """Links lead only into the document, and the policy forbids the rest."""
    parts = _parse(page)
    links = [value for name, value in parts.attributes if name in ("href", "src", "xlink:href")]
    assert links
    assert all(link.startswith("#") for link in links)
    assert "@import" not in page
    assert not re.search(r"url\((?!#)", page)
    assert ("content", "default-src 'none'; style-src 'unsafe-inline'") in parts.attributes


def test_all_sections_are_there(page):
    """Page one, and nine numbered sections; one without data says why."""
    heads = re.findall(r"<h2>(\d+) ([^<]+)</h2>", page)
    assert [int(number) for number, _ in heads] == list(range(2, 11))
    assert 'id="verdict"' in page
    assert re.search(r'<p class="absent">No day is complete|<p class="absent">[^<]+needs? \d+ days', page)


def test_text_of_charts_is_text(page):
    """Readers can search and copy the words of a chart; colours follow the page."""
    assert re.search(r"<text [^>]*>hottest interpreter</text>", page)
    assert "var(--ink" in page
    assert "DejaVu" not in page


def test_figures_of_heat_maps_are_legible(page):
    """The number in each cell has a contrast of 4.5 to 1 to its shade."""
    cells = re.findall(r'<rect [^>]*fill="(#\w{6})"/><text [^>]*fill="(#\w{6})">', page)
    assert len(cells) > 100
    assert [cell for cell in cells if contrast(*cell) < 4.5] == []


def test_two_drawings_are_the_same(plain):
    """No date of writing and no random id, so that a change of a report shows what changed."""
    rows = [(use.limit, use) for use in plain.services[0].utilization.limits]
    assert draw_bars(rows) == draw_bars(rows)


def test_hostile_names_do_not_end_the_style(hostile_page):
    """The style element ends once, and before the body."""
    assert hostile_page.count("</style>") == len(re.findall(r"<style[ >]", hostile_page))
    assert HOSTILE not in hostile_page


def test_without_a_browser_it_says_what_to_do(tmp_path, monkeypatch):
    """The message names the two ways out."""
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(PdfError, match=r"write HTML .* and print it in a browser, or install one"):
        print_pdf("<p>a report</p>")


def test_a_browser_that_fails_is_reported(tmp_path, monkeypatch):
    """With the last line of what it wrote."""
    browser = tmp_path / "chromium"
    browser.write_text("#!/bin/sh\necho 'no display' >&2\nexit 3\n")
    browser.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/bin:/usr/bin")
    with pytest.raises(PdfError, match="did not print the report: no display"):
        print_pdf("<p>a report</p>")


@pytest.mark.integration
def test_page_one_is_the_verdict_alone(page):
    """Chromium prints several pages, of which the first ends with the words that it needs."""
    prepare.find_browser()
    content = print_pdf(page)
    assert content.startswith(b"%PDF-")
    assert len(re.findall(rb"/Type /Page\b(?!s)", content)) >= 3


PAGE = (688, 1016)
"""Pixels of an A4 page within its margins (12, 14 and 15 mm), at 96 a inch."""


def _several(review: Review, number: int) -> Review:
    """The same service several times, all in need of action: the longest page one."""
    (service,) = review.services
    services = tuple(replace(service, service=f"a service with a long name {place}") for place in range(number))
    many = tuple(f"Problem {place}: a server has no data for some days." for place in range(9))
    return replace(review, services=services, problems=many)


@pytest.mark.integration
def test_the_verdict_fits_on_one_page(plain, monkeypatch):
    """One service, two (the most with a chart), three and twenty."""
    monkeypatch.setattr(html, "chapters_of", lambda _: [])
    with browser() as running:
        page = running.new_page(viewport={"width": PAGE[0], "height": PAGE[1]})
        page.emulate_media(media="print")
        for number in (1, 2, 3, 20):
            page.set_content(html.render_html(_several(plain, number)))
            height = page.evaluate("document.querySelector('#verdict').getBoundingClientRect().height")
            assert height <= PAGE[1], number
            assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), number


def test_a_long_name_is_shortened_in_the_middle():
    """Its beginning and its end tell servers apart; a short one stays."""
    assert shorten("web1") == "web1"
    assert shorten("a" * 40 + "b" * 40) == f"{'a' * 15}…{'b' * 15}"


def test_a_long_name_leaves_the_chart_its_room(plain):
    """The row of a server with a name of 80 letters is nearly as wide as that of another."""

    def width(name: str) -> float:
        servers = tuple(replace(server, server=name) for server in plain.services[0].balance.servers)
        svg = balance._draw_shares(replace(plain.services[0].balance, servers=servers))
        across = [float(x) for x in re.findall(r"M ([\d.]+) [\d.]+ ?\n?L", svg)]
        return max(across) - min(across)

    assert width("x" * 80) > 0.6 * width("web1")


def _shades(*values: float) -> set[str]:
    rows = tuple(tuple(values[(day + hour) % len(values)] for hour in range(24)) for day in range(7))
    return set(re.findall(r'fill="(#[0-9a-f]{6})"/>', users._draw_heat_map(HeatMap(title="x", unit="ms", rows=rows))))


def test_noise_is_no_pattern():
    """Response times that differ by 0.4 ms of 200 have nearly one shade; by half, they have the whole scale."""
    low, high = sorted(_shades(200.0, 200.4)), _shades(100.0, 200.0)
    assert max(abs(int(low[0][at : at + 2], 16) - int(low[-1][at : at + 2], 16)) for at in (1, 3, 5)) <= 3
    assert high == {users._shade(0.0), users._shade(1.0)}
