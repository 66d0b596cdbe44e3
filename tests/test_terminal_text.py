"""Bars, sparks and wrapping."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from uwsgi_headroom.terminal_text import bar, downsample, sparkline, wrap


@given(st.floats(0, 1e6), st.floats(0, 1e6), st.integers(1, 40))
def test_a_bar_is_as_long_as_its_part(value: float, of: float, cells: int) -> None:
    """Never longer than its cells; full where the value is all, or more."""
    drawn = bar(value, of, cells)
    assert len(drawn) <= cells
    if 0 < of <= value:
        assert drawn == "█" * cells


def test_a_spark_has_gaps_where_nothing_is_known() -> None:
    """The largest is the highest, unless it is told what is; of nothing there is nothing to draw."""
    assert sparkline([0.0, None, 4.0, 8.0]) == "▁ ▅█"
    assert sparkline([1.0, 20.0], 10.0) == "▁█"
    assert sparkline([0.0, 0.0]) == "▁▁"
    assert sparkline([]) == ""


def test_a_figure_stays_with_its_unit() -> None:
    """43 % is not torn apart."""
    assert wrap("a" * 16 + " 43 % of it", 20) == ["a" * 16, "43 % of it"]


def test_values_are_shrunk_to_means() -> None:
    """Neighbours together, gaps left out of the mean; the newest group is whole, the oldest may not be."""
    assert downsample([1.0, 3.0, None, 5.0], 2) == [2.0, 5.0]
    assert downsample([9.0, 1.0, 3.0, None, None], 3) == [9.0, 2.0, None]
    assert downsample([1.0, 2.0], 5) == [1.0, 2.0]
    assert downsample([], 5) == []
