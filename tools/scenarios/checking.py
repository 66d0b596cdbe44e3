"""Runs `uwsgi-headroom check` on a server and a scenario's events once it has begun, and compares what it says.

`python3 -m tools.scenarios.checking ADDRESS SECONDS` runs `check` as the user `nobody`. It imports everything first:
that user may lack access to the checkout.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from tests.support.real_uwsgi import wait_until
from tools.environments import ROOT
from tools.scenarios.scenario import Event, Expected, Outcome, Scenario
from tools.scenarios.servers import Place
from uwsgi_headroom.check import command as check_command
from uwsgi_headroom.check.request import Request

PATIENCE = 60.0
"""Seconds that `check` may take to begin, and by which its end may be late."""

RUNNER: tuple[str, ...] = ()
"""Arguments of Python before `-m` and the module of `check`, such as a program that runs it."""

NOBODY = 65534

BEGUN = b"watching for"
"""Text that `check` shows on a terminal after its first reading."""


class Terminal:
    """A terminal that a program writes to. fd: the program's end."""

    def __init__(self) -> None:
        self._ours, self.fd = os.openpty()
        self.text = b""
        self._reading = threading.Thread(target=self._read, daemon=True)

    def start(self) -> None:
        """Closes the program's end in this process, and reads in a thread until the program has ended."""
        os.close(self.fd)
        self._reading.start()

    def close(self) -> None:
        self._reading.join()
        os.close(self._ours)

    def _read(self) -> None:
        try:
            while part := os.read(self._ours, 4096):
                self.text += part
        except OSError:  # EIO: no process has the other end open
            return


def check(row: Scenario, place: Place, *more: str) -> Seen:
    if row.as_nobody:
        command = [sys.executable, *RUNNER, "-m", "tools.scenarios.checking", place.stats, f"{row.seconds:g}"]
    else:
        command = [sys.executable, *RUNNER, "-m", "uwsgi_headroom", "check", place.stats]
        command += ["--seconds", f"{row.seconds:g}", "--format", "json", *more]
        command += ["--uwsgi-log", str(place.uwsgi.log)] if row.log else ["--no-log"]
    terminal = Terminal()
    process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=terminal.fd, text=True)
    terminal.start()
    try:
        if row.events:
            wait_until(lambda: BEGUN in terminal.text, PATIENCE, "the check to begin")
            _act(row.events, place)
        output, _ = process.communicate(timeout=row.seconds + PATIENCE)
    finally:
        process.kill()
        process.wait()
    terminal.close()
    directory = f"{place.uwsgi.directory}/"  # differs from run to run
    document = json.loads(output.replace(directory, ""))
    if document["status"] == "unknown":
        return Seen("unknown", process.returncode, verdict=document["verdict"])
    return read_document(document, process.returncode, row)


def _act(events: Sequence[Event], place: Place) -> None:
    begun = time.monotonic()
    for event in events:
        time.sleep(max(0.0, begun + event.at - time.monotonic()))
        event.act(place.uwsgi)


def _check_as_nobody(address: str, seconds: str) -> int:
    "localhost".encode("idna")  # Python imports a codec at its first use
    os.setgroups([])
    os.setgid(NOBODY)
    os.setuid(NOBODY)
    return check_command.run(Request((address,), float(seconds), "json"))


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
    if outcome != "ok":
        return str(findings[0]["title"])
    left_out = document["status"] != "ok"
    return "Nothing is wrong but what other programs do." if left_out else str(document["verdict"])


def _figures(document: dict[str, Any]) -> dict[str, float]:
    parts = (document.get("flow"), (document["headroom"] or {}).get("by_limit"), document.get("cpu"))
    named = {name: value for part in parts for name, value in (part or {}).items()}
    return {name: round(value, 3) for name, value in named.items() if isinstance(value, (int, float))}


def _first_limit(headroom: dict[str, Any] | None, expected: tuple[str | None, ...]) -> str | None:
    """The first limit; skips `cpu` unless the row expects it. None if there is none, as for an emperor."""
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


if __name__ == "__main__":
    sys.exit(_check_as_nobody(*sys.argv[1:]))
