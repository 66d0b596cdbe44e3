"""Section 6: throughput and response time against concurrency, with asymptotic bounds and the scalability law."""

from __future__ import annotations

from math import isfinite

from uwsgi_headroom.analysis.capacity import LIMITS, Limit
from uwsgi_headroom.analysis.figures import Figures
from uwsgi_headroom.report.columns import Column, ServerData, divide
from uwsgi_headroom.report.review.peaks import use_of
from uwsgi_headroom.report.review.sections import Absent, Curve, CurvePoint, Law
from uwsgi_headroom.report.statistics import Refusal
from uwsgi_headroom.report.statistics.curve import asymptotic_bounds, base_response_time, fit_usl, throughput_curve
from uwsgi_headroom.same_fields import copy_fields

SERVING: tuple[Limit, ...] = LIMITS
"""The limits that bound throughput, those of the headroom: the bound is the load at peak times the headroom. A request
has a demand for threads, too: the time for which it holds one."""

FEWEST_QUARTERS = 20
"""Fewest quarter hours with load for a curve."""


def review_curve(server: ServerData, figures: Figures) -> Curve | Absent:
    """The section about one server. figures: of its quarter hour that counts, which give its largest demand."""
    concurrency, throughput = server.busy, server.requests
    response_time = divide(server.running, server.timed)
    loaded = int(((concurrency > 0) & (throughput > 0)).sum())
    if loaded < FEWEST_QUARTERS:
        return Absent(reason=f"{loaded} quarter hours had any load, and a curve needs {FEWEST_QUARTERS}.")
    found = throughput_curve(concurrency, throughput, response_time, server.covered)
    if not len(found.counts):
        return Absent(reason="How much of the quarter hours was sampled is unknown, so there is no curve.")
    base = base_response_time(concurrency, response_time, throughput)
    bottleneck, demand = _largest_demand(figures)
    bounds = None if isinstance(base, Refusal) or not base > 0 else asymptotic_bounds(found.concurrency, base, demand)
    law = fit_usl(concurrency, throughput, server.covered)
    fitted = None if isinstance(law, Refusal) else law.throughput(found.concurrency)
    points = tuple(
        CurvePoint(
            concurrency=float(found.concurrency[place]),
            throughput=float(found.throughput[place]),
            throughput_low=float(found.throughput_low[place]),
            throughput_high=float(found.throughput_high[place]),
            response_time=_known(found.response_time, place),
            quarters=int(found.counts[place]),
            throughput_bound=_known(bounds.throughput, place) if bounds else None,
            response_time_bound=_known(bounds.response_time, place) if bounds else None,
            fitted=_known(fitted, place),
        )
        for place in range(len(found.counts))
    )
    return Curve(
        server=server.server,
        points=points,
        base_response_time=None if isinstance(base, Refusal) else base,
        bottleneck=bottleneck,
        largest_demand=demand,
        knee=bounds.knee if bounds and isfinite(bounds.knee) else None,
        law=Absent(reason=law.reason) if isinstance(law, Refusal) else copy_fields(Law, law, peak=law.peak_concurrency),
    )


def _largest_demand(figures: Figures) -> tuple[Limit | None, float | None]:
    """The limit with the largest demand, and that demand in seconds per request: utilization over throughput, by the
    utilization law."""
    rate = figures.flow.throughput
    uses = [(use, limit) for limit in SERVING if (use := use_of(figures, limit))]
    if not uses or not rate:
        return None, None
    use, limit = max(uses)
    return limit, use / rate


def _known(values: Column | None, place: int) -> float | None:
    return None if values is None or not isfinite(values[place]) else float(values[place])
