"""Page one on paper: the verdict fits on it, however many services and problems there are."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.support.browser import browser
from uwsgi_headroom.report.render import html
from uwsgi_headroom.report.review.sections import Review

PAGE = (688, 1016)
"""Pixels of an A4 page within its margins (12, 14 and 15 mm), at 96 a inch."""


def _several(review: Review, number: int) -> Review:
    """The same service several times, all in need of action: the longest page one."""
    (service,) = review.services
    services = tuple(replace(service, service=f"a service with a long name {place}") for place in range(number))
    many = tuple(f"Problem {place}: a server has no data for some days." for place in range(9))
    return replace(review, services=services, problems=many)


@pytest.mark.integration
def test_the_verdict_fits_on_one_page(plain: Review, monkeypatch: pytest.MonkeyPatch) -> None:
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
