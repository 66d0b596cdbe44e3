"""Section 6: the curve."""

from __future__ import annotations

from collections.abc import Iterator

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from uwsgi_headroom.report.render.charts import BLUE, DIM, GREEN, ORANGE, draw, label
from uwsgi_headroom.report.render.document import (
    Block,
    Chart,
    Items,
    Table,
    Text,
    absent,
    amount,
    fine_share,
    limit_name,
    seconds,
    whole,
)
from uwsgi_headroom.report.review.sections import Absent, Curve, Law

INTRODUCTION = (
    "Throughput and response time against the number of requests in service, from all quarter hours of the server that "
    "reaches a limit first. Where throughput stops growing with concurrency, requests only wait longer."
)


def write(curve: Curve) -> Iterator[Block]:
    yield Text(f"Server {curve.server}. {_bounds(curve)}")
    yield Chart(f"Throughput and response time of {curve.server} against concurrency.", lambda: _draw_curve(curve))
    yield Table(
        heads=(
            "threads in service",
            "quarter hours",
            "requests/s",
            "10 to 90 % of them",
            "upper bound",
            "response time",
            "lower bound",
        ),
        rows=[
            (
                amount(point.concurrency),
                whole(point.quarters),
                amount(point.throughput),
                f"{amount(point.throughput_low)} to {amount(point.throughput_high)}",
                amount(point.throughput_bound),
                seconds(point.response_time),
                seconds(point.response_time_bound),
            )
            for point in curve.points
        ],
        caption="Observed, by concurrency. Bounds: asymptotic (Denning and Buzen, 1978), for the mix of requests "
        "of the quarter hour that counts.",
        numbers=range(7),
    )
    law = curve.law
    if isinstance(law, Absent):
        yield absent(f"Universal Scalability Law: no fit. {law.reason}")
    else:
        yield Items([*_law(law, _is_above_bound(curve, law)), *_above_bound(curve, law)])


def _bounds(curve: Curve) -> str:
    if curve.base_response_time is None:
        return "The response time at little load is not known, so there are no bounds."
    text = f"At little load a request takes {seconds(curve.base_response_time)}"
    if curve.bottleneck is None or curve.largest_demand is None:
        return f"{text}. The demand at the bottleneck is not known, so throughput has no upper bound here."
    text += f", and {seconds(curve.largest_demand)} of it at the bottleneck ({limit_name(curve.bottleneck)})"
    knee = "" if curve.knee is None else f", and from {amount(curve.knee)} requests in service on they must wait"
    return f"{text}: throughput is at most {amount(1 / curve.largest_demand)} requests a second{knee}."


def _law(law: Law, is_above_bound: bool) -> Iterator[str]:
    """The fit in words. is_above_bound: whether the most throughput that it extrapolates is not given: there is one
    maximum, and the bound is lower."""
    rate, low, high = law.rate
    yield (
        f"Universal Scalability Law: {amount(rate)} requests a second for one at a time ({amount(low)} to "
        f"{amount(high)}), contention {_interval(law.contention)}, coherency {_interval(law.coherency)}; the residuals "
        f"are {fine_share(law.error)} of the throughput."
    )
    if law.peak is not None:
        peak, low, high = law.peak
        most = (
            ""
            if law.most_throughput is None or is_above_bound
            else f", of {amount(law.most_throughput[0])} requests a second"
        )
        where = " This is beyond what was observed, so it is an extrapolation." if law.beyond_data else ""
        yield f"Most throughput{most}, at {amount(peak)} requests in service ({amount(low)} to {amount(high)}).{where}"
    elif law.most_throughput is not None and not is_above_bound:
        where = " This is beyond what was observed, so it is an extrapolation." if law.beyond_data else ""
        yield f"Throughput approaches {amount(law.most_throughput[0])} requests a second.{where}"
    yield from law.notes


def _above_bound(curve: Curve, law: Law) -> Iterator[str]:
    if curve.largest_demand and _is_above_bound(curve, law):
        yield (
            f"The upper bound of {amount(1 / curve.largest_demand)} requests a second at the bottleneck is lower than "
            "what the law extrapolates, and holds."
        )


def _is_above_bound(curve: Curve, law: Law) -> bool:
    return bool(law.most_throughput and curve.largest_demand and law.most_throughput[0] > 1 / curve.largest_demand)


def _interval(estimate: tuple[float, float, float]) -> str:
    return f"{estimate[0]:.2g} ({estimate[1]:.2g} to {estimate[2]:.2g})"


def _draw_curve(curve: Curve) -> str:
    """Two charts beside each other. Dots: observed, larger for more quarter hours."""

    def paint(figure: Figure) -> None:
        left, right = figure.subplots(1, 2)
        _draw_throughput(left, curve)
        _draw_response_time(right, curve)
        for axes in (left, right):
            axes.set_xlim(left=0)
            axes.set_ylim(bottom=0)
            axes.set_xlabel("threads in service")

    return draw(2.7, paint)


def _draw_throughput(axes: Axes, curve: Curve) -> None:
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
        _name_line(axes, [(x, y) for x, y in bounds if y <= highest], "upper bound", ORANGE, above=True)
    fitted = [(point.concurrency, point.fitted) for point in curve.points if point.fitted is not None]
    if fitted:
        axes.plot([x for x, _ in fitted], [y for _, y in fitted], color=GREEN, linewidth=1.4)
        _name_line(axes, [(x, 0.82 * y) for x, y in fitted], "scalability law", GREEN, above=False)
    axes.set_ylim(0, highest)


def _draw_response_time(axes: Axes, curve: Curve) -> None:
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
        _name_line(axes, bounds, "lower bound", ORANGE, above=False)


def _sizes(curve: Curve) -> list[float]:
    most = max(point.quarters for point in curve.points)
    return [10 + 40 * point.quarters / most for point in curve.points]


def _name_line(axes: Axes, points: list[tuple[float, float]], text: str, colour: str, *, above: bool) -> None:
    if points:
        x, y = points[-1]
        label(
            axes,
            text,
            (x, y),
            (0, 5 if above else -6),
            color=colour,
            ha="right",
            va="bottom" if above else "top",
            fontsize=8,
        )
