"""Logins: whose they are, and what is checked, remembered, slowed and refused."""

import asyncio
import base64
import os
import socket

import bcrypt
import pytest

from tests.support.other_namespaces import NOBODY, as_root
from tests.web.security.secure_server import HASH, PASSWORD
from uwsgi_headroom.web.security import login as login_module
from uwsgi_headroom.web.security.gate import find_network, name_client
from uwsgi_headroom.web.security.login import (
    Candidate,
    Checked,
    Decided,
    Login,
    LoginQueue,
    PasswordChecker,
    TokenTable,
    parse_basic,
)

USERS = {b"prometheus": HASH.encode(), b"slow": HASH.replace("$04$", "$05$").encode()}


class Recording(PasswordChecker):
    """Answers from a table, when it is allowed to, and records what it was asked."""

    def __init__(self) -> None:
        super().__init__()
        self.asked: list[tuple[bytes, bytes]] = []
        self.go = asyncio.Event()
        self.go.set()

    def check(self, password: bytes, stored: bytes, *, repeated: bool) -> asyncio.Future[Checked]:
        self.asked.append((password, stored))

        async def answer() -> Checked:
            await self.go.wait()
            return Checked(password == PASSWORD.encode() and stored == USERS[b"prometheus"], 0.0)

        return asyncio.ensure_future(answer())


def header(name: str, password: str) -> bytes:
    return b"Basic " + base64.b64encode(f"{name}:{password}".encode())


RIGHT = header("prometheus", PASSWORD)


async def no_rest(_seconds: float) -> None:
    pass


@pytest.fixture
def checker():
    return Recording()


@pytest.fixture
def login(checker):
    return Login(checker, lambda: 0.0, no_rest)


async def statuses(login: Login, header: bytes, count: int, client: str = "10.0.0.1") -> list[int]:
    return [(await login.judge(USERS, header, client)).status for _ in range(count)]


async def test_a_right_password_is_checked_once(login, checker):
    """And passes while its address is slowed."""
    assert await statuses(login, RIGHT, 3) == [200, 200, 200]
    assert await statuses(login, RIGHT, 1, "10.0.0.2") == [200]
    assert len(checker.asked) == 1
    changed = {b"prometheus": HASH[:-1].encode() + b"a"}
    assert (await login.judge(changed, RIGHT, "10.0.0.1")).status == 401
    assert (await login.judge({b"x": USERS[b"slow"]}, RIGHT, "10.0.0.1")).status == 401
    assert len(checker.asked) == 3
    await statuses(login, RIGHT, 1)
    for number in range(8):
        (status,) = await statuses(login, header("prometheus", str(number)), 1)
    assert status == 429
    assert await statuses(login, RIGHT, 2) == [200, 200]


async def test_a_wrong_login_is_checked_once(login, checker):
    """The same one again is wrong at once, at no cost; a token keeps its first time."""
    wrong = header("prometheus", "unmistakable")
    assert await statuses(login, wrong, 5) == [401] * 5
    assert len(checker.asked) == 1
    for number in range(2):
        await statuses(login, header("prometheus", str(number)), 1)
    assert await statuses(login, header("prometheus", "another"), 1) == [429]
    assert await statuses(login, wrong, 1) == [401]
    assert len(checker.asked) == 3
    checker.asked.clear()
    assert b"unmistakable" not in repr(vars(login)).encode()
    assert not login._right
    table = TokenTable()
    tokens = [b"aa" + bytes([number]) * 8 for number in range(1, 10)]
    for number, token in enumerate(tokens):
        table.add(token, number)
        table.add(tokens[1] if number else token, 1000)
    assert [table.time_of(token) for token in tokens] == [None, *range(1, 9)]


async def test_an_unknown_user_takes_the_way_of_a_wrong_password(login, checker):
    """An unknown name is checked too, against a hash of a user's cost, always the same one for one name."""
    verdicts = [await login.judge(USERS, header("nobody", password), f"10.1.0.{password}") for password in "123"]
    assert verdicts == [Decided(401)] * 3
    hashes = {stored for _, stored in checker.asked}
    assert len(hashes) == 1
    assert hashes.pop()[:7] in (b"$2b$04$", b"$2b$05$")
    checker.asked.clear()
    for number in range(40):
        await login.judge(USERS, header(f"nobody{number}", "x"), f"10.2.0.{number}")
    assert {stored[4:6] for _, stored in checker.asked} == {b"04", b"05"}
    for stored in {stored for _, stored in checker.asked}:
        assert bcrypt.hashpw(b"x", stored)[:29] == stored[:29]  # bcrypt does all its work
        assert not bcrypt.checkpw(b"x", stored)


async def test_the_queue_is_bounded(login, checker):
    """A client has three new passwords in the queue; all clients together twelve; the rest is answered at once."""
    checker.go.clear()
    waiting = [asyncio.ensure_future(login.judge(USERS, header("a", "first"), "10.0.9.1"))]
    await asyncio.sleep(0.01)
    waiting += [
        asyncio.ensure_future(login.judge(USERS, header("a", f"{number}"), f"10.0.{number // 4}.1"))
        for number in range(16)
    ]
    await asyncio.sleep(0.01)
    assert [task.result().status for task in waiting if task.done()] == [429] * 4
    assert len(login._queue) == login_module.MOST_PLACES
    assert len(checker.asked) == 1
    checker.go.set()
    assert [verdict.status for verdict in await asyncio.gather(*waiting)].count(401) == 13
    assert await statuses(login, RIGHT, 1, "10.9.0.1") == [200]
    assert not len(login._queue)
    assert not login._in_check


async def test_of_repeated_logins_the_one_that_was_sent_first_goes_first():
    """A client has three of them in the queue, and all clients together six: the younger one, or that of a client that
    was served later, gives way."""
    queue = LoginQueue()

    def enter(client, since):
        candidate = Candidate(
            token=f"{client} {since}".encode(),
            client=client,
            password=b"",
            stored=b"",
            known=True,
            since=since,
            repeated=True,
            verdict=asyncio.get_running_loop().create_future(),
        )
        entered, loser = queue.enter(candidate)
        return entered, loser.since if loser else None

    def take(paused: str = "") -> tuple[str, int] | None:
        taken = queue.take(repeated=True, is_paused=lambda candidate: candidate.client in paused)
        return (taken.client, taken.since) if taken else None

    assert [enter("a", since) for since in (5, 3, 4)] == [(True, None)] * 3
    assert enter("a", 6) == (False, None)
    assert enter("a", 1) == (True, 5)
    assert [enter("b", since) for since in (2, 8, 9)] == [(True, None)] * 3
    assert enter("c", 10) == (False, None)
    assert enter("c", 7) == (True, 9)
    assert [take() for _ in range(3)] == [("a", 1), ("b", 2), ("c", 7)]
    assert take(paused="a") == ("b", 8)
    assert take(paused="a") is None
    assert [take() for _ in range(3)] == [("a", 3), ("a", 4), None]


async def test_logins_that_wait_at_the_end_are_answered(caplog, login, checker):
    """With 503, and without a word in the log; later ones too, but for remembered ones."""
    await statuses(login, RIGHT, 1)
    checker.go.clear()
    waiting = [asyncio.ensure_future(statuses(login, header("a", str(number)), 1)) for number in range(3)]
    await asyncio.sleep(0.01)
    login.close()
    assert await asyncio.wait_for(asyncio.gather(*waiting), 60) == [[503]] * 3
    assert await statuses(login, header("a", "later"), 1) == [503]
    assert await statuses(login, RIGHT, 1) == [200]
    assert {task.get_name() for task in asyncio.all_tasks()} & {"logins"} == set()
    assert not caplog.records


async def test_the_same_login_at_the_same_time_is_checked_once(login, checker):
    """A browser or `top` sends several requests before the first is answered."""
    checker.go.clear()
    requests = [asyncio.ensure_future(login.judge(USERS, RIGHT, "10.0.0.1")) for _ in range(6)]
    await asyncio.sleep(0)
    requests[0].cancel()
    await asyncio.sleep(0)
    checker.go.set()
    verdicts = await asyncio.gather(*requests, return_exceptions=True)
    assert [getattr(verdict, "status", None) for verdict in verdicts] == [None, *[200] * 5]
    assert len(checker.asked) == 1


async def test_few_pairs_are_remembered(monkeypatch, login):
    monkeypatch.setattr(login_module, "MOST_REMEMBERED", 1)

    login._right[b"older"] = None
    await statuses(login, RIGHT, 1)
    assert len(login._right) == 1
    assert b"older" not in login._right


@pytest.mark.parametrize(
    ("sent", "pair"),
    [
        (b"Basic " + base64.b64encode(b"a:b:c"), (b"a", b"b:c")),
        (b"bASIC  " + base64.b64encode(b":"), (b"", b"")),
        (b"Basic " + base64.b64encode("Zoë:pä\0ß".encode()), ("Zoë".encode(), "pä\0ß".encode())),
        (b"Basic " + base64.b64encode(b"\xff\xfe:\x80"), (b"\xff\xfe", b"\x80")),
        (b"Basic " + base64.b64encode(b"nocolon"), None),
        (b"Basic !!!!", None),
        (b"Basic YTpi YTpi", None),
        (b"Basic", None),
        (b"", None),
        (b"Bearer YTpi", None),
        (b"\xff\xff \xff", None),
    ],
)
def test_headers(sent, pair):
    """Only a well-formed header of RFC 7617 has a pair, in any bytes."""
    assert parse_basic(sent) == pair


async def check_all(pairs: list[tuple[bytes, bytes]]) -> list[Checked]:
    checker = PasswordChecker()
    return await asyncio.gather(*(checker.check(*pair, repeated=False) for pair in pairs))


async def test_a_panic_of_bcrypt_does_not_end_the_thread(monkeypatch, caplog):
    """The password counts as wrong, the log says so once without it, and the next one is checked."""
    checkpw = bcrypt.checkpw

    def panic(password, stored):
        if password == b"panic":
            raise BaseException("Rust")
        return checkpw(password, stored)

    monkeypatch.setattr(login_module.bcrypt, "checkpw", panic)

    pairs = [(b"panic", HASH.encode()), (PASSWORD.encode(), HASH.encode())]
    assert [right for right, _ in await check_all(pairs)] == [False, True]
    assert [record.message for record in caplog.records] == ["a password could not be checked"]


async def test_real_bcrypt():
    """The thread compares with bcrypt: right, wrong, longer than 72 bytes as htpasswd does, with a NUL, and a salt
    that no implementation makes. It says what that cost."""
    long = b"x" * 72
    stored = bcrypt.hashpw(long, bcrypt.gensalt(4))
    pairs = [
        (PASSWORD.encode(), HASH.encode()),
        (b"wrong", HASH.encode()),
        (long + b"ignored", stored),
        (b"a\0b", HASH.encode()),
        (b"x", b"$2b$04$" + b"9" * 53),
    ]
    checked = await check_all(pairs)
    assert checked[0].seconds > 0
    assert [right for right, _ in checked] == [True, False, True, False, False]


def test_clients_without_a_user_are_their_network():
    """A host has 2**64 addresses of IPv6, and a local user 2**24 of loopback, which count as one."""
    assert find_network("2001:db8::1") == find_network("2001:db8::ffff:1") != find_network("2001:db8:0:1::1")
    assert find_network("::ffff:10.0.0.1") == find_network("10.0.0.1") == "10.0.0.1"
    assert find_network("fe80::1%eth0") == find_network("fe80::2")
    assert {find_network(host) for host in ("127.0.0.1", "127.9.8.7", "::1", "::ffff:127.0.0.2")} == {"loopback"}
    assert find_network("") == find_network("unix") == ""
    assert name_client(("10.0.0.1", 4000), ("10.0.0.2", 9238)) == "10.0.0.1"
    assert name_client(None, ("/run/x", None)) == name_client(("", 0), None) == ""


@pytest.mark.parametrize(("listening", "connecting"), [("127.0.0.1", "127.0.0.1"), ("::", "127.0.0.1"), ("::", "::1")])
def test_a_local_client_is_its_user(listening, connecting):
    """From whichever address, until it closes its socket: the kernel then no longer knows whose it was."""
    family = socket.AF_INET6 if ":" in listening else socket.AF_INET
    with socket.create_server((listening, 0), family=family, dualstack_ipv6=listening == "::") as server:
        client = socket.create_connection((connecting, server.getsockname()[1]))
        accepted, _ = server.accept()
        with accepted:
            ends = accepted.getpeername()[:2], accepted.getsockname()[:2]
            assert name_client(*ends) == f"user {os.geteuid()}"
            client.close()
            assert name_client(*ends) == "loopback"


@as_root
def test_two_local_users():
    """One cannot pass as the other."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        os.seteuid(NOBODY)
        try:
            client = socket.create_connection(server.getsockname())
        finally:
            os.seteuid(0)
        accepted, _ = server.accept()
        with client, accepted:
            assert name_client(accepted.getpeername(), accepted.getsockname()) == f"user {NOBODY}"
