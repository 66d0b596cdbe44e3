"""What keeps clients from uWSGI's sockets is named in the verdict; what a deploy does, or another user's web server, is
no alarm."""

import pytest
from msgspec.structs import replace

from tests.analysis.judging import AT, describe, figures_of
from tests.support.windows import window, worker
from uwsgi_headroom.analysis.findings import Finding, collect_findings, correct_headroom, way_in
from uwsgi_headroom.analysis.verdict import say_verdict
from uwsgi_headroom.surroundings import Refusal, Way, WaysIn, WebError

PATH = "/run/app.sock"
GONE = Way(PATH, PATH, "gone")
CLEAR = Way(PATH, PATH, "clear", refusal=Refusal("nginx", "www-data", "www-data"))
REPLACED = Way(PATH, PATH, "replaced", AT - 5.0)
REFUSED = CLEAR._replace(refusal=Refusal("nginx", "www-data", "www-data", PATH, "600", "root:root"))


def judged(ways: WaysIn, requests: int = 0) -> tuple[list[Finding], str]:
    of = window(20, worker(1, requests, each=0.01), worker(2, 0, each=0.0))
    figures = correct_headroom(figures_of(of, describe(ways_in=ways, time=AT)))
    found = collect_findings(figures)
    return found, say_verdict(figures, found)


def test_the_verdict_names_what_keeps_clients_out():
    """Also where it is a note, and where only the log of a web server says so."""
    error = WebError(PATH, PATH, "nginx", "refused", "Connection refused", "/e", 3)
    for ways in (WaysIn((GONE,)), WaysIn((REPLACED,)), WaysIn((REFUSED,)), WaysIn((CLEAR,), errors=(error,))):
        found, verdict = judged(ways)
        assert found[0].title.rstrip(".")[1:] in verdict


@pytest.mark.parametrize(
    ("ways", "is_clear"),
    [
        (WaysIn((CLEAR,)), True),
        (WaysIn((CLEAR, CLEAR._replace(refusal=None))), True),
        (WaysIn((CLEAR._replace(refusal=None),)), False),
        (WaysIn((CLEAR, Way("b", "/b", "unknown"))), False),
        (WaysIn(), False),
    ],
)
def test_the_way_in_is_clear(ways, is_clear):
    """Only where it was looked at, the verdict of a server without requests says so."""
    _, verdict = judged(ways)
    assert verdict.startswith("No requests yet; the way in is clear") == is_clear
    _, verdict = judged(ways, requests=100)
    assert "way in" not in verdict


@pytest.mark.parametrize(("quiet", "is_said"), [((240.0, 12.0), True), ((240.0, 0.2), False)])
def test_requests_that_come_no_more(quiet, is_said):
    """It is a note, if so many would have come that chance does not explain it."""
    figures = figures_of(window(20, worker(1, 0, each=0.0)), describe(ways_in=WaysIn((CLEAR,))))
    found = [each for each in collect_findings(replace(figures, quiet=quiet)) if each.kind is way_in.STOPPED]
    assert [each.severity for each in found] == ["info"] * is_said
