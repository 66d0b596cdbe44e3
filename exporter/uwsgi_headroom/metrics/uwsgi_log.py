"""uWSGI's log: known messages, and how much of it was read. Only servers whose log is configured have samples."""

from __future__ import annotations

from collections.abc import Iterator

from prometheus_client.metrics_core import Metric

from uwsgi_headroom.metrics.family import counter, gauge
from uwsgi_headroom.metrics.scrape import Scrape, labels_of


def families(scrape: Scrape) -> Iterator[Metric]:
    """Build this module's families; none if no log is configured."""
    logs = [(labels, observation, observation.log) for labels, observation in scrape.observations if observation.log]
    if not logs:
        return
    yield counter(
        "uwsgi_log_messages_total",
        "Lines of uWSGI's log with a known message, by message, since the exporter started; docs/log.md has them all. "
        "A lower bound while bytes are skipped. The application can write such lines too. Absent until the first one.",
        [
            (labels_of(observation, message=code), count)
            for _, observation, log in logs
            for code, count in sorted(log.messages.items())
        ],
    )
    yield counter(
        "uwsgi_log_lines_total",
        "Lines of uWSGI's log that were read, known or not. Absent if no log is configured.",
        [(labels, log.lines) for labels, _, log in logs],
    )
    yield counter(
        "uwsgi_log_skipped_bytes_total",
        "Bytes of uWSGI's log that were not read, because it grew by more than 5 MB a second, or reading all logs took "
        "more than 2 % of a CPU. Absent if no log is configured.",
        [(labels, log.skipped_bytes) for labels, _, log in logs],
    )
    yield gauge(
        "uwsgi_log_up",
        "Whether uWSGI's log is read: 0 if there is no such file, if it is no regular file, if this user may not "
        "read it, or if `journalctl` does not run. Absent if no log is configured.",
        [(labels, float(log.is_read)) for labels, _, log in logs],
    )
