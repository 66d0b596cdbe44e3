"""Percentiles of the response times of servers and services, from the exporter's histogram.

They are a little coarser than the exporter's own, `uwsgi_response_time_percentile_seconds`: PromQL interpolates between
two bounds of the histogram, and says 60 s for all that takes longer. Use them where the exporter's do not exist: for a
service, and for times that the exporter's windows do not cover.
"""

from __future__ import annotations

from collections.abc import Sequence

from alerts.levels import by_service
from alerts.rule import Recording
from alerts.thresholds import Thresholds
from uwsgi_headroom.analysis.percentiles import SHARES
from uwsgi_headroom.response_times.bins import BUCKET_BOUNDS

_BUCKETS, _COUNT = "uwsgi_response_time_seconds_bucket", "uwsgi_response_time_seconds_count"

COMMON_BUCKETS = 'le=~"{}"'.format(
    "|".join(f"{bound:g}|{bound}" if bound % 1 == 0 else f"{bound:g}" for bound in BUCKET_BOUNDS) + "|[+]Inf"
)
"""Matches the bounds that every server has. The threshold of an objective is another bound of one server: in a sum over
servers, it would lack the requests of the others."""


def rules(t: Thresholds) -> Sequence[Recording]:
    """The rules for servers and services. As in the exporter, a percentile needs one request that is slower."""
    return [_percentile(level, share, t) for level in ("server", "service") for share in SHARES]


def _percentile(level: str, share: float, t: Thresholds) -> Recording:
    w = t.window
    buckets, requests = f"rate({_BUCKETS}[{w}])", f"increase({_COUNT}[{w}])"
    if level == "service":
        buckets = by_service("sum", f"rate({_BUCKETS}{{{COMMON_BUCKETS}}}[{w}])", t)
        requests = by_service("sum", requests, t)
    # Neither side has the label `le`. Without `ignoring`, MetricsQL 1.79 applies the filter of the left side to both.
    return Recording(
        f"{level}:uwsgi_response_time_seconds:p{100 * share:g}_rate{w}",
        f"histogram_quantile({share:g}, {buckets})\nand ignoring (le) round({requests}) >= {round(1 / (1 - share))}",
    )
