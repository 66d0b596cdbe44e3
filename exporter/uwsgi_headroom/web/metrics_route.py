"""Serves `/metrics` from the last readings, without reading any server.

Requests that arrive while a response is being rendered share the next one, which starts after they arrived. Many
simultaneous scrapers of a fleet with tens of thousands of series thus cost two renderings, not one each.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from uwsgi_headroom.metrics import families
from uwsgi_headroom.metrics.exposition import END, OPENMETRICS, TEXT, render_family
from uwsgi_headroom.watch.fleet import Fleet
from uwsgi_headroom.watch.observation import ExporterHealth, Observation
from uwsgi_headroom.watch.turns import Turns
from uwsgi_headroom.web.negotiation import accepts_gzip, accepts_openmetrics, compress

_LARGE_BYTES = 2 * 2**20
"""From this size on, compression takes too long for the event loop: 4 ms per megabyte."""


def route(fleet: Fleet) -> Route:
    """Make the route."""
    in_turn = asyncio.Lock()
    shared = {openmetrics: _SharedAnswer(fleet, in_turn, openmetrics=openmetrics) for openmetrics in (False, True)}

    async def metrics(request: Request) -> Response:
        openmetrics = accepts_openmetrics(request.headers.get("accept", ""))
        answer = await shared[openmetrics].wait()
        headers = {"Content-Type": OPENMETRICS if openmetrics else TEXT, "Vary": "Accept, Accept-Encoding"}
        if not accepts_gzip(request.headers.get("accept-encoding", "")):
            return Response(answer.plain, headers=headers)
        return Response(await answer.compress(), headers={**headers, "Content-Encoding": "gzip"})

    return Route("/metrics", metrics)


@dataclass
class _Answer:
    plain: bytes
    _compressed: asyncio.Future[bytes] | None = None

    async def compress(self) -> bytes:
        """Compress with gzip, once for all requests; a large response in a thread, as zlib releases Python's lock."""
        if self._compressed is None:
            if len(self.plain) >= _LARGE_BYTES:
                self._compressed = asyncio.ensure_future(asyncio.to_thread(compress, self.plain))
            else:
                self._compressed = asyncio.get_running_loop().create_future()
                self._compressed.set_result(compress(self.plain))
        return await asyncio.shield(self._compressed)


class _SharedAnswer:
    """Renders the responses of one format one after another, in turn with those of the other format."""

    def __init__(self, fleet: Fleet, in_turn: asyncio.Lock, *, openmetrics: bool) -> None:
        self._fleet, self._in_turn, self._openmetrics = fleet, in_turn, openmetrics
        self._next: asyncio.Task[_Answer] | None = None

    async def wait(self) -> _Answer:
        """Wait for a response whose rendering starts after this call. Cancelling does not affect other requests."""
        if self._next is None:
            self._next = asyncio.ensure_future(self._make())
        return await asyncio.shield(self._next)

    async def _make(self) -> _Answer:
        async with self._in_turn:
            self._next = None  # later requests wait for the next response
            observations = await self._fleet.observe()
            return _Answer(await _render_all(self._fleet, observations, openmetrics=self._openmetrics))


async def _render_all(fleet: Fleet, observations: Sequence[Observation], *, openmetrics: bool) -> bytes:
    """Render all families. If an internal error concerns one server, that server counts as failed."""
    try:
        return await _render(observations, fleet.health, openmetrics=openmetrics)
    except Exception:  # noqa: BLE001 - rendering each server alone shows which one causes the error
        rendered: list[Observation] = []
        for observation in observations:
            try:
                await _render([observation], fleet.health, openmetrics=openmetrics)
                rendered.append(observation)
            except Exception as error:  # noqa: BLE001 - an internal error about one server must not affect others
                rendered += filter(None, [fleet.fail(observation.name, error)])
        return await _render(rendered, fleet.health, openmetrics=openmetrics)


async def _render(observations: Sequence[Observation], health: ExporterHealth, *, openmetrics: bool) -> bytes:
    texts: list[str] = []
    turns = Turns()
    for family in families(observations, health):
        texts.append(render_family(family, openmetrics=openmetrics))
        await turns.pause_if_due()
    if openmetrics:
        texts.append(END)
    return "".join(texts).encode()
