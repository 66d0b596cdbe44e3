"""The HTTP server's share of the descriptors."""

from __future__ import annotations

import resource

import pytest

from uwsgi_headroom.web import bounds, connection_slots


@pytest.mark.parametrize("limit", [64, 100, 256, 1024, 4096])
@pytest.mark.parametrize("servers", [1, 8])
def test_the_sum_fits(limit: int, servers: int) -> None:
    """Connections, four times the backlog, and all other needs fit into the limit."""
    capacity = connection_slots.share_out(limit, servers, 1)
    needed = bounds.OWN_DESCRIPTORS + bounds.DESCRIPTORS_PER_SERVER * servers + 1
    assert capacity.connections + 4 * capacity.accepts + needed <= limit
    assert 0 < capacity.streams < capacity.connections


def test_plenty() -> None:
    """With the usual limit, every bound is its constant, and nothing is logged."""
    capacity = connection_slots.share_out(1024, 10, 2)
    assert (capacity.connections, capacity.accepts) == (bounds.MOST_CONNECTIONS, bounds.ACCEPTS_IN_A_TURN)
    assert capacity.streams == bounds.MOST_STREAMS


@pytest.mark.parametrize(("limit", "warned"), [(64, True), (537, True), (539, False)])
def test_few_are_worth_a_warning(caplog: pytest.LogCaptureFixture, limit: int, warned: bool) -> None:
    """If there are fewer connections than usual, the log says so once."""
    connection_slots.share_out(limit, 1, 1)
    assert [record.getMessage().partition(":")[0] for record in caplog.records] == ["few descriptors"] * warned


@pytest.mark.parametrize(
    ("soft", "hard", "after"),
    [(256, 512, 512), (1024, 1 << 20, 4096), (1024, resource.RLIM_INFINITY, 4096), (8192, 1 << 20, 8192), (64, 64, 64)],
)
def test_the_soft_limit_is_raised(monkeypatch: pytest.MonkeyPatch, soft: int, hard: int, after: int) -> None:
    """The soft limit is raised to the hard limit or to a bound, and never lowered."""
    limits = [(soft, hard)]
    monkeypatch.setattr(resource, "getrlimit", lambda _what: limits[-1])
    monkeypatch.setattr(resource, "setrlimit", lambda _what, pair: limits.append(pair))
    assert connection_slots.raise_soft_limit() == min(after, bounds.MOST_DESCRIPTORS)
    assert limits[-1] == (after, hard)
