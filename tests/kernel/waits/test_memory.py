"""Reading another process's memory: odd addresses and refusals."""

from __future__ import annotations

import ctypes
import errno
import os
import struct

import pytest

from tests.support.other_namespaces import as_nobody, as_root
from uwsgi_headroom.kernel.waits import memory
from uwsgi_headroom.kernel.waits.descriptors import Polled, decode_poll_array
from uwsgi_headroom.kernel.waits.memory import RefusedToReadError, read_pieces

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


@as_root
def test_without_the_right() -> None:
    """It is refused."""

    def ask() -> bool:
        try:
            read_pieces(PID, [(PLACE, 2)])
        except RefusedToReadError:
            return True
        return False

    assert as_nobody(ask)


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
