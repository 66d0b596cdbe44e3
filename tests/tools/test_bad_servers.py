"""The bad servers misbehave as their names say."""

from __future__ import annotations

import socket
import time
from typing import TYPE_CHECKING

import pytest

from tests.support import bad_servers

if TYPE_CHECKING:
    from tests.support.bad_servers import Where

DOCUMENT = b'{"version":"2.0.31","workers":[]}' * 100

both = pytest.mark.parametrize("where", ["unix", "tcp"])


def connect(address: str, timeout: float = 1.0) -> socket.socket:
    if address.startswith("/"):
        client = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        client.settimeout(timeout)
        client.connect(address)
        return client
    host, _, port = address.rpartition(":")
    return socket.create_connection((host, int(port)), timeout)


def read(address: str, send: bytes = b"", timeout: float = 1.0) -> bytes:
    with connect(address, timeout) as client:
        if send:  # even no bytes are an error on a UNIX socket the other side has closed
            client.sendall(send)
        return b"".join(iter(lambda: client.recv(65536), b""))


@both
def test_answers_gives_the_document_to_each_client(where: Where) -> None:
    """The whole document comes at once, and again for the next client."""
    with bad_servers.answers(where, DOCUMENT) as address:
        assert [read(address), read(address)] == [DOCUMENT, DOCUMENT]


@both
def test_answers_nothing_is_an_empty_body(where: Where) -> None:
    """The connection ends normally, without a byte."""
    with bad_servers.answers_nothing(where) as address:
        assert read(address) == b""


@both
def test_closes_half_way_ends_in_order(where: Where) -> None:
    """The received half is the beginning of the document."""
    with bad_servers.closes_half_way(where, DOCUMENT) as address:
        assert read(address) == DOCUMENT[: len(DOCUMENT) // 2]


@both
def test_accepts_and_never_writes_keeps_silent(where: Where) -> None:
    """A reader gets neither a byte nor the end."""
    with (
        bad_servers.accepts_and_never_writes(where) as address,
        connect(address, 0.2) as client,
        pytest.raises(TimeoutError),
    ):
        client.recv(1)


@both
def test_drips_never_stays_silent_for_long(where: Where) -> None:
    """Bytes arrive one by one, and the document stays incomplete."""
    with bad_servers.drips(where, DOCUMENT, interval=0.02) as address, connect(address) as client:
        received = b"".join(client.recv(100) for _ in range(3))  # several bytes at once, if this test was slow
        assert DOCUMENT.startswith(received)
        assert 3 <= len(received) < len(DOCUMENT)


@both
def test_endless_passes_any_cap(where: Where) -> None:
    """A reader that caps at 4 MB sees 4 MB and no end."""
    with bad_servers.endless(where) as address, connect(address) as client:
        received = 0
        while received < 4 << 20:
            received += len(client.recv(1 << 20))


def test_endless_ends_at_its_limit() -> None:
    """Even the endless document is bounded, for readers without a cap."""
    with bad_servers.endless("unix", limit=1 << 20) as address:
        assert 900_000 < len(read(address)) < 1 << 21


@both
def test_resets_after_the_document(where: Where) -> None:
    """The whole document arrives, then a reset (on UNIX if the client has sent something)."""
    with bad_servers.resets(where, DOCUMENT) as address, connect(address) as client:
        client.sendall(b"GET / HTTP/1.0\r\n\r\n")
        received = b""
        while len(received) < len(DOCUMENT):
            received += client.recv(65536)
        assert received == DOCUMENT
        with pytest.raises(ConnectionResetError):
            client.recv(1)


@both
@pytest.mark.parametrize("framing", ["until_close", "length", "chunked"])
def test_answers_http_in_each_framing(where: Where, framing: bad_servers.Framing) -> None:
    """Each framing says how it ends, and ends so."""
    with bad_servers.answers_http(where, DOCUMENT, framing=framing) as address:
        head, _, body = read(address, b"GET / HTTP/1.0\r\n\r\n").partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.0 200 OK" if framing == "until_close" else b"HTTP/1.1 200 OK")
    assert (b"Content-Length: 3300" in head) == (framing == "length")
    assert body.endswith(b"0\r\n\r\n") if framing == "chunked" else body == DOCUMENT


def test_answers_http_with_any_status() -> None:
    """Arguments make a 404 or a redirect."""
    moved = bad_servers.answers_http("tcp", b"", "302 Found", "length", ("Location: http://127.0.0.1:1/",))
    with moved as address:
        assert read(address, b"GET / HTTP/1.1\r\n\r\n").startswith(b"HTTP/1.1 302 Found\r\n")


@both
def test_never_accepts_leaves_the_client_waiting(where: Where) -> None:
    """Connecting takes longer than the client's timeout."""
    with bad_servers.never_accepts(where) as address, pytest.raises((TimeoutError, BlockingIOError)):
        connect(address, 0.3)


@both
def test_a_server_ends_while_its_client_holds_on(where: Where) -> None:
    """A client that neither reads nor disconnects does not keep the server running."""
    began = time.monotonic()
    with bad_servers.endless(where) as address:
        client = connect(address)
    client.close()
    assert time.monotonic() - began < 3
