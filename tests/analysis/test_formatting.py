"""Figures and lists as people read them."""

from __future__ import annotations

import pytest

from uwsgi_headroom.analysis.formatting import numbered


@pytest.mark.parametrize(
    ("numbers", "text"),
    [
        ([3], "worker 3"),
        ([1, 2], "workers 1 and 2"),
        ([1, 2, 3], "workers 1, 2 and 3"),
        (range(1, 9), "workers 1, 2, 3, 4, 5, 6, 7 and 8"),
        (range(1, 10), "workers 1, 2, 3, 4, 5, 6, 7, 8 and 1 more"),
        (range(1, 4097), "workers 1, 2, 3, 4, 5, 6, 7, 8 and 4,088 more"),
    ],
)
def test_a_list_of_workers_stays_short(numbers: list[int], text: str) -> None:
    """At most eight are named, and the noun is in the plural where there are several."""
    assert numbered("worker", numbers) == text
