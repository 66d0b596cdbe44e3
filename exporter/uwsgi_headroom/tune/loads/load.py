"""Defines what a load on a server is, and what its clients saw."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

Tool = Literal["own", "ab", "wrk"]
"""own: this package's asyncio clients. ab: ApacheBench. wrk: wrk, which always keeps connections alive."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """Requests on one server, in one of two shapes: one of `clients` and `rate` is 0."""

    paths: tuple[str, ...] = ("/",)
    """Requested in turn, each with its query."""

    clients: int = 0
    """Closed loop: so many clients repeat their requests without a pause."""

    rate: float = 0.0
    """Open loop: arrivals per second that do not wait for earlier answers."""

    idle: int = 0
    """Connections that are opened before the others, and send nothing."""

    keep_alive: int = 1
    """Calls per connection; 1 is HTTP/1.0 without keep-alive."""

    tool: Tool = "own"
    warm_up: float = 2.0
    """Seconds of the same load that do not count."""

    seconds: float = 15.0
    """Of the measurement."""

    timeout: float = 30.0
    """Seconds after which a request counts as failed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Answers:
    """What the clients of a load saw in the measured time. Times in seconds.

    In an open loop, response times count from the time at which the request was due, so that a server that stops for a
    second delays all requests of that second (no coordinated omission). A figure that the tool does not report is None.
    """

    seconds: float
    answered: int
    """Complete responses with a status below 500."""

    errors: Mapping[str, int] = field(default_factory=dict)
    """The other requests, by kind: `refused`, `timeout`, `reset`, `status 503`, `left out` (not sent because too many
    were in flight)."""

    mean: float | None = None
    p50: float | None = None
    p95: float | None = None
    p99: float | None = None
    longest: float | None = None
    statuses: Mapping[int, int] = field(default_factory=dict)
    """How many of those answered had a status of 300 or more, by status."""

    @property
    def throughput(self) -> float:
        """Answers per second."""
        return self.answered / self.seconds
