"""`/metrics`: what was last read of every server. Nothing is read for it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from uwsgi_headroom.metrics import families
from uwsgi_headroom.metrics.exposition import END, OPENMETRICS, TEXT, render_family
from uwsgi_headroom.watch.fleet import Fleet
from uwsgi_headroom.watch.observation import ExporterHealth, Observation
from uwsgi_headroom.web.negotiation import accepts_openmetrics, compressible_response

_SLICE_SECONDS = 0.01
"""For how long families are made without a turn for the event loop: reads in flight have a deadline."""


def route(fleet: Fleet) -> Route:
    """The route over a fleet."""
    in_turn = asyncio.Lock()  # a hundred scrapers at once would have the event loop to themselves

    async def metrics(request: Request) -> Response:
        openmetrics = accepts_openmetrics(request.headers.get("accept", ""))
        async with in_turn:
            body = await _render_all(fleet, await fleet.observe(), openmetrics=openmetrics)
        headers = {"Content-Type": OPENMETRICS if openmetrics else TEXT, "Vary": "Accept, Accept-Encoding"}
        return compressible_response(request, body, headers)

    return Route("/metrics", metrics)


async def _render_all(fleet: Fleet, observations: Sequence[Observation], *, openmetrics: bool) -> bytes:
    """All families as text. A fault of ours about one server is that server's failure."""
    try:
        return await _render(observations, fleet.health, openmetrics=openmetrics)
    except Exception:  # noqa: BLE001 - whose fault it is, is seen by rendering each alone
        rendered: list[Observation] = []
        for observation in observations:
            try:
                await _render([observation], fleet.health, openmetrics=openmetrics)
                rendered.append(observation)
            except Exception as error:  # noqa: BLE001 - as said
                rendered.append(fleet.fail(observation.name, error))
        return await _render(rendered, fleet.health, openmetrics=openmetrics)


async def _render(observations: Sequence[Observation], health: ExporterHealth, *, openmetrics: bool) -> bytes:
    texts: list[str] = []
    began = time.monotonic()
    for family in families(observations, health):
        texts.append(render_family(family, openmetrics=openmetrics))
        if time.monotonic() - began > _SLICE_SECONDS:
            await asyncio.sleep(0)
            began = time.monotonic()
    if openmetrics:
        texts.append(END)
    return "".join(texts).encode()
