"""Serves `/metrics` from the last readings, without reading any server. It is rendered once for each of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from uwsgi_headroom.metrics import families
from uwsgi_headroom.metrics.exposition import END, OPENMETRICS, TEXT, render_family
from uwsgi_headroom.watch.fleet import Fleet
from uwsgi_headroom.watch.observation import ExporterHealth, Observation
from uwsgi_headroom.watch.turns import Turns
from uwsgi_headroom.web import bounds
from uwsgi_headroom.web.negotiation import accepts_openmetrics
from uwsgi_headroom.web.shared_builds import Kind, SharedBuilds

SCRAPES = Kind("scrapes", rest=0.0, most=bounds.MOST_SCRAPES, seconds=1.0)
"""Without a rest: a scrape waits for no other one longer than that takes."""


def route(fleet: Fleet, builds: SharedBuilds) -> Route:
    """Make the route."""

    async def metrics(request: Request) -> Response:
        openmetrics = accepts_openmetrics(request.headers.get("accept", ""))

        async def make() -> bytes:
            return await _render_all(fleet, await fleet.observe(wait=0.0), openmetrics=openmetrics)

        await fleet.wait_for_first(fleet.watches())
        answer = await builds.get(SCRAPES, ("metrics", openmetrics), fleet_state(fleet), make, request)
        headers = {"Content-Type": OPENMETRICS if openmetrics else TEXT, "Vary": "Accept, Accept-Encoding"}
        return await answer.respond(request, headers)

    return Route("/metrics", metrics)


def fleet_state(fleet: Fleet) -> Callable[[], object]:
    """What changes with every reading of any server, and with every reload of the configuration."""
    return lambda: (fleet.reload, *((watch.name, watch.reader.attempts) for watch in fleet.watches()))


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
