"""What the exporter makes of one server, over several scrapes."""

from __future__ import annotations

from collections.abc import Sequence

from tests.support.exposition import Series
from tests.support.hostile.case import Case
from uwsgi_headroom.errors import REASONS


def is_up(series: Series, server: str) -> bool:
    """Whether a scrape says that the server is up."""
    return series["uwsgi_up", (("server", server),)] == 1


def was_up(server: str, scrapes: Sequence[Series]) -> bool:
    """Whether any of the scrapes says that it is up. One that is read too seldom on a busy machine is not up in all."""
    return any(is_up(series, server) for series in scrapes)


def was_read(server: str, scrapes: Sequence[Series]) -> bool:
    """Whether it was read at least once. Only documents of uWSGI servers are samples."""
    samples = scrapes[-1]["uwsgi_exporter_samples_total", (("server", server),)]
    return samples > 0 or was_up(server, scrapes)


def failures(server: str, series: Series) -> set[str]:
    """The reasons for which reads of it failed."""
    name = "uwsgi_exporter_read_errors_total"
    return {reason for reason in REASONS if series[name, (("reason", reason), ("server", server))] > 0}


def has_shown(case: Case, scrapes: Sequence[Series]) -> bool:
    """Whether all that is expected of a server has happened. What must not happen is not asked for."""
    if not case.expected.reasons:
        return was_up(case.name, scrapes)
    return bool(failures(case.name, scrapes[-1])) and was_read(case.name, scrapes) >= case.expected.read
