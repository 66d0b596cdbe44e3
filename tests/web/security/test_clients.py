"""Who counts as one client."""

from __future__ import annotations

import os
import socket

import pytest

from tests.support.other_namespaces import NOBODY, as_root
from uwsgi_headroom.web.security.gate import find_network, name_client


def test_clients_without_a_user_are_their_network() -> None:
    """A host has 2**64 addresses of IPv6, and a local user 2**24 of loopback, which count as one. Those of a UNIX
    socket have no name."""
    assert find_network("2001:db8::1") == find_network("2001:db8::ffff:1") != find_network("2001:db8:0:1::1")
    assert find_network("::ffff:10.0.0.1") == find_network("10.0.0.1") == "10.0.0.1"
    assert find_network("fe80::1%eth0") == find_network("fe80::2")
    assert {find_network(host) for host in ("127.0.0.1", "127.9.8.7", "::1", "::ffff:127.0.0.2")} == {"loopback"}
    assert find_network("") == find_network("unix") == ""
    assert name_client(("10.0.0.1", 4000), ("10.0.0.2", 9238)) == "10.0.0.1"
    assert name_client(None, ("/run/x", None)) == name_client(("", 0), None) == ""


@pytest.mark.parametrize(("listening", "connecting"), [("127.0.0.1", "127.0.0.1"), ("::", "127.0.0.1"), ("::", "::1")])
def test_a_local_client_is_its_user(listening: str, connecting: str) -> None:
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
def test_two_local_users() -> None:
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
