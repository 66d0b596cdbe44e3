"""Chosen ports of 127.0.0.1 can be listened on, and requests to them use no proxy."""

from __future__ import annotations

import socket

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


def test_nobody_there_is_no_answer():
    assert loopback.get(loopback.free_port(), "/") is None
