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
    "compare": ((0, "the comparison was printed"), (1, "no comparison is possible"), (2, "an argument is wrong")),
    "top": ((0, "you quit, or top printed a snapshot with every server"), (3, "a server could not be read")),
    "pids": (
        (0, "the workers were listed, and the command that restarts the chosen ones was printed"),
        (1, "nothing can be restarted: no such worker, no stuck request, or the PIDs are not known"),
        (2, "an argument is wrong"),
    ),
    "report": (
        (0, "the report was written"),
        (1, "no report was written: the source has no data, it cannot be read, or the command was interrupted"),
        (2, "an argument is wrong"),
        (3, "a partial report was written, because the source failed halfway"),
    ),
    "tune": (
        (0, "tune recommends a setting, which may be the present setting"),
        (
            1,
            "tune recommends nothing: the application does not run, the machine is too busy, or tune was interrupted",
        ),
        (2, "an argument, the ini file or the access log is wrong"),
    ),
    "review": (
        (0, "no setting is certain to cause trouble (some may)"),
        (1, "a setting is certain to cause trouble, or there is no uWSGI or file to review"),
        (2, "an argument is wrong"),
    ),
    "hash-password": (
        (0, "the hash was printed"),
        (1, "the Python package bcrypt is missing"),
        (2, "an argument is wrong, or the password is longer than bcrypt can hash"),
    ),
    "discover": ((0, "a stats server was found"), (1, "no stats server was found")),
}
"""By command: each status, lowest first, and what it means, as a clause."""


def describe_exit_statuses(command: str) -> str:
    """A heading and a line for each status; empty for a command that returns 0 or 2 like any other."""
    lines = [f"  {status}  {meaning}" for status, meaning in EXIT_STATUSES.get(command, ())]
    return "\n".join(["exit status:", *lines]) if lines else ""
