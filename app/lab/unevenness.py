"""Compares the workers of E4: shapes, thunder-lock, saturated interpreters, and the costly case made certain."""

from __future__ import annotations

from app.lab import published
from app.lab.experiment import Results
from app.lab.figures import (
    Finding,
    Verdict,
    change_words,
    cost,
    hot_ratio,
    interpreter_load,
    interpreter_wait,
    mean_ms,
    order,
    ratio,
    response_ms,
    server_cpus,
    throughput,
    times,
    verdict_of,
    wait_of_hottest,
)
from app.lab.results import Spread
from uwsgi_headroom.analysis.findings.load import INTERPRETER_FULL

SPARE = 0.9
"""A server that uses less than this part of the CPUs leaves some to spare."""
NEAR = 0.1
"""The exporter's cost is near the truth if the two differ by this at most."""
EVEN = 1.1
"""Up to this hot ratio shares are even: with some hundred requests a worker, chance alone makes it as large."""


def compare_shapes(results: Results, load: str, alone_ms: float, rate: float) -> list[Finding]:
    """Compares 8x1 with 4x8, then changes one of the two numbers at a time. alone_ms: a request without queueing."""
    findings = []
    runs = results.runs
    before, after = (runs.spread(name, load, hot_ratio) for name in ("4x8", "8x1"))
    there = [shape.workers * shape.shares[1] for shape in published.SHAPES]
    if before and after:
        sign = order(before, after)
        text = (
            f"8x1 instead of 4x8 {change_words(sign, 'hot ratio')}: {before.median:.2f} to {after.median:.2f};"
            f" published {there[0]:.2f} to {there[1]:.2f}."
        )
        findings.append(Finding(verdict_of(sign, -1), "shares of 4x8 and 8x1", text))
    findings += _response_after(results, load)
    for first, second, words in (
        ("4x8", "4x1", "fewer threads, as many workers"),
        ("4x1", "8x1", "more workers, as many threads each"),
        ("8x1", "8x4", "more threads, as many workers"),
    ):
        one, two = runs.spread(first, load, mean_ms), runs.spread(second, load, mean_ms)
        if one and two:
            sign = order(one, two)
            workers, threads = (int(part) for part in second.split("x"))
            text = f"It {change_words(sign, 'mean response time')}: {one.median:,.0f} to {two.median:,.0f} ms."
            if workers * threads * 1000 < rate * alone_ms:
                text += (
                    f" {second} has {workers * threads} threads, and {rate:g} requests a second of {alone_ms:g} ms need"
                    f" {rate * alone_ms / 1000:.1f}: the threads are the limit."
                )
            findings.append(Finding("beside", f"{first} to {second}, {words}", text))
    return findings


def _response_after(results: Results, load: str) -> list[Finding]:
    """Compares the response times of 4x8 and 8x1. The interpreter effect is not claimed from them on few CPUs."""
    before, after = (results.runs.spread(name, load, mean_ms) for name in ("4x8", "8x1"))
    if not before or not after:
        return []
    sign = order(before, after)
    changed = change_words(sign, "mean response time")
    text = f"8x1 instead of 4x8 {changed}: {before.median:,.0f} to {after.median:,.0f} ms."
    if results.machine.cpus < 4:
        text += (
            f" With {results.machine.cpus} CPUs the four interpreters of 4x8 cannot all be busy: the CPUs bind before"
            " an interpreter does. So this pair says nothing about interpreters; 1x16 and 2x8 do."
        )
    return [Finding(verdict_of(sign, -1), "response time at the same load, 4x8 and 8x1", text)]


def compare_thunder_lock(results: Results, load: str, shapes: list[str], lock: str) -> list[Finding]:
    """Says whether thunder-lock makes shares even, and what it does to response times."""
    evened, response = [], []
    verdicts = set()
    for name in shapes:
        without, with_lock = (results.runs.spread(setup, load, hot_ratio) for setup in (name, name + lock))
        if without and with_lock:
            if max(without.median, with_lock.median) > EVEN:
                verdicts.add(order(without, with_lock))
            evened.append(f"{name} {without.median:.2f} to {with_lock.median:.2f}")
        slow, fast = (results.runs.spread(setup, load, mean_ms) for setup in (name, name + lock))
        if slow and fast and order(slow, fast):
            response.append(f"{name} {slow.median:,.0f} to {fast.median:,.0f} ms")
    if not evened:
        return []
    text = f"Hot ratio without and with it: {', '.join(evened)}."
    changed = ", ".join(response)
    if not verdicts:
        text += " All were even without it."
    text += f" Mean response times that changed beyond the ranges of the runs: {changed or 'none'}."
    verdict: Verdict = "differs" if 1 in verdicts else "agrees" if -1 in verdicts else "open"
    return [Finding(verdict, "`thunder-lock` makes shares more even, as this project's documents say", text)]


def compare_interpreters(results: Results, load: str) -> list[Finding]:
    """Compares 16 threads of one interpreter with those of two, under a closed loop."""
    runs = results.runs
    one, two = (runs.spread(name, load, throughput) for name in ("1x16", "2x8"))
    means = [runs.spread(name, load, mean_ms) for name in ("1x16", "2x8")]
    loaded, used = runs.spread("1x16", load, interpreter_load), runs.spread("1x16", load, server_cpus)
    waits = [runs.spread(name, load, interpreter_wait) for name in ("1x16", "2x8")]
    if not one or not two or not means[0] or not means[1] or not loaded or not used:
        return []
    subject = "one interpreter limits 16 threads, two serve more"
    words = {1: "serves more", -1: "serves less", 0: "serves as much, within the ranges of the runs"}[order(one, two)]
    text = (
        f"2x8 {words}, {two.median:.1f} requests/s, 1x16 {one.median:.1f}"
        f" ({times(ratio(two, one))}), mean {means[1].median:,.0f} and {means[0].median:,.0f} ms. The interpreter"
        f" of 1x16 was loaded to {loaded.median:.2f}; the server used {used.median:.2f} of {results.machine.cpus} CPUs."
    )
    if waits[0] and waits[1]:
        text += f" Threads waiting for an interpreter: {waits[0].median:.1f} with 1x16, {waits[1].median:.1f} with 2x8."
        more_waits = order(waits[0], waits[1]) < 0
    else:
        text += " What threads wait for could not be read."
        more_waits = False
    if order(one, two) > 0 and loaded.median >= INTERPRETER_FULL and more_waits:
        return [Finding("agrees", subject, f"{text} The interpreter is the limit, and our figures say so.")]
    return [Finding("open" if order(one, two) > 0 else "differs", subject, text)]


def compare_costly_case(results: Results, load: str, uneven: str, even: str) -> list[Finding]:
    """Compares the cost of unevenness, as the exporter computes it, with what evening out saved."""
    runs = results.runs
    slow, fast = runs.spread(uneven, load, mean_ms), runs.spread(even, load, mean_ms)
    loaded, used = runs.spread(uneven, load, interpreter_load), runs.spread(uneven, load, server_cpus)
    if not slow or not fast or not loaded or not used:
        return []
    findings = []
    waits = runs.spread(uneven, load, wait_of_hottest)
    waiting = f" {waits.median:.1f} of its 8 threads waited for it." if waits else ""
    text = (
        f"With 7 of 9 requests to one worker the mean was {slow.median:,.0f} ms, in turn {fast.median:,.0f} ms."
        f" The hot interpreter was loaded to {loaded.median:.2f}, the server used {used.median:.2f} of"
        f" {results.machine.cpus} CPUs.{waiting}"
    )
    explained = loaded.median >= INTERPRETER_FULL and used.high < SPARE * results.machine.cpus
    sign = order(fast, slow)
    subject = "a hot interpreter costs before threads or CPUs run out"
    findings.append(Finding(verdict_of(sign, 1) if explained else "open", subject, text))
    said = runs.spread(uneven, load, cost)
    inside = [runs.spread(name, load, response_ms) for name in (uneven, even)]
    if said and inside[0] and inside[1] and inside[0].low > 0:
        findings.append(_compare_cost(said, ratio(inside[1], inside[0])))
    return findings


def _compare_cost(said: Spread, left: Spread) -> Finding:
    """Compares the exporter's cost of unevenness with the truth.

    said: the cost, 0 to 1. left: response time with even workers, as a part of that with uneven ones.
    """
    saved = Spread(1 - left.median, 1 - left.high, 1 - left.low, left.number)
    text = (
        f"The exporter said {100 * said.median:.0f} % ({100 * said.low:.0f} to"
        f" {100 * said.high:.0f} %) of the response time in uWSGI; evening out saved {100 * saved.median:.0f} %"
        f" ({100 * saved.low:.0f} to {100 * saved.high:.0f} %). The time in the listen queue comes on top; only the"
        " clients see it."
    )
    near = order(said, saved) == 0 or abs(said.median - saved.median) <= NEAR
    return Finding("agrees" if near else "differs", "the exporter's cost of unevenness", text)
