"""Names in targets of probes that lead to this machine, or to a cloud's metadata, are not connected to."""

from __future__ import annotations

import asyncio
import socket
from typing import Any

import pytest

from tests.support.real_uwsgi import free_port
from uwsgi_headroom.config.defaults import SIZE_CAP
from uwsgi_headroom.errors import SourceError
from uwsgi_headroom.source import Http, Tcp, read_document


def infos(*addresses: str, port: int = 80) -> list[Any]:
    return [
        (socket.AF_INET6 if ":" in text else socket.AF_INET, socket.SOCK_STREAM, 6, "", (text, port))
        for text in addresses
    ]


def read(address: Tcp | Http) -> str:
    with pytest.raises(SourceError) as caught:
        asyncio.run(read_document(address, timeout=5, size_cap=SIZE_CAP))
    return str(caught.value)


@pytest.mark.parametrize(
    "address",
    [
        "127.0.0.1",
        "127.9.9.9",
        "0.0.0.0",
        "0.1.2.3",
        "169.254.169.254",
        "224.0.0.1",
        "255.255.255.255",
        "100.100.100.200",
        "::1",
        "::",
        "fe80::1",
        "fe80::1%lo",
        "ff02::1",
        "192.0.0.192",
        "fd00:ec2::254",
        "fd00:ec2::23",
        "::ffff:127.0.0.1",
        "::ffff:10.0.3.7",
        "::127.0.0.1",
        "64:ff9b::a9fe:a9fe",
        "2002:7f00:1::",
        "2001::1",
    ],
)
@pytest.mark.parametrize("others", [(), ("192.0.2.7",)])
def test_refused(address: str, others: tuple[str, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    """No connection is tried, to any address of the name."""
    monkeypatch.setattr(socket, "getaddrinfo", answering(infos(*others, address)))
    monkeypatch.setattr(asyncio.SelectorEventLoop, "sock_connect", None)
    assert "leads to an address that a name may not lead to" in read(Tcp("evil.uwsgi.internal", 80, is_guarded=True))
    assert "leads to an address that a name may not lead to" in read(Http("evil.uwsgi.internal", 80, is_guarded=True))


def answering(found: list[Any]) -> Any:
    def getaddrinfo(host: str, *_: object, flags: int = 0, **__: object) -> list[Any]:
        if flags & socket.AI_NUMERICHOST:
            raise socket.gaierror(socket.EAI_NONAME, "not a number")
        return found

    return getaddrinfo


def test_the_address_that_was_checked_is_the_one_that_is_connected_to(monkeypatch: pytest.MonkeyPatch) -> None:
    """A resolver that answers differently every time (DNS rebinding) is asked once for each read."""
    asked = []

    def getaddrinfo(host: str, *_: object, flags: int = 0, **__: object) -> list[Any]:
        if flags & socket.AI_NUMERICHOST:
            raise socket.gaierror(socket.EAI_NONAME, "not a number")
        asked.append(host)
        return infos("192.0.2.7" if len(asked) % 2 else "127.0.0.1")

    connected = []

    async def sock_connect(_loop: object, sock: socket.socket, address: object) -> None:
        connected.append(address)
        raise ConnectionRefusedError

    monkeypatch.setattr(socket, "getaddrinfo", getaddrinfo)
    monkeypatch.setattr(asyncio.SelectorEventLoop, "sock_connect", sock_connect)
    address = Tcp("rebinding.uwsgi.internal", 80, is_guarded=True)
    assert "refused" in read(address)
    assert "leads to an address" in read(address)
    assert (len(asked), connected) == (2, [("192.0.2.7", 80)])


def test_configured_names_and_ip_addresses_are_not_guarded() -> None:
    """A server that the operator gave may be on this machine."""
    port = free_port()
    for host in ("localhost", "127.0.0.1"):
        assert "nothing listens here" in read(Tcp(host, port))
    assert "leads to an address" in read(Tcp("localhost", port, is_guarded=True))
