"""Which series the shipped rules, dashboards and the report read: made from their queries, as a `keep` list."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
_NAME = re.compile(r"(?<![\w:])(?:uwsgi|process)_\w+(?![\w:])")

SOURCES: Mapping[str, tuple[str, ...]] = {
    "rules": ("alerts/rules/*.yaml",),
    "dashboards": ("dashboards/out/*.json",),
    "report": ("exporter/uwsgi_headroom/report/sources/prometheus_queries.py",),
}
NO_METRICS = ("uwsgi_headroom", "uwsgi_exporter", "uwsgi_modifier1")
"""The package, the beginning of other names, and a directive of nginx."""


def needed(*sources: str) -> list[str]:
    """Returns the exported names that these sources read, sorted; without names, all sources."""
    names: set[str] = set()
    for source in sources or SOURCES:
        for pattern in SOURCES[source]:
            files = sorted(ROOT.glob(pattern))
            if not files:
                raise FileNotFoundError(f"{pattern} names no file")
            for file in files:
                if not file.name.startswith("compat-"):
                    names.update(_NAME.findall(file.read_text()))
    return sorted(name for name in names if name not in NO_METRICS and not name.endswith("_"))


def relabelling(names: Iterable[str]) -> list[dict[str, Any]]:
    """Returns `metric_relabel_configs` that keep only these series of a scrape. `up` and other series that the scraper
    itself adds stay."""
    return [{"source_labels": ["__name__"], "regex": "|".join(sorted(set(names))), "action": "keep"}]


def kept(numbers: Mapping[str, int], names: Iterable[str]) -> dict[str, int]:
    """Returns those of the numbers of series by name that a keep list of these names leaves."""
    chosen = set(names)
    return {name: number for name, number in numbers.items() if name in chosen}
