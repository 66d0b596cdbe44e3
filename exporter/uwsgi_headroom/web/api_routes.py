"""The routes of the JSON API. They build documents from the watches and never read uWSGI."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from functools import cache
from pathlib import Path

import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from uwsgi_headroom.config.defaults import HISTORY_SECONDS
from uwsgi_headroom.documents import build, openapi, schema
from uwsgi_headroom.documents.deploys import LONGEST_COMPARED, Times, compare_last, compare_times
from uwsgi_headroom.documents.history import MOST_POINTS, build_history, build_stored_history, slice_seconds
from uwsgi_headroom.documents.predict import PEAK_SECONDS, predict_what_if
from uwsgi_headroom.errors import HistoryFileError
from uwsgi_headroom.journal.events import MOST_EVENTS, Event
from uwsgi_headroom.store.record import LONGEST_SECONDS, MINUTES
from uwsgi_headroom.watch.deploy_watch import AFTER_SECONDS, BEFORE_SECONDS
from uwsgi_headroom.watch.fleet import Fleet
from uwsgi_headroom.watch.turns import run_in_thread
from uwsgi_headroom.watch.watch import Watch
from uwsgi_headroom.web import bounds, request_values
from uwsgi_headroom.web.event_stream import EventStreams
from uwsgi_headroom.web.metrics_route import fleet_state
from uwsgi_headroom.web.request_values import RefusedError, compressible_response, register_text_convertor
from uwsgi_headroom.web.shared_builds import Answer, Kind, SharedBuilds

HEADERS = {"Cache-Control": "no-store", "X-Content-Type-Options": "nosniff", "Vary": "Accept-Encoding"}

DOCUMENTS = Kind("documents", rest=1.0, most=bounds.MOST_DOCUMENTS, seconds=1.0)
_HISTORIES = Kind("histories", rest=1.0, most=bounds.MOST_HISTORIES, seconds=60.0)
_STORED_HISTORIES = Kind("histories from the file", rest=1.0, most=bounds.MOST_HISTORIES, seconds=60.0)
_JOURNALS = Kind("journals", rest=1.0, most=bounds.MOST_HISTORIES, seconds=5.0)
_PREDICTIONS = Kind("predictions", rest=2.0, most=bounds.MOST_PREDICTIONS, seconds=60.0)

_COMPARISONS = Kind("comparisons", rest=1.0, most=bounds.MOST_HISTORIES, seconds=15.0)

_LEAST_BYTES_TO_COMPRESS = 8192  # bytes
_LEAST_SECONDS = 2.0
_POINTS = 240

_WRITTEN_SECONDS = 5.0
"""How long after the end of a minute it is in the history file, with most servers."""

_YOUNG_SECONDS = 10.0
"""How long a prediction from a history shorter than its window is kept."""


_COMPARED_SECONDS = 5.0
"""How long a comparison is kept."""


def routes(fleet: Fleet, streams: EventStreams, builds: SharedBuilds) -> list[Route]:
    """Make all routes under /api/v1/."""
    register_text_convertor()
    answers: dict[str, Callable[[Request, Watch], Awaitable[Response]]] = {
        "": lambda request, watch: _server(fleet, builds, request, watch),
        "/findings": lambda request, watch: _findings(fleet, builds, request, watch),
        "/history": lambda request, watch: _history(fleet, builds, request, watch),
        "/journal": lambda request, watch: _journal(fleet, builds, request, watch),
        "/what-if": lambda request, watch: _what_if(fleet, builds, request, watch),
        "/compare": lambda request, watch: _compare(fleet, builds, request, watch),
        "/events": lambda request, watch: _events(fleet, builds, streams, request, watch),
    }

    async def one(request: Request) -> Response:
        watch, what = _find_watch(fleet, request.path_params["rest"], answers)
        await fleet.wait_for_first([watch])
        return await answers[what](request, watch)

    async def all_of_them(request: Request) -> Response:
        window = _window(fleet, request)
        await fleet.wait_for_first(fleet.watches())
        return await _json(request, await _build_list(fleet, builds, window, request))

    async def events(request: Request) -> Response:
        window = _window(fleet, request)

        async def make() -> bytes:
            return (await _build_list(fleet, builds, window)).plain

        return _stream(streams, request, window, make)

    @cache
    def build_description() -> Answer:
        return Answer(openapi.render())

    async def description(request: Request) -> Response:
        return await _json(request, build_description())

    async def nothing(_request: Request) -> Response:
        raise RefusedError(404, "no such path; /api/v1/openapi.json lists all paths")

    endpoints = {
        "/api/v1/servers": all_of_them,
        "/api/v1/servers/{rest:anything}": one,
        "/api/v1/events": events,
        "/api/v1/openapi.json": description,
        "/api/v1/{rest:anything}": nothing,
    }
    return [Route(path, endpoint) for path, endpoint in endpoints.items()]


def refuse(request: Request, error: RefusedError) -> Response:
    """Answer a refused request with a document that says why."""
    body = msgspec.json.encode(schema.Problem(error=str(error)))
    answer = compressible_response(request, body, HEADERS, "application/json", status=error.status, least_bytes=8192)
    if error.status == 503:
        answer.headers["Retry-After"] = str(request_values.RETRY_SECONDS)
    return answer


async def _server(fleet: Fleet, builds: SharedBuilds, request: Request, watch: Watch) -> Response:
    return await _json(request, await _build_document(fleet, builds, watch, _window(fleet, request), request))


async def _build_document(
    fleet: Fleet, builds: SharedBuilds, watch: Watch, window: float, request: Request | None = None
) -> Answer:
    async def make() -> bytes:
        return msgspec.json.encode(_describe(fleet, watch, window))

    return await builds.get(DOCUMENTS, ("document", watch, window), lambda: watch.reader.attempts, make, request)


async def _build_list(fleet: Fleet, builds: SharedBuilds, window: float, request: Request | None = None) -> Answer:
    async def make() -> bytes:
        described = await build.build_servers(fleet.watches(), fleet.clock, window, fleet.settings.windows)
        return msgspec.json.encode(build.build_server_list(described, fleet.clock, fleet.health.patterns))

    return await builds.get(DOCUMENTS, ("list", window), fleet_state(fleet), make, request)


async def _findings(fleet: Fleet, builds: SharedBuilds, request: Request, watch: Watch) -> Response:
    window = _window(fleet, request)

    async def make() -> bytes:
        return msgspec.json.encode(build.extract_findings(_describe(fleet, watch, window)))

    key = "findings", watch, window
    return await _json(request, await builds.get(DOCUMENTS, key, lambda: watch.reader.attempts, make, request))


async def _history(fleet: Fleet, builds: SharedBuilds, request: Request, watch: Watch) -> Response:
    seconds = request_values.parse_number(request, "seconds", HISTORY_SECONDS, _LEAST_SECONDS, _longest_history(watch))
    points = request_values.parse_whole_number(request, "points", _POINTS, 1, MOST_POINTS)
    until = request_values.parse_number(request, "until", 0, 0, 1e12) if "until" in request.query_params else None
    clock = fleet.clock
    is_stored = _is_stored(fleet, watch, seconds, points, until)

    def newest_slice() -> object:
        if is_stored:
            return (clock.epoch() - _WRITTEN_SECONDS) // MINUTES.seconds
        return watch.history.newest_slice(slice_seconds(seconds, points, clock.epoch() - until if until else 0.0))

    async def make() -> bytes:
        if is_stored and watch.writer:
            now = clock.epoch()
            end = now if until is None else until
            step = max(slice_seconds(seconds, points), float(MINUTES.seconds))
            try:
                path = watch.writer.path
                return await run_in_thread(
                    lambda turns: msgspec.json.encode(
                        build_stored_history(path, watch.name, step, end - seconds, end, now, turns)
                    )
                )
            except HistoryFileError as error:
                if seconds > HISTORY_SECONDS:
                    raise RefusedError(503, str(error)) from None
        return msgspec.json.encode(await build_history(watch, clock, seconds, points, until))

    kind = _STORED_HISTORIES if is_stored else _HISTORIES
    key = "history", watch, seconds, points, until, is_stored
    return await _json(request, await builds.get(kind, key, newest_slice, make, request))


def _is_stored(fleet: Fleet, watch: Watch, seconds: float, points: int, until: float | None) -> bool:
    """Whether a history is built from the file: if its slices are not shorter than the file's minutes, or if only the
    file reaches back to its start."""
    since = watch.writer.since.get(watch.name) if watch.writer else None
    if since is None:
        return seconds > HISTORY_SECONDS
    if slice_seconds(seconds, points) >= MINUTES.seconds:
        return True
    start = (fleet.clock.epoch() if until is None else until) - seconds
    in_memory_since = fleet.clock.epoch() - watch.history.seconds
    return start < in_memory_since - MINUTES.seconds and since < in_memory_since - MINUTES.seconds


async def _journal(fleet: Fleet, builds: SharedBuilds, request: Request, watch: Watch) -> Response:
    seconds = request_values.parse_number(request, "seconds", HISTORY_SECONDS, 0, _longest_history(watch))
    limit = request_values.parse_whole_number(request, "limit", MOST_EVENTS, 1, MOST_EVENTS)
    before = request_values.parse_cursor(request, "before")

    async def find_earlier(since: float, before: build.Cursor, count: int) -> list[Event]:
        if not watch.writer or not watch.writer.since:
            return []
        path = watch.writer.path
        now = fleet.clock.epoch()
        return await run_in_thread(lambda _turns: _find_earlier(path, watch.name, since, before, count, now))

    async def make() -> bytes:
        journal = await build.build_journal(watch, fleet.clock, seconds, limit, before, find_earlier)
        return msgspec.json.encode(journal)

    key = "journal", watch, seconds, limit, before
    counts = watch.recorder.journal.counts
    return await _json(request, await builds.get(_JOURNALS, key, lambda: sum(counts.values()), make, request))


def _longest_history(watch: Watch) -> float:
    return LONGEST_SECONDS if watch.writer else HISTORY_SECONDS


def _find_earlier(path: Path, name: str, since: float, before: build.Cursor, count: int, now: float) -> list[Event]:
    """The latest events in the history file; none if it cannot be read, which `kept_history` explains."""
    from uwsgi_headroom.store.file import HistoryFile  # noqa: PLC0415 - loads sqlite3

    try:
        with HistoryFile(path, now) as file:
            return file.latest_events(name, since, before, count)
    except HistoryFileError:
        return []


async def _what_if(fleet: Fleet, builds: SharedBuilds, request: Request, watch: Watch) -> Response:
    settings = request_values.parse_setting_list(request, "settings")
    seconds = fleet.settings.windows[-1]

    def newest_slice() -> object:
        # While the history is younger than the window, it changes more within a minute.
        step = PEAK_SECONDS if watch.history.seconds >= seconds else _YOUNG_SECONDS
        return watch.history.newest_slice(step), watch.state

    async def make() -> bytes:
        return msgspec.json.encode(await predict_what_if(watch, fleet.clock, seconds, settings))

    key = "what-if", watch, seconds, settings
    return await _json(request, await builds.get(_PREDICTIONS, key, newest_slice, make, request))


async def _compare(fleet: Fleet, builds: SharedBuilds, request: Request, watch: Watch) -> Response:
    latest = watch.deploys.latest
    around = request_values.parse_number(request, "around", latest.time if latest else 0.0, 0, 1e12)
    if not around:
        raise RefusedError(400, "around: give a time in epoch seconds, since the exporter saw no reload of this server")
    is_last = not any(request_values.read_parameter(request, name) for name in ("around", "before", "after"))
    before = request_values.parse_number(request, "before", BEFORE_SECONDS, 60, LONGEST_COMPARED)
    after = request_values.parse_number(request, "after", AFTER_SECONDS, 60, LONGEST_COMPARED)
    times = Times(around, before, after)

    async def make() -> bytes:
        if is_last:
            return msgspec.json.encode(await compare_last(watch, fleet.clock))
        try:
            return msgspec.json.encode(await compare_times(watch, fleet.clock, times))
        except HistoryFileError as error:
            raise RefusedError(503, str(error)) from None

    def newest_slice() -> object:
        return watch.history.newest_slice(_COMPARED_SECONDS)

    return await _json(
        request, await builds.get(_COMPARISONS, ("compare", watch, times, is_last), newest_slice, make, request)
    )


async def _events(
    fleet: Fleet, builds: SharedBuilds, streams: EventStreams, request: Request, watch: Watch
) -> Response:
    window = _window(fleet, request)

    async def make() -> bytes | None:
        if watch not in fleet.watches():
            return None
        return (await _build_document(fleet, builds, watch, window)).plain

    return _stream(streams, request, (watch, window), make)


def _stream(
    streams: EventStreams, request: Request, key: object, make: Callable[[], Awaitable[bytes | None]]
) -> Response:
    if streams.is_full():
        raise RefusedError(503, "too many streams are open; close a page, or retry later")
    if request.method == "HEAD":
        return Response(media_type="text/event-stream", headers=HEADERS)
    answer = streams.response(key, make)
    answer.headers.update({**HEADERS, "Vary": "Accept"})
    return answer


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
    return request_values.parse_window(request, fleet.settings.windows)


async def _json(request: Request, answer: Answer) -> Response:
    return await answer.respond(request, HEADERS, "application/json", least_bytes=_LEAST_BYTES_TO_COMPRESS)
