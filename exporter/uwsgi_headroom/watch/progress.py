"""Finds samplers that stand still, so that a watchdog can end an exporter that no longer samples.

After each attempt to read a server, the next one must finish within the timeout of a read and the longest pause, plus
some time for a busy machine. Between two attempts, `supervise` may restart the sampler, after a longer pause.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from uwsgi_headroom.watch.pace import JITTER, RETRY_SECONDS
from uwsgi_headroom.watch.supervise import RESTART_SECONDS
from uwsgi_headroom.watch.watch import Watch

SLACK_SECONDS = 10.0
"""How much longer than planned an attempt and its pause may take."""


_log = logging.getLogger(__name__)


@dataclass
class _Attempts:
    """A server's number of attempts, and since when (monotonic) it is unchanged. allowed: seconds of a restart."""

    number: int
    since: float
    allowed: float = 0.0


class Progress:
    """The progress of all samplers, looked at once a turn. on_turn: called with the watches at the end of each turn in
    which no sampler stands still."""

    def __init__(self, monotonic: Callable[[], float], on_turn: Callable[[Sequence[Watch]], None]) -> None:
        self._monotonic = monotonic
        self._on_turn = on_turn
        self._attempts: dict[Watch, _Attempts] = {}
        self._turned_at = monotonic()

    async def sample(self, watch: Watch) -> None:
        """Sample a server for `supervise`, which pauses when this ends."""
        try:
            await watch.sample()
        finally:
            self._attempts[watch] = _Attempts(watch.reader.attempts, self._monotonic(), RESTART_SECONDS[-1])

    def end_turn(self, watches: Sequence[Watch]) -> None:
        """End a turn with these servers; all others are forgotten."""
        if still := self._find_still(watches):
            _log.error("sampling stands still", extra={"fields": {"servers": " ".join(still)}})
        else:
            self._on_turn(watches)

    def _find_still(self, watches: Sequence[Watch]) -> list[str]:
        now = self._monotonic()
        before, self._attempts = self._attempts, {}
        gap, self._turned_at = now - self._turned_at, now
        if gap > SLACK_SECONDS:  # the process or the event loop stood still, so no sampler could run
            for noted in before.values():
                noted.since += gap
        for watch in watches:
            earlier = before.get(watch)
            same = earlier is not None and earlier.number == watch.reader.attempts
            self._attempts[watch] = earlier if earlier and same else _Attempts(watch.reader.attempts, now)
        return [
            watch.name
            for watch, noted in self._attempts.items()
            if now - noted.since > longest_seconds(watch) + noted.allowed
        ]


def longest_seconds(watch: Watch) -> float:
    """The longest time from one attempt to the end of the next, in seconds, while the sampler runs."""
    pause = max(RETRY_SECONDS[-1], watch.pace.interval * (1 + JITTER))
    return watch.reader.timeout + pause + SLACK_SECONDS
