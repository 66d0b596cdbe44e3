"""The exit statuses of each command, for its help and its manual page."""

from __future__ import annotations

from collections.abc import Mapping

EXIT_STATUSES: Mapping[str, tuple[tuple[int, str], ...]] = {
    "serve": ((0, "stopped by SIGINT"), (1, "no server was found"), (2, "a setting is wrong")),
    "check": (
        (0, "OK"),
        (1, "warning"),
        (2, "critical"),
        (3, "unknown: no server could be read, an argument is wrong, or check was interrupted or failed"),
    ),
    "compare": ((0, "there is a comparison"), (1, "there is no answer"), (2, "an argument is wrong")),
    "top": ((0, "you quit, or the snapshot shows every server"), (3, "a server could not be read")),
    "pids": (
        (0, "the workers are listed, with the command for those that you chose"),
        (1, "there is nothing to restart: no such worker or stuck request, or the PIDs are not known"),
        (2, "an argument is wrong"),
    ),
    "report": (
        (0, "the report is written"),
        (1, "nothing is written: the source has no data or cannot be read, or report was interrupted"),
        (2, "an argument is wrong"),
        (3, "a partial report is written, because the source failed halfway"),
    ),
    "tune": (
        (0, "there is a recommendation, if only to keep the present setting"),
        (1, "there is none: the application does not run, nothing is within the limits, or tune was interrupted"),
        (2, "an argument, the ini file or the access log is wrong"),
    ),
    "review": (
        (0, "no setting is known to cause trouble"),
        (1, "a setting will cause trouble, or there is nothing to review"),
        (2, "an argument is wrong"),
    ),
    "hash-password": (
        (0, "the hash is printed"),
        (1, "the Python package bcrypt is missing"),
        (2, "an argument is wrong, or bcrypt would not keep the whole password"),
    ),
    "discover": ((0, "a stats server was found"), (1, "no stats server was found")),
}
"""By command: each status, lowest first, and what it means, as a clause."""


def describe_exit_statuses(command: str) -> str:
    """A heading and a line for each status; empty for a command that returns 0 or 2 like any other."""
    lines = [f"  {status}  {meaning}" for status, meaning in EXIT_STATUSES.get(command, ())]
    return "\n".join(["exit status:", *lines]) if lines else ""
