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

from starlette.requests import Request
from starlette.responses import PlainTextResponse, RedirectResponse, Response
from starlette.routing import Route

from uwsgi_headroom.analysis.findings import RUNBOOKS
from uwsgi_headroom.watch.fleet import Fleet
from uwsgi_headroom.web import bounds, live_page
from uwsgi_headroom.web.request_values import read_parameter
from uwsgi_headroom.web.runbook_text import (
    MEANINGS,
    PIDS,
    Runbook,
    Target,
    describe_target,
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
def load_runbooks() -> Mapping[str, Runbook]:
    """Read every runbook once, by name, sorted by name. Requests look names up here and never build a path from a
    name."""
    files = resources.files("uwsgi_headroom").joinpath("runbooks").iterdir()
    texts = {file.name[:-3]: file.read_text("utf-8") for file in files if file.name.endswith(".md")}
    return {name: split_runbook(text) for name, text in sorted(texts.items())}


def routes(fleet: Fleet, builds: SharedBuilds) -> list[Route]:
    """Make the routes of the list, the pages and the Markdown sources."""

    async def show_list(request: Request) -> Response:
        return await _show(fleet, builds, request, "", lambda target: render_list(load_runbooks(), target))

    async def show_page(request: Request) -> Response:
        code = request.path_params["name"]
        name = RUNBOOKS.get(code, code)
        if runbook := load_runbooks().get(name):
            missing = read_parameter(request, "server")
            return await _show(fleet, builds, request, name, lambda target: render_runbook(runbook, target, missing))
        if _CODE.fullmatch(code):
            server = read_parameter(request, "server")
            if any(watch.name == server for watch in fleet.watches()):
                return RedirectResponse(live_page.path(server))
        return _missing()

    return [
        Route("/runbooks/", show_list),
        Route("/runbooks/{name}.md", _show_text),
        Route("/runbooks/{name}", show_page),
    ]


async def _show_text(request: Request) -> Response:
    if runbook := load_runbooks().get(request.path_params["name"]):
        return PlainTextResponse(runbook.text, headers=_TEXT_HEADERS)
    return _missing()


def _missing() -> Response:
    return PlainTextResponse("No such runbook; /runbooks/ lists them.\n", status_code=404, headers=_TEXT_HEADERS)


async def _show(
    fleet: Fleet, builds: SharedBuilds, request: Request, name: str, render: Callable[[Target], str]
) -> Response:
    """Show a runbook, or the list if the name is empty, for the server and the worker of the request."""
    server, worker = read_parameter(request, "server"), read_parameter(request, "worker")
    watch = next((watch for watch in fleet.watches() if watch.name == server), None)
    exporter = find_exporter_address(request)

    async def make() -> bytes:
        target = describe_target(watch, exporter, worker) if watch else Target()
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


def render_list(runbooks: Mapping[str, Runbook], target: Target) -> str:
    items = "".join(
        f'<li><a href="{escape(target.address(name))}">{escape(name)}</a>'
        f"<p>{render_inline(runbook.summary, target)}</p>"
        for name, runbook in runbooks.items()
    )
    return _page("Runbooks", target, f'<h1>Runbooks</h1><ul class="list">{items}</ul>')


def render_runbook(runbook: Runbook, target: Target, missing: str = "") -> str:
    """Write a runbook, for a server if given. missing: the name of a requested server that does not exist."""
    title = escape(runbook.title)
    needed = used_placeholders(runbook.body)
    whom = _describe(target, needed, runbook.title) if target.name else _placeholders(needed, missing)
    return _page(
        title,
        target,
        f'<h1>{title}</h1><p class="summary">{render_inline(runbook.summary, target)}</p>'
        f'<section class="target">{whom}</section>{render_blocks(runbook.body, target)}'
        f'<footer><a href="/runbooks/{title}.md">This runbook as text</a></footer>',
        ("All runbooks", target.address("")),
    )


def _describe(target: Target, needed: set[str], title: str) -> str:
    """Write the server of the commands, the placeholders without a value, and the workers to choose from."""
    parts = [f"<p>Commands are filled in for <b>{escape(target.name)}</b>. Run them on its host, as root.</p>"]
    unknown = needed - target.values.keys()
    if "WORKER_PID" in needed and target.workers:
        parts.append(_choice(target, title))
        unknown -= {"WORKER_PID"}
    if unknown:
        missing = "".join(f"<li><mark>{name}</mark>: {_meaning(name)}; not known here." for name in sorted(unknown))
        parts.append(f"<p>Fill in yourself:</p><ul>{missing}</ul>")
    if target.doubt and needed & PIDS:
        parts.append(f"<p>No PID is filled in: {escape(target.doubt)}.</p>")
    return "".join(parts)


def _choice(target: Target, title: str) -> str:
    workers = sorted(target.workers, key=lambda worker: worker.worker_id)[:_MOST_WORKERS]
    chosen = target.chosen
    links = " ".join(
        f'<a href="{escape(target.address(title, worker))}"'
        f"{' aria-current=true' if worker == chosen else ''}>{worker.worker_id}</a>"
        for worker in workers
    )
    which = "choose the worker"
    if chosen and chosen in workers:
        which = f"worker {chosen.worker_id}, PID {target.values.get('WORKER_PID', 'not known')}"
    return f'<p>For <mark>WORKER_PID</mark>: {which}</p><p class="choice">{links}</p>'


def _placeholders(needed: set[str], missing: str) -> str:
    """Write the placeholders that the reader must fill in, and why."""
    why = f"There is no server <b>{escape(missing)}</b> now. " if missing else ""
    rows = "".join(f"<li><mark>{name}</mark>: {_meaning(name)}." for name in MEANINGS if name in needed)
    return (
        f"<p>{why}Run commands on the server's host, as root, and replace:</p><ul>{rows}</ul>"
        "<p>To have them filled in, open the runbook from a finding on a server's page.</p>"
    )


def _meaning(name: str) -> str:
    return re.sub("`(.*?)`", r"<code>\1</code>", escape(MEANINGS[name]))


def _page(title: str, target: Target, body: str, *links: tuple[str, str]) -> str:
    """Write a page. title, body: HTML; links: the text and URL of more links above it."""
    named = [("All servers", "/"), *links]
    if target.name:
        named.insert(0, (target.name, live_page.path(target.name)))
    above = " ".join(f'<a href="{escape(address)}">{escape(text)}</a>' for text, address in named)
    return live_page.render_document(
        f"{title} · uwsgi-headroom",
        f"<main class=runbook><nav>{above}</nav>{body}</main>",
        [live_page.url("runbook.css")],
    )
