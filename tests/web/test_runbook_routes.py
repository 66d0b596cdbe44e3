"""The exporter serves the runbooks that its alerts link to."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.real_uwsgi import ROOT
from tests.support.web_server import get, serving
from uwsgi_headroom.analysis.findings.runbook_names import RUNBOOKS
from uwsgi_headroom.documents import build

FOLDER = ROOT / "alerts" / "runbooks"
NAMES = sorted(file.name for file in FOLDER.glob("*.md"))


@pytest.fixture(scope="module")
def port() -> Iterator[int]:
    """An exporter of no server that answers: its runbooks are wanted most then."""
    with serving("gone=/nowhere/at/all") as listening:
        yield listening


def test_there_are_runbooks() -> None:
    """The tests below are about something."""
    assert len(NAMES) >= 20


@pytest.mark.parametrize("name", NAMES)
def test_a_runbook_is_served_as_it_is_written(port: int, name: str) -> None:
    """As text that no browser takes for a page."""
    status, headers, body = get(port, f"/runbooks/{name}")
    assert status == 200
    assert headers["Content-Type"] == "text/plain; charset=utf-8"
    assert headers["X-Content-Type-Options"] == "nosniff"
    assert body == (FOLDER / name).read_bytes()


@pytest.mark.parametrize("code", RUNBOOKS)
def test_a_finding_leads_to_its_runbook(port: int, code: str) -> None:
    """The address that its document holds is served."""
    address = build.runbook_path(code)
    assert address is not None
    assert get(port, address)[0] == 200


def test_a_finding_without_a_runbook_leads_nowhere() -> None:
    """Its address is null, as it is for a code that nobody knows."""
    assert build.runbook_path("too_few_requests") is None


def test_the_runbooks_are_listed(port: int) -> None:
    """A path a line."""
    status, headers, body = get(port, "/runbooks/")
    assert status == 200
    assert headers["Content-Type"] == "text/plain; charset=utf-8"
    assert body.decode().splitlines() == [f"/runbooks/{name}" for name in NAMES]


@pytest.mark.parametrize(
    "path",
    [
        "None.md",
        "UwsgiDown",
        "UwsgiDown.md.md",
        "../app.py",
        "..%2Fapp.py.md",
        "%2e%2e%2fapp.md",
        "/etc/passwd.md",
        ".md",
    ],
)
def test_nothing_else_is_served(port: int, path: str) -> None:
    """What is no runbook's name is not found, wherever it leads."""
    status, headers, body = get(port, f"/runbooks/{path}")
    assert status == 404
    assert headers["Content-Type"].startswith("text/plain; charset=utf-8")
    assert len(body) < 100
