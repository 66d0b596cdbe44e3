"""The names of environment variables: ours, misspelt ones of ours, and those that others set.

Orchestration sets names that begin as ours do. For a service called `uwsgi-headroom`, Kubernetes gives every pod beside
it UWSGI_HEADROOM_SERVICE_HOST, UWSGI_HEADROOM_PORT and so on; for one called `uwsgi-headroom-stats`,
UWSGI_HEADROOM_STATS_PORT. A pod must start in spite of them. So only a name that is nearly one of ours, and has not the
form of a service's, is an error; all others that are unknown are for the log.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping

from uwsgi_headroom.errors import ConfigError

PREFIX = "UWSGI_HEADROOM_"

SETTINGS = (
    "stats",
    "config",
    "web_listen_address",
    "web_allowed_hosts",
    "samples_per_second",
    "window",
    "cpu_residency",
    "log_level",
    "log_format",
)
"""What a flag and a variable can set, by the flag's name."""

_KNOWN = tuple(PREFIX + name.upper() for name in SETTINGS)

_SERVICE = re.compile(r"(.*_)?(SERVICE_HOST|SERVICE_PORT(_.*)?|PORT(_\d+_(TCP|UDP|SCTP)(_(PROTO|PORT|ADDR))?)?)")
"""What Kubernetes, and Docker's links, put behind the name of a service."""

_NEAR = 0.8
"""Likeness by difflib, 0 to 1. WINDOWS is like WINDOW by 0.92, LISTEN_ADDRESS like WEB_LISTEN_ADDRESS by 0.88;
CONFIG_DIR like CONFIG by 0.75, which is another word."""


def unknown(environment: Mapping[str, str]) -> list[str]:
    """The variables that begin as ours do and are none of ours, in order."""
    return sorted(name for name in environment if name.startswith(PREFIX) and name not in _KNOWN)


def refuse_misspelt(environment: Mapping[str, str]) -> None:
    """Raise ConfigError if a variable is nearly one of ours: its setting would be ignored silently."""
    for name in unknown(environment):
        rest = name.removeprefix(PREFIX)
        near = difflib.get_close_matches(rest.lower(), SETTINGS, 1, _NEAR)
        if near and not _SERVICE.fullmatch(rest):
            raise ConfigError(f"unknown environment variable {name}; did you mean {PREFIX}{near[0].upper()}?")
