"""Learns which locks idle threads wait for: no symbol names that of `thunder-lock`, and uwsgi.lock() looks the same.

uWSGI's document says how many threads are in service. If the threads that wait for a lock are idle, the others add up
to that number; if they are in service, only all together do.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

Lock = tuple[str, int]
"""The kind of a lock, and its address or number."""

_LEARNT = 3
"""How many more samples must speak for idle than against it, or the other way round."""

_MOST_LOCKS = 1024


class IdleLocks:
    """What is known of the locks of one server."""

    def __init__(self) -> None:
        self._scores: Counter[Lock] = Counter()

    def learn(self, waiting: Mapping[Lock, int], others: float, busy: int, *, presumed_idle: bool) -> None:
        """Compare a sample with uWSGI's document. waiting: threads by the lock they wait for; others: the threads that
        are in service for certain; busy: threads in service according to the document."""
        if len(self._scores) > _MOST_LOCKS:
            self._scores.clear()
        believed = {lock: number for lock, number in waiting.items() if not self.is_idle(lock, presumed_idle)}
        for lock, number in waiting.items():
            without = others + sum(believed.values()) - believed.get(lock, 0)
            self._scores[lock] += _sign(abs(without + number - busy) - abs(without - busy))
            self._scores[lock] = max(-2 * _LEARNT, min(2 * _LEARNT, self._scores[lock]))

    def is_learnt(self, lock: Lock) -> bool:
        """Whether it is known whether threads that wait for this lock are idle."""
        return abs(self._scores[lock]) >= _LEARNT

    def is_idle(self, lock: Lock, presumed: bool) -> bool:
        """Whether threads that wait for this lock are idle; `presumed` as long as that is not learnt."""
        score = self._scores[lock]
        return score >= _LEARNT or (presumed and score > -_LEARNT)


def _sign(number: float) -> int:
    return (number > 0) - (number < 0)
