"""The routes of the page and of its files. Like the API, they build documents from the watches."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.routing import Route

from uwsgi_headroom.documents import build, schema
from uwsgi_headroom.watch.fleet import Fleet
from uwsgi_headroom.watch.watch import Watch
from uwsgi_headroom.web import assets, page_html
from uwsgi_headroom.web.text_convertor import register_text_convertor


def routes(fleet: Fleet) -> list[Route]:
    """Make the routes: `/`, a page for each server, and static files."""
    register_text_convertor()

    async def index(_request: Request) -> Response:
        servers = await _describe(fleet, fleet.watches())
        return _html(page_html.render_page(servers, len(servers), alone=len(servers) == 1))

    async def one(request: Request) -> Response:
        watches = fleet.watches()
        shown = [watch for watch in watches if watch.name == request.path_params["name"]]
        if not shown:
            return _html(page_html.render_missing(request.path_params["name"]), 404)
        return _html(page_html.render_page(await _describe(fleet, shown), len(watches), alone=True))

    async def icon(_request: Request) -> Response:
        return RedirectResponse(assets.url("icon.svg"))

    return [
        Route("/", index),
        Route("/servers/{name:anything}", one),
        Route("/favicon.ico", icon),  # browsers request this with a text page
        Route(assets.PATH, assets.serve_asset),
    ]


async def _describe(fleet: Fleet, watches: list[Watch]) -> list[schema.Server]:
    await fleet.wait_for_first(watches)
    windows = fleet.settings.windows
    return await build.build_servers(watches, fleet.clock, windows[0], windows)


def _html(text: str, status: int = 200) -> Response:
    # A socket's name may contain bytes that are not UTF-8.
    return HTMLResponse(text.encode("utf-8", "replace"), status, page_html.HEADERS)
