"""Every error that this package raises on purpose, but for `RunError` of `tune.server`.

A message names what was tried, what was expected and what to do. A message never contains any part of a document:
stats documents contain the headers of requests in service.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, get_args

Reason = Literal[
    "not_found",
    "permission",
    "refused",
    "unreachable",
    "timeout",
    "too_large",
    "truncated",
    "empty",
    "http",
    "not_json",
    "not_uwsgi",
    "internal",
]
"""Why a read failed: all values of the label `reason` of `uwsgi_exporter_read_errors_total`."""

REASONS: tuple[Reason, ...] = get_args(Reason)


LONGEST_MESSAGE = 2000
"""Characters. A message quotes what is wrong, which may be a file of megabytes in the place of a name."""


class HeadroomError(Exception):
    """Base of the errors that a caller may want to catch. `details` are further lines for a person."""

    def __init__(self, message: str, details: Sequence[str] = ()) -> None:
        if len(message) > LONGEST_MESSAGE:
            half = LONGEST_MESSAGE // 2  # it begins with the place and ends with what to do
            message = f"{message[:half]} [{len(message) - 2 * half:,} characters] {message[-half:]}"
        super().__init__(message)
        self.details = details


class ConfigError(HeadroomError):
    """A flag, an environment variable or a line of the configuration file is wrong."""


class AddressError(HeadroomError):
    """A stats address cannot be understood."""


class OutputError(HeadroomError):
    """Standard output or standard error cannot be written."""


class HistoryFileError(HeadroomError):
    """A history file cannot be read or written."""


class ReadError(HeadroomError):
    """A server could not be read this time; `reason` is one of `REASONS`."""

    def __init__(self, reason: Reason, message: str) -> None:
        super().__init__(message)
        self.reason: Reason = reason


class SourceError(ReadError):
    """The stats address gave no bytes, or not all of them."""


class NoSocketError(SourceError):
    """The path of a stats address is there, but it is no socket."""


class StillRunsError(SourceError):
    """Nothing listens at the address now, but the process that served the stats there still runs: it loads its
    application again (`refused`), or its socket file was removed (`not_found`)."""


class NotStartedError(SourceError):
    """Nothing listens at the address, and uWSGI's log says why it does not start. change: what to do, if that is
    known."""

    def __init__(self, reason: Reason, message: str, change: str) -> None:
        super().__init__(reason, message)
        self.change = change


class AccessError(SourceError):
    """The server answers, but wants a login, a client certificate or TLS, or its own certificate is not trusted."""


class StatsError(ReadError):
    """The bytes are not a document that uWSGI writes."""


class DamagedError(StatsError):
    """The bytes are a document of uWSGI, but no JSON, because uWSGI did not escape a name in it."""


class BlindError(StatsError):
    """uWSGI's own stats server answers with nothing: it stops writing at a request in service whose variables it
    cannot parse (`uwsgi_stats_dump_vars` in core/stats.c). pid: of its master here, None if that is not proven."""

    def __init__(self, pid: int | None) -> None:
        super().__init__(
            "empty",
            "uWSGI's stats are empty while it waits for the rest of a request: a client speaks HTTP to uWSGI's "
            "`socket`, or sends no whole request",
        )
        self.pid = pid
