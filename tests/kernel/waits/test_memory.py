"""Reading another process's memory: odd addresses, refusals, and a read that never ends."""

from __future__ import annotations

import asyncio
import ctypes
import errno
import os
import struct
import threading

import pytest

from tests.support.other_namespaces import as_nobody, as_root, in_child
from tools.support.clock import MovableClock
from tools.support.real_uwsgi import wait_until
from uwsgi_headroom.kernel.procfs import PAUSE_SECONDS
from uwsgi_headroom.kernel.waits import memory
from uwsgi_headroom.kernel.waits.descriptors import Polled, decode_poll_array
from uwsgi_headroom.kernel.waits.memory import Patient, RefusedToReadError, read_pieces

PID = os.getpid()
TEXT = ctypes.create_string_buffer(b"0123456789abcdef")
PLACE = ctypes.addressof(TEXT)


def test_pieces() -> None:
    """Several pieces are read at once, in their order."""
    assert read_pieces(PID, [(PLACE, 4), (PLACE + 8, 2)]) == [b"0123", b"89"]
    assert read_pieces(PID, []) == []


@pytest.mark.parametrize("address", [0, 8, 2**63, 2**64 - 8])
def test_addresses_without_memory(address: int) -> None:
    """A piece that the process does not have is left out, and those behind it are read all the same."""
    assert read_pieces(PID, [(PLACE, 2), (address, 8), (PLACE + 2, 2)])[:2] == [b"01", None]
    if address < 2**63:
        assert read_pieces(PID, [(address, 8), (PLACE + 2, 2)]) == [None, b"23"]


def test_a_process_that_has_ended() -> None:
    """It has no memory."""
    ended = os.fork()
    if ended == 0:
        os._exit(0)
    os.waitpid(ended, 0)
    assert read_pieces(ended, [(PLACE, 2)]) == [None]


def own_text() -> list[bytes | None]:
    return read_pieces(os.getpid(), [(PLACE, 2)])


@as_root
def test_without_the_right() -> None:
    """It is refused, which is remembered for a minute."""

    def ask() -> tuple[bool, bool, bool]:
        hands = MovableClock()
        patient = Patient(hands.clock.monotonic)
        first = patient.ask(lambda: read_pieces(PID, [(PLACE, 2)]))
        refused = first is None and patient.refused
        soon = patient.ask(own_text)
        hands.move(PAUSE_SECONDS + 1)
        return refused, soon is None, patient.ask(own_text) == [b"01"] and not patient.refused

    assert as_nobody(ask) == (True, True, True)


def test_a_forked_process_has_a_thread_of_its_own() -> None:
    """Threads do not survive a fork."""
    assert Patient().ask(own_text) == [b"01"]
    assert in_child(lambda: Patient().ask(own_text) == [b"01"])


def test_a_question_beside_the_event_loop() -> None:
    """The event loop goes on meanwhile. If the answer does not come, or nobody waits for it any more, nothing else is
    asked until it has come; what it raises is raised."""
    may_answer = threading.Event()

    async def ask() -> None:
        patient = Patient(lambda: hands)
        assert await patient.wait(own_text, 5) == [b"01"]
        with pytest.raises(ZeroDivisionError):
            await patient.wait(lambda: 1 // 0, 5)
        assert await patient.wait(may_answer.wait, 0.01) is None
        assert not patient.may_ask
        other = Patient(lambda: hands)
        waiting = asyncio.create_task(other.wait(may_answer.wait, 60))
        await asyncio.sleep(0)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        assert await other.wait(own_text, 5) is None
        may_answer.set()
        await asyncio.to_thread(wait_until, lambda: other.may_ask)
        assert await other.wait(own_text, 5) == [b"01"]

    hands = 0.0
    asyncio.run(ask())


def test_an_error_of_the_question() -> None:
    """It is raised, and the next question is answered."""
    patient = Patient()
    with pytest.raises(ZeroDivisionError):
        patient.ask(lambda: 1 // 0)
    assert patient.ask(lambda: 1) == 1


def test_memory_that_never_comes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing waits for it: nothing is asked about this server until that ends, nor for a minute; about others it is.
    The thread then answers others."""
    monkeypatch.setattr(memory, "MOST_SECONDS", 0.05)
    comes = threading.Event()
    hands = MovableClock()
    patient, other = Patient(hands.clock.monotonic), Patient(hands.clock.monotonic)
    assert patient.ask(lambda: comes.wait(30)) is None
    monkeypatch.setattr(memory, "MOST_SECONDS", 30.0)
    hands.move(PAUSE_SECONDS + 1)
    assert patient.ask(own_text) is None
    assert not patient.may_ask
    assert other.ask(own_text) == [b"01"]
    comes.set()
    wait_until(lambda: patient.ask(own_text) == [b"01"], what="the question to be answered")
    assert not patient.refused


def test_a_filter_of_system_calls(monkeypatch: pytest.MonkeyPatch) -> None:
    """It answers with EPERM, also for a process of the same user."""
    ctypes.set_errno(errno.EPERM)

    class Libc:
        @staticmethod
        def process_vm_readv(*_: object) -> int:
            ctypes.set_errno(errno.EPERM)
            return -1

    monkeypatch.setattr(memory, "_LIBC", Libc)
    with pytest.raises(RefusedToReadError):
        read_pieces(PID, [(PLACE, 2)])


def test_entries_of_an_array() -> None:
    """Negative descriptors do not count; a connection is waited for by writing alone."""
    entries = [(3, 1, 0), (-1, 1, 0), (4, 4, 0), (5, 5, 0), (6, 0xFFFC, 0)]
    array = b"".join(
        struct.pack("=ihH", descriptor, events - 0x10000 if events > 0x7FFF else events, back)
        for descriptor, events, back in entries
    )
    assert decode_poll_array(array) == [Polled(3, False), Polled(4, True), Polled(5, False), Polled(6, True)]
