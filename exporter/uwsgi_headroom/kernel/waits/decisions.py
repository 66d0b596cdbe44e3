"""Decides what the threads of one server wait for, with what earlier samples teach: what sockets are used for that are
too young to be known (`Decisions`), and which locks idle threads wait for (`IdleLocks`).
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import TypeVar

from uwsgi_headroom.kernel.waits.peers import Peers
from uwsgi_headroom.kernel.waits.thread_wait import GAP_POLL, GAP_SOCKET, GONE_ON, Decision, Lock, Wait, decide

_MOST_HIDDEN = 8
"""How many processes with such threads are looked at in a sample."""

_REMEMBERED = 200
"""How many decisions about young sockets are remembered, per kind of call: beyond, old ones count for less."""


T = TypeVar("T")

Part = tuple[float, Decision]
"""A part of a thread, 1 unless it is not decided, and what it waits for."""


class Decisions:
    """The decisions about the waits of one server, also those for sockets that are too young to be known.

    A list of all TCP sockets is too costly for every sample. A connection that is opened for one query is gone before
    the next list, so most waits for such sockets cannot be decided. But those that a list decides are a random part of
    them: the others are counted in the same proportions, separately for each kind of system call.
    """

    def __init__(self, peers: Peers) -> None:
        self._peers = peers
        self._young: dict[str, Counter[Decision]] = defaultdict(Counter)
        self._hidden: dict[tuple[int, ...], Sequence[Part]] = {}
        self._polled: Counter[Decision] = Counter()

    def learn(
        self,
        waits: Collection[Wait],
        others: Callable[[], Iterable[int]],
        again: Callable[[], Collection[Wait]] = tuple,
        *,
        elsewhere: int | None = None,
    ) -> str | None:
        """Find the peers of the sockets in a sample, as far as the time allows, and remember what young sockets are
        used for. others: all sockets of these workers, which later samples will ask for. again: what threads wait for
        by now. It is asked if a list may be made and nothing is known yet of young sockets: on a busy machine,
        connections that were seen before have mostly ended by the time of the list. elsewhere: as for `Peers`. Returns
        the reason to show if some stay unknown because the kernel refuses to answer."""
        self._hidden.clear()
        first_list = not self._peers.lists
        seen = [*waits]
        if not first_list and any(map(self._is_open, waits)) and self._peers.may_list_soon():
            seen += [wait for wait in again() if wait.gap is None]
        wanted = {inode for wait in seen for inode in wait.sockets}
        unknown = {inode for inode in wanted if self._peers.get(inode) is None}
        refusal = self._peers.learn(unknown, others, elsewhere=elsewhere)
        self._look_for_unanswered(waits, elsewhere)
        for wait in waits:
            if wait.call == "poll" and wait.gap is None and self._is_known(wait):
                remember(self._polled, decide(wait, self._peers))
        if first_list:
            return refusal  # these sockets are of any age
        for wait in seen:
            if wait.sockets in self._hidden:
                continue
            if not unknown.isdisjoint(wait.sockets) and self._is_known(wait):
                decision = decide(wait, self._peers)
                if decision.result == "idle":
                    continue  # uWSGI's own epoll sets, of a worker that has just started
                remember(self._young[wait.call], decision)
        return refusal

    def _is_open(self, wait: Wait) -> bool:
        """Whether nothing says yet what a wait is for."""
        is_decided = wait.epoll is not None or self._young.get(wait.call) or self._is_known(wait)
        return wait.gap is None and not is_decided

    def _look_for_unanswered(self, waits: Collection[Wait], elsewhere: int | None) -> None:
        """Divide the threads of a process that poll, and hide for what, among the backends that have not answered
        yet: data was sent to them, and none was received since. The rest waits for any of the others."""
        hidden = Counter([wait.sockets for wait in waits if wait.gap is not None and wait.result is None])
        if not hidden:
            return
        seen = {inode for wait in waits if wait.gap is None for inode in wait.sockets}
        for sockets, waiting in list(hidden.items())[:_MOST_HIDDEN]:
            # Sockets that are not known yet are mostly those of clients.
            known = [inode for inode in sockets if self._peers.get(inode) is not None]
            decision = decide(Wait(None, tuple(known), gap=GAP_POLL), self._peers)
            if not decision.candidates:
                continue
            others = [inode for inode in known if inode not in seen]
            unanswered, doubtful = self._peers.list_unanswered(others, elsewhere=elsewhere)
            peers = [*unanswered, *doubtful[: max(0, waiting - len(unanswered))]]
            part = 1.0 / max(waiting, len(peers))
            numbers = Counter(Decision("backend", peer.address, connecting=peer.connecting) for peer in peers)
            parts = [(number * part, found) for found, number in numbers.items()]
            if waiting > len(peers):
                parts.append(((waiting - len(peers)) * part, decision))
            self._hidden[sockets] = parts

    def decide(self, wait: Wait) -> Sequence[Part]:
        """What a thread waits for. A wait for a young socket is divided like those before it, and one for any socket
        of its process among those that have not answered."""
        if wait.result is not None:
            return ((1.0, Decision(wait.result, gap=wait.gap)),)
        if wait.gap is not None and wait.sockets in self._hidden:
            return self._hidden[wait.sockets]
        if wait is GONE_ON:
            return _in_proportion(self._polled) or ((1.0, Decision("unknown", gap=GAP_SOCKET)),)
        young = self._young.get(wait.call)
        if not young or self._is_known(wait):
            return ((1.0, decide(wait, self._peers)),)
        return _in_proportion(young)

    def _is_known(self, wait: Wait) -> bool:
        return all(self._peers.get(inode) is not None for inode in wait.sockets)


def remember(seen: Counter[T], one: T, most: int = _REMEMBERED) -> None:
    """Count one more, and let all count for half beyond `most` of them: old ones count for less."""
    seen[one] += 1
    if seen.total() > most:
        halves = {each: number // 2 for each, number in seen.items() if number > 1}
        seen.clear()
        seen.update(halves or {one: 1})


def _in_proportion(decisions: Counter[Decision]) -> Sequence[Part]:
    total = decisions.total()
    return [(number / total, decision) for decision, number in decisions.items()]


_LEARNT = 3
"""How many more samples must speak for idle than against it, or the other way round."""

_MOST_LOCKS = 1024


class IdleLocks:
    """Learns which locks idle threads of one server wait for: no symbol names that of `thunder-lock`, and uwsgi.lock()
    looks the same.

    uWSGI's document says how many threads are in service. If the threads that wait for a lock are idle, the others add
    up to that number; if they are in service, only all together do.
    """

    def __init__(self) -> None:
        self._scores: Counter[Lock] = Counter()

    def learn(self, waiting: Mapping[Lock, int], others: float, busy: int, *, presumed_idle: bool) -> None:
        """Compare a sample with uWSGI's document. waiting: threads by the lock they wait for; others: the threads that
        are in service for certain; busy: threads in service according to the document."""
        if len(self._scores) > _MOST_LOCKS:
            self._scores.clear()
        believed = {lock: number for lock, number in waiting.items() if not self.is_idle(lock, presumed_idle)}
        for lock, number in waiting.items():
            without = others + sum(believed.values()) - believed.get(lock, 0)
            change = abs(without + number - busy) - abs(without - busy)
            self._scores[lock] += (change > 0) - (change < 0)
            self._scores[lock] = max(-2 * _LEARNT, min(2 * _LEARNT, self._scores[lock]))

    def is_learnt(self, lock: Lock) -> bool:
        """Whether it is known whether threads that wait for this lock are idle."""
        return abs(self._scores[lock]) >= _LEARNT

    def is_idle(self, lock: Lock, presumed: bool) -> bool:
        """Whether threads that wait for this lock are idle; `presumed` as long as that is not learnt."""
        score = self._scores[lock]
        return score >= _LEARNT or (presumed and score > -_LEARNT)
