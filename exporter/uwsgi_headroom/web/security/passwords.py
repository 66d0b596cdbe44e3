"""Compares passwords with bcrypt hashes in two threads, never in the event loop, and chooses which one is next.

A right login must get its turn while others guess. A guesser sends each password once; a scraper, a browser and `check`
send the same one again. Hence the rules:

* A login that was sent before, and not judged, is checked beside the new ones, not after them. It takes the place of a
  new one if there is no other.
* Among these, and among the new ones, clients take turns: the client that was served longest ago is next. So a client
  that repeats its guesses too delays each other client by one check, not by all its guesses.
* Among the logins of one client, the one that was sent first is next. A guesser at the scraper's address who sends each
  guess twice has many logins, but they are younger than the scraper's, which comes again after seconds.

Repeated logins have few places, and the last in this order gives its place to a login that comes before it.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import queue
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import NamedTuple

import bcrypt
from msgspec import Struct

MOST_BYTES = 72
"""bcrypt ignores the rest of a password; its newest versions refuse a longer one, and `htpasswd` does not."""

_log = logging.getLogger(__name__)

_NICENESS = {False: 5, True: 0}
"""Of the threads for new and for repeated passwords. With 5, a thread has a third of the share of an ordinary one: on
two CPUs with a load of 8, 0.5 s of CPU took 8 to 9 s."""


class Checked(NamedTuple):
    """Whether a password has a hash, and the CPU time that the comparison took, in seconds."""

    right: bool
    seconds: float


_Job = tuple[bytes, bytes, "asyncio.Future[Checked]", asyncio.AbstractEventLoop]


class PasswordChecker:
    """A queue and a thread for new passwords, and for repeated ones, which start when needed. The caller bounds how
    many wait."""

    def __init__(self) -> None:
        self._jobs: dict[bool, queue.SimpleQueue[_Job]] = {}

    def check(self, password: bytes, stored: bytes, *, repeated: bool) -> asyncio.Future[Checked]:
        """Compare a password with a hash. The caller awaits the future."""
        if repeated not in self._jobs:
            self._jobs[repeated] = queue.SimpleQueue()
            arguments = self._jobs[repeated], _NICENESS[repeated]
            threading.Thread(target=_run, args=arguments, name="passwords", daemon=True).start()
        loop = asyncio.get_running_loop()
        future: asyncio.Future[Checked] = loop.create_future()
        self._jobs[repeated].put((password, stored, future, loop))
        return future


def _run(jobs: queue.SimpleQueue[_Job], niceness: int) -> None:
    if niceness:
        with contextlib.suppress(OSError):
            os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), niceness)  # of this thread alone, on Linux
    while True:
        password, stored, future, loop = jobs.get()
        began = time.thread_time()
        right = _matches(password, stored)
        checked = Checked(right, time.thread_time() - began)
        with contextlib.suppress(RuntimeError):  # the event loop is closed
            loop.call_soon_threadsafe(_answer, future, checked)


def _matches(password: bytes, stored: bytes) -> bool:
    try:
        return bcrypt.checkpw(password[:MOST_BYTES], stored)
    except ValueError:  # a NUL in the password, for some versions of bcrypt; a salt that no implementation makes
        return False
    except BaseException:  # noqa: BLE001 - also a panic of bcrypt's Rust, which is no Exception: the thread must go on
        _log.exception("a password could not be checked")
        return False


def _answer(future: asyncio.Future[Checked], checked: Checked) -> None:
    if not future.done():
        future.set_result(checked)


MOST_PLACES = 12
"""Passwords that wait for their check. Further ones are answered with 503."""

MOST_REPEATED = 6
"""Most waiting passwords that were sent before. With hashes of cost 13, one of them is checked every 3.3 seconds while
all are wrong."""

MOST_NEW_PER_CLIENT = 3
"""Passwords of one client that wait and were not sent before. A fourth is answered with 429."""

MOST_REPEATED_PER_CLIENT = 3
"""Passwords of one client that wait and were sent before. The youngest of four is answered with 503."""

_MOST_CLIENTS = 1024  # whose turns are remembered


class Verdict(Struct, frozen=True):
    """The answer to a login: 200, 401, 429 or 503. retry_after: seconds, for the last two."""

    status: HTTPStatus
    retry_after: float = 0.0


BUSY = Verdict(HTTPStatus.SERVICE_UNAVAILABLE, 1.0)


@dataclass(slots=True, eq=False)
class Candidate:
    """A login that waits to be judged. token: its keyed hash; stored: the bcrypt hash to compare with; known: whether
    that is a user's; since: when it was sent first, in tenths of a second; repeated: whether it was sent before."""

    token: bytes
    client: str
    password: bytes
    stored: bytes
    known: bool
    since: int
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

    def has(self, *, repeated: bool) -> bool:
        """Whether a login of the repeated or of the new ones waits."""
        return any(each.repeated == repeated for each in self._waiting.values())

    def count_new(self, client: str) -> int:
        """How many new logins of a client wait."""
        return sum(each.client == client and not each.repeated for each in self._waiting.values())

    def enter(self, candidate: Candidate) -> tuple[bool, Candidate | None]:
        """Add a login, or move one that waits to the repeated ones, if it gets a place there; whether it did, and the
        login whose place that was."""
        others = [each for each in self._waiting.values() if each is not candidate]
        rivals = _find_rivals(candidate, others)
        loser = None
        if rivals is not None:
            loser = self._find_loser(candidate, rivals)
            if loser is None:
                return False, None
            del self._waiting[loser.token]
        self._waiting[candidate.token] = candidate
        return True, loser

    def take(self, *, repeated: bool, is_paused: Callable[[Candidate], bool]) -> Candidate | None:
        """Remove the next login to check, of the repeated or of the new ones; None if none waits that is not paused."""
        waiting = [each for each in self._waiting.values() if each.repeated == repeated and not is_paused(each)]
        if not waiting:
            return None
        first = min(waiting, key=self._order())
        del self._waiting[first.token]
        self._turns.pop(first.client, None)
        self._turns[first.client] = None
        while len(self._turns) > _MOST_CLIENTS:
            del self._turns[next(iter(self._turns))]
        return first

    def _order(self) -> Callable[[Candidate], tuple[int, int]]:
        """The order of the checks, as a key for sorting: by the client's last turn, then by the login's first time."""
        turns = {client: turn for turn, client in enumerate(self._turns)}
        return lambda each: (turns.get(each.client, -1), each.since)

    def _find_loser(self, candidate: Candidate, rivals: Sequence[Candidate]) -> Candidate | None:
        """The rival that gives its place to the candidate; None if the candidate has to leave."""
        if not rivals:
            return None
        if rivals[0].repeated:
            order = self._order()
            last = max(rivals, key=order)
            return last if order(last) > order(candidate) else None
        if candidate.repeated:
            return _latest_of_largest(rivals)
        loser = _latest_of_largest(rivals)
        places = Counter(each.client for each in rivals)
        return loser if places[loser.client] > places[candidate.client] + 1 else None


def _find_rivals(candidate: Candidate, others: Sequence[Candidate]) -> list[Candidate] | None:
    """Those of whom one must give its place to the candidate, all new or all repeated; None if there is a free one."""
    repeated = [each for each in others if each.repeated]
    if candidate.repeated:
        own = [each for each in repeated if each.client == candidate.client]
        if len(own) >= MOST_REPEATED_PER_CLIENT:
            return own
        if len(repeated) >= MOST_REPEATED:
            return repeated
    return [each for each in others if not each.repeated] if len(others) >= MOST_PLACES else None


def _latest_of_largest(candidates: Sequence[Candidate]) -> Candidate:
    ((largest, _),) = Counter(each.client for each in candidates).most_common(1)
    return next(each for each in reversed(candidates) if each.client == largest)
