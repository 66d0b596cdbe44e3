"""The tiers of a history: how long a record is, and how long it is kept."""

from __future__ import annotations

from typing import NamedTuple

DAY = 86_400


class Tier(NamedTuple):
    """Records of `seconds` each, kept for `kept` seconds."""

    seconds: int
    kept: int


MINUTES = Tier(60, 14 * DAY)
QUARTERS = Tier(900, 90 * DAY)
HOURS = Tier(3600, 731 * DAY)

TIERS = (MINUTES, QUARTERS, HOURS)
"""From the shortest to the longest. Records of a tier are merged from those of the one before."""

LONGEST_SECONDS = float(HOURS.kept)

AHEAD_SECONDS = float(DAY)
"""Records later than now by more than this were written by a clock that was ahead, and are ignored: a machine with an
empty battery may start years ahead. A wrong time zone is less than a day."""


def slot_at(tier: Tier, minute: int) -> int:
    """The slot of a tier that contains the minute that ends at `minute` (minutes since the epoch). Slots are counted
    by their ends: slot n ends n * tier.seconds after the epoch."""
    return -(-minute * MINUTES.seconds // tier.seconds)
