"""Serves `/probe?target=NAME`: the metrics of one server, in the manner of Prometheus' multi-target exporters.

A request that is refused causes no I/O: no address is resolved or connected to, and no file is looked at. So all
refusals of targets are the same, whether the target exists or not.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from urllib.parse import parse_qsl

from prometheus_client.metrics_core import Metric
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from uwsgi_headroom.config.defaults import TIMEOUT_SECONDS
from uwsgi_headroom.metrics import families
from uwsgi_headroom.metrics.exposition import END, OPENMETRICS, TEXT, render_family
from uwsgi_headroom.metrics.family import gauge, label_set
from uwsgi_headroom.watch.fleet import Fleet
from uwsgi_headroom.watch.observation import Observation
from uwsgi_headroom.watch.probed import NoPlaceError, ProbedServers
from uwsgi_headroom.watch.turns import Turns
from uwsgi_headroom.watch.watch import Watch
from uwsgi_headroom.web.negotiation import accepts_gzip, accepts_openmetrics, compress
from uwsgi_headroom.web.query_parameters import RefusedError

_HEADERS = {"Cache-Control": "no-store", "X-Content-Type-Options": "nosniff"}
_LARGE_BYTES = 2**20
_FIRST_SECONDS = TIMEOUT_SECONDS + 1.0
"""How long a probe waits for the first reading, in seconds: longer than the timeout of a read, so that a first probe
never says that a target is down because it is slow."""

_RETRY_SECONDS = 60

_NOT_ALLOWED = (
    "this target is neither the name of a server of this exporter nor an address that its `probe.targets` allows\n"
)
_USAGE = "expected exactly one parameter, `target`: /probe?target=NAME, or an address such as 10.0.3.7:1717\n"
_FROM_A_PAGE = "a web page of another site caused this request: probes are for Prometheus\n"


def routes(fleet: Fleet) -> list[Route]:
    """Make the route; none unless probes are configured."""
    probed = fleet.probed
    if probed is None:
        return []
    answers = _SharedAnswers(fleet)

    async def probe(request: Request) -> Response:
        try:
            watch = _find_watch(fleet, probed, request)
        except RefusedError as error:
            return PlainTextResponse(str(error), error.status, _HEADERS)
        except NoPlaceError as error:
            return PlainTextResponse(f"{error}\n", 503, {**_HEADERS, "Retry-After": str(_RETRY_SECONDS)})
        openmetrics = accepts_openmetrics(request.headers.get("accept", ""))
        gzip = accepts_gzip(request.headers.get("accept-encoding", ""))
        body = await answers.wait(watch, openmetrics, gzip)
        headers = {
            **_HEADERS,
            "Content-Type": OPENMETRICS if openmetrics else TEXT,
            "Vary": "Accept, Accept-Encoding",
            **({"Content-Encoding": "gzip"} if gzip else {}),
        }
        return Response(body, headers=headers)

    return [Route("/probe", probe)]


def _find_watch(fleet: Fleet, probed: ProbedServers, request: Request) -> Watch:
    """Return the watch of the target. Raises RefusedError, NoPlaceError."""
    # A page cannot read the answer, but its request would have the exporter connect. Prometheus sends no such header.
    if request.headers.get("sec-fetch-site", "none") not in ("none", "same-origin"):
        raise RefusedError(403, _FROM_A_PAGE)
    watch = probed.find(_target(request.url.query), fleet.watches())
    if watch is None:
        raise RefusedError(403, _NOT_ALLOWED)
    return watch


def _target(query: str) -> str:
    """Return the value of the only parameter, `target`. Raises RefusedError."""
    try:
        parameters = parse_qsl(query, keep_blank_values=True, strict_parsing=True, max_num_fields=1)
    except ValueError:
        parameters = []
    if len(parameters) != 1 or parameters[0][0] != "target" or not parameters[0][1]:
        raise RefusedError(400, _USAGE)
    return parameters[0][1]


class _SharedAnswers:
    """Renders answers one after another. Requests for one target and format share the next one, which is rendered after
    they arrived: many of them cost two renderings, as of /metrics."""

    def __init__(self, fleet: Fleet) -> None:
        self._fleet = fleet
        self._in_turn = asyncio.Lock()
        self._next: dict[tuple[Watch, bool, bool], asyncio.Task[bytes]] = {}

    async def wait(self, watch: Watch, openmetrics: bool, gzip: bool) -> bytes:
        """Wait for the body of an answer. Cancelling does not affect other requests."""
        key = watch, openmetrics, gzip
        if key not in self._next:
            self._next[key] = asyncio.create_task(self._make(*key), name=f"probe {watch.name}")
            # Not at the end of `_make`: a task cancelled before its first step never runs that.
            self._next[key].add_done_callback(lambda task: self._forget(key, task))
        return await asyncio.shield(self._next[key])

    def _forget(self, key: tuple[Watch, bool, bool], task: asyncio.Task[bytes] | None = None) -> None:
        if task is None or self._next.get(key) is task:
            self._next.pop(key, None)

    async def _make(self, watch: Watch, openmetrics: bool, gzip: bool) -> bytes:
        began = time.monotonic()
        await self._fleet.wait_for_first([watch], _FIRST_SECONDS)
        seconds = time.monotonic() - began
        async with self._in_turn:
            self._forget((watch, openmetrics, gzip))  # later requests wait for the next answer
            observation = watch.observe(self._fleet.settings.windows)
            try:
                body = await _render(observation, seconds, openmetrics=openmetrics)
            except Exception as error:  # noqa: BLE001 - an internal error is the target's failure
                failed = watch.failed_observation(watch.reader.fault(error))
                body = await _render(failed, seconds, openmetrics=openmetrics)
            if not gzip:
                return body
            return await asyncio.to_thread(compress, body) if len(body) >= _LARGE_BYTES else compress(body)


async def _render(observation: Observation, seconds: float, *, openmetrics: bool) -> bytes:
    texts: list[str] = []
    turns = Turns()
    for family in _families(observation, seconds):
        texts.append(render_family(family, openmetrics=openmetrics))
        await turns.pause_if_due()
    return "".join([*texts, END if openmetrics else ""]).encode()


def _families(observation: Observation, seconds: float) -> Iterator[Metric]:
    """Build the families of one target. The exporter's own, which have no label `server`, are in /metrics."""
    yield gauge(
        "probe_success",
        "Whether the target was read a moment ago: the value of uwsgi_up.",
        [(label_set(), 1.0 if observation.reading else 0.0)],
    )
    yield gauge(
        "probe_duration_seconds",
        "How long this probe waited for the target's first reading; about 0 for a target that is being watched.",
        [(label_set(), seconds)],
    )
    for family in families([observation]):
        if family.samples and "server" in family.samples[0].labels:
            yield family
