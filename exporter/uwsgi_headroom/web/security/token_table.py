"""Remembers the latest keyed hashes in a fixed amount of memory."""

from __future__ import annotations

_WAYS = 8
_BUCKETS = 1 << 16
MOST_TOKENS = _WAYS * _BUCKETS
"""Logins that are remembered as refused without a check, and as many as wrong, by eight bytes of a keyed hash each: 4
MB for each of the two tables, of which only what is used takes memory. At 2,000 guesses a second, one is still known
after a minute with a probability of 99.9 %."""


class TokenTable:
    """Sets of eight tokens, chosen by their first bytes; in each, the latest one displaces the oldest."""

    def __init__(self) -> None:
        self._slots = memoryview(bytearray(8 * MOST_TOKENS)).cast("Q")  # zero pages, which the kernel gives when used

    def __contains__(self, token: bytes) -> bool:
        start, short = _place(token)
        return short in self._slots[start : start + _WAYS].tolist()

    def add(self, token: bytes) -> None:
        """Remember a token."""
        if token not in self:
            start, short = _place(token)
            self._slots[start + 1 : start + _WAYS] = self._slots[start : start + _WAYS - 1]
            self._slots[start] = short


def _place(token: bytes) -> tuple[int, int]:
    return int.from_bytes(token[:2], "big") * _WAYS, int.from_bytes(token[2:10], "big") | 1
