"""Reads the API of a running exporter, and finds out which addresses are of an exporter."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Literal, NamedTuple, TypeVar
from urllib.parse import unquote

import msgspec

from uwsgi_headroom import source
from uwsgi_headroom.config import defaults
from uwsgi_headroom.config.defaults import SIZE_CAP
from uwsgi_headroom.config.servers import ServerConfig
from uwsgi_headroom.documents.build import SERVERS_PATH
from uwsgi_headroom.documents.schema import Servers
from uwsgi_headroom.errors import AccessError, HeadroomError, ReadError, SourceError
from uwsgi_headroom.source import Address, Http, HttpAccess, Tcp, parse_address

T = TypeVar("T")

ANSWER_SECONDS = 8.0
"""Timeout of a request: the exporter itself waits five seconds for a server that it has never read."""

PROBE_SECONDS = 3.0

_WHY = {
    "refused": "nothing listens there",
    "timeout": "no answer in time",
    "http": "not an exporter, an exporter without this server, or one of an earlier version, to be upgraded",
}
_SERVER = re.compile(
    r"(?P<base>.*?)(?:/api/v2/servers/(?P<document>.+?)(?:/(?:history|findings|journal|events|what-if|compare))?"
    r"|/servers/(?P<page>.+?))/?",
    re.DOTALL,
)
_OTHER = re.compile(r"(?P<base>.*?)(?:/(?:metrics|servers|runbooks|static|api|-)(?:/.*)?)?/?", re.DOTALL)

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
    openapi: str


def parse_page(url: Http) -> ExporterPage:
    """Split the URL of an exporter, or of one of its pages, documents or metrics. Does no I/O.

    The exporter may be served below a path by a proxy.
    """
    path = re.split("[?#]", url.target)[0]
    if match := _SERVER.fullmatch(path):
        return ExporterPage(replace(url, target=match["base"] or "/"), unquote(match["document"] or match["page"]))
    match = _OTHER.fullmatch(path)
    assert match
    return ExporterPage(replace(url, target=match["base"] or "/"), None)


def find_page(address: Address | None, access: HttpAccess | None) -> ExporterPage | None:
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


_SILENCE: dict[str, Answer] = {"refused": "nobody", "timeout": "silent"}


async def list_names(url: Http) -> list[str]:
    """The names of the servers of an exporter. Raises ApiError."""
    return [server.name for server in (await get_document(url, SERVERS_PATH, Servers)).servers]


async def find_who_answers(url: Http) -> Answer:
    """Find out who answers at a URL; an exporter of an earlier version is one, whose documents cannot be read.

    The probe reads a uWSGI stats server once: with stats-http it answers every path, without it every client.
    """
    for version in ("v2", "v1"):
        try:
            answer = await _read(url, f"/api/{version}/openapi.json", PROBE_SECONDS)
            msgspec.json.decode(answer.body, type=_Description)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            return "other"
        except AccessError:
            break  # or another server with a login or TLS, but no stats server: reading it says what is missing
        except SourceError as error:
            if error.reason != "http":
                return _SILENCE.get(error.reason, "other")
        else:
            break
    else:
        return "other"
    return "exporter"


async def _read(url: Http, path: str, seconds: float) -> source.Answer:
    target = url.target.partition("?")[0].rstrip("/") + path
    return await source.read_document(replace(url, target=target), timeout=seconds, size_cap=SIZE_CAP)


def _advise(url: Http, error: AccessError) -> str:
    if url.access is not None or error.reason == "http":
        return str(error)
    return f"{error}; give what is needed with --http.config.file FILE"


NOBODY_LISTENS = "{}: nothing listens here, neither an exporter nor a stats server"


class Targets(NamedTuple):
    """What the addresses of a command are. watched: servers and globs to read here; exporters: pages of exporters;
    silent: http:// addresses at which nothing listens, which could be either."""

    watched: tuple[ServerConfig, ...] = ()
    exporters: tuple[ExporterPage, ...] = ()
    silent: tuple[Http, ...] = ()


async def sort_targets(
    servers: Sequence[ServerConfig], access: HttpAccess | None = None, *, slow_is_exporter: bool = False
) -> Targets:
    """Find out which addresses are exporters, asking all that may be one at the same time. access: for every exporter.
    slow_is_exporter: whether an http:// address that does not answer in time counts as one, since a stats server is
    usually given as host:port."""
    pages = [find_page(server.address, access) for server in servers]
    bases = list(dict.fromkeys(page.base for page in pages if page))
    answers = dict(zip(bases, await asyncio.gather(*map(find_who_answers, bases)), strict=True))
    watched, exporters, silent = [], [], []
    for server, page in zip(servers, pages, strict=True):
        answer = page and answers[page.base]
        is_url = isinstance(server.address, Http)
        if page and (answer == "exporter" or (answer == "silent" and is_url and slow_is_exporter)):
            exporters.append(page)
        elif answer == "nobody" and isinstance(server.address, Http):
            silent.append(server.address)
        else:
            watched.append(server)
    return Targets(tuple(watched), tuple(exporters), tuple(silent))


def find_local_exporter(access: HttpAccess | None) -> Http | None:
    """The exporter of this machine, which has an hour of history and reads uWSGI already; None if none answers."""
    local = parse_address(f"http://{defaults.LISTEN_ADDRESS}")
    assert isinstance(local, Http)
    url = replace(local, access=access)
    return url if asyncio.run(find_who_answers(url)) == "exporter" else None
