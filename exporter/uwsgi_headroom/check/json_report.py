"""A verdict for a machine: the server's document, as the exporter's API gives it, over the time it was watched."""

from __future__ import annotations

import json

import msgspec

from uwsgi_headroom.check.judge import Verdict
from uwsgi_headroom.clock import Clock
from uwsgi_headroom.documents import build


def render_json(verdict: Verdict) -> str:
    """The verdict as one JSON document in ASCII."""
    seconds = verdict.figures.window.asked
    document = build.build_server(verdict.watch, Clock(), seconds, (seconds,))
    return json.dumps(msgspec.to_builtins(document, str_keys=True), indent=2)
