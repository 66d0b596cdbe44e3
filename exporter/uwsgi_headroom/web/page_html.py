"""Writes the HTML from which the page starts. The scripts in `static/` do the rest; without them there is a summary.

`/` lists the servers, or shows the only one; `/servers/<name>` is the page of a server.
"""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from urllib.parse import quote

from uwsgi_headroom import __version__
from uwsgi_headroom.documents.schema import Server
from uwsgi_headroom.web import assets
from uwsgi_headroom.words.states import SERVER_STATES

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

_UPLOT = "vendor/uplot/uPlot.iife.min.js"
_UPLOT_STYLE = "vendor/uplot/uPlot.min.css"
_STYLES = (_UPLOT_STYLE, "page.css")


def path(name: str) -> str:
    """Return the path of a server's page. The name may itself be a path."""
    return f"/servers/{quote(name, safe='')}"


def render_page(servers: Sequence[Server], count: int, *, alone: bool) -> str:
    """Write the page of these servers. count: of all servers; alone: show the first server instead of a list."""
    shown = servers[0] if alone else None
    title = f"{escape(shown.name)} · uwsgi-headroom" if shown else "uwsgi-headroom"
    data_attributes = f' data-path="{escape(shown.path)}" data-page="{escape(path(shown.name))}"' if shown else ""
    first = (shown.name, shown.verdict) if shown else ("uwsgi-headroom", _count(servers))
    return (
        _head(title, [assets.url(name) for name in assets.script_names()])
        + f'<body data-servers="{count}" data-version="{__version__}"{data_attributes}>'
        # Shown until the scripts run.
        + f'<section class="first"><p>{escape(first[0])}</p><p class="verdict">{escape(first[1])}</p></section>'
        + f"<noscript><main>{_summary(servers)}</main></noscript></body></html>\n"
    )


def render_document(title: str, body: str, styles: Sequence[str] = ()) -> str:
    """Write a page without scripts. title, body: HTML. styles: URLs of additional style sheets."""
    return f"{_head(title, [], styles)}<body>{body}</body></html>\n"


def render_missing(name: str) -> str:
    """Write the page for a name that no server has."""
    sentence = f'There is no server <b>{escape(name)}</b> now. <a href="/">All servers</a>'
    return render_document("uwsgi-headroom", f"<main><h1>uwsgi-headroom</h1><p>{sentence}</p></main>")


def _head(title: str, scripts: Sequence[str], more_styles: Sequence[str] = ()) -> str:
    addresses = [assets.url(name) for name in _STYLES if scripts or name != _UPLOT_STYLE]
    styles = "".join(f'<link rel="stylesheet" href="{address}">' for address in (*addresses, *more_styles))
    preloads = "".join(f'<link rel="modulepreload" href="{url}">' for url in scripts)
    run = f'<script defer src="{assets.url(_UPLOT)}"></script>' if scripts else ""
    run += f'<script type="module" src="{assets.url("main.js")}"></script>' if scripts else ""
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        '<meta name="color-scheme" content="light dark">'
        f'<title>{title}</title><link rel="icon" href="{assets.url("icon.svg")}">{styles}{preloads}{run}</head>\n'
    )


def _summary(servers: Sequence[Server]) -> str:
    """Write the summary for browsers without scripts: servers, verdicts, and unknown values with the reasons."""
    rows = "".join(_row(server) for server in servers)
    table = f"<table><thead><tr><th>Server<th>State<th>Verdict<th>Not known</tr></thead><tbody>{rows}</tbody></table>"
    empty = "<p>No server yet: the globs of the configuration match no socket.</p>"
    return (
        f"<h1>uwsgi-headroom</h1><p>Version {__version__}. {_count(servers)}. Charts need JavaScript. "
        f'<a href="/">All servers</a> · <a href="/metrics">Metrics</a></p>{table if servers else empty}'
    )


def _count(servers: Sequence[Server]) -> str:
    down = sum(server.state == "down" for server in servers)
    state = f"{down} down" if down else "all up" if len(servers) > 1 else "up"
    return f"{len(servers)} server{'s' if len(servers) != 1 else ''}, {state}"


def _row(server: Server) -> str:
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
