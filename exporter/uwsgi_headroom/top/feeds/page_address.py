"""Addresses of an exporter's pages, as a browser shows them: which exporter, and which of its servers."""

from __future__ import annotations

import re
from urllib.parse import unquote

from uwsgi_headroom.source import Http

_SERVER = re.compile(r"(?P<base>.*?)(?:/api/v1)?/servers/(?P<name>.+?)/?", re.DOTALL)
_API_PART = re.compile(r"(?P<name>.+)/(?:history|findings|events)", re.DOTALL)
_OTHER = re.compile(r"(?P<base>.*?)/(?:metrics|servers|runbooks|static|api|-)(?:/.*)?", re.DOTALL)


def split_page_address(url: Http) -> tuple[Http, str]:
    """The exporter's own address, and the name of the server whose page it is; "" for every other page.

    The exporter may be below a path, behind a proxy.
    """
    path = url.target.partition("?")[0]
    if match := _SERVER.fullmatch(path):
        part = _API_PART.fullmatch(match["name"]) if "/api/v1/" in path else None
        return _at(url, match["base"]), unquote((part or match)["name"])
    match = _OTHER.fullmatch(path)
    return _at(url, match["base"] if match else path.rstrip("/")), ""


def _at(url: Http, base: str) -> Http:
    return Http(url.host, url.port, base or "/", url.tls)
