"""What each rule of the review says in general, for those who know only which rules spoke: a report, and the documents.

The texts are those of the rules, on settings that break them all. The numbers in their lines are examples.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cache

from uwsgi_headroom.analysis.settings import Advice, Evidence, review
from uwsgi_headroom.record import AdviceSeverity, Options

WORST = (
    (Options(complete=True), Evidence()),
    (
        Options(
            complete=True,
            processes=4,
            threads=8,
            stats=":1717",
            listen=5000,
            harakiri=120,
            worker_reload_mercy=30,
            max_requests=1000,
            min_worker_lifetime=3600,
            max_worker_lifetime=3600,
            reload_on_as=512,
            evil_reload_on_rss=256,
            thunder_lock=True,
            cpu_affinity=1,
            chmod_socket=("666", "660"),
            cheaper=4,
            http=(":8080",),
            http_socket=(":8081",),
        ),
        Evidence((2, 0, 31), 4, 8, 2, ("numpy",), 4096, 1 << 30, is_first=True, logs_to_pipe=True),
    ),
    (Options(complete=True, processes=8, cheaper=2, cheaper_initial=9, cheaper_step=7), Evidence()),
    (
        Options(complete=True, processes=8, cheaper_step=2, worker_reload_mercy=900),
        Evidence(version=(2, 0, 21), threads=1),
    ),
)
"""What to review, example by example."""


def describe_rule(rule: str, severity: AdviceSeverity) -> Advice | None:
    """What a rule says with this severity; None if there is no such rule in this version."""
    found = _tabulate()
    advice = found.get((rule, severity)) or found.get((rule, "warning")) or found.get((rule, "info"))
    return replace(advice, severity=severity) if advice else None


def list_rules() -> list[Advice]:
    """What each rule says on the first of the examples that break it, by the names of the rules."""
    first = {rule: advice for (rule, _), advice in reversed(_tabulate().items())}
    return [first[rule] for rule in sorted(first)]


@cache
def _tabulate() -> dict[tuple[str, AdviceSeverity], Advice]:
    found: dict[tuple[str, AdviceSeverity], Advice] = {}
    for options, seen in WORST:
        for advice in review(options, seen):
            found.setdefault((advice.rule, advice.severity), advice)
    return found
