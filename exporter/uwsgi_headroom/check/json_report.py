"""Writes verdicts for a machine: each server's document, as in the exporter's API, over the time it was watched."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence

import msgspec

from uwsgi_headroom import __version__
from uwsgi_headroom.check.exit_status import find_worst
from uwsgi_headroom.check.summary import count_statuses
from uwsgi_headroom.documents.schema import Server


def render_json(judged: Sequence[Server], *, single: bool) -> str:
    """Write one JSON document in ASCII: the server's own if the request names a single server, else a list with the
    worst status."""
    if single:
        return json.dumps(_to_builtins(judged[0]), indent=2)
    whole = {
        "time": time.time(),
        "version": __version__,
        "status": find_worst(server.status for server in judged),
        "verdict": count_statuses(judged),
        "servers": [_to_builtins(server) for server in judged],
    }
    return json.dumps(whole, indent=2)


def _to_builtins(server: Server) -> object:
    return msgspec.to_builtins(server, str_keys=True)
