"""Classifies environment variables by name: the exporter's own, misspelt ones, and those that other software sets.

Orchestrators set names with the same prefix. For a service called `uwsgi-headroom`, Kubernetes sets
UWSGI_HEADROOM_SERVICE_HOST, UWSGI_HEADROOM_PORT and so on in every pod of the namespace; for a service called
`uwsgi-headroom-stats`, it sets UWSGI_HEADROOM_STATS_PORT. A pod must start in spite of them. So a name is an error only
if it is similar to one of the exporter's and does not have the form of a service's; other unknown names are logged.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping

from uwsgi_headroom.config.settings import FLAGS, PREFIX
from uwsgi_headroom.errors import ConfigError

_KNOWN = frozenset(setting.variable for setting in FLAGS)

_SERVICE = re.compile(r"(.*_)?(SERVICE_HOST|SERVICE_PORT(_.*)?|PORT(_\d+_(TCP|UDP|SCTP)(_(PROTO|PORT|ADDR))?)?)")
"""The suffixes that Kubernetes and Docker links append to the name of a service."""

_NEAR = 0.8
"""Similarity that counts as misspelt, 0 to 1 by difflib. WINDOWS to WINDOW is 0.92, LISTEN_ADDRESS to
WEB_LISTEN_ADDRESS 0.88; CONFIG_DIR to CONFIG is 0.75, and a different word."""


def unknown(environment: Mapping[str, str]) -> list[str]:
    """Return the variables that have the exporter's prefix but are unknown, sorted."""
    return sorted(name for name in environment if name.startswith(PREFIX) and name not in _KNOWN)


def refuse_misspelt(environment: Mapping[str, str]) -> None:
    """Raise ConfigError if an unknown variable is similar to a known one: its setting would be ignored silently."""
    for name in unknown(environment):
        rest = name.removeprefix(PREFIX)
        near = difflib.get_close_matches(rest.lower(), [setting.name for setting in FLAGS], 1, _NEAR)
        if near and not _SERVICE.fullmatch(rest):
            raise ConfigError(f"unknown environment variable {name}; did you mean {PREFIX}{near[0].upper()}?")
