"""Formats what the demo prints while it runs: the verdict on its server, and a line of figures."""

from __future__ import annotations

import json
from typing import Any

from uwsgi_headroom.words.formats import factor, mean_count, percent
from uwsgi_headroom.words.states import LIMITS

SERVER = "demo"
PATH = f"/api/v1/servers/{SERVER}"
"""Path of the exporter's API document of the demo's server."""


def verdict(text: str | None) -> str | None:
    """Returns the severity and verdict from a server's document, or None if the document has no figures yet."""
    document = _read(text)
    if document is None:
        return None
    if document["state"] == "down":
        return "DOWN: the server cannot be read."
    return f"{document['status'].upper()}: {document['verdict']}" if document["flow"] else None


def figures(text: str | None) -> str | None:
    """Returns a line of figures from a server's document, or None if the server is down or has no figures yet."""
    document = _read(text)
    if document is None or document["state"] == "down" or not document["flow"]:
        return None
    shares = [worker["share"] for worker in document["workers"] if worker["share"] is not None]
    busy, available = document["flow"]["observed"], document["threads"]["available"]
    parts = [f"shares {'/'.join(map(percent, shares)).replace(' ', '')}"] if shares else []
    if busy is not None and available is not None:
        parts.append(f"{mean_count(busy)} of {available} threads busy")
    headroom = document["headroom"]
    if headroom["factor"] is not None and headroom["first"]:
        parts.append(f"headroom {factor(headroom['factor'])}, first limit: {LIMITS[headroom['first']].name}")
    return "; ".join(parts) or None


def _read(text: str | None) -> dict[str, Any] | None:
    document: dict[str, Any] | None = json.loads(text) if text else None
    return document
