"""Reads the API of a running exporter."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import NamedTuple, TypeVar
from urllib.parse import unquote

import msgspec

from uwsgi_headroom import source
from uwsgi_headroom.errors import HeadroomError, ReadError, SourceError
from uwsgi_headroom.source import Http

T = TypeVar("T")

ANSWER_SECONDS = 8.0
"""How long a request may take: the exporter itself waits five for a server that it has never read."""

PROBE_SECONDS = 3.0

_WHY = {
    "refused": "nothing listens there",
    "timeout": "it does not answer in time",
    "http": "it does not answer as an exporter does, or no longer has this server",
}
_TAIL = re.compile(r"/(?:(?:api/v1/)?servers(?:/(?P<name>.+))?|api/v1/?|metrics)?/*")
"""The part of an exporter's URL that names a page or a document of it: of one server, or of all."""


class ApiError(HeadroomError):
    """An exporter did not answer this time; a sentence says why. `reason` is that of a read that failed."""

    def __init__(self, message: str, reason: str) -> None:
        super().__init__(message)
        self.reason = reason


class ExporterPage(NamedTuple):
    """What a URL means if an exporter is there. base: where the exporter is; server: the name, None: all of them."""

    base: Http
    server: str | None


class _Description(msgspec.Struct):
    """What only an exporter has."""

    openapi: str


def parse_page(url: Http) -> ExporterPage:
    """Split the URL of an exporter, or of a page, a document or the metrics of one. Reads nothing."""
    path = url.target.partition("?")[0].partition("#")[0]
    for start in sorted(match.start() for match in re.finditer("/", path)):
        if match := _TAIL.fullmatch(path, start):
            name = match["name"]
            return ExporterPage(replace(url, target=path[:start] or "/"), unquote(name.rstrip("/")) if name else None)
    return ExporterPage(replace(url, target=path), None)


async def get_document(url: Http, path: str, kind: type[T]) -> T:
    """The document at a path of an exporter's API. Raises ApiError."""
    try:
        return msgspec.json.decode((await _read(url, path, ANSWER_SECONDS)).body, type=kind)
    except ReadError as error:
        raise ApiError(f"{url}: {_WHY.get(error.reason, str(error))}", error.reason) from None
    except (msgspec.DecodeError, UnicodeDecodeError):
        raise ApiError(f"{url}: its answer is not of this version's API", "not_json") from None


async def is_exporter(url: Http) -> bool:
    """Whether an exporter answers there. Raises SourceError where nobody listens.

    A uWSGI with stats-http answers every path with its stats, and a raw one every client: either is read once.
    """
    try:
        msgspec.json.decode((await _read(url, "/api/v1/openapi.json", PROBE_SECONDS)).body, type=_Description)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return False
    except SourceError as error:
        if error.reason == "refused":
            raise
        return False
    return True


async def _read(url: Http, path: str, seconds: float) -> source.Answer:
    target = url.target.partition("?")[0].rstrip("/") + path
    return await source.read_document(Http(url.host, url.port, target, url.tls), timeout=seconds)
