"""The exporter itself."""

from __future__ import annotations

import platform
from collections.abc import Mapping, Sequence

from uwsgi_headroom import __version__
from uwsgi_headroom.errors import REASONS
from uwsgi_headroom.metrics.family import Rows, Scrape, Subjects, each_found, each_part, label_set
from uwsgi_headroom.watch.observation import (
    NOT_WATCHED,
    ExporterHealth,
    HistoryHealth,
    LastReload,
    NotWatched,
    Observation,
    Pattern,
)
from uwsgi_headroom.watch.tasks import TASKS

READS: Rows[Observation] = {
    "uwsgi_exporter_read_errors_total{reason}": (
        "Failed reads of a stats server, by reason.",
        lambda server: {reason: server.read_errors.get(reason, 0) for reason in REASONS},
    ),
    "uwsgi_exporter_sampling_duty_ratio": (
        "Share of the time spent reading the server, from the first to the last byte of a document; the interval "
        "stretches up to 4 s to keep this share below 0.01.",
        lambda server: server.pace.duty,
    ),
    "uwsgi_exporter_sampling_interval_seconds": (
        "Mean time from one sample to the next: as configured, or longer to keep within the budget.",
        lambda server: server.pace.interval,
    ),
}


def each_exporter(scrape: Scrape) -> Subjects[ExporterHealth]:
    return [(label_set(), scrape.health)]


EXPORTER: Rows[ExporterHealth] = {
    "uwsgi_exporter_build_info{version,python_version}": (
        "Version of the exporter and of its Python; always 1.",
        lambda _: {(__version__, platform.python_version()): 1},
    ),
    "uwsgi_exporter_loop_lag_seconds": (
        "Largest delay of the exporter's event loop in the last 30 to 60 s. A large delay means too little CPU, or too "
        "much work.",
        lambda health: health.loop_lag,
    ),
    "uwsgi_exporter_restarted_tasks_total{task}": (
        "Restarts of the exporter's background tasks after an unexpected end, by task.",
        lambda health: {task: health.restarts.get(task, 0) for task in TASKS},
    ),
    "uwsgi_exporter_servers_not_watched{reason}": (
        "uWSGIs of this machine that are not watched, by reason: rights (the exporter may not see what they do), "
        "not_configured, unreadable (now), limit (more than 20 of one user, or 200 in all). Absent before the "
        "first look.",
        lambda health: _count(health.not_watched),
    ),
}


def _count(found: Sequence[NotWatched] | None) -> Mapping[str, int]:
    numbers = {each.reason: each.number for each in found or ()}
    return {} if found is None else {reason: numbers.get(reason, 0) for reason in NOT_WATCHED}


each_pattern = each_part(each_exporter, "pattern", lambda health: [(each.pattern, each) for each in health.patterns])

PATTERN: Rows[Pattern] = {
    "uwsgi_exporter_pattern_servers{state}": (
        "Servers of a pattern by state: found (its socket is there and watched), expected (how many there should be), "
        "missing (an expected server, watched by its name, whose socket is not there), left_out (a socket that is not "
        "watched, because there are more than max_servers). Absent without patterns.",
        lambda servers: {state: getattr(servers, state) for state in ("found", "expected", "missing", "left_out")},
    ),
}


each_reload = each_found(each_exporter, lambda health: health.reload)

RELOAD: Rows[LastReload] = {
    "uwsgi_exporter_config_last_reload_successful": (
        "Whether the last reload of the configuration was applied; 1 until the first one. The log says why not.",
        lambda reload: reload.is_successful,
    ),
    "uwsgi_exporter_config_last_reload_success_timestamp_seconds": (
        "When the configuration was last applied, at the start or by a reload, in seconds since the epoch.",
        lambda reload: reload.succeeded_at,
    ),
}


each_history = each_found(each_exporter, lambda health: health.history)

HISTORY: Rows[HistoryHealth] = {
    "uwsgi_exporter_history_written": (
        "Whether the last attempt to write to the history file succeeded; the exporter's log and page say why not. "
        "Absent without `--history`.",
        lambda history: history.is_written,
    ),
    "uwsgi_exporter_history_size_bytes": (
        "Bytes of the history file that are in use. Absent without `--history`.",
        lambda history: history.size,
    ),
    "uwsgi_exporter_history_dropped_minutes_total": (
        "Records that are missing from the history file, because it could not be written for too long: a minute of "
        "one server each. Absent without `--history`.",
        lambda history: history.dropped,
    ),
}
