"""What the exporter serves: /metrics, a page for people, the API, two probes. Everything reads, nothing changes
anything."""

from __future__ import annotations

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from uwsgi_headroom.watch.fleet import Fleet
from uwsgi_headroom.web import api_routes, metrics_route, page_routes, runbook_routes
from uwsgi_headroom.web.event_stream import EventStreams


def create_application(fleet: Fleet, streams: EventStreams | None = None) -> Starlette:
    """The ASGI application over a fleet; whoever ends it closes its `streams`."""

    async def alive(_request: Request) -> Response:
        return PlainTextResponse("uwsgi-headroom is up\n")

    return Starlette(
        routes=[
            metrics_route.route(fleet),
            Route("/-/healthy", alive),
            Route("/-/ready", alive),
            *page_routes.routes(fleet),
            *api_routes.routes(fleet, streams or EventStreams()),
            *runbook_routes.ROUTES,
        ]
    )
