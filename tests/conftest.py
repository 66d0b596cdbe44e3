"""How tests are spread over processes when they run side by side (`make test`)."""

from __future__ import annotations

import os

import pytest


def pytest_xdist_auto_num_workers(config: pytest.Config) -> int:
    """Twice as many processes as CPUs: half of the tests wait for a server, and do nothing meanwhile."""
    return 2 * len(os.sched_getaffinity(0))


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begin with the tests that wait for real servers, so that none of the long ones is the last."""
    items.sort(key=lambda item: item.get_closest_marker("integration") is None)
