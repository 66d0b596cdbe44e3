"""Section 6: throughput and response time against concurrency, with asymptotic bounds and the scalability law."""

from __future__ import annotations

from math import isfinite

import numpy as np

from uwsgi_headroom.analysis.capacity import Limit
from uwsgi_headroom.analysis.figures import Figures
from uwsgi_headroom.report.model import Column, ServerData
from uwsgi_headroom.report.review.model import Absent
from uwsgi_headroom.report.review.outlook_model import Curve, CurvePoint, Law
from uwsgi_headroom.report.review.peaks import use_of
from uwsgi_headroom.report.statistics.asymptotic_bounds import Bounds, asymptotic_bounds, base_response_time
from uwsgi_headroom.report.statistics.curve import throughput_curve
from uwsgi_headroom.report.statistics.refusal import Refusal
from uwsgi_headroom.report.statistics.usl import Estimate, Usl, fit_usl

SERVING: tuple[Limit, ...] = ("hottest_interpreter", "interpreters", "cpu")
"""The limits that serve requests, so that a request has a demand for them. Threads only hold requests."""

FEWEST_QUARTERS = 20
"""Fewest quarter hours with load for a curve."""


def review_curve(server: ServerData, figures: Figures) -> Curve | Absent:
    """The section about one server. figures: of its quarter hour that counts, which give its largest demand."""
    concurrency, throughput = server.busy, server.requests
    timed = throughput - np.nan_to_num(server.static)
    response_time: Column = np.divide(server.running, timed, out=np.full(len(timed), np.nan), where=timed > 0)
    loaded = int(((concurrency > 0) & (throughput > 0)).sum())
    if loaded < FEWEST_QUARTERS:
        return Absent(reason=f"{loaded} quarter hours had any load, and a curve needs {FEWEST_QUARTERS}.")
    found = throughput_curve(concurrency, throughput, response_time, server.covered)
    if not len(found.counts):
        return Absent(reason="How much of the quarter hours was sampled is unknown, so there is no curve.")
    base = base_response_time(concurrency, response_time, throughput)
    bottleneck, demand = largest_demand(figures)
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
        knee=_knee(bounds),
        law=Absent(reason=law.reason) if isinstance(law, Refusal) else _law(law),
    )


def largest_demand(figures: Figures) -> tuple[Limit | None, float | None]:
    """The limit with the largest demand, and that demand in seconds per request: utilization over throughput, by the
    utilization law."""
    rate = figures.flow.throughput
    uses = [(use, limit) for limit in SERVING if (use := use_of(figures, limit))]
    if not uses or not rate:
        return None, None
    use, limit = max(uses)
    return limit, use / rate


def _knee(bounds: Bounds | None) -> float | None:
    return bounds.knee if bounds is not None and isfinite(bounds.knee) else None


def _known(values: Column | None, place: int) -> float | None:
    return None if values is None or not isfinite(values[place]) else float(values[place])


def _law(law: Usl) -> Law:
    return Law(
        rate=_estimate(law.rate),
        contention=_estimate(law.contention),
        coherency=_estimate(law.coherency),
        error=law.error,
        explained=law.explained,
        peak=_estimate(law.peak_concurrency) if law.peak_concurrency else None,
        most_throughput=_estimate(law.most_throughput) if law.most_throughput else None,
        beyond_data=law.beyond_data,
        notes=law.notes,
    )


def _estimate(found: Estimate) -> tuple[float, float, float]:
    return float(found.value), float(found.low), float(found.high)
