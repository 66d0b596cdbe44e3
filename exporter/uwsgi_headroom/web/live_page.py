"""Serves the page and its files. Like the API, it builds documents from the watches.

`/servers` lists the servers; `/` does, or shows the only one; `/servers/<name>` is the page of a server. Each is the
HTML from which the page starts: the modules in `static/`, joined to one script, do the rest, and without it there is a
summary. The files are read and compressed once, and browsers keep them until they change.
"""

from __future__ import annotations

import gzip
import hashlib
import re
from collections.abc import Callable, Hashable, Mapping, Sequence
from functools import cache
from graphlib import TopologicalSorter
from html import escape
from pathlib import Path
from urllib.parse import quote

from starlette.requests import Request
from starlette.responses import HTMLResponse, PlainTextResponse, RedirectResponse, Response
from starlette.routing import Route

from uwsgi_headroom import __version__
from uwsgi_headroom.documents import build
from uwsgi_headroom.documents.schema import ServerDocument
from uwsgi_headroom.watch.fleet import Fleet
from uwsgi_headroom.watch.observation import NotWatched
from uwsgi_headroom.watch.watch import Watch
from uwsgi_headroom.web.api_routes import DOCUMENTS
from uwsgi_headroom.web.metrics_route import fleet_state
from uwsgi_headroom.web.shared_builds import Body, SharedBuilds
from uwsgi_headroom.words.states import SERVER_STATES
from uwsgi_headroom.words.template import Facts, fill

_IMPORT = re.compile(
    r'^import (?:\{ (?P<names>[\w$, ]+) \}|\* as (?P<whole>[\w$]+)) from "\./(?P<module>\w+)\.js";$', re.MULTILINE
)
_EXPORT = re.compile(r"^export (?=(?:const|(?:async )?function|class) ([\w$]+))", re.MULTILINE)
_COMMENT = re.compile(r"^ *(?://.*|/\*\*(?:[^*]|\*(?!/))*\*/ *)\n", re.MULTILINE)


def join(modules: Mapping[str, str]) -> str:
    """Join modules to one script. modules: their text, by name. Raises CycleError if they import each other.

    The exporter does it once, when the page is first requested, so there is no build step. A module becomes a function
    that runs once, after those that it imports, and returns what it exports. Names of modules stay apart, and the code
    stays as it is written, but for comments that fill lines. For that, a module follows rules, which a test checks:

    * imports are `import { one, other as name } from "./module.js";` or `import * as name from "./module.js";`, on a
      line;
    * exports are `export const`, `export function`, `export async function` or `export class`, at the beginning of a
      line;
    * within a text over several lines, no line begins like a comment.
    """
    needed = {name: [found["module"] for found in _IMPORT.finditer(text)] for name, text in modules.items()}
    return "".join(_wrap(name, modules[name]) for name in TopologicalSorter(needed).static_order())


def _wrap(name: str, text: str) -> str:
    exported = ", ".join(_EXPORT.findall(text))
    body = _EXPORT.sub("", _IMPORT.sub(_bind, _COMMENT.sub("", text)))
    return f"const ${name} = (() => {{\n{body}return {{ {exported} }};\n}})();\n"


def _bind(found: re.Match[str]) -> str:
    names = found["whole"] or f"{{ {found['names'].replace(' as ', ': ')} }}"
    return f"const {names} = ${found['module']};"


HEADERS = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
    "img-src 'self' data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "Cache-Control": "no-store",
    "Referrer-Policy": "no-referrer",
    "Vary": "Accept-Encoding",
    "X-Content-Type-Options": "nosniff",
}
MEDIA_TYPE = "text/html; charset=utf-8"


def routes(fleet: Fleet, builds: SharedBuilds) -> list[Route]:
    """Make the routes: `/`, a page for each server, and static files."""

    async def show(
        request: Request, key: Hashable, state: Callable[[], object], shown: list[Watch], count: int, *, alone: bool
    ) -> Response:
        async def make() -> bytes:
            windows = fleet.settings.windows
            servers = await build.build_servers(shown, fleet.clock, windows[0], windows)
            return _encode(render_page(servers, count, fleet.health.not_watched or (), alone=alone))

        await fleet.wait_for_first(shown)
        return await builds.respond(request, DOCUMENTS, key, state, make, HEADERS, MEDIA_TYPE)

    async def index(request: Request) -> Response:
        watches = fleet.watches()
        alone = len(watches) == 1 and request.url.path == "/"
        return await show(request, ("page", alone), fleet_state(fleet), watches, len(watches), alone=alone)

    async def one(request: Request) -> Response:
        watches, name = fleet.watches(), request.path_params["name"]
        watch = next((watch for watch in watches if watch.name == name), None)
        if watch is None:
            missing = f'There is no server <b>{escape(name)}</b> now. <a href="/">All servers</a>'
            body = f"<main><h1>uwsgi-headroom</h1><p>{missing}</p></main>"
            return HTMLResponse(_encode(render_document("uwsgi-headroom", body)), 404, HEADERS)
        state = lambda: (watch.reader.attempts, len(watches))  # noqa: E731
        return await show(request, ("page", watch), state, [watch], len(watches), alone=True)

    async def icon(_request: Request) -> Response:
        return RedirectResponse(url("icon.svg"))

    return [
        Route("/", index),
        Route("/servers", index),
        Route("/servers/{name:anything}", one),
        Route("/favicon.ico", icon),  # browsers request this with a text page
        Route(PATH, serve_asset),
    ]


def _encode(text: str) -> bytes:
    # A socket's name may contain bytes that are not UTF-8.
    return text.encode("utf-8", "replace")


SCRIPT = "page.js"
"""All modules of the page, joined."""

_UPLOT = "vendor/uplot/uPlot.iife.min.js"
_UPLOT_STYLE = "vendor/uplot/uPlot.min.css"


def path(name: str) -> str:
    return f"/servers/{quote(name, safe='')}"


def render_page(
    servers: Sequence[ServerDocument], count: int, others: Sequence[NotWatched] = (), *, alone: bool
) -> str:
    """Write the page of these servers. count: of all servers; others: those that are not watched; alone: show the first
    server instead of a list."""
    script, style, data_attributes = f'<script type="module" src="{url(SCRIPT)}"></script>', "", ""
    title, name, verdict = "uwsgi-headroom", "uwsgi-headroom", _count(servers)
    if alone:
        shown = servers[0]
        title, name, verdict = f"{escape(shown.name)} · uwsgi-headroom", shown.name, shown.verdict
        style = f'<link rel="stylesheet" href="{url(_UPLOT_STYLE)}">'
        addresses = {"path": shown.path, "page": path(shown.name), "charts": url(_UPLOT)}
        if left := sum(each.number for each in others):
            addresses["others"] = str(left)
        data_attributes = "".join(f' data-{name}="{escape(address)}"' for name, address in addresses.items())
    return (
        _head(title, style + script)
        + f'<body data-servers="{count}" data-version="{__version__}"{data_attributes}>'
        # Shown until the scripts run.
        + f'<section class="first"><p>{escape(name)}</p><p class="verdict">{escape(verdict)}</p></section>'
        + f"<noscript><main>{_summary(servers)}{_list_others(others)}</main></noscript></body></html>\n"
    )


def render_document(title: str, body: str, styles: Sequence[str] = ()) -> str:
    """Write a page without scripts. title, body: HTML. styles: URLs of additional style sheets."""
    more = "".join(f'<link rel="stylesheet" href="{address}">' for address in styles)
    return f"{_head(title, more)}<body>{body}</body></html>\n"


def _head(title: str, more: str = "") -> str:
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        '<meta name="color-scheme" content="light dark">'
        f'<title>{title}</title><link rel="icon" href="{url("icon.svg")}">'
        f'<link rel="stylesheet" href="{url("page.css")}">{more}</head>\n'
    )


def _summary(servers: Sequence[ServerDocument]) -> str:
    """Write the summary for browsers without scripts: servers, verdicts, and unknown values with the reasons."""
    rows = "".join(_row(server) for server in servers)
    table = f"<table><thead><tr><th>Server<th>State<th>Verdict<th>Not known</tr></thead><tbody>{rows}</tbody></table>"
    empty = "<p>No server yet: the globs of the configuration match no socket.</p>"
    return (
        f"<h1>uwsgi-headroom</h1><p>Version {__version__}. {_count(servers)}. Charts need JavaScript. "
        f'<a href="/">All servers</a> · <a href="/metrics">Metrics</a></p>{table if servers else empty}'
    )


def _list_others(others: Sequence[NotWatched]) -> str:
    rows = "".join(
        f"<li>{each.number} {escape(each.why)}: {escape('; '.join(each.names))}<br><code>{escape(each.act)}</code>"
        for each in others
    )
    return f"<ul>{rows}</ul>"


def _count(servers: Sequence[ServerDocument]) -> str:
    down, several = sum(server.state == "down" for server in servers), len(servers) > 1
    facts: Facts = {"servers": len(servers), "down": down or None, "several": several}
    return fill("{servers:server}, [down? {down} down][several, not down? all ][not down? up]", facts)


def _row(server: ServerDocument) -> str:
    state = " ".join(SERVER_STATES[server.state])
    judged = "" if server.state == "down" else f", {server.status}"
    unknown = "".join(
        f"<li>{escape(' of '.join(filter(None, [u.what, u.socket])))}: {escape(u.why)}" for u in server.unknown
    )
    version = f"uWSGI {escape(server.version)} {server.kind}" if server.version else ""
    return (
        f'<tr><td><b><a href="{escape(path(server.name))}">{escape(server.name)}</a></b>'
        f"<br><code>{escape(server.address)}</code><br>{version}"
        f"<td>{state}{judged}<td>{escape(server.verdict)}<td><ul>{unknown}</ul></tr>"
    )


FOLDER = Path(__file__).with_name("static")
PATH = "/static/{version}/{name:path}"

_TYPES = {".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml"}


@cache
def load_assets() -> dict[str, Body]:
    """Read every served file, by its path below the folder, and join the modules to the script."""
    modules = sorted(FOLDER.glob("*.js"))
    script = join({path.stem: path.read_text("utf-8") for path in modules}).encode()
    paths = [path for path in sorted(FOLDER.rglob("*")) if path.suffix in _TYPES and path not in modules]
    files = {path.relative_to(FOLDER).as_posix(): path.read_bytes() for path in paths}
    return {name: Body(plain, gzip.compress(plain, 9, mtime=0)) for name, plain in {SCRIPT: script, **files}.items()}


@cache
def version() -> str:
    """Return a version that changes with any file. It is part of the path."""
    digest = hashlib.sha256()
    for name, asset in load_assets().items():
        digest.update(b"%b\0%d\0%b" % (name.encode(), len(asset.plain), asset.plain))
    return digest.hexdigest()[:16]


def url(name: str) -> str:
    return f"/static/{version()}/{name}"


async def serve_asset(request: Request) -> Response:
    """Serve a file. A path with another version, from a page of another exporter, gets the current file."""
    name = request.path_params["name"]
    asset = load_assets().get(name)
    if asset is None:
        return PlainTextResponse("no such file\n", 404)
    caching = {version(): "public, max-age=31536000, immutable"}
    headers = {
        "Cache-Control": caching.get(request.path_params["version"], "no-cache"),
        "ETag": f'"{version()}"',
        "Vary": "Accept-Encoding",
        "X-Content-Type-Options": "nosniff",
    }
    if f'"{version()}"' in request.headers.get("if-none-match", ""):
        return Response(status_code=304, headers=headers)
    return await asset.respond(request, headers, _TYPES[Path(name).suffix])
