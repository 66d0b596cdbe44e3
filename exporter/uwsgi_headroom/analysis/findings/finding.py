"""The type of a finding."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Severity = Literal["critical", "warning", "info"]
SEVERITIES: tuple[Severity, ...] = ("critical", "warning", "info")


@dataclass(frozen=True, slots=True)
class Finding:
    """A finding about a server. critical: requests suffer now; warning: they will, or some do; info: good to know.

    code: a stable name; title: one sentence; evidence: the figures behind it; meaning: why it matters; change: what to
    do, with uWSGI's option; empty if there is nothing to do.
    """

    code: str
    severity: Severity
    title: str
    evidence: str
    meaning: str = ""
    change: str = ""
