"""Chooses which password is checked next, so that a right login gets its turn while others guess.

A guesser sends each password once; a scraper, a browser and `check` send the same one again. Hence the rules:

* A login that was sent before, and not judged, is checked beside the new ones, not after them. It takes the place of a
  new one if there is no other.
* Among these, and among the new ones, clients take turns, and the client with the most places gives one up to a client
  with fewer. So a client that repeats its guesses too delays each other client by one check, not by all its guesses.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from http import HTTPStatus

MOST_PLACES = 12
"""Passwords that wait for their check. Further ones are answered with 503."""

MOST_NEW_PER_CLIENT = 3
"""Passwords of one client that wait and were not sent before. A fourth is answered with 429."""

_MOST_CLIENTS = 1024  # whose turns are remembered


@dataclass(frozen=True, slots=True)
class Verdict:
    """The answer to a login: 200, 401, 429 or 503. retry_after: seconds, for the last two."""

    status: HTTPStatus
    retry_after: float = 0.0


BUSY = Verdict(HTTPStatus.SERVICE_UNAVAILABLE, 1.0)


@dataclass(slots=True, eq=False)
class Candidate:
    """A login that waits to be judged. token: its keyed hash; stored: the bcrypt hash to compare with; known: whether
    that is a user's; repeated: whether it was sent before."""

    token: bytes
    client: str
    password: bytes
    stored: bytes
    known: bool
    repeated: bool
    verdict: asyncio.Future[Verdict] = field(repr=False)


class LoginQueue:
    """The logins that wait. Belongs to one event loop."""

    def __init__(self) -> None:
        self._waiting: dict[bytes, Candidate] = {}  # in the order of arrival
        self._turns: dict[str, None] = {}  # clients, the one that was served longest ago first

    def __len__(self) -> int:
        return len(self._waiting)

    def __iter__(self) -> Iterator[Candidate]:
        return iter(list(self._waiting.values()))

    def find(self, token: bytes) -> Candidate | None:
        """The login of this token, if it waits."""
        return self._waiting.get(token)

    def count_new(self, client: str) -> int:
        """How many new logins of a client wait."""
        return sum(each.client == client and not each.repeated for each in self._waiting.values())

    def enter(self, candidate: Candidate) -> tuple[bool, Candidate | None]:
        """Add a login if it gets a place; whether it did, and the login whose place that was."""
        loser = None
        if len(self._waiting) >= MOST_PLACES:
            loser = self._find_loser(candidate)
            if loser is None:
                return False, None
            del self._waiting[loser.token]
        self._waiting[candidate.token] = candidate
        return True, loser

    def take(self, *, repeated: bool) -> Candidate | None:
        """Remove the next login to check, of the repeated or of the new ones; None if none waits."""
        waiting = [each for each in self._waiting.values() if each.repeated == repeated]
        if not waiting:
            return None
        order = {client: turn for turn, client in enumerate(self._turns)}
        first = min(waiting, key=lambda each: order.get(each.client, -1))
        del self._waiting[first.token]
        self._turns.pop(first.client, None)
        self._turns[first.client] = None
        while len(self._turns) > _MOST_CLIENTS:
            del self._turns[next(iter(self._turns))]
        return first

    def _find_loser(self, candidate: Candidate) -> Candidate | None:
        """The latest login of the client with the most places, new ones first; None if the candidate has to leave."""
        rivals = [each for each in self._waiting.values() if not each.repeated]
        if candidate.repeated and rivals:
            return _latest_of_largest(rivals)
        if candidate.repeated:
            rivals = list(self._waiting.values())
        if not rivals:
            return None
        loser = _latest_of_largest(rivals)
        places = Counter(each.client for each in rivals)
        return loser if places[loser.client] > places[candidate.client] + 1 else None


def _latest_of_largest(candidates: list[Candidate]) -> Candidate:
    ((largest, _),) = Counter(each.client for each in candidates).most_common(1)
    return next(each for each in reversed(candidates) if each.client == largest)
