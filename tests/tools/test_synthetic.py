"""Synthetic histories have the answers that they are known for."""

from __future__ import annotations

import numpy as np
import pytest

from tests.support.synthetic import stories
from tests.support.synthetic.plan import DAY, History, Service
from tests.support.synthetic.server import find_load, make_review_data, make_server


def test_the_story_has_83_of_192_threads_in_service_at_its_peak() -> None:
    """So that a report can be held to the figures of the story."""
    servers = make_review_data(stories.story(days=7)).servers
    assert np.nanmax(sum(server.busy for server in servers)) == pytest.approx(83.0)
    assert sum(server.configured[0] for server in servers) == 192


def test_the_hot_worker_of_the_story_has_43_percent_and_costs_time() -> None:
    """Its interpreter is the first limit, and its requests take longer than those of the others."""
    server = make_review_data(stories.story(days=7)).servers[0]
    peak = int(np.nanargmax(server.busy))
    hot, *others = server.by_worker
    assert hot.requests[peak] / server.requests[peak] == pytest.approx(0.43)
    assert hot.cpu[peak] == pytest.approx(0.86, abs=0.01)
    for worker in others:
        assert hot.running[peak] / hot.requests[peak] > 1.4 * worker.running[peak] / worker.requests[peak]


def test_the_parts_of_a_server_add_up() -> None:
    """Workers, wait states, buckets, occupancy and CPUs, in every quarter of an hour."""
    server = make_review_data(stories.interrupted(days=24)).servers[0]
    known = server.covered > 0
    assert known.sum() == 96 * (24 - 4.5)
    assert np.isnan(server.busy[~known]).all()
    for parts, whole in (
        ([worker.busy for worker in server.by_worker], server.busy),
        (server.waits.values(), server.busy),
        (server.by_time, server.requests),
        (server.occupancy, np.ones_like(server.busy)),
        ((server.cpu_own, server.cpu_idle, server.cpu_others), server.cpus),
    ):
        np.testing.assert_allclose(sum(part[known] for part in parts), whole[known])
    assert np.nansum(server.reloads) == 2


def test_growth_is_linear() -> None:
    """A tenth of the last load in 28 days, as asked for."""
    history = stories.growing(days=56)
    load = find_load(history, history.services[0])
    end = history.until - 3 * DAY + 14 * 3600  # a Friday
    four_weeks = load.expected(np.array([end - 28 * DAY, end]))
    assert (four_weeks[1] - four_weeks[0]) / load.scale == pytest.approx(0.10, abs=1e-3)


def test_steps_are_the_same_history_at_other_resolution() -> None:
    """Minutes and quarters of an hour have nearly the same mean, so that both can be compared with a measurement."""
    history = stories.story(days=2)
    minutes, quarters = (make_server(history, history.services[0], 0, step) for step in (60.0, 900.0))
    np.testing.assert_allclose(minutes.busy.reshape(-1, 15).mean(axis=1), quarters.busy, rtol=2e-3)


def test_an_impossible_load_is_an_error() -> None:
    """Not a history that shows something else than was asked for."""
    with pytest.raises(ValueError, match="cannot serve"):
        make_review_data(History(services=(Service(name="small", peak=33.0),), days=1))
