"""The exporter itself."""

from __future__ import annotations

import platform
from collections.abc import Iterator

from prometheus_client.metrics_core import Metric
from prometheus_client.process_collector import ProcessCollector

from uwsgi_headroom import __version__
from uwsgi_headroom.errors import REASONS
from uwsgi_headroom.metrics.family import Scrape, counter, gauge, label_each, label_set
from uwsgi_headroom.watch.tasks import TASKS

_process = ProcessCollector(registry=None)


def families(scrape: Scrape) -> Iterator[Metric]:
    """Build this module's families: the exporter's version, its errors, and its cost (`process_*`)."""
    yield gauge(
        "uwsgi_exporter_build_info",
        "Version of the exporter and of its Python; always 1.",
        [(label_set(version=__version__, python_version=platform.python_version()), 1.0)],
    )
    yield counter(
        "uwsgi_exporter_read_errors_total",
        "Failed reads of a stats server, by reason.",
        [
            (labels, observation.read_errors.get(reason, 0))
            for _, observation in scrape.observations
            for labels, reason in zip(label_each(observation, "reason", REASONS), REASONS, strict=True)
        ],
    )
    yield gauge(
        "uwsgi_exporter_sampling_duty_ratio",
        "Share of the time spent reading the server, from the first to the last byte of a document; the interval "
        "stretches up to 4 s to keep this share below 0.01.",
        [(labels, observation.pace.duty) for labels, observation in scrape.observations],
    )
    yield gauge(
        "uwsgi_exporter_sampling_interval_seconds",
        "Mean time from one sample to the next: as configured, or longer to keep within the budget.",
        [(labels, observation.pace.interval) for labels, observation in scrape.observations],
    )
    yield gauge(
        "uwsgi_exporter_loop_lag_seconds",
        "Largest delay of the exporter's event loop in the last 30 to 60 s. A large delay means too little CPU, or too "
        "much work.",
        [(label_set(), scrape.health.loop_lag)],
    )
    yield counter(
        "uwsgi_exporter_restarted_tasks_total",
        "Restarts of the exporter's background tasks after an unexpected end, by task.",
        [(label_set(task=task), scrape.health.restarts.get(task, 0)) for task in TASKS],
    )
    if patterns := scrape.health.patterns:
        yield gauge(
            "uwsgi_exporter_pattern_servers",
            "Servers of a pattern by state: found (its socket is there and watched), expected (how many there should "
            "be), missing (an expected server, watched by its name, whose socket is not there), left_out (a socket "
            "that is not watched, because there are more than max_servers). Absent without patterns.",
            [
                (label_set(pattern=servers.pattern, state=state), float(getattr(servers, state)))
                for servers in patterns
                for state in ("found", "expected", "missing", "left_out")
            ],
        )
    if reload := scrape.health.reload:
        yield gauge(
            "uwsgi_exporter_config_last_reload_successful",
            "Whether the last reload of the configuration was applied; 1 until the first one. The log says why not.",
            [(label_set(), float(reload.is_successful))],
        )
        yield gauge(
            "uwsgi_exporter_config_last_reload_success_timestamp_seconds",
            "When the configuration was last applied, at the start or by a reload, in seconds since the epoch.",
            [(label_set(), reload.succeeded_at)],
        )
    if history := scrape.health.history:
        yield gauge(
            "uwsgi_exporter_history_written",
            "Whether the last attempt to write to the history file succeeded; the exporter's log and page say why not. "
            "Absent without `--history`.",
            [(label_set(), float(history.is_written))],
        )
        yield gauge(
            "uwsgi_exporter_history_size_bytes",
            "Bytes of the history file that are in use. Absent without `--history`.",
            [(label_set(), float(history.size))],
        )
        yield counter(
            "uwsgi_exporter_history_dropped_minutes_total",
            "Records that are missing from the history file, because it could not be written for too long: a minute of "
            "one server each. Absent without `--history`.",
            [(label_set(), float(history.dropped))],
        )
    yield from _process.collect()
