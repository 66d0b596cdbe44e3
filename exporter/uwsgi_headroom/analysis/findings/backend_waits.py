"""Findings about what requests wait for outside of their process: backends, name servers, and the server itself."""

from __future__ import annotations

from collections.abc import Iterator

from uwsgi_headroom.analysis.advice import LEAST_BACKEND
from uwsgi_headroom.analysis.backends import Saturation
from uwsgi_headroom.analysis.bottlenecks import explain_saturation, fills_threads, name_saturated
from uwsgi_headroom.analysis.destinations import (
    CALLS_ITSELF,
    DestinationFigures,
    advise,
    describe,
    find_own,
    list_hanging,
    list_main,
)
from uwsgi_headroom.analysis.figures import Figures
from uwsgi_headroom.analysis.findings.finding import Finding
from uwsgi_headroom.analysis.findings.waits import LEAST_THREADS, USED
from uwsgi_headroom.analysis.littles_law import shows_a_limit
from uwsgi_headroom.analysis.shortages import find_wait_of_holder
from uwsgi_headroom.analysis.wait_states import MOSTLY, WaitFigures, of_request
from uwsgi_headroom.analysis.worker_states import name_slots
from uwsgi_headroom.words.formats import duration, mean_count, percent, rate

OWN_USED = 0.25
"""The share of the threads that wait for requests to their own server from which on that is a warning: as many serve
these requests, and random arrivals soon take the rest."""


def find(figures: Figures) -> Iterator[Finding]:
    """The findings about what the threads wait for outside of their process, by address and name."""
    waits = figures.waits
    if waits is None:
        return
    available, slots = figures.threads or 0, name_slots(figures.server)
    is_used = waits.outside * waits.total >= max(LEAST_THREADS, USED * available)
    are_most = waits.outside >= MOSTLY and is_used
    behind = find_wait_of_holder(figures)
    holds_a_lock = behind is not None and behind.is_silent  # for which all others wait
    hanging = [behind] if behind and holds_a_lock else list_hanging(waits.destinations, available)
    own = find_own(waits.destinations)
    if own:
        yield _calls_itself(figures, waits, own)
        return
    if not hanging and waits.share("backend") >= MOSTLY:
        saturated = _saturated(figures, waits, is_used=is_used)
        if saturated:
            yield saturated
            return
    main = hanging or list_main(waits.destinations)
    if not hanging and not are_most:
        return
    what = describe(main)
    is_cause = are_most or holds_a_lock or sum(each.threads for each in hanging) >= MOSTLY * waits.total
    yield Finding(
        code="waits_for_backend",
        severity="warning" if hanging else "info",
        title=f"Requests wait for {what}." if hanging else f"Requests spend most of their time waiting for {what}.",
        evidence=f"{_by_destination(waits, slots)}."
        + (
            f" {mean_count(waits.threads['lock'])} wait for a lock that one of these threads holds."
            if holds_a_lock
            else ""
        ),
        meaning="A request that waits for a backend holds a thread, but uses no CPU."
        + (
            ""
            if hanging
            else " These figures do not show whether the backend is always this slow, or only because it "
            "is overloaded: an overloaded backend gets faster when the load falls."
        ),
        clause=f"the {slots} wait for {what}" if is_cause else "",
        change=advise(main),
    )


def _calls_itself(figures: Figures, waits: WaitFigures, own: DestinationFigures) -> Finding:
    """Requests that make requests to the server which serves them."""
    available, slots = figures.threads or 0, name_slots(figures.server)
    is_full = own.threads >= OWN_USED * available or shows_a_limit(figures.flow)
    return Finding(
        code="waits_for_backend",
        severity="warning" if is_full else "info",
        title="Requests call the uWSGI that serves them, and wait for the response.",
        evidence=f"{_by_destination(waits, slots)}.",
        meaning="Each of these requests needs a second thread, for the request that it makes. If all threads wait for "
        "such a second thread, no request continues before a timeout.",
        clause=CALLS_ITSELF,
        change=advise([own]),
    )


def _saturated(figures: Figures, waits: WaitFigures, *, is_used: bool) -> Finding | None:
    """A backend that is saturated, if one is known to be. is_used: whether enough threads wait for backends now."""
    saturation, explained = figures.saturation, explain_saturation(figures)
    if saturation is None or explained is None or not (is_used or fills_threads(figures, saturation)):
        return None
    named, slots = name_saturated(figures, saturation), name_slots(figures.server)
    return Finding(
        code="backend_saturated",
        severity="warning" if is_used else "info",
        title=f"The backend {named} is saturated." if named else "A backend is saturated.",
        evidence=f"{_by_destination(waits, slots)}. {_compare(saturation)}",
        meaning="If the backend had free capacity, more requests at once would not slow it down. Here, they do slow it "
        "down, so requests wait for each other in the backend.",
        clause=explained.cause,
        change=explained.change,
    )


def _compare(saturation: Saturation) -> str:
    """What shows that a backend is saturated, as a sentence."""
    return (
        f"At {rate(saturation.low)}, the backend worked on {mean_count(saturation.few)} requests at a time, and each "
        f"took {duration(saturation.few_seconds)}; at {rate(saturation.high)}, it worked on "
        f"{mean_count(saturation.many)} at a time, and each took {duration(saturation.many_seconds)}."
    )


_MOST_DESTINATIONS = 4
"""The most destinations that evidence lists."""


def _by_destination(waits: WaitFigures, slots: str) -> str:
    """The busy threads that wait for each destination, their share of all busy ones, and its part of the response time,
    as a list."""
    listed = [each for each in waits.destinations if each.share >= LEAST_BACKEND][:_MOST_DESTINATIONS]
    if not listed:  # each of many has a small share
        threads = waits.outside * waits.total
        return (
            f"{mean_count(threads)} of {mean_count(waits.total)} busy {slots} ({percent(waits.outside)}) wait for them"
        )
    return "; ".join(
        f"{mean_count(each.threads)}{'' if place else f' of {mean_count(waits.total)} busy {slots}'} "
        f"({percent(each.share)}) wait for {each.label}{of_request(waits, each.per_request)}"
        for place, each in enumerate(listed)
    )
