"""What a finding is."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Severity = Literal["critical", "warning", "info"]
SEVERITIES: tuple[Severity, ...] = ("critical", "warning", "info")


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing worth knowing. critical: requests suffer now; warning: they will, or some do; info: good to know.

    code: a stable name; title: one sentence; evidence: the figures it rests on; meaning: why that matters;
    change: what to do, with uWSGI's option, empty where there is nothing to do.
    """

    code: str
    severity: Severity
    title: str
    evidence: str
    meaning: str = ""
    change: str = ""
