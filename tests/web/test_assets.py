"""The files of the page: compressed, cached by browsers, and the only files served from the disk."""

from __future__ import annotations

import gzip
import re

import pytest

from tests.support.web_server import get, serving
from tools.environments import ROOT
from uwsgi_headroom.web import live_page

LARGEST_PAGE = 150_000  # bytes, compressed
SOMEWHERE_ELSE = re.compile(rb"(?:https?:)?//[a-z0-9.-]+\.[a-z]+/", re.IGNORECASE)


def test_every_file_as_it_is_and_compressed() -> None:
    """Clients that accept gzip get a file compressed, others plain; browsers cache it permanently under its version."""
    with serving() as port:
        for name, asset in live_page.load_assets().items():
            status, headers, plain = get(port, live_page.url(name))
            _, packed_headers, packed = get(port, live_page.url(name), headers={"Accept-Encoding": "gzip"})
            assert (status, plain) == (200, asset.plain)
            assert headers["Content-Type"].partition(";")[0] in {"text/css", "text/javascript", "image/svg+xml"}
            assert "immutable" in headers["Cache-Control"]
            assert packed_headers["Content-Encoding"] == "gzip"
            assert gzip.decompress(packed) == plain


def test_a_file_that_the_browser_has() -> None:
    """A file that the browser already has is not sent again."""
    with serving() as port:
        tag = get(port, live_page.url(live_page.SCRIPT))[1]["ETag"]
        status, _, body = get(port, live_page.url(live_page.SCRIPT), headers={"If-None-Match": tag})
    assert (status, body) == (304, b"")


def test_another_version() -> None:
    """A page of another exporter gets the current file, and must ask again next time."""
    script = live_page.load_assets()[live_page.SCRIPT].plain
    with serving() as port:
        status, headers, body = get(port, f"/static/0000/{live_page.SCRIPT}")
    assert (status, headers["Cache-Control"], body) == (200, "no-cache", script)


@pytest.mark.parametrize(
    "name",
    [
        "nothing.js",
        "main.js",
        "../page.py",
        "..%2fpage.py",
        "%2e%2e/page.py",
        "/etc/passwd",
        "vendor/uplot/LICENSE",
        "",
    ],
)
def test_nothing_else_is_served(name: str) -> None:
    """Only the page's own files are served, for any path."""
    with serving() as port:
        assert get(port, f"/static/{live_page.version()}/{name}")[0] == 404


def test_the_page_is_small_and_asks_nobody_else() -> None:
    """All files together stay within the budget, and only the licence's comment names another host."""
    files = live_page.load_assets()
    assert sum(len(asset.compressed) for asset in files.values()) < LARGEST_PAGE
    for name, asset in files.items():
        hosts = set(SOMEWHERE_ELSE.findall(asset.plain)) - {b"https://github.com/", b"http://www.w3.org/"}
        assert not hosts, name


def test_the_library_comes_with_its_licence() -> None:
    """Third-party files are marked as such."""
    folder = live_page.FOLDER / "vendor" / "uplot"
    assert "MIT" in (folder / "LICENSE").read_text()
    assert "uPlot 1.6" in (ROOT / "docs" / "how-to-add.md").read_text()
