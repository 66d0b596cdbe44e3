"""A token bucket for all requests together, as the key `rate_limit` asks for."""

from __future__ import annotations

import time
from collections.abc import Callable

from uwsgi_headroom.web.security.model import RateLimit


class RateLimiter:
    """Allows a burst of requests, then one in each interval."""

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        self._now = now
        self._limit: RateLimit | None = None
        self._tokens, self._last = 0.0, 0.0

    def allows(self, limit: RateLimit | None) -> bool:
        """Whether one more request may be answered. With another limit than before, the bucket is full again."""
        if limit is None:
            return True
        now = self._now()
        if limit != self._limit:
            self._limit, self._tokens = limit, float(limit.burst)
        else:
            self._tokens = min(float(limit.burst), self._tokens + (now - self._last) / limit.interval)
        self._last = now
        if self._tokens < 1:
            return False
        self._tokens -= 1
        return True
