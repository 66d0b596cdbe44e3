"""Builds the sections about response times inside uWSGI, and about the service level objective."""

from __future__ import annotations

from msgspec import Struct

from uwsgi_headroom.analysis.objective import Burn, Level, ObjectiveFigures
from uwsgi_headroom.analysis.percentiles import ResponseTimes as Figures
from uwsgi_headroom.same_fields import copy_fields


class Percentile(Struct, frozen=True, kw_only=True):
    """A percentile of the response times in seconds. share: of the requests that are not slower, such as 0.95. seconds:
    the estimate; null if the samples only show that it is below `under`. low, high: in 19 of 20 cases, the percentile
    is between them; low is 0 where the samples show no lower bound."""

    share: float
    seconds: float | None
    low: float
    high: float
    under: float | None = None


class ResponseTimes(Struct, frozen=True, kw_only=True):
    """Response times inside uWSGI over the window, without the wait in a listen queue and without static files; or the
    waits in listen queues, of all requests. requests: completed. interval: seconds between two samples, on which it
    depends what can be known. A percentile with too few requests (the 99th needs 100) is missing."""

    requests: int
    interval: float
    percentiles: tuple[Percentile, ...]


class Objective(Struct, frozen=True, kw_only=True):
    """The service level objective of the server: a share `objective` of the requests should finish within `threshold`
    seconds. windows: the short one (5 minutes) and the long one (1 hour). level: how fast the error budget burns in all
    windows, fast (at least 14.4 times) or slow (at least 6 times), else null. unjudged: why it is not judged, as a
    sentence, else null. queue_wait: the mean wait in the listen queue over the window; the count of bad requests
    includes it. load_multiple: at what multiple of the present load the 95th percentile crosses the threshold.
    load_multiple_reached: whether the last hour had such a load; if not, load_multiple is the highest that it had, and
    the percentile stayed below the threshold. Both are null if the last hour does not tell, as where the load
    hardly varied."""

    threshold: float
    objective: float
    windows: tuple[Burn, ...]
    level: Level | None
    unjudged: str | None
    queue_wait: float | None
    load_multiple: float | None
    load_multiple_reached: bool | None


def find_percentile(section: ResponseTimes | None, share: float) -> Percentile | None:
    """Find a percentile, such as 0.95; None if it is not known."""
    percentiles = section.percentiles if section else ()
    return next((each for each in percentiles if abs(each.share - share) < 1e-6), None)


def build_response_times(figures: Figures) -> ResponseTimes:
    return ResponseTimes(
        requests=figures.requests,
        interval=figures.interval,
        percentiles=tuple(copy_fields(Percentile, each, share=share) for share, each in figures.percentiles.items()),
    )


def build_objective(figures: ObjectiveFigures, queue_wait: float | None) -> Objective:
    limit = figures.load_limit
    return Objective(
        threshold=figures.slo.threshold,
        objective=figures.slo.objective,
        windows=figures.windows,
        level=figures.level,
        unjudged=figures.unjudged,
        queue_wait=queue_wait,
        load_multiple=limit.multiple if limit else None,
        load_multiple_reached=limit.reached if limit else None,
    )
