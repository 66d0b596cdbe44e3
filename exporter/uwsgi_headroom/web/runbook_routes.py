"""Serves the runbooks at `/runbooks/`. Alerts and findings link to the exporter that provides their figures.

`/runbooks/NAME` is a page for people, filled in for a server with `?server=NAME&worker=ID`; `/runbooks/NAME.md` is its
Markdown source. In the repository the files are in `alerts/runbooks`, beside the rules; the package has a symbolic link
to that folder, which setuptools follows, so that wheels and source distributions contain the files.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from importlib import resources

from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from uwsgi_headroom.watch.fleet import Fleet
from uwsgi_headroom.web import bounds, page_html, runbook_html
from uwsgi_headroom.web.query_parameters import read_parameter
from uwsgi_headroom.web.runbook_markdown import Runbook, split_runbook
from uwsgi_headroom.web.runbook_values import Target, describe_target, find_exporter_address
from uwsgi_headroom.web.shared_builds import Kind, SharedBuilds

_RUNBOOKS = Kind("runbooks", rest=1.0, most=bounds.MOST_RUNBOOKS, seconds=1.0)
"""Apart from documents: a request may name any server and worker, so requests with many names would take the places of
the page."""

_TEXT_HEADERS = {"Content-Type": "text/plain; charset=utf-8", "X-Content-Type-Options": "nosniff"}


@cache
def read_runbooks() -> Mapping[str, str]:
    """Read the Markdown of every runbook once, by name, sorted by name."""
    files = resources.files("uwsgi_headroom").joinpath("runbooks").iterdir()
    texts = {file.name[:-3]: file.read_text("utf-8") for file in files if file.name.endswith(".md")}
    return dict(sorted(texts.items()))


@cache
def load_runbooks() -> Mapping[str, Runbook]:
    """Load every runbook, by name. Requests look names up here and never build a path from a name."""
    return {name: split_runbook(text) for name, text in read_runbooks().items()}


def routes(fleet: Fleet, builds: SharedBuilds) -> list[Route]:
    """Make the routes of the list, the pages and the Markdown sources."""

    async def show_list(request: Request) -> Response:
        return await _show(fleet, builds, request, "", lambda target: runbook_html.render_list(load_runbooks(), target))

    async def show_page(request: Request) -> Response:
        name = request.path_params["name"]
        runbook = load_runbooks().get(name)
        if runbook is None:
            return _missing()
        server = read_parameter(request, "server")
        return await _show(
            fleet, builds, request, name, lambda target: runbook_html.render_runbook(runbook, target, server)
        )

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


async def _show(
    fleet: Fleet, builds: SharedBuilds, request: Request, name: str, render: Callable[[Target | None], str]
) -> Response:
    """Show a runbook, or the list if the name is empty, for the server and the worker of the request."""
    server, worker = read_parameter(request, "server"), read_parameter(request, "worker")
    watch = next((watch for watch in fleet.watches() if watch.name == server), None)
    exporter = find_exporter_address(request)

    async def make() -> bytes:
        target = describe_target(watch, exporter, worker) if watch else None
        # A name in the URL may contain bytes that are not UTF-8.
        return render(target).encode("utf-8", "replace")

    key = "runbook", name, server, watch, worker, exporter
    answer = await builds.get(_RUNBOOKS, key, lambda: watch and watch.reader.attempts, make, request)
    return await answer.respond(
        request, page_html.HEADERS, page_html.MEDIA_TYPE, least_bytes=page_html.LEAST_BYTES_TO_COMPRESS
    )
