"""The last hour of a server in slices of a minute, and whether CPU used by others followed its requests in them."""

from __future__ import annotations

from collections import deque

from uwsgi_headroom.analysis.neighbours import SLICE_SECONDS, extract_pair, follow_requests
from uwsgi_headroom.config.defaults import HISTORY_SECONDS
from uwsgi_headroom.history.window import History


class NeighbourSlices:
    """Takes each slice from a history once, when it is over. others_follow: None while that cannot be known."""

    def __init__(self) -> None:
        self.others_follow: bool | None = None
        self._pairs: deque[tuple[float, float]] = deque(maxlen=int(HISTORY_SECONDS / SLICE_SECONDS))
        self._newest: object = None
        self._until = float("-inf")

    def update(self, history: History) -> None:
        """Take the slices that are over since the last call. Call this after each sample."""
        newest = history.newest_slice(SLICE_SECONDS)
        if newest == self._newest:
            return
        self._newest = newest
        for window in history.slices(SLICE_SECONDS, self._until, float("inf")):
            self._until = window.until
            if pair := extract_pair(window):
                self._pairs.append(pair)
        self.others_follow = follow_requests(self._pairs)
