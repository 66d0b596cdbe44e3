"""The figures of the demo's server in one line, out of the exporter's metrics."""

from __future__ import annotations

import re

SERVER = "demo"


def status_line(metrics: str) -> str | None:
    """A line of figures out of an exposition, or nothing if it has none yet."""
    shares = [value for _, value in _samples(metrics, "uwsgi_worker_request_share")]
    concurrency = [
        value
        for labels, value in _samples(metrics, "uwsgi_concurrency")
        if (labels["method"], labels["window"]) == ("observed", "1m")
    ]
    available = [value for _, value in _samples(metrics, "uwsgi_threads_available")]
    if not shares or not concurrency or not available:
        return None
    text = f"shares {'/'.join(f'{share:.0%}' for share in shares)}"
    text += f"; concurrency {concurrency[0]:.1f} of {available[0]:.0f} threads"
    room = [
        (value, labels["limit"])
        for labels, value in _samples(metrics, "uwsgi_headroom_ratio")
        if labels["window"] == "1m"
    ]
    if room:
        factor, limit = min(room)
        text += f"; headroom {factor:.1f}x, then {limit.replace('_', ' ')}"
    return text


def _samples(metrics: str, name: str) -> list[tuple[dict[str, str], float]]:
    """The labels and values of a metric of the demo's server."""
    samples = []
    for text, value in re.findall(rf"^{name}\{{(.*)\}} (\S+)", metrics, re.MULTILINE):
        labels = dict(re.findall(r'(\w+)="([^"]*)"', text))
        if labels.get("server") == SERVER:
            samples.append((labels, float(value)))
    return samples
