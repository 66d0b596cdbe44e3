"""The routes of the JSON API. They build documents from the watches and never read uWSGI."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import cached_property
from pathlib import Path

import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from uwsgi_headroom.config.defaults import HISTORY_SECONDS
from uwsgi_headroom.documents import build, openapi, schema
from uwsgi_headroom.documents.deploys import LONGEST_COMPARED, ComparedTimes, compare_last, compare_times
from uwsgi_headroom.documents.history import MOST_POINTS, build_history, build_stored_history, slice_seconds
from uwsgi_headroom.documents.predict import PEAK_SECONDS, predict_what_if
from uwsgi_headroom.errors import HistoryFileError
from uwsgi_headroom.history.events import MOST_EVENTS, Event
from uwsgi_headroom.store.record import LONGEST_SECONDS, MINUTES
from uwsgi_headroom.watch.deploy_watch import AFTER_SECONDS, BEFORE_SECONDS
from uwsgi_headroom.watch.fleet import Fleet
from uwsgi_headroom.watch.turns import run_in_thread
from uwsgi_headroom.watch.watch import Watch
from uwsgi_headroom.web import bounds, request_values
from uwsgi_headroom.web.metrics_route import fleet_state
from uwsgi_headroom.web.request_values import RefusedError
from uwsgi_headroom.web.shared_builds import Body, BuildKind, EventStreams, SharedBuilds

HEADERS = {"Cache-Control": "no-store", "X-Content-Type-Options": "nosniff", "Vary": "Accept-Encoding"}

DOCUMENTS = BuildKind("documents", rest=1.0, most=bounds.MOST_DOCUMENTS, seconds=0.9)
"""Kept for less than the second between two documents of a stream, so that each is a new one."""

_HISTORIES = BuildKind("histories", rest=1.0, most=bounds.MOST_HISTORIES, seconds=60.0)
_STORED_HISTORIES = BuildKind("histories from the file", rest=1.0, most=bounds.MOST_HISTORIES, seconds=60.0)
_JOURNALS = BuildKind("journals", rest=1.0, most=bounds.MOST_HISTORIES, seconds=5.0)
_PREDICTIONS = BuildKind("predictions", rest=2.0, most=bounds.MOST_PREDICTIONS, seconds=60.0)
_COMPARISONS = BuildKind("comparisons", rest=1.0, most=bounds.MOST_HISTORIES, seconds=15.0)

_LEAST_SECONDS = 2.0
_POINTS = 240

_WRITTEN_SECONDS = 5.0
"""How long after the end of a minute it is in the history file, with most servers."""

_YOUNG_SECONDS = 10.0
"""How long a prediction from a history shorter than its window is kept."""

_COMPARED_SECONDS = 5.0
"""How long a comparison is kept."""


def routes(fleet: Fleet, streams: EventStreams, builds: SharedBuilds) -> list[Route]:
    """Make all routes under /api/v2/, and what answers under /api/v1/."""
    api = _Api(fleet, streams, builds)
    endpoints = {
        "/api/v2/servers": api.servers,
        "/api/v2/servers/{rest:anything}": api.one,
        "/api/v2/events": api.events,
        "/api/v2/openapi.json": api.description,
        "/api/v2/{rest:anything}": api.nothing,
        "/api/v1/servers": api.servers,  # what scripts ask to see whether it works; the same in both versions
        "/api/v1/{rest:anything}": api.ended,
    }
    return [Route(path, endpoint) for path, endpoint in endpoints.items()]


class _Api:
    """Answers the requests about a fleet: a method for each path, those of one server with its watch."""

    def __init__(self, fleet: Fleet, streams: EventStreams, builds: SharedBuilds) -> None:
        self._fleet, self._streams, self._builds = fleet, streams, builds
        self._parts: dict[str, Callable[[Request, Watch], Awaitable[Response]]] = {
            "": self._server,
            "/findings": self._findings,
            "/history": self._history,
            "/journal": self._journal,
            "/what-if": self._what_if,
            "/compare": self._compare,
            "/events": self._events,
        }

    async def one(self, request: Request) -> Response:
        """Answer a request about one server. A name may contain slashes."""
        rest: str = request.path_params["rest"]
        watches = {watch.name: watch for watch in self._fleet.watches()}
        for what, answer in self._parts.items():
            name = rest.removesuffix(what)
            if rest.endswith(what) and name in watches:
                await self._fleet.wait_for_first([watches[name]])
                return await answer(request, watches[name])
        raise RefusedError(404, f"no server {rest!r}; {build.SERVERS_PATH} lists all servers")

    async def servers(self, request: Request) -> Response:
        window = self._window(request)
        await self._fleet.wait_for_first(self._fleet.watches())
        return await _respond(request, await self._build_list(window, request))

    async def events(self, request: Request) -> Response:
        window = self._window(request)

        async def make() -> bytes:
            return (await self._build_list(window)).plain

        return self._stream(request, window, make)

    async def description(self, request: Request) -> Response:
        return await _respond(request, self._description)

    @cached_property
    def _description(self) -> Body:
        return Body(openapi.render())

    async def ended(self, _request: Request) -> Response:
        raise RefusedError(410, "this version of the API has ended: /api/v2/openapi.json describes the present one")

    async def nothing(self, _request: Request) -> Response:
        raise RefusedError(404, "no such path; /api/v2/openapi.json lists all paths")

    async def _server(self, request: Request, watch: Watch) -> Response:
        return await _respond(request, await self._build_document(watch, self._window(request), request))

    async def _build_document(self, watch: Watch, window: float, request: Request | None = None) -> Body:
        async def make() -> bytes:
            return msgspec.json.encode(self._describe(watch, window))

        key = "document", watch, window
        return await self._builds.get(DOCUMENTS, key, lambda: watch.reader.attempts, make, request)

    async def _build_list(self, window: float, request: Request | None = None) -> Body:
        fleet = self._fleet

        async def make() -> bytes:
            described = await build.build_servers(fleet.watches(), fleet.clock, window, fleet.settings.windows)
            return msgspec.json.encode(build.build_server_list(described, fleet.clock, fleet.health))

        return await self._builds.get(DOCUMENTS, ("list", window), fleet_state(fleet), make, request)

    async def _findings(self, request: Request, watch: Watch) -> Response:
        window = self._window(request)

        async def make() -> schema.Findings:
            return build.extract_findings(self._describe(watch, window))

        key = "findings", watch, window
        return await self._answer(request, DOCUMENTS, key, lambda: watch.reader.attempts, make)

    async def _history(self, request: Request, watch: Watch) -> Response:
        longest = _longest_history(watch)
        seconds = request_values.parse_number(request, "seconds", HISTORY_SECONDS, _LEAST_SECONDS, longest)
        points = request_values.parse_whole_number(request, "points", _POINTS, 1, MOST_POINTS)
        until = request_values.parse_number(request, "until", 0, 0, 1e12) or None
        clock = self._fleet.clock
        is_stored = self._is_stored(watch, seconds, points, until)

        def newest_slice() -> object:
            if is_stored:
                return (clock.epoch() - _WRITTEN_SECONDS) // MINUTES.seconds
            return watch.history.newest_slice(slice_seconds(seconds, points, clock.epoch() - until if until else 0.0))

        async def make() -> object:
            if is_stored and watch.writer:
                now, path = clock.epoch(), watch.writer.path
                end = until or now
                step = max(slice_seconds(seconds, points), float(MINUTES.seconds))
                try:
                    return await run_in_thread(
                        lambda turns: msgspec.json.encode(
                            build_stored_history(path, watch.name, step, end - seconds, end, now, turns)
                        )
                    )
                except HistoryFileError:
                    if seconds > HISTORY_SECONDS:
                        raise
            return await build_history(watch, clock, seconds, points, until)

        kind = _STORED_HISTORIES if is_stored else _HISTORIES
        key = "history", watch, seconds, points, until, is_stored
        return await self._answer(request, kind, key, newest_slice, make)

    def _is_stored(self, watch: Watch, seconds: float, points: int, until: float | None) -> bool:
        """Whether a history is built from the file: if its slices are not shorter than the file's minutes, or if only
        the file reaches back to its start."""
        since = watch.writer.since.get(watch.name) if watch.writer else None
        if since is None:
            return seconds > HISTORY_SECONDS
        if slice_seconds(seconds, points) >= MINUTES.seconds:
            return True
        now = self._fleet.clock.epoch()
        return max((until or now) - seconds, since) < now - watch.history.seconds - MINUTES.seconds

    async def _journal(self, request: Request, watch: Watch) -> Response:
        seconds = request_values.parse_number(request, "seconds", HISTORY_SECONDS, 0, _longest_history(watch))
        limit = request_values.parse_whole_number(request, "limit", MOST_EVENTS, 1, MOST_EVENTS)
        before = request_values.parse_cursor(request, "before")
        clock, counts = self._fleet.clock, watch.recorder.journal.counts

        async def find_earlier(since: float, before: build.Cursor, count: int) -> list[Event]:
            if not watch.writer or not watch.writer.since:
                return []
            path, now = watch.writer.path, clock.epoch()
            return await run_in_thread(lambda _turns: _find_earlier(path, watch.name, since, before, count, now))

        key = "journal", watch, seconds, limit, before
        make = lambda: build.build_journal(watch, clock, seconds, limit, before, find_earlier)  # noqa: E731
        return await self._answer(request, _JOURNALS, key, lambda: sum(counts.values()), make)

    async def _what_if(self, request: Request, watch: Watch) -> Response:
        settings = request_values.parse_setting_list(request, "settings")
        seconds = self._fleet.settings.windows[-1]

        def newest_slice() -> object:
            # While the history is younger than the window, it changes more within a minute.
            step = PEAK_SECONDS if watch.history.seconds >= seconds else _YOUNG_SECONDS
            return watch.history.newest_slice(step), watch.state

        key = "what-if", watch, seconds, settings
        make = lambda: predict_what_if(watch, self._fleet.clock, seconds, settings)  # noqa: E731
        return await self._answer(request, _PREDICTIONS, key, newest_slice, make)

    async def _compare(self, request: Request, watch: Watch) -> Response:
        latest = watch.deploys.latest
        around = request_values.parse_number(request, "around", latest.time if latest else 0.0, 0, 1e12)
        if not around:
            raise RefusedError(
                400, "around: give a time in epoch seconds, since the exporter saw no reload of this server"
            )
        is_last = not any(request_values.read_parameter(request, name) for name in ("around", "before", "after"))
        before = request_values.parse_number(request, "before", BEFORE_SECONDS, 60, LONGEST_COMPARED)
        after = request_values.parse_number(request, "after", AFTER_SECONDS, 60, LONGEST_COMPARED)
        times, clock = ComparedTimes(around, before, after), self._fleet.clock

        key = "compare", watch, times, is_last
        state = lambda: watch.history.newest_slice(_COMPARED_SECONDS)  # noqa: E731
        make = lambda: compare_last(watch, clock) if is_last else compare_times(watch, clock, times)  # noqa: E731
        return await self._answer(request, _COMPARISONS, key, state, make)

    async def _events(self, request: Request, watch: Watch) -> Response:
        window = self._window(request)

        async def make() -> bytes | None:
            if watch not in self._fleet.watches():
                return None
            return (await self._build_document(watch, window)).plain

        return self._stream(request, (watch, window), make)

    def _stream(self, request: Request, key: object, make: Callable[[], Awaitable[bytes | None]]) -> Response:
        if self._streams.is_full():
            raise RefusedError(503, "too many streams are open; close a page, or retry later")
        if request.method == "HEAD":
            return Response(media_type="text/event-stream", headers=HEADERS)
        answer = self._streams.response(key, make)
        answer.headers.update({**HEADERS, "Vary": "Accept"})
        return answer

    async def _answer(
        self,
        request: Request,
        kind: BuildKind,
        key: object,
        state: Callable[[], object],
        make: Callable[[], Awaitable[object]],
    ) -> Response:
        """Answer with a document, or with its JSON, that `make` returns. A history file that cannot be read is 503."""

        async def encode() -> bytes:
            try:
                document = await make()
            except HistoryFileError as error:
                raise RefusedError(503, str(error)) from None
            return document if isinstance(document, bytes) else msgspec.json.encode(document)

        return await self._builds.respond(request, kind, key, state, encode, HEADERS, "application/json")

    def _describe(self, watch: Watch, window: float) -> schema.ServerDocument:
        return build.build_server(watch, self._fleet.clock, window, self._fleet.settings.windows)

    def _window(self, request: Request) -> float:
        return request_values.parse_window(request, self._fleet.settings.windows)


async def _respond(request: Request, answer: Body) -> Response:
    return await answer.respond(request, HEADERS, "application/json")


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
