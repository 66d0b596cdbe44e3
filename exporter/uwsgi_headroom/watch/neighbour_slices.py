"""Judges from one-minute slices of the last hour whether CPU use by others follows a server's requests."""

from __future__ import annotations

from collections import deque

from uwsgi_headroom.analysis.neighbours import SLICE_SECONDS, extract_pair, follow_requests
from uwsgi_headroom.config.defaults import HISTORY_SECONDS
from uwsgi_headroom.history.hour import History


class NeighbourSlices:
    """Takes each slice from a history once, when the slice is over. others_follow: None while unknown."""

    def __init__(self) -> None:
        self.others_follow: bool | None = None
        self._pairs: deque[tuple[float, float]] = deque(maxlen=int(HISTORY_SECONDS / SLICE_SECONDS))
        self._newest: object = None
        self._until = float("-inf")

    def update(self, history: History) -> None:
        """Take the slices that have ended since the last call. Call this after each sample."""
        newest = history.newest_slice(SLICE_SECONDS)
        if newest == self._newest:
            return
        self._newest = newest
        for window in history.slices(SLICE_SECONDS, self._until, float("inf")):
            self._until = window.until
            if pair := extract_pair(window):
                self._pairs.append(pair)
        self.others_follow = follow_requests(self._pairs)
