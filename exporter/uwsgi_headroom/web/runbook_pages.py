"""Serves the runbooks at `/runbooks/`. Alerts and findings link to the exporter that provides their figures.

`/runbooks/NAME` is a page for people, filled in for a server with `?server=NAME&worker=ID`; `/runbooks/NAME.md` is its
Markdown source. Alerts link to the code of their finding: `/runbooks/CODE` is its runbook, or the server's page where
the finding needs none. A page needs no scripts, and has the style of the live page. In the repository the files are in
`alerts/runbooks`, beside the rules; the package has a symbolic link to that folder, which setuptools follows, so that
wheels and source distributions contain the files.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import cache
from html import escape
from importlib import resources
from urllib.parse import urlencode

from starlette.requests import Request
from starlette.responses import PlainTextResponse, RedirectResponse, Response
from starlette.routing import Route

from uwsgi_headroom.analysis.findings import RUNBOOKS
from uwsgi_headroom.stats.server import Worker
from uwsgi_headroom.watch.fleet import Fleet
from uwsgi_headroom.web import bounds, live_page
from uwsgi_headroom.web.request_values import read_parameter
from uwsgi_headroom.web.runbook_text import (
    MEANINGS,
    PIDS,
    Runbook,
    Style,
    Target,
    describe_target,
    fill_code,
    render_blocks,
    render_inline,
    split_runbook,
    used_placeholders,
)
from uwsgi_headroom.web.shared_builds import BuildKind, SharedBuilds

_RUNBOOKS = BuildKind("runbooks", rest=1.0, most=bounds.MOST_RUNBOOKS, seconds=1.0)
"""Apart from documents: a request may name any server and worker, so requests with many names would take the places of
the page."""

_CODE = re.compile("[a-z_]+")
"""The code of a finding."""

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
        return await _show(fleet, builds, request, "", lambda target: render_list(load_runbooks(), target))

    async def show_page(request: Request) -> Response:
        code = request.path_params["name"]
        name = RUNBOOKS.get(code, code)
        runbook = load_runbooks().get(name)
        if runbook is None and not _CODE.fullmatch(code):
            return _missing()
        server = read_parameter(request, "server")
        if runbook is None:
            is_watched = any(watch.name == server for watch in fleet.watches())
            return RedirectResponse(live_page.path(server)) if is_watched else _missing()
        return await _show(fleet, builds, request, name, lambda target: render_runbook(runbook, target, server))

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
    state = lambda: watch and watch.reader.attempts  # noqa: E731
    return await builds.respond(request, _RUNBOOKS, key, state, make, live_page.HEADERS, live_page.MEDIA_TYPE)


_HOST = re.compile(r"[A-Za-z0-9._-]+(:[0-9]+)?|\[[0-9A-Fa-f:.]+\](:[0-9]+)?")


def find_exporter_address(request: Request) -> str | None:
    """Find the exporter's URL as the reader requested it; None if the Host header is not a plain host."""
    host = request.headers.get("host", "")
    return f"{request.url.scheme}://{host}" if _HOST.fullmatch(host) else None


_MOST_WORKERS = 64
"""Most workers to choose from: a longer list would hide the runbook."""


def render_list(runbooks: Mapping[str, Runbook], target: Target | None) -> str:
    style = _style(target)
    items = "".join(
        f'<li><a href="{escape(_address(name, target))}">{escape(name)}</a>'
        f"<p>{render_inline(runbook.summary, style)}</p>"
        for name, runbook in runbooks.items()
    )
    return _page("Runbooks", f'{_navigation(target)}<h1>Runbooks</h1><ul class="list">{items}</ul>')


def render_runbook(runbook: Runbook, target: Target | None, missing: str = "") -> str:
    """Write a runbook, for a server if given. missing: the name of a requested server that does not exist."""
    style = _style(target)
    needed = used_placeholders(runbook.body)
    return _page(
        runbook.title,
        f"{_navigation(target, runbook.title)}<h1>{escape(runbook.title)}</h1>"
        f'<p class="summary">{render_inline(runbook.summary, style)}</p>'
        + (_describe(target, needed, runbook.title) if target else _placeholders(needed, missing))
        + render_blocks(runbook.body, style)
        + f'<footer><a href="/runbooks/{escape(runbook.title)}.md">This runbook as text</a></footer>',
    )


def _style(target: Target | None) -> Style:
    values = target.values if target else {}
    return Style(
        code=lambda code, language: fill_code(code, language, values), address=lambda name: _address(name, target)
    )


def _address(name: str, target: Target | None, worker: Worker | None = None) -> str:
    """Return the URL of a runbook, or of the list if the name is empty, for the same server and worker, or for another
    worker."""
    if target is None:
        return f"/runbooks/{name}"
    query = {"server": target.name}
    if chosen := worker or target.chosen:
        query["worker"] = str(chosen.worker_id)
    return f"/runbooks/{name}?{urlencode(query)}"


def _navigation(target: Target | None, title: str = "") -> str:
    links = [(live_page.path(target.name), target.name)] if target else []
    links.append(("/", "All servers"))
    links += [(_address("", target), "All runbooks")] if title else []
    return "<nav>" + " ".join(f'<a href="{escape(address)}">{escape(text)}</a>' for address, text in links) + "</nav>"


def _describe(target: Target, needed: set[str], title: str) -> str:
    """Write the server of the commands, the placeholders without a value, and the workers to choose from."""
    unknown = sorted(needed - target.values.keys() - ({"WORKER_PID"} if target.workers else set()))
    missing = "".join(f"<li><mark>{name}</mark>: {_meaning(name)}; not known here." for name in unknown)
    return (
        f'<section class="target"><p>Commands are filled in for <b>{escape(target.name)}</b>. '
        f"Run them on its host, as root.</p>"
        + (_choice(target, title) if "WORKER_PID" in needed and target.workers else "")
        + (f"<p>Fill in yourself:</p><ul>{missing}</ul>" if missing else "")
        + (f"<p>No PID is filled in: {escape(target.doubt)}.</p>" if target.doubt and needed & PIDS else "")
        + "</section>"
    )


def _choice(target: Target, title: str) -> str:
    workers = sorted(target.workers, key=lambda worker: worker.worker_id)[:_MOST_WORKERS]
    chosen = target.chosen
    links = " ".join(
        f'<a href="{escape(_address(title, target, worker))}"'
        f"{' aria-current=true' if worker == chosen else ''}>{worker.worker_id}</a>"
        for worker in workers
    )
    pid = target.values.get("WORKER_PID", "not known")
    which = f"worker {chosen.worker_id}, PID {pid}" if chosen and chosen in workers else "choose the worker"
    return f'<p>For <mark>WORKER_PID</mark>: {which}</p><p class="choice">{links}</p>'


def _placeholders(needed: set[str], missing: str) -> str:
    """Write the placeholders that the reader must fill in, and why."""
    why = f"There is no server <b>{escape(missing)}</b> now. " if missing else ""
    rows = "".join(f"<li><mark>{name}</mark>: {_meaning(name)}." for name in MEANINGS if name in needed)
    return (
        f'<section class="target"><p>{why}Run commands on the server\'s host, as root, and replace:</p><ul>{rows}</ul>'
        "<p>To have them filled in, open the runbook from a finding on a server's page.</p></section>"
    )


def _meaning(name: str) -> str:
    return render_inline(MEANINGS[name], Style(code=lambda code, _language: escape(code), address=str))


def _page(title: str, body: str) -> str:
    return live_page.render_document(
        f"{escape(title)} · uwsgi-headroom", f"<main class=runbook>{body}</main>", [live_page.url("runbook.css")]
    )
