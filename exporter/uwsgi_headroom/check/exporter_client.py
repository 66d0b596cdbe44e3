"""Reads the API of a running exporter."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Literal, NamedTuple, TypeVar
from urllib.parse import unquote

import msgspec

from uwsgi_headroom import source
from uwsgi_headroom.config.defaults import SIZE_CAP
from uwsgi_headroom.errors import AccessError, HeadroomError, ReadError, SourceError
from uwsgi_headroom.source import Address, Http, HttpAccess, Tcp

T = TypeVar("T")

ANSWER_SECONDS = 8.0
"""Timeout of a request: the exporter itself waits five seconds for a server that it has never read."""

PROBE_SECONDS = 3.0

_WHY = {
    "refused": "nothing listens there",
    "timeout": "no answer in time",
    "http": "not an exporter, or an exporter without this server",
}
_SERVER = re.compile(r"(?P<base>.*?)(?:/api/v2)?/servers/(?P<name>.+?)/?", re.DOTALL)
_PART = re.compile(r"(?P<name>.+)/(?:history|findings|journal|events|what-if|compare)", re.DOTALL)
_OTHER = re.compile(r"(?P<base>.*?)/(?:metrics|servers|runbooks|static|api|-)(?:/.*)?", re.DOTALL)

Answer = Literal["exporter", "other", "silent", "nobody"]
"""The result of a probe. silent: something listens but does not answer; nobody: nothing listens."""


class ApiError(HeadroomError):
    """An exporter did not answer; the message says why. `reason` is that of the failed read; is_access: the server
    wants a login, a certificate or TLS."""

    def __init__(self, message: str, reason: str, *, is_access: bool = False) -> None:
        super().__init__(message)
        self.reason, self.is_access = reason, is_access


class ExporterPage(NamedTuple):
    """The meaning of a URL of an exporter. base: the exporter's own URL; server: its name, None for all servers."""

    base: Http
    server: str | None


class _Description(msgspec.Struct):
    """The part of the API description that identifies an exporter."""

    openapi: str


def parse_page(url: Http) -> ExporterPage:
    """Split the URL of an exporter, or of one of its pages, documents or metrics. Does no I/O.

    The exporter may be served below a path by a proxy.
    """
    path = url.target.partition("?")[0].partition("#")[0]
    if match := _SERVER.fullmatch(path):
        part = _PART.fullmatch(match["name"]) if "/api/v2/" in path else None
        return ExporterPage(replace(url, target=match["base"] or "/"), unquote((part or match)["name"]))
    match = _OTHER.fullmatch(path)
    return ExporterPage(replace(url, target=(match["base"] if match else path.rstrip("/")) or "/"), None)


def find_page(address: Address | None, access: HttpAccess | None) -> ExporterPage | None:
    """The page that an address means if it is an exporter's; None if it cannot be."""
    match address:
        case Http() as url:
            return parse_page(replace(url, access=access))
        case Tcp(host, port):
            return ExporterPage(Http(host, port, access=access), None)
    return None


async def get_document(url: Http, path: str, kind: type[T], seconds: float = ANSWER_SECONDS) -> T:
    """Fetch the document at a path of an exporter's API. seconds: the timeout. Raises ApiError."""
    try:
        return msgspec.json.decode((await _read(url, path, seconds)).body, type=kind)
    except AccessError as error:
        raise ApiError(f"{url}: {_advise(url, error)}", error.reason, is_access=True) from None
    except ReadError as error:
        raise ApiError(f"{url}: {_WHY.get(error.reason, str(error))}", error.reason) from None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        raise ApiError(f"{url}: the answer does not match this version of the API", "not_json") from None


async def find_who_answers(url: Http) -> Answer:
    """Find out who answers at a URL.

    The probe reads a uWSGI stats server once: with stats-http it answers every path, without it every client.
    """
    try:
        msgspec.json.decode((await _read(url, "/api/v2/openapi.json", PROBE_SECONDS)).body, type=_Description)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return "other"
    except AccessError:
        return "exporter"  # or another server with a login or TLS, but no stats server: reading it says what is missing
    except SourceError as error:
        return "nobody" if error.reason == "refused" else "silent" if error.reason == "timeout" else "other"
    return "exporter"


async def _read(url: Http, path: str, seconds: float) -> source.Answer:
    target = url.target.partition("?")[0].rstrip("/") + path
    return await source.read_document(replace(url, target=target), timeout=seconds, size_cap=SIZE_CAP)


def _advise(url: Http, error: AccessError) -> str:
    """The sentence of an error, with the file that gives access unless it is given already."""
    if url.access is not None or error.reason == "http":
        return str(error)
    return f"{error}; give what is needed with --http.config.file FILE"
