"""Serves `/metrics` and `/probe?target=NAME` from the last readings, without reading any server.

`/metrics` is rendered once for all readings of all servers. `/probe` has the metrics of one server, in the manner of
Prometheus' multi-target exporters. A refused probe causes no I/O: no address is resolved or connected to, and no file
is looked at. So all refusals of targets are the same, whether the target exists or not.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from urllib.parse import parse_qsl

from prometheus_client.metrics_core import Metric
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from uwsgi_headroom.config.defaults import TIMEOUT_SECONDS
from uwsgi_headroom.metrics import families
from uwsgi_headroom.metrics.exposition import END, OPENMETRICS, TEXT, render_family
from uwsgi_headroom.metrics.family import label_set, make_family
from uwsgi_headroom.watch.fleet import Fleet
from uwsgi_headroom.watch.observation import Observation
from uwsgi_headroom.watch.probed import NoPlaceError
from uwsgi_headroom.watch.turns import Turns
from uwsgi_headroom.watch.watch import Watch
from uwsgi_headroom.web import bounds
from uwsgi_headroom.web.request_values import RefusedError, accepts_openmetrics
from uwsgi_headroom.web.shared_builds import BuildKind, SharedBuilds

_SCRAPES = BuildKind("scrapes", rest=0.0, most=bounds.MOST_SCRAPES, seconds=1.0)
_PROBES = BuildKind("probes", rest=0.0, most=bounds.MOST_SCRAPES, seconds=1.0)
"""Both without a rest: a scrape waits for no other one longer than that takes."""

_FIRST_SECONDS = TIMEOUT_SECONDS + 1.0
"""How long a probe waits for the first reading, in seconds: longer than the timeout of a read, so that a first probe
never says that a target is down because it is slow."""

_RETRY_SECONDS = 60

_NOT_ALLOWED = (
    "this target is neither the name of a server of this exporter nor an address that its `probe.targets` allows"
)
_USAGE = "expected exactly one parameter, `target`: /probe?target=NAME, or an address such as 10.0.3.7:1717"

_NO_SNIFF = {"X-Content-Type-Options": "nosniff"}
_PROBE_HEADERS = {"Cache-Control": "no-store", **_NO_SNIFF}


def routes(fleet: Fleet, builds: SharedBuilds) -> list[Route]:
    """Make the routes; that of probes only if they are configured."""

    async def metrics(request: Request) -> Response:
        openmetrics = accepts_openmetrics(request.headers.get("accept", ""))

        async def make() -> bytes:
            return await _render_all(fleet, await fleet.observe(wait=0.0), openmetrics=openmetrics)

        await fleet.wait_for_first(fleet.watches())
        key, headers = ("metrics", openmetrics), _headers(openmetrics=openmetrics)
        return await builds.respond(request, _SCRAPES, key, fleet_state(fleet), make, headers)

    async def probe(request: Request) -> Response:
        return await _probe(request, fleet, builds)

    return [Route("/metrics", metrics), *([Route("/probe", probe)] if fleet.probed else [])]


def fleet_state(fleet: Fleet) -> Callable[[], object]:
    """What changes with every reading of any server, and with the list of servers."""
    return lambda: [(watch.name, watch.reader.attempts) for watch in fleet.watches()]


async def _render_all(fleet: Fleet, observations: Sequence[Observation], *, openmetrics: bool) -> bytes:
    """Render all families. If an internal error concerns one server, that server counts as failed."""

    async def render(observations: Sequence[Observation]) -> bytes:
        return await _render(families(observations, fleet.health), openmetrics=openmetrics)

    try:
        return await render(observations)
    except Exception:  # noqa: BLE001 - rendering each server alone shows which one causes the error
        rendered: list[Observation] = []
        for observation in observations:
            try:
                await render([observation])
                rendered.append(observation)
            except Exception as error:  # noqa: BLE001 - an internal error about one server must not affect others
                rendered += filter(None, [fleet.fail(observation.name, error)])
        return await render(rendered)


async def _probe(request: Request, fleet: Fleet, builds: SharedBuilds) -> Response:
    assert fleet.probed
    try:
        watch = fleet.probed.find(_target(request.url.query), fleet.watches())
    except NoPlaceError as error:
        return PlainTextResponse(f"{error}\n", 503, {**_PROBE_HEADERS, "Retry-After": str(_RETRY_SECONDS)})
    if watch is None:
        raise RefusedError(403, _NOT_ALLOWED)
    openmetrics = accepts_openmetrics(request.headers.get("accept", ""))
    began = time.monotonic()
    await fleet.wait_for_first([watch], _FIRST_SECONDS)
    seconds = time.monotonic() - began

    async def make() -> bytes:
        return await _render_one(fleet, watch, seconds, openmetrics=openmetrics)

    key, headers = ("probe", watch, openmetrics), {**_PROBE_HEADERS, **_headers(openmetrics=openmetrics)}
    return await builds.respond(request, _PROBES, key, lambda: watch.reader.attempts, make, headers)


def _target(query: str) -> str:
    try:
        parameters = parse_qsl(query, keep_blank_values=True, strict_parsing=True, max_num_fields=1)
    except ValueError:
        parameters = []
    if len(parameters) != 1 or parameters[0][0] != "target" or not parameters[0][1]:
        raise RefusedError(400, _USAGE)
    return parameters[0][1]


async def _render_one(fleet: Fleet, watch: Watch, seconds: float, *, openmetrics: bool) -> bytes:
    observation = watch.observe(fleet.settings.windows)
    try:
        return await _render(_probe_families(observation, seconds), openmetrics=openmetrics)
    except Exception as error:  # noqa: BLE001 - of a figure of this target, whatever it is
        failed = watch.failed_observation(watch.reader.fault(error))
        return await _render(_probe_families(failed, seconds), openmetrics=openmetrics)


def _probe_families(observation: Observation, seconds: float) -> Iterator[Metric]:
    """Build the families of one target. The exporter's own, which have no label `server`, are in /metrics."""
    yield make_family(
        "probe_success",
        "Whether the target was read a moment ago: the value of uwsgi_up.",
        [(label_set(), float(observation.reading is not None and not observation.is_silent))],
    )
    yield make_family(
        "probe_duration_seconds",
        "How long this probe waited for the target's first reading; about 0 for a target that is being watched.",
        [(label_set(), seconds)],
    )
    for family in families([observation]):
        if family.samples and "server" in family.samples[0].labels:
            yield family


async def _render(rendered: Iterable[Metric], *, openmetrics: bool) -> bytes:
    texts: list[str] = []
    turns = Turns()
    for family in rendered:
        texts.append(render_family(family, openmetrics=openmetrics))
        await turns.pause_if_due()
    if openmetrics:
        texts.append(END)
    return "".join(texts).encode()


def _headers(*, openmetrics: bool) -> dict[str, str]:
    return {"Content-Type": OPENMETRICS if openmetrics else TEXT, "Vary": "Accept, Accept-Encoding", **_NO_SNIFF}
