"""The routes of the JSON API. They build documents from the watches and never read uWSGI."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Awaitable, Callable, Iterable

import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from uwsgi_headroom.config.defaults import HISTORY_SECONDS
from uwsgi_headroom.documents import build, openapi, schema
from uwsgi_headroom.documents.history import MOST_POINTS
from uwsgi_headroom.errors import HistoryFileError
from uwsgi_headroom.journal.events import Event
from uwsgi_headroom.store.tiers import LONGEST_SECONDS
from uwsgi_headroom.watch.fleet import Fleet
from uwsgi_headroom.watch.watch import Watch
from uwsgi_headroom.web import query_parameters
from uwsgi_headroom.web.event_stream import RETRY_SECONDS, EventStreams
from uwsgi_headroom.web.history_cache import HistoryCache
from uwsgi_headroom.web.negotiation import compressible_response
from uwsgi_headroom.web.query_parameters import RefusedError
from uwsgi_headroom.web.text_convertor import register_text_convertor
from uwsgi_headroom.web.what_if_cache import TooManyError, WhatIfCache

HEADERS = {"Cache-Control": "no-store", "X-Content-Type-Options": "nosniff", "Vary": "Accept-Encoding"}

_LEAST_BYTES_TO_COMPRESS = 8192  # bytes
_LEAST_SECONDS = 2.0
_POINTS = 240


def routes(fleet: Fleet, streams: EventStreams) -> list[Route]:
    """Make all routes under /api/v1/."""
    register_text_convertor()
    histories, what_ifs = HistoryCache(fleet.clock), WhatIfCache(fleet.clock)
    answers: dict[str, Callable[[Request, Watch], Awaitable[Response]]] = {
        "": lambda request, watch: _server(fleet, request, watch),
        "/findings": lambda request, watch: _findings(fleet, request, watch),
        "/history": lambda request, watch: _history(histories, request, watch),
        "/journal": lambda request, watch: _journal(fleet, request, watch),
        "/what-if": lambda request, watch: _what_if(fleet, what_ifs, request, watch),
        "/events": lambda request, watch: _events(fleet, streams, request, watch),
    }

    async def one(request: Request) -> Response:
        watch, what = _find_watch(fleet, request.path_params["rest"], answers)
        await fleet.wait_for_first([watch])
        return await answers[what](request, watch)

    async def all_of_them(request: Request) -> Response:
        window = _window(fleet, request)
        await fleet.wait_for_first(fleet.watches())
        return _json(request, msgspec.json.encode(await _servers(fleet, window)))

    async def events(request: Request) -> Response:
        window = _window(fleet, request)

        async def make() -> bytes:
            return msgspec.json.encode(await _servers(fleet, window))

        return _stream(streams, request, window, make)

    async def description(request: Request) -> Response:
        return _json(request, openapi.FILE.read_bytes())

    async def nothing(_request: Request) -> Response:
        raise RefusedError(404, "no such path; /api/v1/openapi.json lists all paths")

    endpoints = {
        "/api/v1/servers": all_of_them,
        "/api/v1/servers/{rest:anything}": one,
        "/api/v1/events": events,
        "/api/v1/openapi.json": description,
        "/api/v1/{rest:anything}": nothing,
    }
    return [Route(path, _refuse_with_document(endpoint)) for path, endpoint in endpoints.items()]


def _refuse_with_document(
    endpoint: Callable[[Request], Awaitable[Response]],
) -> Callable[[Request], Awaitable[Response]]:
    """Wrap an endpoint, so that a refusal is answered with a document."""

    async def answer(request: Request) -> Response:
        try:
            return await endpoint(request)
        except RefusedError as error:
            return _json(request, msgspec.json.encode(schema.Problem(error=str(error))), error.status)

    return answer


async def _server(fleet: Fleet, request: Request, watch: Watch) -> Response:
    return _json(request, msgspec.json.encode(_describe(fleet, watch, _window(fleet, request))))


async def _findings(fleet: Fleet, request: Request, watch: Watch) -> Response:
    whole = _describe(fleet, watch, _window(fleet, request))
    return _json(request, msgspec.json.encode(build.extract_findings(whole)))


async def _history(histories: HistoryCache, request: Request, watch: Watch) -> Response:
    seconds = query_parameters.parse_number(
        request, "seconds", HISTORY_SECONDS, _LEAST_SECONDS, _longest_history(watch)
    )
    points = query_parameters.parse_whole_number(request, "points", _POINTS, 1, MOST_POINTS)
    until = query_parameters.parse_number(request, "until", 0, 0, 1e12) if "until" in request.query_params else None
    body = await histories.get(watch, seconds, points, until)
    return _json(request, body.plain, compressed=body.compressed)


async def _journal(fleet: Fleet, request: Request, watch: Watch) -> Response:
    seconds = query_parameters.parse_number(request, "seconds", HISTORY_SECONDS, 0, _longest_history(watch))
    earlier = await asyncio.to_thread(_earlier_events, watch, fleet.clock.epoch() - seconds)
    return _json(request, msgspec.json.encode(build.build_journal(watch, fleet.clock, seconds, earlier)))


def _longest_history(watch: Watch) -> float:
    return LONGEST_SECONDS if watch.writer else HISTORY_SECONDS


def _earlier_events(watch: Watch, since: float) -> list[Event]:
    """The events in the history file; none if it cannot be read, which `kept_history` explains."""
    if not watch.writer or not watch.writer.since:
        return []
    from uwsgi_headroom.store.reader import HistoryFile  # noqa: PLC0415 - loads sqlite3

    try:
        with HistoryFile(watch.writer.path) as file:
            return file.events(watch.name, since, math.inf)
    except HistoryFileError:
        return []


async def _what_if(fleet: Fleet, what_ifs: WhatIfCache, request: Request, watch: Watch) -> Response:
    settings = query_parameters.parse_setting_list(request, "settings")
    try:
        return _json(request, await what_ifs.get(watch, fleet.settings.windows[-1], settings))
    except TooManyError:
        return _retry_later(request, "too many predictions are being made; retry later")


async def _events(fleet: Fleet, streams: EventStreams, request: Request, watch: Watch) -> Response:
    window = _window(fleet, request)

    async def make() -> bytes | None:
        if watch not in fleet.watches():
            return None
        return msgspec.json.encode(_describe(fleet, watch, window))

    return _stream(streams, request, (watch, window), make)


def _stream(
    streams: EventStreams, request: Request, key: object, make: Callable[[], Awaitable[bytes | None]]
) -> Response:
    if streams.is_full():
        return _retry_later(request, "too many streams are open; close a page, or retry later")
    if request.method == "HEAD":
        return Response(media_type="text/event-stream", headers=HEADERS)
    answer = streams.response(key, make)
    answer.headers.update({**HEADERS, "Vary": "Accept"})
    return answer


def _retry_later(request: Request, sentence: str) -> Response:
    answer = _json(request, msgspec.json.encode(schema.Problem(error=sentence)), 503)
    answer.headers["Retry-After"] = str(RETRY_SECONDS)
    return answer


async def _servers(fleet: Fleet, window: float) -> schema.Servers:
    described = await build.build_servers(fleet.watches(), fleet.clock, window, fleet.settings.windows)
    return build.build_server_list(described, fleet.clock)


def _describe(fleet: Fleet, watch: Watch, window: float) -> schema.Server:
    return build.build_server(watch, fleet.clock, window, fleet.settings.windows)


def _find_watch(fleet: Fleet, rest: str, parts: Iterable[str]) -> tuple[Watch, str]:
    """Find the server of a path, and the part of it that is requested. A name may contain slashes."""
    watches = {watch.name: watch for watch in fleet.watches()}
    for what in parts:
        name = rest.removesuffix(what)
        if rest.endswith(what) and name in watches:
            return watches[name], what
    raise RefusedError(404, f"no server {rest!r}; {build.SERVERS_PATH} lists all servers")


def _window(fleet: Fleet, request: Request) -> float:
    return query_parameters.parse_window(request, fleet.settings.windows)


def _json(request: Request, body: bytes, status: int = 200, compressed: bytes | None = None) -> Response:
    return compressible_response(
        request,
        body,
        HEADERS,
        "application/json",
        status=status,
        compressed=compressed,
        least_bytes=_LEAST_BYTES_TO_COMPRESS,
    )
