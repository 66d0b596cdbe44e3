"""Findings about what requests wait for outside of their process: backends, name servers, and the server itself."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from msgspec.structs import asdict, replace

from uwsgi_headroom.analysis.advice import LEAST_BACKEND, fills_threads, name_saturated
from uwsgi_headroom.analysis.destinations import (
    DestinationFigures,
    describe,
    find_own,
    is_one_at_a_time,
    join_labels,
    list_hanging,
    list_main,
    see_backends,
)
from uwsgi_headroom.analysis.figures import Figures
from uwsgi_headroom.analysis.findings.kind import Finding, Kind
from uwsgi_headroom.analysis.findings.waits import LEAST_THREADS, USED
from uwsgi_headroom.analysis.littles_law import shows_a_limit
from uwsgi_headroom.analysis.shortages import find_wait_of_holder
from uwsgi_headroom.analysis.wait_states import MOSTLY, WaitFigures
from uwsgi_headroom.words.formats import listed, percent, rate
from uwsgi_headroom.words.template import Facts, Private

OWN_USED = 0.25
"""The share of the threads that wait for requests to their own server from which on that is a warning: as many serve
these requests, and random arrivals soon take the rest."""

MOST_DESTINATIONS = 4
"""The most destinations that evidence lists."""

BACKEND = Kind(
    code="waits_for_backend",
    severity="info",
    title="Requests spend most of their time waiting for {what}.",
    evidence="{waiting:mean} of {busy:mean} busy {slots} wait for {each}[part? , for {part:duration} of the "
    "{whole:duration} of a request].",
    meaning="A waiting request holds a thread, and uses no CPU. An overloaded backend gets faster when load falls.",
    act="{look}.",
    then="Check whether the backend is overloaded, or waits for a lock. [turns? Redis runs one command at a time: "
    "`SLOWLOG GET` shows what holds it up. Connections with `flags=b` or `flags=P` wait for the result of a job: look "
    "at the job workers. ]Make the queries faster or fewer. More `threads` [turns? would also wait for their turn][not "
    "turns? help only if {what} can take more requests at once]. More CPU does not help.",
    clause="the {slots} wait for {what}",
    runbook="UwsgiConcurrencyNearCapacity",
    fills_threads=True,
    limits="turns",
    states=("backend", "dns"),
)
NO_ANSWER = replace(
    BACKEND,
    severity="warning",
    title="Requests wait for {what}.",
    evidence="{waiting:mean} of {busy:mean} busy {slots} wait for {each}[part? , for {part:duration} of the "
    "{whole:duration} of a request].[locked?  {locked:mean} wait for a lock that one of these threads holds.]",
    meaning="A request that waits for a backend holds a thread, but uses no CPU.",
    act="[silent? Find out why {silent} does not answer.][not silent? Run a DNS resolver with a cache on this host, "
    "and check the name servers in /etc/resolv.conf.]",
    then="[silent? It may be down, a firewall may drop packets, or its listen queue may be full. Set a connect timeout "
    "of a second or two, and pause before a retry. More `threads` would also hang.][not silent? Keep connections open: "
    "an open connection needs no lookup. More `threads` would also wait.]",
    clause="[is_cause? the {slots} wait for {what}]",
)
CALLS_ITSELF = replace(
    BACKEND,
    severity="warning or info",
    title="Requests call the uWSGI that serves them, and wait for the response.",
    meaning="Each of these requests needs a second thread. If all wait for one, nothing continues before a timeout.",
    act="Call the code behind the second requests instead, or let another uWSGI serve them.",
    then="More `threads` only make it rarer that all threads wait for second requests.",
    clause="requests call the uWSGI that serves them",
)

SATURATED = Kind(
    code="backend_saturated",
    severity="warning or info",
    title="A backend is saturated[named?  ({named})].",
    evidence="At {low:rate}, the backend worked on {few:mean} requests at a time, and each took "
    "{few_seconds:duration}; at {high:rate}, on {many:mean} at a time, and each took {many_seconds:duration}.[part?  "
    "{waiting:mean} of {busy:mean} busy {slots} wait for {each}, {part:duration} of the {whole:duration} of a "
    "request.]",
    meaning="With free capacity, more requests at once would not slow it down: they wait for each other there.",
    act="{look}.",
    then="Make the queries faster or fewer, or give the "
    "backend more capacity. More threads or processes would also wait[most? , and uWSGI can hardly serve more than "
    "{most}].[not named?  To see which backend the threads wait for, give your backends names (`--backends`).]",
    clause="a backend is saturated[named?  ({named})]",
    runbook="UwsgiConcurrencyNearCapacity",
    fills_threads=True,
    limits="always",
    states=("backend",),
)


def find(figures: Figures) -> Iterator[Finding]:
    waits, known, available = figures.waits, figures.saturation, figures.threads or 0
    if waits is None:
        return
    locking = [each for each in [find_wait_of_holder(figures)] if each and each.is_silent]
    is_locked, facts = bool(locking), _list(waits)  # it holds a lock, for which all others wait
    is_used = waits.outside * waits.total >= max(LEAST_THREADS, USED * available)
    hanging = locking or list_hanging(waits.destinations, available)
    are_most, main = waits.outside >= MOSTLY and is_used, list_main(waits.destinations)
    if own := find_own(waits.destinations):
        worse = own.threads >= OWN_USED * available or shows_a_limit(figures.flow)
        yield CALLS_ITSELF.found(figures, facts, worse=worse)
    elif hanging:
        silent = [each for each in hanging if each.is_silent]
        yield NO_ANSWER.found(
            figures,
            facts,
            what=_say(describe, hanging),
            is_cause=are_most or is_locked or sum(each.threads for each in hanging) >= MOSTLY * waits.total,
            locked=is_locked and Private(waits.threads["lock"]),
            silent=bool(silent) and _say(join_labels, silent),
        )
    elif known and waits.share("backend") >= MOSTLY and (is_used or fills_threads(figures, known)):
        named = name_saturated(figures, known)
        facts |= asdict(known) | {"named": Private(named, known.name)}
        del facts["name"]
        most = fills_threads(figures, known) and rate(known.high)
        look = _say(see_backends, [each for each in waits.destinations if each.label == named])
        yield SATURATED.found(figures, facts, most=most, look=look, worse=is_used)
    elif are_most:
        turns = bool(main) and all(map(is_one_at_a_time, main))
        yield BACKEND.found(figures, facts, what=_say(describe, main), turns=turns, look=_say(see_backends, main))


def _list(waits: WaitFigures) -> Facts:
    named = [each for each in waits.destinations if each.share >= LEAST_BACKEND][:MOST_DESTINATIONS]

    def list_shares(shown: Sequence[DestinationFigures]) -> str:
        return listed([f"{each.label} ({percent(each.share)})" for each in shown] or ["many backends"])

    return {
        "waiting": sum(each.threads for each in named) or waits.outside * waits.total,
        "each": _say(list_shares, named),
        "part": Private(sum(each.per_request or 0.0 for each in named) or None),
        "whole": sum((waits.per_request or {}).values()),
    }


def _say(write: Callable[[Sequence[DestinationFigures]], str], destinations: Sequence[DestinationFigures]) -> Private:
    """A text about destinations, and the same without addresses."""
    names = ["a backend" if set(each.name or each.address) & set(":/@") else each.name for each in destinations]
    hidden = [replace(each, address="", name=name) for each, name in zip(destinations, names, strict=True)]
    return Private(write(destinations), write(hidden))
