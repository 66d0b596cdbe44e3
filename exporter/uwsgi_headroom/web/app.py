"""The ASGI application: /metrics, a page for people, the API, runbooks and two probes. Every route only reads."""

from __future__ import annotations

import msgspec
from starlette.applications import Starlette
from starlette.convertors import register_url_convertor
from starlette.middleware import Middleware
from starlette.requests import ClientDisconnect, Request
from starlette.responses import PlainTextResponse, RedirectResponse, Response
from starlette.routing import Route

from uwsgi_headroom.documents.schema import Problem
from uwsgi_headroom.watch.fleet import Fleet
from uwsgi_headroom.web import api_routes, live_page, metrics_route, runbook_pages
from uwsgi_headroom.web.host_check import HostCheck, HostPolicy
from uwsgi_headroom.web.request_values import RefusedError, TextConvertor
from uwsgi_headroom.web.shared_builds import EventStreams, SharedBuilds

_REDIRECTS = {"/metrics/": "/metrics", "/runbooks": "/runbooks/"}
"""Relative to the host. Starlette's own redirects of slashes would repeat the Host header of the request."""


def create_application(
    fleet: Fleet,
    streams: EventStreams | None = None,
    hosts: HostPolicy | None = None,
    builds: SharedBuilds | None = None,
) -> Starlette:
    """Make the ASGI application of a fleet, for the host names that `hosts` allows. Close `streams` and `builds` before
    shutdown."""
    register_url_convertor("anything", TextConvertor())
    builds = builds or SharedBuilds(fleet.clock, lambda: fleet.reload)

    async def alive(_request: Request) -> Response:
        return PlainTextResponse("uwsgi-headroom is up\n")

    async def redirect(request: Request) -> Response:
        return RedirectResponse(_REDIRECTS[request.url.path])

    application = Starlette(
        routes=[
            *metrics_route.routes(fleet, builds),
            Route("/-/healthy", alive),
            Route("/-/ready", alive),
            *live_page.routes(fleet, builds),
            *api_routes.routes(fleet, streams or EventStreams(), builds),
            *runbook_pages.routes(fleet, builds),
            *(Route(path, redirect) for path in _REDIRECTS),
        ],
        middleware=[Middleware(HostCheck, policy=hosts or HostPolicy())],
        exception_handlers={RefusedError: _refuse, ClientDisconnect: _nobody},
    )
    application.router.redirect_slashes = False
    return application


async def _refuse(request: Request, error: Exception) -> Response:
    assert isinstance(error, RefusedError)
    if request.url.path.startswith("/api/"):
        body = msgspec.json.encode(Problem(error=str(error)))
        return Response(body, error.status, {**api_routes.HEADERS, **error.headers}, "application/json")
    headers = {"Cache-Control": "no-store", "X-Content-Type-Options": "nosniff", **error.headers}
    return PlainTextResponse(f"{error}\n", error.status, headers)


async def _nobody(_request: Request, _error: Exception) -> Response:
    """The client has left: nothing of this response is sent."""
    return Response(status_code=499)
