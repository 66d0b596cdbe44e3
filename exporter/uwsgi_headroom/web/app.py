"""What the exporter serves: /metrics, a page for people, the API, two probes. Everything reads, nothing changes
anything."""

from __future__ import annotations

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from uwsgi_headroom.metrics import families
from uwsgi_headroom.metrics.exposition import OPENMETRICS, TEXT, render_families
from uwsgi_headroom.watch.fleet import Fleet
from uwsgi_headroom.web import api_routes, page_routes, runbook_routes
from uwsgi_headroom.web.event_stream import EventStreams
from uwsgi_headroom.web.negotiation import accepts_openmetrics, compressible_response

SCRAPE_TIMEOUT_SECONDS = 10.0
"""Prometheus' own default, for whoever does not say how long it waits."""


def create_application(fleet: Fleet, streams: EventStreams | None = None) -> Starlette:
    """The ASGI application over a fleet; whoever ends it closes its `streams`."""

    async def metrics(request: Request) -> Response:
        observations = await fleet.read_all(
            timeout=_scrape_timeout(request.headers.get("x-prometheus-scrape-timeout-seconds", ""))
        )
        openmetrics = accepts_openmetrics(request.headers.get("accept", ""))
        body = render_families(families(observations), openmetrics=openmetrics)
        headers = {"Content-Type": OPENMETRICS if openmetrics else TEXT, "Vary": "Accept, Accept-Encoding"}
        return compressible_response(request, body, headers)

    async def alive(_request: Request) -> Response:
        return PlainTextResponse("uwsgi-headroom is up\n")

    return Starlette(
        routes=[
            Route("/metrics", metrics),
            Route("/-/healthy", alive),
            Route("/-/ready", alive),
            *page_routes.routes(fleet),
            *api_routes.routes(fleet, streams or EventStreams()),
            *runbook_routes.ROUTES,
        ]
    )


def _scrape_timeout(header: str) -> float:
    """How long a scrape may wait for servers: what Prometheus grants, less the time to answer in."""
    try:
        granted = float(header)
    except ValueError:
        granted = SCRAPE_TIMEOUT_SECONDS
    if not 0 < granted < 3600:
        granted = SCRAPE_TIMEOUT_SECONDS
    return max(granted - 0.5, granted * 0.8)
