"""Metrics of uWSGI's metrics subsystem that an application or an operator has defined.

uWSGI adds its own for every worker and thread, tens of thousands on a large server, and all that they say is elsewhere
in the document. Only the others are decoded.
"""

from __future__ import annotations

import re

from msgspec import Raw, Struct, field
from msgspec.json import Decoder

from uwsgi_headroom.errors import StatsError
from uwsgi_headroom.stats.bounds import MOST, NAME_CHARACTERS, too_many
from uwsgi_headroom.stats.parts import Whole

COUNTER = 0
"""The `kind` of a custom metric that only grows."""

_match_built_in = re.compile(r"(core|worker\.\d+|socket\.\d+)\.|(rss|vsz)_size$").match


class CustomMetric(Struct, frozen=True, gc=False):
    """`kind` is 0 for a counter, 1 gauge, 2 absolute, 3 alias."""

    kind: Whole = field(default=1, name="type")
    value: Whole | None = None


_decoder = Decoder(CustomMetric)


def decode_custom_metrics(metrics: dict[str, Raw]) -> dict[str, CustomMetric]:
    """Those of the document's metrics that are none of uWSGI's own.

    Raises StatsError (`too_large`) where there are more than the bounds allow, or a name is longer than a name may be.
    """
    if len(metrics) > MOST["metrics"]:
        raise too_many("metrics")
    custom = [name for name in metrics if not _match_built_in(name)]
    if len(custom) > MOST["metrics of its own making"]:
        raise too_many("metrics of its own making")
    if any(len(name) > NAME_CHARACTERS for name in custom):
        raise StatsError("too_large", f"a metric's name is longer than {NAME_CHARACTERS} characters")
    return {name: _decoder.decode(metrics[name]) for name in custom}
