"""Host names: a resolver that hangs delays its own reads only, and names in probes' targets are checked."""

import asyncio
import re
import socket
import threading

import pytest

from tests.source.test_read import failure, read
from tests.support import bad_servers
from tests.support.real_uwsgi import free_port
from uwsgi_headroom import source
from uwsgi_headroom.config.defaults import SIZE_CAP
from uwsgi_headroom.source import Http, Tcp


def infos(*addresses, port=80):
    return [
        (socket.AF_INET6 if ":" in text else socket.AF_INET, socket.SOCK_STREAM, 6, "", (text, port))
        for text in addresses
    ]


ADDRESSES = """
127.0.0.1 127.9.9.9 0.0.0.0 0.1.2.3 169.254.169.254 224.0.0.1 255.255.255.255 100.100.100.200 192.0.0.192
::1 :: fe80::1 fe80::1%lo ff02::1 fd00:ec2::254 fd00:ec2::23 2001::1
::ffff:127.0.0.1 ::ffff:10.0.3.7 ::127.0.0.1 64:ff9b::a9fe:a9fe 2002:7f00:1::
"""


@pytest.mark.parametrize("address", ADDRESSES.split())
@pytest.mark.parametrize("others", [(), ("192.0.2.7",)])
def test_refused(address, others, monkeypatch):
    """No connection is tried, to any address of the name."""
    monkeypatch.setattr(socket, "getaddrinfo", answering(lambda _: infos(*others, address)))
    monkeypatch.setattr(asyncio.SelectorEventLoop, "sock_connect", None)
    assert "leads to an address that a name may not lead to" in str(
        failure(Tcp("evil.uwsgi.internal", 80, is_guarded=True))
    )
    assert "leads to an address that a name may not lead to" in str(
        failure(Http("evil.uwsgi.internal", 80, is_guarded=True))
    )


def answering(find):
    def getaddrinfo(host, *_, flags=0, **__):
        if flags & socket.AI_NUMERICHOST:
            raise socket.gaierror(socket.EAI_NONAME, "not a number")
        return find(host)

    return getaddrinfo


def test_the_address_that_was_checked_is_the_one_that_is_connected_to(monkeypatch):
    """A resolver that answers differently every time (DNS rebinding) is asked once for each read."""
    asked = []

    def find(host):
        asked.append(host)
        return infos("192.0.2.7" if len(asked) % 2 else "127.0.0.1")

    connected = []

    async def sock_connect(_loop, sock, address):
        connected.append(address)
        raise ConnectionRefusedError

    monkeypatch.setattr(socket, "getaddrinfo", answering(find))
    monkeypatch.setattr(asyncio.SelectorEventLoop, "sock_connect", sock_connect)
    address = Tcp("rebinding.uwsgi.internal", 80, is_guarded=True)
    assert "refused" in str(failure(address))
    assert "leads to an address" in str(failure(address))
    assert (len(asked), connected) == (2, [("192.0.2.7", 80)])


def test_configured_names_and_ip_addresses_are_not_guarded():
    """A server that the operator gave may be on this machine."""
    port = free_port()
    for host in ("localhost", "127.0.0.1"):
        assert "nothing listens here" in str(failure(Tcp(host, port)))
    assert "leads to an address" in str(failure(Tcp("localhost", port, is_guarded=True)))


_NAME = "stats.example"


class _Resolver:
    """Hangs until `released` is set, ten seconds at most, and then resolves the name. `asked` counts lookups."""

    def __init__(self):
        self.released = threading.Event()
        self.asked = 0
        self.port = 0
        self._real = socket.getaddrinfo

    def __call__(self, host, port, **options):
        if host != _NAME or options.get("flags"):
            return self._real(host, port, **options)
        self.asked += 1
        self.released.wait(60)
        return self._real("127.0.0.1", self.port, **options)


@pytest.fixture
def resolver(monkeypatch):
    hung = _Resolver()
    monkeypatch.setattr(socket, "getaddrinfo", hung)
    yield hung
    hung.released.set()
    for thread in threading.enumerate():
        if thread.name.startswith("resolve "):
            thread.join(60)


def test_a_numeric_address_needs_no_resolver(resolver):
    with bad_servers.answers("tcp", b"{}") as address:
        assert read(f"tcp://{address}", 5).body == b"{}"
    assert resolver.asked == 0


@pytest.mark.parametrize("scheme", ["tcp", "http"])
def test_a_name_waits_no_longer_than_the_deadline(resolver, scheme):
    error = failure(f"{scheme}://{_NAME}:1717", 0.05)
    assert f"the name {_NAME} was not resolved within 0.05 s: check" in str(error)
    assert error.reason == "timeout"
    assert not resolver.released.is_set()
    assert any(thread.name == f"resolve {_NAME}" for thread in threading.enumerate())


def test_reads_share_the_lookup_that_hangs(resolver):
    for _ in range(3):
        failure(f"tcp://{_NAME}:1717", 0.01)
    assert resolver.asked == 1

    async def read_when_released(port):
        resolver.port = port
        address = source.parse_address(f"tcp://{_NAME}:1717")
        reading = asyncio.create_task(source.read_document(address, timeout=5, size_cap=SIZE_CAP))
        for _ in range(10):  # iterations of the event loop, until the read waits for the lookup
            await asyncio.sleep(0)
        resolver.released.set()
        return (await reading).body

    with bad_servers.answers("tcp", b"{}") as address:
        assert asyncio.run(read_when_released(int(address.rpartition(":")[2]))) == b"{}"
    assert resolver.asked == 1


def test_a_name_that_does_not_exist():
    error = failure("tcp://no-such-host.invalid:1717", 20)
    assert re.match(r"the name does not resolve .*: check its spelling", str(error))
    assert error.reason == "unreachable"
