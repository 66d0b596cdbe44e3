"""The runbooks at `/runbooks/`: alerts and findings link to the exporter that their figures come from.

`/runbooks/NAME` is a page for people, filled in for a server with `?server=NAME&worker=ID`; `/runbooks/NAME.md` is the
Markdown as it is written. In the repository the files are in `alerts/runbooks`, beside the rules; the package has a
symbolic link to that folder, which setuptools follows, so that wheels and source distributions hold the files.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from importlib import resources

from starlette.requests import Request
from starlette.responses import HTMLResponse, PlainTextResponse, Response
from starlette.routing import Route

from uwsgi_headroom.watch.fleet import Fleet
from uwsgi_headroom.web import page_html, runbook_html
from uwsgi_headroom.web.runbook_markdown import Runbook, split_runbook
from uwsgi_headroom.web.runbook_values import Target, describe_target, find_exporter_address

_TEXT_HEADERS = {"Content-Type": "text/plain; charset=utf-8", "X-Content-Type-Options": "nosniff"}


def read_runbooks() -> Mapping[str, str]:
    """The Markdown of every runbook by its name, in the order of the names."""
    files = resources.files("uwsgi_headroom").joinpath("runbooks").iterdir()
    texts = {file.name[:-3]: file.read_text("utf-8") for file in files if file.name.endswith(".md")}
    return dict(sorted(texts.items()))


@cache
def load_runbooks() -> Mapping[str, Runbook]:
    """Every runbook in its parts, by name. A request's name is looked up here, so that no path leads elsewhere."""
    return {name: split_runbook(text) for name, text in read_runbooks().items()}


def routes(fleet: Fleet) -> list[Route]:
    """The list, the pages and the texts."""

    async def show_list(request: Request) -> Response:
        return _html(runbook_html.render_list(load_runbooks(), _find_target(fleet, request)))

    async def show_page(request: Request) -> Response:
        runbook = load_runbooks().get(request.path_params["name"])
        if runbook is None:
            return _missing()
        target = _find_target(fleet, request)
        return _html(runbook_html.render_runbook(runbook, target, request.query_params.get("server", "")))

    return [
        Route("/runbooks/", show_list),
        Route("/runbooks/{name}.md", _show_text),
        Route("/runbooks/{name}", show_page),
    ]


async def _show_text(request: Request) -> Response:
    text = read_runbooks().get(request.path_params["name"])
    return _missing() if text is None else PlainTextResponse(text, headers=_TEXT_HEADERS)


def _missing() -> Response:
    return PlainTextResponse("No such runbook; /runbooks/ lists them.\n", status_code=404, headers=_TEXT_HEADERS)


def _find_target(fleet: Fleet, request: Request) -> Target | None:
    name = request.query_params.get("server", "")
    watch = next((watch for watch in fleet.watches() if watch.name == name), None)
    chosen = request.query_params.get("worker", "")
    return describe_target(watch, find_exporter_address(request), chosen) if watch else None


def _html(text: str) -> Response:
    # A name in the address may hold bytes that are no UTF-8.
    return HTMLResponse(text.encode("utf-8", "replace"), headers=page_html.HEADERS)
