"""A resolver that hangs delays only the reads of its host name."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from tests.support import bad_servers
from uwsgi_headroom import source
from uwsgi_headroom.config.defaults import SIZE_CAP
from uwsgi_headroom.errors import SourceError

_NAME = "stats.example"


class _Resolver:
    """Hangs until `released` is set, ten seconds at most, and then resolves the name. `asked` counts lookups."""

    def __init__(self) -> None:
        self.released = threading.Event()
        self.asked = 0
        self.port = 0
        self._real = socket.getaddrinfo

    def __call__(self, host: str, port: int, **options: Any) -> Any:
        if host != _NAME or options.get("flags"):
            return self._real(host, port, **options)
        self.asked += 1
        self.released.wait(60)
        return self._real("127.0.0.1", self.port, **options)


@pytest.fixture
def resolver(monkeypatch: pytest.MonkeyPatch) -> Iterator[_Resolver]:
    """A resolver that hangs and is released at the end of the test."""
    hung = _Resolver()
    monkeypatch.setattr(socket, "getaddrinfo", hung)
    yield hung
    hung.released.set()
    for thread in threading.enumerate():
        if thread.name.startswith("resolve "):
            thread.join(60)


def read(address: str, timeout: float) -> source.Answer:
    return asyncio.run(source.read_document(source.parse_address(address), timeout=timeout, size_cap=SIZE_CAP))


def test_a_numeric_address_needs_no_resolver(resolver: _Resolver) -> None:
    """A server with a numeric address is read while lookups of other servers' names hang."""
    with bad_servers.answers("tcp", b"{}") as address:
        assert read(f"tcp://{address}", 5).body == b"{}"
    assert resolver.asked == 0


@pytest.mark.parametrize("scheme", ["tcp", "http"])
def test_a_name_waits_no_longer_than_the_deadline(resolver: _Resolver, scheme: str) -> None:
    """A lookup that hangs is a timeout that names the resolver, and the program ends without waiting for the lookup."""
    with pytest.raises(SourceError, match=f"the name {_NAME} was not resolved within 0.05 s: check") as caught:
        read(f"{scheme}://{_NAME}:1717", 0.05)
    assert caught.value.reason == "timeout"
    assert not resolver.released.is_set()
    assert any(thread.name == f"resolve {_NAME}" for thread in threading.enumerate())


def test_reads_share_the_lookup_that_hangs(resolver: _Resolver) -> None:
    """Repeated reads of one server share a single lookup thread, and its answer serves the read that still waits."""
    for _ in range(3):
        with pytest.raises(SourceError):
            read(f"tcp://{_NAME}:1717", 0.01)
    assert resolver.asked == 1

    async def read_when_released(port: int) -> bytes:
        resolver.port = port
        reading = asyncio.create_task(
            source.read_document(source.parse_address(f"tcp://{_NAME}:1717"), timeout=5, size_cap=SIZE_CAP)
        )
        for _ in range(10):  # iterations of the event loop, until the read waits for the lookup
            await asyncio.sleep(0)
        resolver.released.set()
        return (await reading).body

    with bad_servers.answers("tcp", b"{}") as address:
        assert asyncio.run(read_when_released(int(address.rpartition(":")[2]))) == b"{}"
    assert resolver.asked == 1


def test_a_name_that_does_not_exist() -> None:
    """An unknown name is `unreachable`, and the message says what to check."""
    with pytest.raises(SourceError, match=r"the name does not resolve .*: check its spelling") as caught:
        read("tcp://no-such-host.invalid:1717", 5)
    assert caught.value.reason == "unreachable"
