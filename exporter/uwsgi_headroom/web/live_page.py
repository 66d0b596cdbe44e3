"""Serves the page and its files. Like the API, it builds documents from the watches.

`/` lists the servers, or shows the only one; `/servers/<name>` is the page of a server. Each is the HTML from which the
page starts: the modules in `static/`, joined to one script, do the rest, and without it there is a summary. The files
are read and compressed once, and browsers keep them until they change.
"""

from __future__ import annotations

import gzip
import hashlib
import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from html import escape
from pathlib import Path
from urllib.parse import quote

from msgspec import Struct
from starlette.requests import Request
from starlette.responses import HTMLResponse, PlainTextResponse, RedirectResponse, Response
from starlette.routing import Route

from uwsgi_headroom import __version__
from uwsgi_headroom.documents import build, schema
from uwsgi_headroom.documents.schema import ServerDocument
from uwsgi_headroom.watch.fleet import Fleet
from uwsgi_headroom.watch.watch import Watch
from uwsgi_headroom.web.api_routes import DOCUMENTS
from uwsgi_headroom.web.metrics_route import fleet_state
from uwsgi_headroom.web.request_values import compressible_response, register_text_convertor
from uwsgi_headroom.web.shared_builds import Body, SharedBuilds
from uwsgi_headroom.words.states import SERVER_STATES

_IMPORT = re.compile(r'import (?:\{ (?P<names>[\w$, ]+) \}|\* as (?P<whole>[\w$]+)) from "\./(?P<module>\w+)\.js";')
_EXPORT = re.compile(r"export (?=(?:const|(?:async )?function|class) (?P<name>[\w$]+))")
_OTHER = re.compile(r"\s*(?:import|export)\b|.*\bimport\s*[(.]")
_COMMENT = re.compile(r"^ *(?://.*|/\*\*(?:[^*]|\*(?!/))*\*/ *)\n", re.MULTILINE)


def join(modules: Mapping[str, str], first: str = "main") -> str:
    """Join the modules that the first one needs. modules: their text, by name. Raises ValueError where a module does
    not follow the rule, or imports what is not there.

    The exporter does it once, when the page is first requested, so there is no build step. A module becomes a function
    that runs once, after those that it imports, and returns what it exports. Names of modules stay apart, and the code
    stays as it is written, but for comments that fill lines. For that, a module follows a rule, which `join` enforces:

    * imports are `import { one, other as name } from "./module.js";` or `import * as name from "./module.js";`, on a
      line;
    * exports are `export const`, `export function`, `export async function` or `export class`, at the beginning of a
      line;
    * no module imports itself, directly or through others;
    * within a text over several lines, no line begins like a comment.
    """
    exports: dict[str, list[str]] = {}
    return "".join(_wrap(name, modules[name], exports) for name in _order(modules, first))


def _order(modules: Mapping[str, str], first: str) -> list[str]:
    """List modules, each after those that it imports."""
    ordered: list[str] = []

    def visit(name: str, importers: tuple[str, ...]) -> None:
        if name in importers:
            raise ValueError(f"modules import each other: {', '.join(importers[importers.index(name) :])}")
        if name not in modules:
            raise ValueError(f"{importers[-1] if importers else 'the page'} imports {name}, which is missing")
        if name not in ordered:
            for found in _IMPORT.finditer(modules[name]):
                visit(found["module"], (*importers, name))
            ordered.append(name)

    visit(first, ())
    return ordered


def _wrap(name: str, text: str, exports: dict[str, list[str]]) -> str:
    """Make a function of a module. exports: of the modules so far, to which it adds its own."""
    own = exports[name] = []
    lines = list(_rewrite(name, _COMMENT.sub("", text), exports))
    returned = f"return {{ {', '.join(own)} }};\n" if own else ""
    return f"const ${name} = (() => {{\n{''.join(lines)}{returned}}})();\n"


def _rewrite(name: str, text: str, exports: dict[str, list[str]]) -> Iterator[str]:
    for line in text.splitlines(keepends=True):
        if found := _IMPORT.fullmatch(line.rstrip("\n")):
            wanted = [each.partition(" as ")[0].strip() for each in (found["names"] or "").split(",")]
            if found["names"] and (missing := set(wanted) - set(exports[found["module"]])):
                raise ValueError(
                    f"{name} imports {', '.join(sorted(missing))}, which {found['module']} does not export"
                )
            names = found["whole"] or f"{{ {found['names'].replace(' as ', ': ')} }}"
            yield f"const {names} = ${found['module']};\n"
        elif found := _EXPORT.match(line):
            exports[name].append(found["name"])
            yield line[found.end() :]
        elif _OTHER.match(line):
            raise ValueError(f"{name}: the page's script cannot have this line: {line.strip()}")
        else:
            yield line


HEADERS = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
    "img-src 'self' data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "Cache-Control": "no-store",
    "Referrer-Policy": "no-referrer",
    "Vary": "Accept-Encoding",
    "X-Content-Type-Options": "nosniff",
}
MEDIA_TYPE = "text/html; charset=utf-8"
LEAST_BYTES_TO_COMPRESS = 8192


def routes(fleet: Fleet, builds: SharedBuilds) -> list[Route]:
    """Make the routes: `/`, a page for each server, and static files."""
    register_text_convertor()

    async def index(request: Request) -> Response:
        watches = fleet.watches()

        async def make() -> bytes:
            servers = await _describe(fleet, watches)
            return _encode(render_page(servers, len(servers), alone=len(servers) == 1))

        await fleet.wait_for_first(watches)
        answer = await builds.get(DOCUMENTS, "page", fleet_state(fleet), make, request)
        return await _respond(request, answer)

    async def one(request: Request) -> Response:
        watches = fleet.watches()
        watch = next((watch for watch in watches if watch.name == request.path_params["name"]), None)
        if watch is None:
            text = render_missing(request.path_params["name"])
            return HTMLResponse(_encode(text), 404, HEADERS)

        async def make() -> bytes:
            return _encode(render_page(await _describe(fleet, [watch]), len(watches), alone=True))

        await fleet.wait_for_first([watch])
        state = lambda: (watch.reader.attempts, len(watches))  # noqa: E731
        return await _respond(request, await builds.get(DOCUMENTS, ("page", watch), state, make, request))

    async def icon(_request: Request) -> Response:
        return RedirectResponse(url("icon.svg"))

    return [
        Route("/", index),
        Route("/servers/{name:anything}", one),
        Route("/favicon.ico", icon),  # browsers request this with a text page
        Route(PATH, serve_asset),
    ]


async def _describe(fleet: Fleet, watches: list[Watch]) -> list[schema.ServerDocument]:
    windows = fleet.settings.windows
    return await build.build_servers(watches, fleet.clock, windows[0], windows)


async def _respond(request: Request, answer: Body) -> Response:
    return await answer.respond(request, HEADERS, MEDIA_TYPE, least_bytes=LEAST_BYTES_TO_COMPRESS)


def _encode(text: str) -> bytes:
    # A socket's name may contain bytes that are not UTF-8.
    return text.encode("utf-8", "replace")


SCRIPT = "page.js"
"""All modules of the page, joined."""

_UPLOT = "vendor/uplot/uPlot.iife.min.js"
_UPLOT_STYLE = "vendor/uplot/uPlot.min.css"


def path(name: str) -> str:
    """Return the path of a server's page. The name may itself be a path."""
    return f"/servers/{quote(name, safe='')}"


def render_page(servers: Sequence[ServerDocument], count: int, *, alone: bool) -> str:
    """Write the page of these servers. count: of all servers; alone: show the first server instead of a list."""
    shown = servers[0] if alone else None
    title = f"{escape(shown.name)} · uwsgi-headroom" if shown else "uwsgi-headroom"
    script, style, data_attributes = f'<script type="module" src="{url(SCRIPT)}"></script>', "", ""
    if shown:
        style = f'<link rel="stylesheet" href="{url(_UPLOT_STYLE)}">'
        addresses = {"path": shown.path, "page": path(shown.name), "charts": url(_UPLOT)}
        data_attributes = "".join(f' data-{name}="{escape(address)}"' for name, address in addresses.items())
    first = (shown.name, shown.verdict) if shown else ("uwsgi-headroom", _count(servers))
    return (
        _head(title, style + script)
        + f'<body data-servers="{count}" data-version="{__version__}"{data_attributes}>'
        # Shown until the scripts run.
        + f'<section class="first"><p>{escape(first[0])}</p><p class="verdict">{escape(first[1])}</p></section>'
        + f"<noscript><main>{_summary(servers)}</main></noscript></body></html>\n"
    )


def render_document(title: str, body: str, styles: Sequence[str] = ()) -> str:
    """Write a page without scripts. title, body: HTML. styles: URLs of additional style sheets."""
    more = "".join(f'<link rel="stylesheet" href="{address}">' for address in styles)
    return f"{_head(title, more)}<body>{body}</body></html>\n"


def render_missing(name: str) -> str:
    sentence = f'There is no server <b>{escape(name)}</b> now. <a href="/">All servers</a>'
    return render_document("uwsgi-headroom", f"<main><h1>uwsgi-headroom</h1><p>{sentence}</p></main>")


def _head(title: str, more: str = "") -> str:
    """Write the beginning of a page. more: elements of its head."""
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


def _count(servers: Sequence[ServerDocument]) -> str:
    down = sum(server.state == "down" for server in servers)
    state = f"{down} down" if down else "all up" if len(servers) > 1 else "up"
    return f"{len(servers)} server{'s' if len(servers) != 1 else ''}, {state}"


def _row(server: ServerDocument) -> str:
    state = " ".join(SERVER_STATES[server.state])
    judged = "" if server.state == "down" else f", {server.status}"
    unknown = "".join(
        f"<li>{escape(u.what)}{f' of {escape(u.socket)}' if u.socket else ''}: {escape(u.why)}" for u in server.unknown
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
_PERMANENTLY = "public, max-age=31536000, immutable"


class Asset(Struct, frozen=True):
    """A file, plain and compressed."""

    plain: bytes
    compressed: bytes
    media_type: str


@cache
def load_assets() -> dict[str, Asset]:
    """Read every served file, by its path below the folder, and join the modules to the script."""
    modules = sorted(FOLDER.glob("*.js"))
    script = join({path.stem: path.read_text("utf-8") for path in modules}).encode()
    paths = [path for path in sorted(FOLDER.rglob("*")) if path.suffix in _TYPES and path not in modules]
    files = {path.relative_to(FOLDER).as_posix(): path.read_bytes() for path in paths}
    return {name: _asset(name, plain) for name, plain in {SCRIPT: script, **files}.items()}


def _asset(name: str, plain: bytes) -> Asset:
    return Asset(plain, gzip.compress(plain, 9, mtime=0), _TYPES[Path(name).suffix])


@cache
def version() -> str:
    """Return a version that changes with any file. It is part of the path."""
    digest = hashlib.sha256()
    for name, asset in load_assets().items():
        digest.update(b"%b\0%d\0%b" % (name.encode(), len(asset.plain), asset.plain))
    return digest.hexdigest()[:16]


def url(name: str) -> str:
    """Return the path of a file on the exporter."""
    return f"/static/{version()}/{name}"


async def serve_asset(request: Request) -> Response:
    """Serve a file. A path with another version, from a page of another exporter, gets the current file."""
    asset = load_assets().get(request.path_params["name"])
    if asset is None:
        return PlainTextResponse("no such file\n", 404)
    same = request.path_params["version"] == version()
    headers = {
        "Cache-Control": _PERMANENTLY if same else "no-cache",
        "ETag": f'"{version()}"',
        "Vary": "Accept-Encoding",
        "X-Content-Type-Options": "nosniff",
    }
    if f'"{version()}"' in request.headers.get("if-none-match", ""):
        return Response(status_code=304, headers=headers)
    return compressible_response(request, asset.plain, headers, asset.media_type, compressed=asset.compressed)
