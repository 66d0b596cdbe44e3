"""Compares the result of `check` with the expectation."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from tools.scenarios.scenario import Expected, Outcome, Scenario

EXIT_STATUS: dict[Outcome, int] = {"ok": 0, "warning": 1, "critical": 2, "unknown": 3}

OF_THE_MACHINE = ("cpu_used_by_others", "memory_headroom_low")
"""Findings about other programs on this machine, which count only in rows that expect them. The same holds for the
limit `cpu`, which depends on other programs."""


@dataclass(frozen=True)
class Seen:
    """A result of `check`. findings: as in its JSON document, the worst first, without those of the machine, each with
    the harms that it explains; verdict: its sentence, or the error if it judged nothing; tally: results of the clients;
    document: as `check` wrote it."""

    outcome: Outcome
    exit_status: int
    verdict: str = ""
    findings: tuple[dict[str, Any], ...] = ()
    limit: str | None = None
    figures: dict[str, float] = field(default_factory=dict)
    tally: dict[str, float] = field(default_factory=dict)
    document: dict[str, Any] = field(default_factory=dict, repr=False)

    @property
    def grave(self) -> tuple[dict[str, Any], ...]:
        return tuple(finding for finding in self.findings if finding["severity"] != "info")

    @property
    def first(self) -> str | None:
        return self.grave[0]["code"] if self.grave else None


def read_document(document: dict[str, Any], exit_status: int, row: Scenario) -> Seen:
    named = (*row.expected.first, *row.expected.also)
    findings = tuple(
        finding for finding in document["findings"] if finding["code"] not in OF_THE_MACHINE or finding["code"] in named
    )
    severities = {finding["severity"] for finding in findings}
    outcome: Outcome = "critical" if "critical" in severities else "warning" if "warning" in severities else "ok"
    return Seen(
        outcome=outcome,
        exit_status=exit_status,
        verdict=_sentence(document, findings, outcome),
        findings=findings,
        limit=_first_limit(document["headroom"], row.expected.limits),
        figures=_figures(document),
        document=document,
    )


def _sentence(document: dict[str, Any], findings: tuple[dict[str, Any], ...], outcome: Outcome) -> str:
    """Returns the verdict, leaving aside other programs on the machine."""
    if outcome != "ok":
        return str(findings[0]["title"])
    left_out = document["status"] != "ok"
    return "Nothing is wrong but what other programs do." if left_out else str(document["verdict"])


def _figures(document: dict[str, Any]) -> dict[str, float]:
    parts = (document.get("flow"), (document["headroom"] or {}).get("by_limit"), document.get("cpu"))
    named = {name: value for part in parts for name, value in (part or {}).items()}
    return {name: round(value, 3) for name, value in named.items() if isinstance(value, (int, float))}


def _first_limit(headroom: dict[str, Any] | None, expected: tuple[str | None, ...]) -> str | None:
    """Returns the first limit; skips `cpu` unless the row expects it. None if there is none, as for an emperor."""
    if headroom is None:
        return None
    first: str | None = headroom["first"]
    if first != "cpu" or not expected or "cpu" in expected:
        return first
    factors = {limit: factor for limit, factor in headroom["by_limit"].items() if factor and limit != "cpu"}
    return min(factors, key=lambda limit: factors[limit], default=None)


def differences(row: Scenario, seen: Seen) -> Iterator[str]:
    expected = row.expected
    if seen.outcome != expected.outcome:
        yield f"{seen.outcome}, not {expected.outcome}"
    yield from _different_findings(expected, seen)
    yield from _different_words(expected, seen)
    if expected.limits and seen.outcome != "unknown" and seen.limit not in expected.limits:
        yield f"first limit {seen.limit or 'none'}, not {' or '.join(limit or 'none' for limit in expected.limits)}"
    if seen.outcome == "unknown" and seen.exit_status != EXIT_STATUS["unknown"]:
        yield f"exit status {seen.exit_status}"


def _different_findings(expected: Expected, seen: Seen) -> Iterator[str]:
    if expected.first and not set(expected.first) & set(codes_of(seen.grave[:1])):
        yield f"first finding {seen.first or 'none'}, not {' or '.join(expected.first)}"
    elif expected.outcome == "ok" and seen.first:
        yield f"first finding {seen.first}, not none"
    for code in expected.also:
        if code not in codes_of(seen.findings):
            yield f"no finding {code}"
    times = Counter((finding["code"], finding["title"]) for finding in seen.findings)
    yield from (f"says {code} twice" for (code, _), count in times.items() if count > 1)


def _different_words(expected: Expected, seen: Seen) -> Iterator[str]:
    spoken = _text(seen.grave[:1] or seen.findings, ("title", "evidence", "meaning", "change")) + seen.verdict.lower()
    advice = _text(seen.grave, ("change",))
    yield from (f"does not say {word!r}" for word in expected.words if word not in spoken)
    yield from (f"advises {word!r}" for word in expected.not_words if word in advice)


def codes_of(findings: tuple[dict[str, Any], ...]) -> list[str]:
    return [each["code"] for finding in findings for each in (finding, *finding.get("harms", ()))]


def _text(findings: tuple[dict[str, Any], ...], parts: tuple[str, ...]) -> str:
    said = [each for finding in findings for each in (finding, *finding.get("harms", ()))]
    return " ".join(each.get(part) or "" for each in said for part in parts).lower()
