"""How long clients with wrong passwords wait."""

from __future__ import annotations

import pytest

from uwsgi_headroom.web.security import login
from uwsgi_headroom.web.security.login import Throttle


def test_who_fails_waits_longer_each_time_and_is_forgotten() -> None:
    """The wait doubles from a second to half a minute; five minutes without a failure end it."""
    clock = [0.0]
    waits = Throttle(lambda: clock[0])
    seen = []
    for _ in range(10):
        waits.record_failure("a")
        seen.append(waits.seconds_to_wait("a"))
    assert seen == [0, 0, 1, 2, 4, 8, 16, 30, 30, 30]
    assert waits.seconds_to_wait("b") == 0
    shorter = Throttle(lambda: clock[0], longest=4)
    for _ in range(10):
        shorter.record_failure("a")
    assert shorter.seconds_to_wait("a") == 4
    clock[0] = login.FORGET_SECONDS + 1
    waits.record_failure("a")
    assert waits.seconds_to_wait("a") == 0


def test_few_clients_are_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    """The table has a bound; the client that failed longest ago goes first."""
    monkeypatch.setattr(login, "MOST_CLIENTS", 2)
    waits = Throttle(lambda: 0.0)
    for name in "aaaabbbbcccc":
        waits.record_failure(name)
    assert [waits.seconds_to_wait(name) > 0 for name in "abc"] == [False, True, True]
