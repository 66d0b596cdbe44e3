"""Judges a service level objective: how fast its error budget is used, and at what load it would be missed.

The burn rate is the share of bad requests divided by the share that the objective permits: at 1, a month's budget lasts
a month (The Site Reliability Workbook, chapter 5, "Alerting on SLOs").
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import zip_longest
from typing import Literal, NamedTuple

from msgspec import Struct

from uwsgi_headroom.config.slo import INTERVALS, Slo
from uwsgi_headroom.history.response_times.totals import SlowRequests
from uwsgi_headroom.same_fields import copy_fields
from uwsgi_headroom.words.template import fill

FAST_BURN, SLOW_BURN = 14.4, 6.0
"""Burn rates over the short and the long window that use 2 % of a month's budget in an hour, and 5 % in six hours."""

BURN_WINDOWS = (300.0, 3600.0)
"""Short and long window in seconds: the short one shows that it still burns."""

FEWEST_REQUESTS = 100
"""Fewest requests in a window for a burn rate: one slow request of few is no trend."""

_SHARE = 0.95
"""The percentile that `find_load_limit` compares with the threshold."""

_LEAST_VARIATION = 1.25
"""Least factor between the lowest and the highest load for any conclusion."""

_FEWEST_MINUTES, _GROUPS = 12, 6


class Burn(Struct, frozen=True, kw_only=True):
    """The use of the error budget over the last `seconds`. slow, waited, lost, refused: bad requests, each counted
    once. slow: they took longer in service than the threshold, or have already been in service for longer; waited: too
    slow only together with their wait in the listen queue; lost: with their worker; refused: dropped at a full TCP
    queue of this server. slow and waited are expected numbers. share: of bad requests; rate: how many times as fast as
    the objective permits. share and rate are null below 100 requests."""

    seconds: float
    requests: int
    slow: float
    lost: int
    waited: float = 0.0
    refused: int = 0
    share: float | None
    rate: float | None


class LoadLimit(NamedTuple):
    """The load at which the 95th percentile crosses the threshold, as a multiple of the present load."""

    multiple: float
    reached: bool
    """Whether it was seen; otherwise it did not cross up to this multiple."""


class Objective(Struct, frozen=True, kw_only=True):
    """The service level objective of the server: a share `objective` of the requests should finish within `threshold`
    seconds. windows: the short one (5 minutes) and the long one (1 hour). level: how fast the error budget burns in all
    windows, fast (at least 14.4 times) or slow (at least 6 times), else null. unjudged: why it is not judged, as a
    sentence, else null. queue_wait: the mean wait in the listen queue over the window; the count of bad requests
    includes it. load_multiple: at what multiple of the present load the 95th percentile crosses the threshold.
    load_multiple_reached: whether the last hour had such a load; if not, load_multiple is the highest that it had, and
    the percentile stayed below the threshold. Both are null if the last hour does not tell, as where the load
    hardly varied."""

    threshold: float
    objective: float
    windows: tuple[Burn, ...] = ()
    level: Literal["fast", "slow"] | None = None
    unjudged: str | None = None
    queue_wait: float | None = None
    load_multiple: float | None = None
    load_multiple_reached: bool | None = None


def find_level(windows: Sequence[Burn]) -> Literal["fast", "slow"] | None:
    """How fast the budget burns in every window; None if one is missing, or if it is kept."""
    # Before the history began, nothing is taken to have burnt.
    pairs = zip_longest(windows, BURN_WINDOWS)
    least = min(burn.rate * min(1.0, burn.seconds / asked) if burn and burn.rate else 0.0 for burn, asked in pairs)
    return "fast" if least >= FAST_BURN else "slow" if least >= SLOW_BURN else None


def judge_objective(
    slo: Slo,
    windows: Sequence[SlowRequests],
    interval: float,
    load_limit: LoadLimit | None = None,
    queue_wait: float | None = None,
) -> Objective:
    """Judge an objective from the requests of its windows, which end now. interval: seconds between two samples.
    queue_wait: of the present window."""
    least, unjudged = INTERVALS * interval, None
    if slo.threshold < 0.9 * least:
        unjudged = fill(UNJUDGED, {"interval": interval, "least": least})
    burns, (multiple, is_reached) = [], load_limit or (None, None)
    for each in windows:
        requests = each.requests + each.lost + each.refused
        bad = each.slower + each.waited + each.lost + each.refused
        share = rate = None
        if requests >= FEWEST_REQUESTS:
            share = min(1.0, bad / requests)
            rate = round(share / (1 - slo.objective), 9)  # 0.99 has no exact form
        burns.append(copy_fields(Burn, each, requests=requests, slow=each.slower, share=share, rate=rate))
    return Objective(
        threshold=slo.threshold,
        objective=slo.objective,
        windows=tuple(burns),
        level=None if unjudged else find_level(burns),
        unjudged=unjudged,
        queue_wait=queue_wait,
        load_multiple=multiple,
        load_multiple_reached=is_reached,
    )


NOT_YET = "not judged yet"

UNJUDGED = (
    "not judged: the server is sampled every {interval:duration}, which shows thresholds from {least:duration} on"
)


def find_load_limit(minutes: Iterable[SlowRequests], load: float | None) -> LoadLimit | None:
    """At what multiple of the present load the 95th percentile crosses the threshold; None unless load varied."""
    busy = sorted((minute for minute in minutes if minute.requests), key=_load_of)
    if not load or len(busy) < _FEWEST_MINUTES:
        return None
    size = -(-len(busy) // _GROUPS)
    parts = (busy[start : start + size] for start in range(0, len(busy), size))
    groups = [SlowRequests(*map(sum, zip(*part, strict=True))) for part in parts]
    loads = [_load_of(group) for group in groups]
    if any(group.requests < FEWEST_REQUESTS for group in groups) or loads[-1] < _LEAST_VARIATION * loads[0]:
        return None
    slower = [(group.slower + group.waited) / group.requests for group in groups]
    over = [share > 1 - _SHARE for share in slower]
    first = [*over, True].index(True)
    if first == 0 or not all(over[first:]):
        return None  # slow at low load, or not at a higher one: load is not the cause
    if first == len(over):
        return LoadLimit(loads[-1] / load, reached=False) if loads[-1] >= load else None
    part = (1 - _SHARE - slower[first - 1]) / (slower[first] - slower[first - 1])
    below = loads[first - 1]
    return LoadLimit((below + part * (loads[first] - below)) / load, reached=True)


def _load_of(requests: SlowRequests) -> float:
    return requests.requests / requests.seconds
