"""Writes families as text: Prometheus text format 0.0.4 and OpenMetrics 1.0.0.

The library's `generate_latest` takes 13 µs per sample, more than the rest of a scrape. This module writes the same
bytes about ten times faster; a test compares the two.
"""

from __future__ import annotations

from functools import cache, lru_cache

from prometheus_client.metrics_core import Metric
from prometheus_client.utils import floatToGoString

from uwsgi_headroom.metrics.family import Family, LabelSet

TEXT = "text/plain; version=0.0.4; charset=utf-8"
END = "# EOF\n"
"""The last line of OpenMetrics."""

OPENMETRICS = "application/openmetrics-text; version=1.0.0; charset=utf-8"


def render_family(family: Metric, *, openmetrics: bool = False) -> str:
    if isinstance(family, Family):
        lines = family.lines
    else:
        lines = [(name, LabelSet(**labels), value) for name, labels, value, *_ in family.samples]
    if not lines:
        return ""
    # Not a zero from the cache: it could be the other one, as 0.0 equals -0.0.
    texts = [
        f"{name}{labels.text} {write_value(value) if value else repr(float(value))}\n" for name, labels, value in lines
    ]
    return _head(family.name, family.documentation, family.type, family.unit, openmetrics) + "".join(texts)


@cache
def _head(family: str, documentation: str, kind: str, unit: str, openmetrics: bool) -> str:
    name = f"{family}_total" if kind == "counter" and not openmetrics else family
    documentation = documentation.replace("\\", r"\\").replace("\n", r"\n")
    if openmetrics:
        documentation = documentation.replace('"', r"\"")
    unit_line = f"# UNIT {name} {unit}\n" if openmetrics and unit else ""
    return f"# HELP {name} {documentation}\n# TYPE {name} {kind}\n{unit_line}"


@lru_cache(maxsize=8192)
def write_value(value: float) -> str:
    """Write a value as Go writes floats, as the formats require. Most values are small counts or did not change since
    the last scrape, and a lookup costs a fifth."""
    text = repr(float(value))
    # Most values are small; the library writes exponents, many digits, infinities and NaN.
    return text if text.find(".", 0, 7) > 0 and "e" not in text else str(floatToGoString(value))  # type: ignore[no-untyped-call]
