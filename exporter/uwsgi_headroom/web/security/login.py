"""Decides whether the login of a request is right, and whose password is checked next.

Passwords are compared with bcrypt hashes in two threads, never in the event loop. A judged pair is remembered as a
keyed hash, so that bcrypt runs once for each pair and not at each scrape. An unknown user takes the same path, and the
same time, as a wrong password. Clients that send wrong passwords must wait, and are forgotten within minutes.

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
import base64
import binascii
import contextlib
import hashlib
import logging
import os
import queue
import threading
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import NamedTuple, TypeVar

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

_MOST_TURNS = 1024  # whose turns are remembered

_K = TypeVar("_K")
_V = TypeVar("_V")


def _put_last(table: dict[_K, _V], key: _K, value: _V, most: int) -> None:
    """Put an entry at the end of a table, and drop its first ones beyond the most."""
    table.pop(key, None)
    table[key] = value
    while len(table) > most:
        del table[next(iter(table))]


class Decided(Struct, frozen=True):
    """The answer to a login: 200, 401, 429 or 503. retry_after: seconds, for the last two."""

    status: HTTPStatus
    retry_after: float = 0.0


BUSY = Decided(HTTPStatus.SERVICE_UNAVAILABLE, 1.0)


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
    verdict: asyncio.Future[Decided] = field(repr=False)


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
        return self._waiting.get(token)

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
        _put_last(self._turns, first.client, None, _MOST_TURNS)
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
            loser = max(rivals, key=order)
            must_leave = order(loser) <= order(candidate)
        else:
            places = Counter(each.client for each in rivals)
            ((largest, number),) = places.most_common(1)
            loser = next(each for each in reversed(rivals) if each.client == largest)
            must_leave = not candidate.repeated and number <= places[candidate.client] + 1
        return None if must_leave else loser


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


FREE_FAILURES = 3
"""Wrong passwords in a row before a client must wait."""

LONGEST_WAIT = 30.0
"""Seconds; the wait doubles with each failure, from one second."""

FORGET_SECONDS = 300.0
"""Time in seconds without a failure after which a client begins anew."""

MOST_CLIENTS = 1024
"""Clients that are remembered; the one that failed longest ago is dropped first."""


class Throttle:
    """Counts failures by client. longest: of the waits, in seconds."""

    def __init__(self, now: Callable[[], float] = time.monotonic, longest: float = LONGEST_WAIT) -> None:
        self._now = now
        self._longest = longest
        self._failures: dict[str, tuple[int, float]] = {}  # the latest failure last

    def seconds_to_wait(self, client: str) -> float:
        """How long this client must wait before its password is checked again; 0 for none."""
        count, last = self._failures.get(client, (0, 0.0))
        if count < FREE_FAILURES:
            return 0.0
        wait = min(self._longest, 2.0 ** min(count - FREE_FAILURES, 30))
        return max(0.0, last + wait - self._now())

    def record_failure(self, client: str) -> None:
        now = self._now()
        count, last = self._failures.get(client, (0, now))
        if now - last > FORGET_SECONDS:
            count = 0
        _put_last(self._failures, client, (count + 1, now), MOST_CLIENTS)


_WAYS = 8
_BUCKETS = 1 << 16
MOST_TOKENS = _WAYS * _BUCKETS
"""Most logins that are remembered as refused without a check; as many again are remembered as wrong. Each takes eight
bytes of a keyed hash and four of a time: 6 MB for each of the two tables, of which only what is used takes memory. At
2,000 guesses a second, one is still known after a minute with a probability of 99.9 %."""


class TokenTable:
    """Sets of eight tokens, chosen by their first bytes; in each, the latest one displaces the oldest. Each has a time,
    a whole number of 32 bits."""

    def __init__(self) -> None:
        self._slots = memoryview(bytearray(8 * MOST_TOKENS)).cast("Q")  # zero pages, which the kernel gives when used
        self._times = memoryview(bytearray(4 * MOST_TOKENS)).cast("I")

    def __contains__(self, token: bytes) -> bool:
        return self.time_of(token) is not None

    def time_of(self, token: bytes) -> int | None:
        """The time of a token; None if it is not known."""
        start, short = _place(token)
        tokens = self._slots[start : start + _WAYS].tolist()
        return self._times[start + tokens.index(short)] if short in tokens else None

    def add(self, token: bytes, time: int) -> None:
        if token not in self:
            start, short = _place(token)
            for table, value in ((self._slots, short), (self._times, time)):
                table[start + 1 : start + _WAYS] = table[start : start + _WAYS - 1]
                table[start] = value


def _place(token: bytes) -> tuple[int, int]:
    return int.from_bytes(token[:2], "big") * _WAYS, int.from_bytes(token[2:10], "big") | 1


MOST_REMEMBERED = 256
"""Right pairs that are remembered; the one used longest ago is dropped first."""

REST, REPEATED_REST = 9.0, 17 / 3
"""After a wrong password that is new, no other new one is checked for this many times the CPU time of its check; the
second number is for repeated ones. So they take a tenth and three twentieths of one CPU at most, together a quarter,
however many clients guess, and whatever the cost of the hashes."""

LEAST_REST_SECONDS = 0.5
"""The shortest rest after a wrong password, in seconds. New and repeated passwords are checked beside each other, so
all clients together have four guesses a second, also with hashes of a low cost."""

LONGEST_REPEAT_WAIT = 4.0
"""The longest wait in seconds of a client whose repeated logins are wrong. Its repeated logins keep their places
meanwhile. Its new logins are refused, for up to `LONGEST_WAIT`."""

RIGHT, WRONG = Decided(HTTPStatus.OK), Decided(HTTPStatus.UNAUTHORIZED)


class Login:
    """Checks logins. Belongs to one event loop. now: monotonic seconds; rest: waits for seconds."""

    def __init__(
        self,
        checker: PasswordChecker | None = None,
        now: Callable[[], float] = time.monotonic,
        rest: Callable[[float], Awaitable[object]] = asyncio.sleep,
    ) -> None:
        self._new, self._repeated = Throttle(now), Throttle(now, LONGEST_REPEAT_WAIT)
        self._checker = checker or PasswordChecker()
        self._rest = rest
        self._now, self._began = now, now()
        self._key = os.urandom(32)
        self._right: dict[bytes, None] = {}  # used longest ago first
        self._wrong, self._refused = TokenTable(), TokenTable()
        self._queue = LoginQueue()
        self._in_check: dict[bytes, Candidate] = {}
        self._work: dict[bool, asyncio.Task[None]] = {}  # of the repeated ones, and of the new ones
        self._is_closed = False

    async def judge(self, users: Mapping[bytes, bytes], header: bytes, client: str) -> Decided:
        """Judge the Authorization header of a request of a client. users: bcrypt hashes by user name."""
        given = parse_basic(header)
        if given is None:
            return WRONG
        name, password = given
        stored = users.get(name)
        token = self._hash(name, password, stored or b"")
        if stored is not None and token in self._right:
            _put_last(self._right, token, None, MOST_REMEMBERED)
            return RIGHT
        if token in self._wrong:
            return WRONG
        if self._is_closed:
            return BUSY
        if candidate := self._in_check.get(token):
            candidate.repeated = True
        elif candidate := self._queue.find(token):
            self._move_to_repeated(candidate)
        else:
            refused = self._refused.time_of(token)
            candidate = Candidate(
                token=token,
                client=client,
                password=password,
                stored=stored or self._decoy(users, name),
                known=stored is not None,
                since=int((self._now() - self._began) * 10) if refused is None else refused,
                repeated=refused is not None,
                verdict=asyncio.get_running_loop().create_future(),
            )
            if refusal := self._admit(candidate):
                self._refused.add(token, candidate.since)
                return refusal
        return await asyncio.shield(candidate.verdict)

    def close(self) -> None:
        """Answer all that wait with 503, and check nothing more."""
        self._is_closed = True
        for work in self._work.values():
            work.cancel()
        for candidate in (*self._queue, *self._in_check.values()):
            if not candidate.verdict.done():
                candidate.verdict.set_result(BUSY)

    def _admit(self, candidate: Candidate) -> Decided | None:
        """Let a login wait for its check; or the reason against it."""
        if not candidate.repeated:
            if wait := self._new.seconds_to_wait(candidate.client):
                return Decided(HTTPStatus.TOO_MANY_REQUESTS, wait)
            new = [each for each in self._queue if each.client == candidate.client and not each.repeated]
            if len(new) >= MOST_NEW_PER_CLIENT:
                return Decided(HTTPStatus.TOO_MANY_REQUESTS, 1.0)
        if not self._enter(candidate):
            return BUSY
        self._start_work(repeated=candidate.repeated)
        return None

    def _move_to_repeated(self, candidate: Candidate) -> None:
        if not candidate.repeated:
            candidate.repeated = True
            candidate.repeated = self._enter(candidate)
        self._start_work(repeated=True)

    def _enter(self, candidate: Candidate) -> bool:
        """Whether a login gets a place. The one that loses it is answered."""
        entered, loser = self._queue.enter(candidate)
        if loser:
            self._refused.add(loser.token, loser.since)
            loser.verdict.set_result(BUSY)
        return entered

    def _start_work(self, *, repeated: bool) -> None:
        if repeated not in self._work or self._work[repeated].done():
            self._work[repeated] = asyncio.create_task(self._check_all(repeated=repeated), name="logins")

    async def _check_all(self, *, repeated: bool) -> None:
        """Check those that wait, one after the other, with a rest after each wrong one."""
        rest = REPEATED_REST if repeated else REST
        while any(each.repeated == repeated for each in self._queue):
            candidate = self._queue.take(
                repeated=repeated,
                is_paused=lambda each: each.repeated and self._repeated.seconds_to_wait(each.client) > 0,
            )
            if candidate is None:
                await self._rest(LEAST_REST_SECONDS)
                continue
            self._in_check[candidate.token] = candidate
            checked = await self._checker.check(candidate.password, candidate.stored, repeated=repeated)
            del self._in_check[candidate.token]
            self._conclude(candidate, right=checked.right and candidate.known)
            if not checked.right:
                await self._rest(max(LEAST_REST_SECONDS, rest * checked.seconds))

    def _conclude(self, candidate: Candidate, *, right: bool) -> None:
        if right:
            _put_last(self._right, candidate.token, None, MOST_REMEMBERED)
        else:
            self._wrong.add(candidate.token, candidate.since)
            self._new.record_failure(candidate.client)
            if candidate.repeated:
                self._repeated.record_failure(candidate.client)
        candidate.verdict.set_result(RIGHT if right else WRONG)

    def _decoy(self, users: Mapping[bytes, bytes], name: bytes) -> bytes:
        """A hash that no password has, for an unknown name. Its cost is that of one of the users, always the same one
        for the same name, so that the time of an answer does not separate unknown names from known ones."""
        costs = [stored[4:6] for stored in users.values()]
        return b"$2b$" + costs[self._hash(name)[0] % len(costs)] + b"$" + b"." * 53

    def _hash(self, *parts: bytes) -> bytes:
        framed = b"".join(len(part).to_bytes(4, "big") + part for part in parts)
        return hashlib.blake2b(framed, key=self._key, digest_size=32).digest()


def parse_basic(header: bytes) -> tuple[bytes, bytes] | None:
    """The user name and password of a header of RFC 7617; None if it has none."""
    scheme, _, text = header.partition(b" ")
    if scheme.lower() != b"basic":
        return None
    try:
        pair = base64.b64decode(text.strip(), validate=True)
    except (binascii.Error, ValueError):
        return None
    name, colon, password = pair.partition(b":")
    return (name, password) if colon else None
