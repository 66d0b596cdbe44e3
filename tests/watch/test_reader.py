"""A reader reads its server once for any number of callers, and logs each change once."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import logging
import socket
import threading
import tracemalloc
from collections.abc import Iterator
from dataclasses import dataclass, field

import pytest

from tools.support import bad_servers
from tools.support.captured_documents import document
from tools.support.clock import MovableClock
from tools.support.real_uwsgi import wait_until
from uwsgi_headroom.clock import Clock
from uwsgi_headroom.errors import ReadError, SourceError
from uwsgi_headroom.reading import Reading
from uwsgi_headroom.source import Unix, parse_address
from uwsgi_headroom.watch.reader import Reader

DOCUMENT = document("minified")


@dataclass
class Counted:
    """A server that counts its clients, and answers each one while `may_answer` is set."""

    address: str = ""
    clients: int = 0
    left: threading.Event = field(default_factory=threading.Event)
    may_answer: threading.Event = field(default_factory=threading.Event)
    answer: bytes = DOCUMENT


@contextlib.contextmanager
def counted(answering: bool = True) -> Iterator[Counted]:
    """A counting server until the block ends; without `answering`, it does not answer yet."""
    server = Counted()
    if answering:
        server.may_answer.set()

    def behave(connection: socket.socket, ended: threading.Event) -> None:
        server.clients += 1
        while not ended.is_set() and not server.may_answer.wait(0.01):
            if bad_servers.has_left(connection):
                server.left.set()
                return
        connection.settimeout(5)
        connection.sendall(server.answer)

    with bad_servers.serving("unix", behave) as address:
        server.address = address
        yield server


def messages(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.name == "uwsgi_headroom.watch.reader"]


def test_twenty_readers_are_one_connection() -> None:
    """Twenty simultaneous callers get one reading through one connection."""
    with counted(answering=False) as server:

        async def look() -> None:
            reader = Reader("shop", Unix(server.address))
            asking = [asyncio.create_task(reader.read()) for _ in range(20)]
            await asyncio.to_thread(wait_until, lambda: server.clients)
            asking += [asyncio.create_task(reader.read()) for _ in range(5)]
            await asyncio.sleep(0)
            server.may_answer.set()
            outcomes = await asyncio.gather(*asking)
            assert isinstance(outcomes[0], Reading)
            assert all(outcome is outcomes[0] for outcome in outcomes)

        asyncio.run(look())
    assert server.clients == 1


def test_a_reading_says_when_it_was_taken() -> None:
    """A reading has the time of both clocks at which its document was complete, and the document's size."""
    hands = MovableClock()
    with counted() as server:
        outcome = asyncio.run(Reader("shop", Unix(server.address), clock=hands.clock).read())
    assert isinstance(outcome, Reading)
    assert (outcome.at, outcome.time, outcome.read_seconds) == (1000.0, 1.8e9 + 1000.0, 0.0)
    assert outcome.document_bytes == len(DOCUMENT)


def test_the_same_document_is_decoded_once() -> None:
    """Two readings of an idle server share the decoded document; a document that differs by a byte is decoded again."""
    with counted() as server:

        async def look() -> None:
            reader = Reader("shop", Unix(server.address))
            outcomes = []
            for answer in (DOCUMENT + b" ", DOCUMENT + b" ", DOCUMENT + b"\n"):
                server.answer = answer
                outcomes.append(await reader.read())
            first, same, other = (outcome.snapshot for outcome in outcomes if isinstance(outcome, Reading))
            assert same is first
            assert other is not first
            assert other == first

        asyncio.run(look())
    assert server.clients == 3


def test_no_document_is_kept() -> None:
    """A read's bytes, which contain variables of requests, are freed; the next document is compared by hash."""
    with counted() as server:
        server.answer = DOCUMENT + b" " * 2**20

        async def read_often() -> int:
            reader = Reader("shop", Unix(server.address))
            for _ in range(3):
                assert isinstance(await reader.read(), Reading)
            return tracemalloc.get_traced_memory()[0]

        gc.disable()
        tracemalloc.start()
        try:
            assert asyncio.run(read_often()) < 2**20
        finally:
            tracemalloc.stop()
            gc.enable()


@pytest.mark.parametrize(("size_cap", "reason"), [(2**19, "too_large"), (2**21, "not_json")])
def test_a_failed_read_holds_nothing(size_cap: int, reason: str) -> None:
    """The bytes that a failed read received are freed with it, not at Python's next garbage collection."""
    with counted() as server:
        server.answer = b"?" * 2**20

        async def look() -> int:
            reader = Reader("shop", Unix(server.address), size_cap=size_cap)
            for _ in range(8):
                outcome = await reader.read()
                assert isinstance(outcome, ReadError)
                assert outcome.reason == reason
            return tracemalloc.get_traced_memory()[0]

        gc.disable()
        tracemalloc.start()
        try:
            assert asyncio.run(look()) < 2 * 2**20
        finally:
            tracemalloc.stop()
            gc.enable()


def test_a_read_that_times_out_holds_nothing() -> None:
    """A read that received a part before its deadline does not keep that part either."""

    def behave(connection: socket.socket, ended: threading.Event) -> None:
        connection.sendall(b"{" + b" " * 2**20)
        ended.wait(5)

    async def look(address: str) -> int:
        reader = Reader("shop", Unix(address), timeout=0.3)
        for _ in range(5):
            outcome = await reader.read()
            assert isinstance(outcome, ReadError)
            assert outcome.reason == "timeout"
        return tracemalloc.get_traced_memory()[0]

    with bad_servers.serving("unix", behave) as address:
        gc.disable()
        tracemalloc.start()
        try:
            assert asyncio.run(look(address)) < 2 * 2**20
        finally:
            tracemalloc.stop()
            gc.enable()


def test_a_server_that_is_back() -> None:
    """The read after a failure brings a reading."""
    with counted() as server:
        server.answer = b"what?"

        async def look() -> None:
            reader = Reader("shop", Unix(server.address), clock=MovableClock().clock)
            failed = await reader.read()
            assert isinstance(failed, ReadError)
            assert failed.reason == "not_json"
            server.answer = DOCUMENT
            assert isinstance(await reader.read(), Reading)
            assert reader.errors == {"not_json": 1}

        asyncio.run(look())
    assert server.clients == 2


def test_a_waiter_that_is_gone_does_not_end_the_read() -> None:
    """If one caller is cancelled, the read continues for the others."""
    with counted(answering=False) as server:

        async def look() -> None:
            reader = Reader("shop", Unix(server.address))
            gone, stays = asyncio.create_task(reader.read()), asyncio.create_task(reader.read())
            await asyncio.sleep(0.05)
            gone.cancel()
            server.may_answer.set()
            assert isinstance(await stays, Reading)

        asyncio.run(look())
    assert server.clients == 1


def test_the_readers_own_timeout_is_a_failure() -> None:
    """A server that never answers fails at the reader's deadline, counted once for all callers."""
    with counted(answering=False) as server:

        async def look() -> None:
            reader = Reader("shop", Unix(server.address), timeout=0.1)
            outcomes = await asyncio.gather(*[reader.read() for _ in range(5)])
            assert len(outcomes) == 5
            assert all(isinstance(outcome, ReadError) and outcome.reason == "timeout" for outcome in outcomes)
            assert reader.errors == {"timeout": 1}

        asyncio.run(look())
        assert server.left.wait(5)
    assert server.clients == 1


def test_the_size_cap_is_the_readers() -> None:
    """A document above the reader's own cap is refused."""
    with counted() as server:
        outcome = asyncio.run(Reader("shop", Unix(server.address), size_cap=100).read())
    assert isinstance(outcome, ReadError)
    assert outcome.reason == "too_large"


def test_a_change_is_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    """The first reading, a failure, another failure and the recovery are logged; nothing in between."""
    caplog.set_level(logging.INFO)
    hands = MovableClock()
    with counted() as server:

        async def look() -> None:
            reader = Reader("shop", Unix(server.address), clock=hands.clock)
            for answer in (DOCUMENT, b"what?", b"{}", DOCUMENT):
                server.answer = answer
                for _ in range(3):
                    hands.move(1)
                    await reader.read()

        asyncio.run(look())
    logged = [message for message in messages(caplog) if message != "no process facts"]
    assert logged == ["reading", "cannot read", "cannot read", "reading"]
    reasons = [record.fields["reason"] for record in caplog.records if record.getMessage() == "cannot read"]  # type: ignore[attr-defined]
    assert reasons == ["not_json", "not_uwsgi"]


def test_why_there_are_no_process_facts_is_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    """The reason for missing process facts is logged at the first reading only."""
    caplog.set_level(logging.INFO)
    hands = MovableClock()
    with counted() as server:

        async def look() -> None:
            reader = Reader("shop", Unix(server.address), clock=hands.clock)
            for _ in range(3):
                hands.move(1)
                outcome = await reader.read()
                assert isinstance(outcome, Reading)
                assert outcome.host.off

        asyncio.run(look())
    assert messages(caplog).count("no process facts") == 1


def test_nothing_of_a_document_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    """The log line about an unreadable document contains no part of the document."""
    caplog.set_level(logging.DEBUG)
    with counted() as server:
        server.answer = b'{"workers":[{"cores":[{"vars":["HTTP_COOKIE=hunter2"],"requests":"hunter2"}]}]}'
        asyncio.run(Reader("shop", Unix(server.address)).read())
    assert messages(caplog) == ["cannot read"]
    assert "hunter2" not in caplog.text
    assert "hunter2" not in str([record.__dict__ for record in caplog.records])


@pytest.mark.parametrize("place", ["the clock", "what takes outcomes"])
def test_a_fault_of_our_own_is_contained(caplog: pytest.LogCaptureFixture, place: str) -> None:
    """An internal error about one server is that server's failure, logged once, with its traceback but without its
    message."""

    words = "hunter2"

    def broken(*_arguments: object) -> float:
        raise ZeroDivisionError(words)

    with counted() as server:

        async def look() -> None:
            if place == "the clock":
                reader = Reader("shop", Unix(server.address), clock=Clock(epoch=broken))
            else:
                reader = Reader("shop", Unix(server.address), on_outcome=broken)
            for _ in range(2):
                outcome = await reader.read()
                assert isinstance(outcome, ReadError)
                assert outcome.reason == "internal"
                assert "please report it" in str(outcome)
            assert reader.errors == {"internal": 2}
            assert reader.outcome is outcome

        asyncio.run(look())
    (record,) = [record for record in caplog.records if record.exc_info]
    formatted = logging.Formatter().format(record)
    assert "in broken" in formatted
    assert "ZeroDivisionError" in formatted
    assert "hunter2" not in formatted


def test_closing_closes_the_connection() -> None:
    """Closing ends the read in flight: the server sees its client leave, and callers receive the reason."""
    with counted(answering=False) as server:

        async def look() -> None:
            reader = Reader("shop", Unix(server.address), timeout=30)
            waiting = asyncio.create_task(reader.read())
            await asyncio.to_thread(wait_until, lambda: server.clients)
            await reader.close()
            assert await asyncio.to_thread(server.left.wait, 5)
            outcome = await waiting
            assert isinstance(outcome, SourceError)
            assert "stopping" in str(outcome)

        asyncio.run(look())


def test_closing_what_does_nothing() -> None:
    """A reader that never read, or has finished, closes at once, more than once, and then reads nothing."""

    async def look() -> None:
        reader = Reader("shop", parse_address("/nowhere"))
        await reader.close()
        outcome = await reader.read()
        await reader.close()
        await reader.close()
        assert isinstance(outcome, SourceError)
        assert "stopping" in str(outcome)
        assert reader.outcome is None

    asyncio.run(look())


def test_a_pause_lets_go_of_the_server() -> None:
    """A pause ends the read in flight and its connection; callers keep waiting, and get a reading after it."""
    with counted(answering=False) as silent:

        async def look() -> None:
            reader = Reader("shop", Unix(silent.address), timeout=30)
            waiting = asyncio.create_task(reader.read())
            await asyncio.to_thread(wait_until, lambda: silent.clients)
            await reader.pause()
            assert await asyncio.to_thread(silent.left.wait, 5)
            assert not waiting.done()
            assert silent.clients == 1
            reader.resume()
            await asyncio.to_thread(wait_until, lambda: silent.clients == 2)
            await reader.pause()
            await reader.close()
            assert isinstance(await waiting, SourceError)

        asyncio.run(look())
