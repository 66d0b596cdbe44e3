"""Compares the published orders of the WSGI servers with the measured ones, pair by pair."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from app.lab import published
from app.lab.experiment import Results, spreads
from app.lab.figures import Figure, Finding, error_rate, mean_ms, memory_mb, order, replies_per_cpu
from app.lab.results import Spread
from app.lab.servers import NAMES

Pair = tuple[str, str]
"""Two servers: the first was better, as published."""

THEN = (
    "Gunicorn, 1 worker",
    "Gunicorn, 3 workers",
    "Eventlet",
    "Tornado",
    "Twisted",
    "Cheroot",
    "mod_wsgi",
    "Paster",
    "wsgiref",
)
"""Servers of the published benchmark that were not among its leaders."""


def compare_orders(results: Results, top: Mapping[str, str], many: str) -> list[Finding]:
    """Returns a finding for each published order. top: the load with the highest rate, by protocol, HTTP/1.0 first.
    many: the load with many connections."""
    findings: list[Finding] = []
    for protocol, load in top.items():
        first = not findings
        pairs = _leaders(published.FASTEST_HTTP10) if first else list(_by_replies())
        found = spreads(results.runs, NAMES, load, replies_per_cpu)
        findings += _judge(f"replies per CPU second, {protocol}", pairs, found, more=True)
        if first:
            memory = spreads(results.runs, NAMES, load, memory_mb)
            findings += _judge("peak memory", _leaders(published.LEAST_MEMORY), memory, more=False)
    return findings + _latencies(results, many)


def _leaders(names: Iterable[str]) -> list[Pair]:
    return [(leader, other) for leader in names for other in THEN]


def _by_replies() -> Iterator[Pair]:
    """Yields the pairs whose published reply rates differ; the leaders were ahead of all others."""
    replies = dict.fromkeys(published.FASTEST_KEEP_ALIVE, published.REPLIES_KEEP_ALIVE["gevent"])
    replies = published.REPLIES_KEEP_ALIVE | replies
    return ((one, other) for one in replies for other in replies if replies[one] > replies[other])


def _latencies(results: Results, load: str) -> list[Finding]:
    """Compares latency with many connections; a server whose requests failed has none to compare."""
    found = {
        name: value
        for name, value in spreads(results.runs, NAMES, load, mean_ms).items()
        if (failed := _of(results, name, load, error_rate)) and failed.median < 0.01
    }
    figures = published.LATENCY_MS
    pairs = [(one, other) for one in figures for other in figures if figures[one] < figures[other]]
    if not found:
        return []
    lost = [name for name in figures if name not in found and results.runs.of(name, load)]
    findings = _judge("latency with many connections", pairs, found, more=False)
    if lost:
        text = f"{' and '.join(lost)} failed to answer 1 % of the requests or more."
        findings.append(Finding("differs", "answers with many connections", text))
    return findings


def _of(results: Results, name: str, load: str, figure: Figure) -> Spread | None:
    return results.runs.spread(name, load, figure)


def _judge(what: str, pairs: Iterable[Pair], found: Mapping[str, Spread], *, more: bool) -> list[Finding]:
    """Counts the published orders that hold, are reversed, or are not decided. more: whether more is better."""
    signs = {
        (one, other): order(found[other], found[one]) * (1 if more else -1)
        for one, other in pairs
        if one in found and other in found
    }
    if not signs:
        return []
    held = [pair for pair, sign in signs.items() if sign > 0]
    reversed_ = [pair for pair, sign in signs.items() if sign < 0]
    text = f"{len(signs)} published orders of two servers: {len(held)} hold beyond the ranges of the runs,"
    text += f" {len(reversed_)} reversed, {len(signs) - len(held) - len(reversed_)} undecided."
    if reversed_:
        text += " Reversed: " + "; ".join(_sentence(one, other, found) for one, other in reversed_) + "."
    if 2 * len(held) > len(signs):
        return [Finding("agrees", f"{what}, most orders" if reversed_ else what, text)]
    return [Finding("differs" if reversed_ else "open", what, text)]


def _sentence(one: str, other: str, found: Mapping[str, Spread]) -> str:
    return f"{other} ({_number(found[other])}) is ahead of {one} ({_number(found[one])})"


def _number(found: Spread) -> str:
    return f"{found.median:,.0f}" if found.median >= 100 else f"{found.median:.3g}"
