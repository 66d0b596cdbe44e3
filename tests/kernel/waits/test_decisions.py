"""Waits for sockets that are too young to be known, and locks that idle threads wait for."""

from collections import Counter
from collections.abc import Collection

import pytest

from uwsgi_headroom.kernel.waits import sampler, thread_wait
from uwsgi_headroom.kernel.waits.peers import Peer, Peers
from uwsgi_headroom.kernel.waits.thread_wait import Decision, Decisions, IdleLocks, Wait

POSTGRES, REDIS, LISTENING = Peer("backend", "a:5432"), Peer("backend", "b:6379"), Peer("listening")


class SlowPeers(Peers):
    def __init__(self) -> None:
        super().__init__()
        self.all: dict[int, Peer] = {}
        self.may_list = True

    def learn(self, inodes: object, others: object = None, *, elsewhere: int | None = None) -> None:
        if self.may_list:
            self._known.update(self.all)
            self.lists += 1


def on(inode: int, call: str = "descriptor") -> Wait:
    return Wait(None, (inode,), call=call)


def parts(of: Decisions, wait: Wait) -> dict[str, float]:
    found: Counter[str] = Counter()
    for part, decision in of.decide(wait):
        found[decision.address or decision.result] += part
    return dict(found)


class AskedPeers(SlowPeers):
    def __init__(self, *unanswered: Peer, doubtful: tuple[Peer, ...] = ()) -> None:
        super().__init__()
        self.unanswered, self.doubtful = list(unanswered), list(doubtful)
        self.asked: list[int] = []

    def list_unanswered(
        self, inodes: Collection[int], *, elsewhere: int | None = None
    ) -> tuple[list[Peer], list[Peer]]:
        self.asked += inodes
        return self.unanswered, self.doubtful


@pytest.mark.parametrize(
    ("known", "threads", "found"),
    [
        (AskedPeers(POSTGRES, REDIS, REDIS), 3, {"a:5432": 1, "b:6379": 2}),
        (AskedPeers(POSTGRES, REDIS, REDIS, REDIS), 2, {"a:5432": 0.5, "b:6379": 1.5}),
        (AskedPeers(POSTGRES, doubtful=(REDIS, REDIS)), 2, {"a:5432": 1, "b:6379": 1}),
        (AskedPeers(POSTGRES), 4, {"a:5432": 1, "a:5432 or b:6379": 3}),
        (AskedPeers(), 2, {"a:5432 or b:6379": 2}),
    ],
)
def test_threads_that_hide_for_what_they_poll(known, threads, found):
    """They are divided among the connections without an answer, except one for which a thread waits in the open."""
    known.all = {1: POSTGRES, 2: REDIS, 3: Peer("client"), 4: REDIS}
    of = Decisions(known)
    hidden = Wait(None, (1, 2, 3, 4, 99), gap=thread_wait.GAP_POLL, call="poll")
    waits = [*[hidden] * threads, on(4)]
    of.learn(waits, tuple)
    sums: Counter[str] = Counter()
    for part, decision in of.decide(hidden):
        assert decision.result == "backend"
        sums[decision.address or " or ".join(decision.candidates)] += threads * part
    assert sums == {name: pytest.approx(number) for name, number in found.items()}
    assert known.asked == [1, 2, 3]


@pytest.fixture
def peers():
    peers = SlowPeers()
    peers.all = {1: POSTGRES}
    return peers


def learnt(peers: SlowPeers, *young: Peer, call: str = "descriptor") -> Decisions:
    made = Decisions(peers)
    made.learn([on(1)], tuple)  # the first list: these sockets are of any age
    for number, peer in enumerate(young, 100):
        peers.all[number] = peer
        made.learn([on(number, call)], tuple)
    return made


def test_undecided_waits_are_divided_like_the_decided_ones(peers):
    made = learnt(peers, POSTGRES, POSTGRES, POSTGRES, REDIS)
    peers.may_list = False
    made.learn([on(900)], tuple)
    assert parts(made, on(900)) == {"a:5432": 0.75, "b:6379": 0.25}
    assert parts(made, on(900, "poll")) == {"unknown": 1.0}


def test_known_sockets_are_decided_alone(peers):
    assert parts(learnt(peers), on(900)) == {"unknown": 1.0}
    made = learnt(peers, REDIS, REDIS)
    assert parts(made, on(1)) == {"a:5432": 1.0}
    assert parts(made, Wait("sleep")) == {"sleep": 1.0}


def test_threads_are_looked_at_again_until_a_young_socket_is_decided(peers):
    """A connection may have ended by the time of the list: threads are looked at again, unless they hide."""
    made = learnt(peers)
    asked: list[Wait] = []

    def again() -> list[Wait]:
        asked.append(on(5))
        return [on(5), Wait(None, (6,), gap=thread_wait.GAP_POLL, call="poll")]

    made.learn([on(2)], tuple, again)  # neither is in the list
    assert (parts(made, on(2)), len(asked)) == ({"unknown": 1.0}, 1)
    hidden = Wait(None, (7,), gap=thread_wait.GAP_POLL, call="poll")
    made.learn([hidden, Wait(None, (8,), epoll=8, call="epoll")], tuple, again)
    assert len(asked) == 1
    peers.all |= {5: REDIS, 6: POSTGRES}
    made.learn([on(3)], tuple, again)
    assert (parts(made, on(3)), parts(made, on(9, "poll")), len(asked)) == ({"b:6379": 1.0}, {"unknown": 1.0}, 2)
    made.learn([on(4)], tuple, again)
    assert len(asked) == 2


def test_idle_epoll_sets_are_no_proportion(peers):
    made = learnt(peers, LISTENING, LISTENING, POSTGRES, call="epoll")
    assert parts(made, on(900, "epoll")) == {"a:5432": 1.0}


def test_what_is_remembered_is_bounded(peers):
    """Of a thousand backends or locks, old ones are forgotten; parts always add up to one thread."""
    locks = IdleLocks()
    for number in range(3000):
        locks.learn({("futex", number): 1}, others=0, busy=0, presumed_idle=False)
    assert len(locks._scores) <= 1026
    made = learnt(peers, *(Peer("backend", f"10.0.0.1:{port}") for port in range(1000)))
    assert len(made._young["descriptor"]) <= thread_wait._REMEMBERED + 1
    assert sum(parts(made, on(9000)).values()) == pytest.approx(1)


LOCK = ("futex", 0x7F00)


@pytest.mark.parametrize(
    ("samples", "presumed", "is_idle"),
    [
        ([(6, 2, 2)] * 3, False, True),  # two are in service: those that wait for the lock are not among them
        ([(6, 2, 2)] * 2, False, False),
        ([(6, 2, 8)] * 3, True, False),  # with thunder-lock, it is presumed idle until the document says otherwise
        ([(6, 2, 8)] * 2, True, True),
        ([(1, 2, 2)] * 3, False, True),  # one thread that waits is as good as many
        ([(1, 2, 3)] * 3, True, False),
        ([(1, 1.5, 2)] * 10, False, False),  # fits both: those in service for certain are an estimate
        ([(1, 1.5, 2)] * 10, True, True),
        ([(6, 2, 2)] * 1000 + [(6, 2, 8)] * 9, False, False),  # a mistake lasts some samples only
    ],
)
def test_what_the_document_teaches_of_a_lock(samples, presumed, is_idle):
    """By the threads that wait for it, those in service for certain, and those in service by uWSGI's document."""
    locks = IdleLocks()
    for waiting, others, busy in samples:
        locks.learn({LOCK: waiting}, others=others, busy=busy, presumed_idle=presumed)
    assert locks.is_idle(LOCK, presumed=presumed) == is_idle


def test_two_locks_are_told_apart():
    user = ("futex", 0x8F00)
    for numbers, lock, is_idle in (((1, 3, 2, 4, 1, 2), LOCK, True), ((4, 5, 4, 5), user, False)):
        locks = IdleLocks()
        for waiting in numbers:
            locks.learn({LOCK: 7 - waiting, user: waiting}, others=1, busy=1 + waiting, presumed_idle=True)
        assert locks.is_idle(lock, presumed=True) == is_idle


@pytest.mark.parametrize(
    ("address", "printable"), [("/run/db\x1b[2J", "/run/db?[2J"), ("/run/\udcff", "/run/?"), ("x" * 500, "x" * 120)]
)
def test_addresses_that_a_terminal_would_obey(address, printable):
    """The path of a UNIX socket may hold any byte."""
    assert sampler._destination("backend", Decision("backend", address)).addresses == (printable,)
