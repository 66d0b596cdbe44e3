"""The ASGI application: /metrics, a page for people, the API, runbooks and two probes. Every route only reads."""

from __future__ import annotations

from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import PlainTextResponse, RedirectResponse, Response
from starlette.routing import Route

from uwsgi_headroom.watch.fleet import Fleet
from uwsgi_headroom.web import api_routes, metrics_route, page_routes, probe_route, runbook_routes
from uwsgi_headroom.web.event_stream import EventStreams
from uwsgi_headroom.web.host_check import HostCheck, HostPolicy

_REDIRECTS = {"/metrics/": "/metrics", "/runbooks": "/runbooks/", "/servers": "/"}
"""Relative to the host. Starlette's own redirects of slashes would repeat the Host header of the request."""


def create_application(fleet: Fleet, streams: EventStreams | None = None, hosts: HostPolicy | None = None) -> Starlette:
    """Make the ASGI application of a fleet, for the host names that `hosts` allows. Close `streams` before shutdown."""

    async def alive(_request: Request) -> Response:
        return PlainTextResponse("uwsgi-headroom is up\n")

    async def redirect(request: Request) -> Response:
        return RedirectResponse(_REDIRECTS[request.url.path])

    application = Starlette(
        routes=[
            metrics_route.route(fleet),
            *probe_route.routes(fleet),
            Route("/-/healthy", alive),
            Route("/-/ready", alive),
            *page_routes.routes(fleet),
            *api_routes.routes(fleet, streams or EventStreams()),
            *runbook_routes.routes(fleet),
            *(Route(path, redirect) for path in _REDIRECTS),
        ],
        middleware=[Middleware(HostCheck, policy=hosts or HostPolicy())],
    )
    application.router.redirect_slashes = False
    return application
