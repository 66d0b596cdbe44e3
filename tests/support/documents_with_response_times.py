"""Documents of servers whose percentiles of response times, and objective, are known."""

from __future__ import annotations

import msgspec

from uwsgi_headroom.documents.response_times import Burn, Objective, Percentile, ResponseTimes
from uwsgi_headroom.documents.schema import Server

INTERVAL = 0.2

SHORT = Percentile(share=0.5, seconds=None, low=0.0, high=0.16, under=0.16)
UNSHARP = Percentile(share=0.9, seconds=0.3, low=0.25, high=0.33)
LONG = Percentile(share=0.95, seconds=0.483, low=0.451, high=0.52)
LONGEST = Percentile(share=0.99, seconds=0.91, low=0.8, high=1.2)

EXAMPLE = ResponseTimes(requests=2400, interval=INTERVAL, percentiles=(SHORT, UNSHARP, LONG, LONGEST))


def percentiles(*known: Percentile, requests: int = 2400) -> ResponseTimes:
    """The section with these percentiles."""
    return ResponseTimes(requests=requests, interval=INTERVAL, percentiles=known)


def burn(seconds: float, share: float | None, lost: int = 0, requests: int = 10_000) -> Burn:
    """The burn of an objective of 99 %."""
    slow = (share or 0.0) * requests - lost
    rate = None if share is None else share / 0.01
    return Burn(seconds=seconds, requests=requests, slow=slow, lost=lost, share=share, rate=rate)


def objective(*windows: Burn, **others: object) -> Objective:
    """An objective of 99 % within a second, by default with 1.8 % missed in the last hour."""
    whole = Objective(
        threshold=1.0,
        objective=0.99,
        windows=windows or (burn(300.0, 0.002), burn(3600.0, 0.018)),
        level=None,
        unjudged=None,
        queue_wait=0.002,
        load_multiple=None,
        load_multiple_reached=None,
    )
    return msgspec.structs.replace(whole, **others)


def with_response_times(server: Server, section: ResponseTimes | None = EXAMPLE) -> Server:
    """A copy of a document with this section."""
    return msgspec.structs.replace(server, response_times=section)


def with_objective(server: Server, section: Objective) -> Server:
    """A copy of a document with this objective."""
    return msgspec.structs.replace(server, objective=section)
