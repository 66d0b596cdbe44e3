"""Draws throughput and response time against concurrency."""

from __future__ import annotations

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from uwsgi_headroom.report.render.charts.style import BLUE, DIM, GREEN, ORANGE, draw
from uwsgi_headroom.report.review.outlook_model import Curve


def draw_curve(curve: Curve) -> str:
    """Two charts beside each other. Dots: observed, larger for more quarter hours."""

    def paint(figure: Figure) -> None:
        left, right = figure.subplots(1, 2)
        _throughput(left, curve)
        _response_time(right, curve)
        for axes in (left, right):
            axes.set_xlim(left=0)
            axes.set_ylim(bottom=0)
            axes.set_xlabel("threads in service")

    return draw(2.7, paint)


def _sizes(curve: Curve) -> list[float]:
    most = max(point.quarters for point in curve.points)
    return [10 + 40 * point.quarters / most for point in curve.points]


def _throughput(axes: Axes, curve: Curve) -> None:
    across = [point.concurrency for point in curve.points]
    observed = [point.throughput for point in curve.points]
    axes.vlines(
        across,
        [point.throughput_low for point in curve.points],
        [point.throughput_high for point in curve.points],
        color=BLUE,
        linewidth=1,
    )
    axes.scatter(across, observed, s=_sizes(curve), color=BLUE, zorder=3)
    axes.set_title("Requests per second", color=DIM)
    highest = 1.25 * max(observed)
    bounds = [
        (point.concurrency, point.throughput_bound) for point in curve.points if point.throughput_bound is not None
    ]
    if bounds:
        axes.plot([x for x, _ in bounds], [y for _, y in bounds], color=ORANGE, linestyle="--", linewidth=1.2)
        _name(axes, [(x, y) for x, y in bounds if y <= highest], "upper bound", ORANGE, above=True)
    fitted = [(point.concurrency, point.fitted) for point in curve.points if point.fitted is not None]
    if fitted:
        axes.plot([x for x, _ in fitted], [y for _, y in fitted], color=GREEN, linewidth=1.4)
        _name(axes, [(x, 0.82 * y) for x, y in fitted], "scalability law", GREEN, above=False)
    axes.set_ylim(0, highest)


def _response_time(axes: Axes, curve: Curve) -> None:
    known = [
        (point.concurrency, 1000 * point.response_time) for point in curve.points if point.response_time is not None
    ]
    axes.set_title("Response time (ms)", color=DIM)
    if known:
        axes.plot([x for x, _ in known], [y for _, y in known], color=BLUE, marker="o", markersize=4, linewidth=1)
        axes.set_ylim(0, 1.25 * max(y for _, y in known))
    bounds = [
        (point.concurrency, 1000 * point.response_time_bound)
        for point in curve.points
        if point.response_time_bound is not None
    ]
    if bounds:
        axes.plot([x for x, _ in bounds], [y for _, y in bounds], color=ORANGE, linestyle="--", linewidth=1.2)
        _name(axes, bounds, "lower bound", ORANGE, above=False)


def _name(axes: Axes, points: list[tuple[float, float]], text: str, colour: str, *, above: bool) -> None:
    """The name of a line, near the end of it."""
    if points:
        x, y = points[-1]
        axes.annotate(
            text,
            (x, y),
            xytext=(0, 5 if above else -6),
            textcoords="offset points",
            color=colour,
            ha="right",
            va="bottom" if above else "top",
            fontsize=8,
        )
