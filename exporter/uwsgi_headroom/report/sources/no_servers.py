"""Explains why a Prometheus has no servers to review."""

from __future__ import annotations

from uwsgi_headroom.errors import HeadroomError
from uwsgi_headroom.report.sources.explain import PrometheusError
from uwsgi_headroom.report.sources.prometheus_api import PrometheusApi
from uwsgi_headroom.report.sources.server_series import OBSERVED, list_foreign_names
from uwsgi_headroom.report.sources.time_range import TimeRange

_GO_EXPORTER = ("uwsgi_worker_core_busy", "uwsgi_worker_busy", "uwsgi_worker_delta_requests", "uwsgi_worker_cores")


def explain_no_servers(api: PrometheusApi, span: TimeRange) -> HeadroomError:
    """The error of a range without servers. Raises PrometheusError."""
    names = list_foreign_names(api, span.until)
    if OBSERVED in names:  # scraped in the last minutes only
        return HeadroomError(f"{api.url} has too little data yet", ["Wait until an hour has been scraped."])
    if names:
        other = "uwsgi_exporter, the common one in Go" if names.intersection(_GO_EXPORTER) else "another exporter"
        return HeadroomError(
            f"{api.url} has metrics of uWSGI ({len(names)} names), but of {other}: they have no time in service, so "
            "there is nothing to review",
            [
                "Run `uwsgi-headroom serve` beside it and have Prometheus scrape it: most names stay the same.",
                "alerts/MIGRATION.md lists those that differ; alerts/rules/compat-uwsgi-exporter.yaml records them, so "
                "that your dashboards go on working.",
            ],
        )
    details = ["A review needs Prometheus to scrape the exporter; `uwsgi-headroom report --history FILE` does not."]
    try:
        later = api.query_range(OBSERVED, OBSERVED, api.now() // 60 * 60, api.now() // 60 * 60, 60.0)
    except PrometheusError:
        later = []
    if later:
        details = [f"It has data of {len(later)} servers now: is the range right (--range, --until)?"]
    return HeadroomError(f"{api.url} has no metrics of uwsgi-headroom from {span.show()}", details)
