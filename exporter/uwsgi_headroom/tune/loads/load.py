"""What a load on a server is, and what its clients saw."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

Tool = Literal["own", "ab", "wrk"]
"""own: this package's asyncio clients. ab: ApacheBench. wrk: wrk, which always keeps connections alive."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """Requests on one server, in one of three shapes.

    clients: closed loop: so many clients repeat their requests without a pause. rate: open loop: arrivals per second
        that do not wait for earlier answers. One of the two is 0.
    idle: connections that are opened before the others, and send nothing.
    paths: requested in turn, each with its query. keep_alive: calls per connection; 1 is HTTP/1.0 without keep-alive.
    warm_up: seconds of the same load that do not count. seconds: of the measurement. timeout: seconds after which a
    request counts as failed.
    """

    paths: tuple[str, ...] = ("/",)
    clients: int = 0
    rate: float = 0.0
    idle: int = 0
    keep_alive: int = 1
    tool: Tool = "own"
    warm_up: float = 2.0
    seconds: float = 15.0
    timeout: float = 30.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Answers:
    """What the clients of a load saw in the measured time. Times in seconds.

    answered: complete responses with a status below 500. errors: the other requests, by kind (`refused`, `timeout`,
    `reset`, `status 503`, `left out`: not sent because too many were in flight). mean to longest: response times of
    those answered. In an open loop they count from the time at which the request was due, so that a server that stops
    for a second delays all requests of that second (no coordinated omission). p95 and the like are None if the tool
    does not report them. statuses: how many of those answered had a status of 300 or more, by status.
    """

    seconds: float
    answered: int
    errors: Mapping[str, int] = field(default_factory=dict)
    mean: float | None = None
    p50: float | None = None
    p95: float | None = None
    p99: float | None = None
    longest: float | None = None
    statuses: Mapping[int, int] = field(default_factory=dict)

    @property
    def throughput(self) -> float:
        """Answers per second."""
        return self.answered / self.seconds
