"""Chosen ports of 127.0.0.1 can be listened on, and requests to them use no proxy."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from app import loopback


def test_preferred_port_is_chosen_if_it_is_free():
    port = loopback.free_port()
    assert loopback.free_port(port) == port


@pytest.mark.parametrize("host", ["127.0.0.1", "0.0.0.0"])
def test_another_port_is_chosen_if_it_is_taken(host):
    """A port also counts as taken if a process listens on every address."""
    with socket.create_server((host, 0)) as taken:
        port = taken.getsockname()[1]
        assert loopback.free_port(port) != port
        assert "in use" in loopback.why_taken(port)


def test_another_port_is_one_that_the_kernel_gives_to_nobody(monkeypatch):
    assert loopback.server_ports().stop == int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    monkeypatch.setattr(loopback, "server_ports", lambda: range(15_000, 25_000))
    assert loopback.free_port() in range(15_000, 25_000)


def test_a_kernel_that_gives_all_ports_gives_a_port(monkeypatch):
    monkeypatch.setattr(loopback, "server_ports", lambda: range(0))
    assert loopback.why_taken(loopback.free_port()) is None


def test_several_ports_are_different(monkeypatch):
    """Also if the same port is chosen twice."""
    chosen = iter([15_000, 15_000, 15_000, 15_001])
    monkeypatch.setattr(loopback, "free_port", lambda: next(chosen))
    assert sorted(loopback.free_ports(2)) == [15_000, 15_001]


def test_nobody_there_is_no_answer():
    assert loopback.get(loopback.free_port(), "/") is None
