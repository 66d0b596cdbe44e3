"""What the exporter serves: /metrics, a page for people, two probes. Everything reads, nothing changes anything."""

from __future__ import annotations

import gzip

from prometheus_client.exposition import choose_encoder
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import HTMLResponse, PlainTextResponse, Response
from starlette.routing import Route

from uwsgi_headroom.fleet import Fleet
from uwsgi_headroom.metrics import families
from uwsgi_headroom.metrics.text import OPENMETRICS, TEXT, render
from uwsgi_headroom.web import page

SCRAPE_TIMEOUT_SECONDS = 10.0
"""Prometheus' own default, for whoever does not say how long it waits."""

_GZIP_LEVEL = 1
"""Level 6 makes the answer a fifth smaller and costs three times the CPU: the wrong trade beside a busy server."""


def application(fleet: Fleet) -> Starlette:
    """The ASGI application over a fleet."""

    async def metrics(request: Request) -> Response:
        subjects = await fleet.look(timeout=_patience(request.headers.get("x-prometheus-scrape-timeout-seconds", "")))
        _encoder, kind = choose_encoder(request.headers.get("accept", ""))
        openmetrics = kind.startswith("application/openmetrics-text")
        body = render(families(subjects), openmetrics=openmetrics)
        headers = {"Content-Type": OPENMETRICS if openmetrics else TEXT, "Vary": "Accept, Accept-Encoding"}
        if _accepts_gzip(request.headers.get("accept-encoding", "")):
            body = gzip.compress(body, _GZIP_LEVEL, mtime=0)
            headers["Content-Encoding"] = "gzip"
        return Response(body, headers=headers)

    async def index(_request: Request) -> Response:
        subjects = await fleet.look(timeout=SCRAPE_TIMEOUT_SECONDS)
        return HTMLResponse(page.render(subjects), headers=page.HEADERS)

    async def alive(_request: Request) -> Response:
        return PlainTextResponse("uwsgi-headroom is up\n")

    return Starlette(
        routes=[
            Route("/metrics", metrics),
            Route("/", index),
            Route("/-/healthy", alive),
            Route("/-/ready", alive),
        ]
    )


def _patience(header: str) -> float:
    """How long a scrape may wait for servers: what Prometheus grants, less the time to answer in."""
    try:
        granted = float(header)
    except ValueError:
        granted = SCRAPE_TIMEOUT_SECONDS
    if not 0 < granted < 3600:
        granted = SCRAPE_TIMEOUT_SECONDS
    return max(granted - 0.5, granted * 0.8)


def _accepts_gzip(header: str) -> bool:
    for coding in header.lower().split(","):
        name, _, quality = coding.partition(";")
        if name.strip() in ("gzip", "*"):
            return quality.replace(" ", "").rstrip("0.") != "q="
    return False
