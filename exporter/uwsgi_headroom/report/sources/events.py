"""The events of a server's journal that matter to a review of weeks."""

from __future__ import annotations

from collections.abc import Mapping

from uwsgi_headroom.journal.events import Kind

SHOWN_KINDS: Mapping[Kind, str] = {
    "reload": "uWSGI was reloaded.",
    "configuration_changed": "The configuration of the server changed.",
    "server_down": "The server went down.",
    "server_up": "The server came up.",
}
"""Kinds with a title for a source that counts events only. Workers' ends are left out, as are the exporter's own
affairs: `reloads`, `respawns` and `covered` are columns."""
