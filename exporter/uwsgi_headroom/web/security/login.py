"""Decides whether a request's user name and password are right.

A right pair is remembered as a keyed hash, so that bcrypt runs once for each client and not at each scrape. An unknown
user takes the same path, and the same time, as a wrong password.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import hashlib
import os
from collections.abc import Mapping
from dataclasses import dataclass
from http import HTTPStatus

from uwsgi_headroom.web.security.password_checker import PasswordChecker
from uwsgi_headroom.web.security.throttle import Throttle, client_key

MOST_CHECKS = 12
"""Passwords that are checked or wait for their turn. Further clients are answered with 503."""

MOST_CHECKS_PER_CLIENT = 3
"""So that one address does not take all places. A fourth password at the same time is answered with 429."""

MOST_REMEMBERED = 256
"""Right pairs that are remembered; the one used longest ago is dropped first. Wrong ones are never remembered."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """The answer to a login: 200, 401, 429 or 503. retry_after: seconds, for the last two."""

    status: HTTPStatus
    retry_after: float = 0.0


RIGHT, WRONG = Verdict(HTTPStatus.OK), Verdict(HTTPStatus.UNAUTHORIZED)


class Login:
    """Checks logins. Belongs to one event loop."""

    def __init__(self, throttle: Throttle | None = None, checker: PasswordChecker | None = None) -> None:
        self._throttle = throttle or Throttle()
        self._checker = checker or PasswordChecker()
        self._key = os.urandom(32)
        self._right: dict[bytes, None] = {}  # used longest ago first
        self._checks: dict[bytes, asyncio.Task[bool]] = {}
        self._clients: list[str] = []  # of the checks

    async def judge(self, users: Mapping[bytes, bytes], header: bytes, host: str) -> Verdict:
        """Judge the Authorization header of a request from an IP address. users: bcrypt hashes by user name."""
        given = parse_basic(header)
        if given is None:
            return WRONG
        name, password = given
        stored = users.get(name)
        token = self._hash(name, password, stored or b"")
        if stored is not None and token in self._right:
            self._right[token] = self._right.pop(token)
            return RIGHT
        client = client_key(host)
        if wait := self._throttle.seconds_to_wait(client):
            return Verdict(HTTPStatus.TOO_MANY_REQUESTS, wait)
        check = self._checks.get(token)
        if check is None:
            if self._clients.count(client) >= MOST_CHECKS_PER_CLIENT:
                return Verdict(HTTPStatus.TOO_MANY_REQUESTS, 1.0)
            if len(self._checks) >= MOST_CHECKS:
                return Verdict(HTTPStatus.SERVICE_UNAVAILABLE, 1.0)
            hashed = stored or self._decoy(users, name)
            self._clients.append(client)
            check = asyncio.create_task(self._check(token, client, password, hashed, known=stored is not None))
            self._checks[token] = check
        return RIGHT if await asyncio.shield(check) else WRONG

    async def _check(self, token: bytes, client: str, password: bytes, stored: bytes, *, known: bool) -> bool:
        try:
            right = await self._checker.check(password, stored) and known
        finally:
            self._clients.remove(client)
            del self._checks[token]
        if right:
            self._right[token] = None
            while len(self._right) > MOST_REMEMBERED:
                del self._right[next(iter(self._right))]
        else:
            self._throttle.record_failure(client)
        return right

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
