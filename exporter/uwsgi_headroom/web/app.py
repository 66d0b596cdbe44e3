"""What the exporter serves: /metrics, a page for people, two probes. Everything reads, nothing changes anything."""

from __future__ import annotations

import gzip
from collections.abc import Iterator

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
        openmetrics = _accepts_openmetrics(request.headers.get("accept", ""))
        body = render(families(subjects), openmetrics=openmetrics)
        headers = {"Content-Type": OPENMETRICS if openmetrics else TEXT, "Vary": "Accept, Accept-Encoding"}
        if _accepts_gzip(request.headers.get("accept-encoding", "")):
            body = gzip.compress(body, _GZIP_LEVEL, mtime=0)
            headers["Content-Encoding"] = "gzip"
        return Response(body, headers=headers)

    async def index(_request: Request) -> Response:
        html = page.render(await fleet.look(timeout=SCRAPE_TIMEOUT_SECONDS))
        # A socket's name may hold bytes that are no UTF-8.
        return HTMLResponse(html.encode("utf-8", "replace"), headers=page.HEADERS)

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


def _accepts_openmetrics(header: str) -> bool:
    """Whether a client names the one version there is here. (The library's `choose_encoder` raises on some headers.)"""
    return any(
        name == "application/openmetrics-text"
        and parameters.get("version", "1.0.0") == "1.0.0"
        and not _refused(parameters)
        for name, parameters in _accepted(header)
    )


def _accepts_gzip(header: str) -> bool:
    codings = dict(_accepted(header))
    parameters = codings.get("gzip", codings.get("*"))
    return parameters is not None and not _refused(parameters)


def _accepted(header: str) -> Iterator[tuple[str, dict[str, str]]]:
    """What stands in an Accept header or one of its kind: names with their parameters."""
    for entry in header.lower().split(","):
        name, *parameters = (part.strip() for part in entry.split(";"))
        yield name, {key.strip(): value.strip() for key, _, value in (it.partition("=") for it in parameters)}


def _refused(parameters: dict[str, str]) -> bool:
    return parameters.get("q", "1").rstrip("0.") == ""
