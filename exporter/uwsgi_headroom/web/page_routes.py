"""The routes of the page and of its files. Like the API, they build documents from the watches."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.routing import Route

from uwsgi_headroom.documents import build, schema
from uwsgi_headroom.watch.fleet import Fleet
from uwsgi_headroom.watch.watch import Watch
from uwsgi_headroom.web import assets, page_html
from uwsgi_headroom.web.api_routes import DOCUMENTS
from uwsgi_headroom.web.metrics_route import fleet_state
from uwsgi_headroom.web.shared_builds import Answer, SharedBuilds
from uwsgi_headroom.web.text_convertor import register_text_convertor


def routes(fleet: Fleet, builds: SharedBuilds) -> list[Route]:
    """Make the routes: `/`, a page for each server, and static files."""
    register_text_convertor()

    async def index(request: Request) -> Response:
        watches = fleet.watches()

        async def make() -> bytes:
            servers = await _describe(fleet, watches)
            return _encode(page_html.render_page(servers, len(servers), alone=len(servers) == 1))

        await fleet.wait_for_first(watches)
        answer = await builds.get(DOCUMENTS, "page", fleet_state(fleet), make, request)
        return await _respond(request, answer)

    async def one(request: Request) -> Response:
        watches = fleet.watches()
        watch = next((watch for watch in watches if watch.name == request.path_params["name"]), None)
        if watch is None:
            text = page_html.render_missing(request.path_params["name"])
            return HTMLResponse(_encode(text), 404, page_html.HEADERS)

        async def make() -> bytes:
            return _encode(page_html.render_page(await _describe(fleet, [watch]), len(watches), alone=True))

        await fleet.wait_for_first([watch])
        state = lambda: (watch.reader.attempts, len(watches))  # noqa: E731
        return await _respond(request, await builds.get(DOCUMENTS, ("page", watch), state, make, request))

    async def icon(_request: Request) -> Response:
        return RedirectResponse(assets.url("icon.svg"))

    return [
        Route("/", index),
        Route("/servers/{name:anything}", one),
        Route("/favicon.ico", icon),  # browsers request this with a text page
        Route(assets.PATH, assets.serve_asset),
    ]


async def _describe(fleet: Fleet, watches: list[Watch]) -> list[schema.Server]:
    windows = fleet.settings.windows
    return await build.build_servers(watches, fleet.clock, windows[0], windows)


async def _respond(request: Request, answer: Answer) -> Response:
    return await answer.respond(
        request, page_html.HEADERS, page_html.MEDIA_TYPE, least_bytes=page_html.LEAST_BYTES_TO_COMPRESS
    )


def _encode(text: str) -> bytes:
    # A socket's name may contain bytes that are not UTF-8.
    return text.encode("utf-8", "replace")
