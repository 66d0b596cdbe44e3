"""A verdict for a machine: JSON. Keys are the words of the figures; what is not known is null."""

from __future__ import annotations

from dataclasses import asdict

import msgspec

from uwsgi_headroom.check import Verdict
from uwsgi_headroom.check.text import sentence


def render(verdict: Verdict) -> str:
    """The verdict as one JSON document."""
    figures = verdict.figures
    document = {
        "server": verdict.name,
        "address": verdict.address,
        "status": ("ok", "warning", "critical")[verdict.status],
        "verdict": sentence(verdict),
        "uwsgi_version": verdict.reading.snapshot.version,
        "threads": {"configured": figures.configured, "available": figures.available},
        "flow": asdict(figures.flow),
        "headroom": {
            "ratio": figures.headroom.factor,
            "first": figures.headroom.first,
            "ceiling": figures.headroom.ceiling,
            "by_limit": figures.headroom.by_limit,
        },
        "balance": asdict(figures.balance),
        "window": asdict(figures.window),
        "findings": [asdict(finding) for finding in verdict.findings],
    }
    return msgspec.json.format(msgspec.json.encode(document), indent=2).decode()
