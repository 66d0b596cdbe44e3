"""Decodes custom metrics: those that an application or an operator has defined in uWSGI's metrics subsystem.

uWSGI adds metrics of its own for every worker and thread, tens of thousands on a large server. They only repeat what
the rest of the document says, so they are not decoded.
"""

from __future__ import annotations

import re

from msgspec import Raw, Struct, field
from msgspec.json import Decoder

from uwsgi_headroom.errors import StatsError
from uwsgi_headroom.stats.bounds import MOST, NAME_CHARACTERS, too_many
from uwsgi_headroom.stats.parts import Whole

COUNTER = 0
"""The `kind` of a custom metric that is a counter."""

_match_built_in = re.compile(r"(core|worker\.\d+|socket\.\d+)\.|(rss|vsz)_size$").match


class CustomMetric(Struct, frozen=True, gc=False):
    """`kind` is 0 for a counter, 1 for a gauge, 2 for absolute, 3 for an alias."""

    kind: Whole = field(default=1, name="type")
    value: Whole | None = None


_decoder = Decoder(CustomMetric)


def decode_custom_metrics(metrics: dict[str, Raw]) -> dict[str, CustomMetric]:
    """The custom metrics of a document, by name.

    Raises StatsError (`too_large`) if the document has more metrics than the bounds allow, or a name is too long.
    """
    if len(metrics) > MOST["metrics"]:
        raise too_many("metrics")
    custom = [name for name in metrics if not _match_built_in(name)]
    if len(custom) > MOST["custom metrics"]:
        raise too_many("custom metrics")
    if any(len(name) > NAME_CHARACTERS for name in custom):
        raise StatsError("too_large", f"a metric's name is longer than {NAME_CHARACTERS} characters")
    return {name: _decoder.decode(metrics[name]) for name in custom}
