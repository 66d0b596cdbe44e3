"""Host names: what a resolver that hangs may hold up, and what not."""

from __future__ import annotations

import asyncio

import pytest

from tests.support import bad_servers
from uwsgi_headroom import source
from uwsgi_headroom.errors import SourceError


@pytest.fixture(autouse=True)
def hung_resolver(monkeypatch: pytest.MonkeyPatch) -> None:
    """Names are looked up in a few threads; all of them hang."""

    async def hang(*_args: object, **_options: object) -> None:
        await asyncio.Event().wait()

    monkeypatch.setattr(asyncio.BaseEventLoop, "getaddrinfo", hang)


def test_a_numeric_address_needs_no_resolver() -> None:
    """It is read although the lookups of other servers' names hang."""
    with bad_servers.answers("tcp", b"{}") as address:
        assert asyncio.run(source.read_document(source.parse_address(f"tcp://{address}"), timeout=5)).body == b"{}"


def test_a_name_waits_no_longer_than_the_deadline() -> None:
    """A name whose lookup hangs is a timeout."""
    with pytest.raises(SourceError) as caught:
        asyncio.run(source.read_document(source.parse_address("tcp://stats.example:1717"), timeout=0.05))
    assert caught.value.reason == "timeout"
