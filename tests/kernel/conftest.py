"""Facts are asked for in the test's own process: what it replaces there counts, and one reading has them all."""

import pytest

from uwsgi_headroom.kernel import backlogs, host
from uwsgi_headroom.kernel.aside import Direct
from uwsgi_headroom.kernel.waits import peers


@pytest.fixture(autouse=True)
def answers_at_once(monkeypatch):
    monkeypatch.setattr(host, "Questions", lambda _clock: Direct())


@pytest.fixture
def patient(monkeypatch):
    """On a busy machine a list of sockets takes longer than it may."""
    monkeypatch.setattr(peers, "MOST_SECONDS", 30.0)
    monkeypatch.setattr(backlogs, "MOST_LISTING_SECONDS", 30.0)
