"""The statistics of a capacity review: pure functions of numpy arrays, which know no source and no document.

nan is "not known" and is allowed in every array of values. Results are frozen. A function that would have to guess
returns a `Refusal` with the reason as a sentence.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why there is no result.

    reason: one or two sentences for the reader, with what is there and what would be needed.
    needed_days, days: of history, where history is what is missing; else None.
    """

    reason: str
    needed_days: int | None = None
    days: int | None = None
