"""Decides the waits of one sample, also those for sockets that are too young to be known.

A list of all TCP sockets is too costly for every sample. A connection that is opened for one query is gone before the
next list, so most waits for such sockets cannot be decided. But those that a list decides are a random part of them:
the others are counted in the same proportions, separately for each kind of system call.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator
from typing import NamedTuple

from uwsgi_headroom.kernel.waits.peers import Peers
from uwsgi_headroom.kernel.waits.thread_wait import Decision, Wait, decide

_REMEMBERED = 200
"""How many decisions about young sockets are remembered, per kind of call: beyond, old ones count for less."""


class Part(NamedTuple):
    """A part of a thread, 1 unless it is not decided, and what it waits for."""

    part: float
    decision: Decision


class Decisions:
    """The decisions about the waits of one server."""

    def __init__(self, peers: Peers) -> None:
        self._peers = peers
        self._young: dict[str, Counter[Decision]] = defaultdict(Counter)

    def learn(
        self, waits: Collection[Wait], others: Callable[[], Iterable[int]], *, elsewhere: int | None = None
    ) -> str | None:
        """Find the peers of the sockets in a sample, as far as the time allows, and remember what young sockets are
        used for. others: all sockets of these workers, which later samples will ask for. elsewhere: as for `Peers`.
        Returns the reason to show if some stay unknown because the kernel refuses to answer."""
        wanted = {inode for wait in waits for inode in wait.sockets}
        unknown = {inode for inode in wanted if self._peers.get(inode) is None}
        first_list = not self._peers.lists
        refusal = self._peers.learn(unknown, others, elsewhere=elsewhere)
        if first_list:
            return refusal  # these sockets are of any age
        for wait in waits:
            if not unknown.isdisjoint(wait.sockets) and self._is_known(wait):
                decision = decide(wait, self._peers)
                if decision.result == "idle":
                    continue  # uWSGI's own epoll sets, of a worker that has just started
                decisions = self._young[wait.call]
                decisions[decision] += 1
                if decisions.total() > _REMEMBERED:
                    halves = {each: number // 2 for each, number in decisions.items() if number > 1}
                    self._young[wait.call] = Counter(halves)
        return refusal

    def decide(self, wait: Wait) -> Iterator[Part]:
        """What a thread waits for. A wait for a young socket is divided like those before it."""
        young = self._young.get(wait.call)
        if wait.result is not None or not young or self._is_known(wait):
            yield Part(1.0, decide(wait, self._peers))
            return
        total = young.total()
        for decision, number in young.items():
            yield Part(number / total, decision)

    def _is_known(self, wait: Wait) -> bool:
        return all(self._peers.get(inode) is not None for inode in wait.sockets)
