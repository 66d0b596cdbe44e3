"""Tries options beside processes and threads, one at a time, where the figures say that they can matter."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from math import ceil, log2
from statistics import median
from typing import Protocol

from uwsgi_headroom.tune.application.variant import Variant
from uwsgi_headroom.tune.loads.load import Load
from uwsgi_headroom.tune.search.evidence import Evidence
from uwsgi_headroom.words.formats import counted, fine_percent, percent

UNEVEN = 1.2
"""The least hot ratio at which evening out the workers can matter."""

ROUNDS = 2
"""Rounds of the variant with the option and without it."""

Run = Callable[[Variant, int], None]


class Situation(Protocol):
    """What decides which options are tried: see `search.Task`."""

    @property
    def load(self) -> Load: ...
    @property
    def most_runs(self) -> int: ...
    @property
    def longest_queue(self) -> int: ...


def try_options(best: Variant, situation: Situation, run: Run, evidence: Evidence) -> Variant:
    """The best variant after the options were tried, each beside the best so far."""
    for name, consider in _OPTIONS.items():
        changed, reason = consider(best, situation, evidence)
        if changed is None:
            evidence.decide(f"{name} was not tried: {reason}.")
        elif situation.most_runs - len(evidence.runs) < 2:
            evidence.decide(f"{name} was not tried, although {reason}: no runs are left (--most-runs).")
        else:
            best = _try(name, best, changed, situation, run, evidence)
    return best


def is_worth_runs(best: Variant, situation: Situation, evidence: Evidence) -> bool:
    """Whether one of the options will be tried."""
    return any(consider(best, situation, evidence)[0] is not None for consider in _OPTIONS.values())


def _try(name: str, best: Variant, changed: Variant, situation: Situation, run: Run, evidence: Evidence) -> Variant:
    # Rounds of their own: the two are compared in runs that follow each other.
    first = 1 + max(done.number for done in evidence.runs)
    for number in range(first, first + ROUNDS):
        if situation.most_runs - len(evidence.runs) < 2:
            break
        run(best, number)
        run(changed, number)
    fault = evidence.fault(changed)
    comparison = evidence.compare(changed, best)
    if fault or comparison is None:
        evidence.decide(f"{changed.name} is out: {fault or 'it could not be compared'}.")
        return best
    by, margin = fine_percent(abs(comparison.ratio - 1)), percent(comparison.explained)
    if comparison.is_better:
        evidence.decide(f"{changed.name} is better than {best.name} by {by}; noise explains {margin}.")
        return changed
    if comparison.is_worse:
        evidence.decide(f"{changed.name} is worse than {best.name} by {by}, so {name} stays as it is.")
    else:
        evidence.decide(
            f"{changed.name} is not better than {best.name} beyond the noise: the difference is {by}, and noise "
            f"explains {margin}. So {name} stays as it is."
        )
    return best


Considered = tuple[Variant | None, str]
"""What to try, and why; or None, and why not."""


def _consider_thunder_lock(best: Variant, _situation: Situation, evidence: Evidence) -> Considered:
    if best.thunder_lock:
        return replace(best, thunder_lock=False), "each request pays for it"
    return _if_uneven(best, replace(best, thunder_lock=True), evidence)


def _consider_reuse_port(_best: Variant, _situation: Situation, _evidence: Evidence) -> Considered:
    # uWSGI binds an address once, before it starts its processes, even if it is given several times.
    return None, "it is for several uWSGIs on one port; the processes of one share one socket with it, too"


def _if_uneven(best: Variant, changed: Variant, evidence: Evidence) -> Considered:
    if best.setting.processes == 1:
        return None, "one process has nothing to share"
    ratios = [outcome.observed.hot_ratio for outcome in evidence.of(best) if outcome.observed]
    known = [ratio for ratio in ratios if ratio is not None]
    if known and median(known) < UNEVEN:
        return None, f"the processes of {best.name} share the requests evenly (hot ratio {median(known):.2f})"
    return changed, f"its processes share the requests unevenly (hot ratio {median(known):.2f})" if known else (
        "how the processes share the requests is not known"
    )


def _consider_cheaper(best: Variant, _situation: Situation, _evidence: Evidence) -> Considered:
    if best.cheaper is None:
        return None, "it stops idle processes, which makes nothing faster under a steady load"
    return replace(best, cheaper=None), "it starts processes while requests wait"


def _consider_listen(best: Variant, situation: Situation, _evidence: Evidence) -> Considered:
    waiting = situation.load.clients - best.setting.in_all
    if waiting <= best.queue:
        return None, f"the queue of {best.queue} is longer than this load can fill"
    longer = min(situation.longest_queue, 2 ** ceil(log2(waiting + 1)))
    if longer <= best.queue:
        return None, f"the kernel allows at most {situation.longest_queue} (net.core.somaxconn)"
    return replace(best, listen=longer), f"{counted(waiting, 'client')} may wait in a queue of {best.queue}"


_OPTIONS: Mapping[str, Callable[[Variant, Situation, Evidence], Considered]] = {
    "thunder-lock": _consider_thunder_lock,
    "reuse-port": _consider_reuse_port,
    "cheaper": _consider_cheaper,
    "listen": _consider_listen,
}
