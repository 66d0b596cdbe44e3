"""The state of one server in several scrapes of the exporter."""

from __future__ import annotations

from collections.abc import Sequence

from tests.support.hostile.cases import Case
from uwsgi_headroom.errors import REASONS

Series = dict[tuple[str, tuple[tuple[str, str], ...]], float]
"""Values by name and labels (sorted pairs)."""


def is_up(series: Series, server: str) -> bool:
    """Whether a scrape says that the server is up."""
    return series["uwsgi_up", (("server", server),)] == 1


def was_up(server: str, scrapes: Sequence[Series]) -> bool:
    """Whether any scrape says that the server is up. On a busy machine it may be read too rarely to be up in all."""
    return any(is_up(series, server) for series in scrapes)


def was_read(server: str, scrapes: Sequence[Series]) -> bool:
    """Whether the server was read at least once. Only documents of uWSGI servers are samples."""
    samples = scrapes[-1]["uwsgi_exporter_samples_total", (("server", server),)]
    return samples > 0 or was_up(server, scrapes)


def failures(server: str, series: Series) -> set[str]:
    """The reasons why reads of the server failed."""
    name = "uwsgi_exporter_read_errors_total"
    return {reason for reason in REASONS if series[name, (("reason", reason), ("server", server))] > 0}


def has_shown(case: Case, scrapes: Sequence[Series]) -> bool:
    """Whether everything expected of a server has happened. Does not check what must not happen."""
    if not case.expected.reasons:
        return was_up(case.name, scrapes)
    return bool(failures(case.name, scrapes[-1])) and was_read(case.name, scrapes) >= case.expected.read
