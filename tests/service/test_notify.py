"""Messages reach the notification socket, and none of its failures is noticed."""

from __future__ import annotations

import contextlib
import secrets
import socket
from pathlib import Path

import pytest

from tests.service.service_manager import manager
from uwsgi_headroom.service.systemd import Notifier, watchdog_seconds


@pytest.mark.parametrize("address", ["", f"@headroom-{secrets.token_hex(8)}"], ids=["path", "abstract"])
def test_a_message_is_one_datagram(address: str) -> None:
    """Assignments arrive together, at a path and at an abstract name."""
    with manager(address) as heard:
        Notifier(heard.address).send(READY=1, STATUS="3 servers watched")
        heard.await_state("READY", "1")
    assert heard.messages == [{"READY": "1", "STATUS": "3 servers watched"}]


def test_a_line_break_in_a_status_is_no_assignment() -> None:
    """Text that others choose, such as the name of a server, cannot add an assignment."""
    with manager() as heard:
        Notifier(heard.address).send(STATUS="shop\nSTOPPING=1\udcff")
        heard.await_state("STATUS", "shop\\nSTOPPING=1\\udcff")
    assert heard.states("STOPPING") == []


@pytest.mark.parametrize(
    "address", ["", "/nowhere/socket", "@" + "x" * 300, "/" + "x" * 300, "relative", "/a\0b", "vsock:2:1", "@", "/"]
)
def test_an_address_where_nobody_listens(address: str) -> None:
    """Sending to nobody does nothing."""
    Notifier(address).send(READY=1)


def test_a_socket_that_nobody_empties(tmp_path: Path) -> None:
    """A message that does not fit is dropped, and the sender does not wait."""
    path = tmp_path / "full"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as end:
        end.bind(str(path))
        notifier = Notifier(str(path))
        for _ in range(5000):
            notifier.send(STATUS="x" * 1000)
        end.setblocking(False)
        count = 0
        with contextlib.suppress(BlockingIOError):
            while end.recv(2000):
                count += 1
        assert 0 < count < 5000


@pytest.mark.parametrize(
    ("environment", "seconds"),
    [
        ({"WATCHDOG_USEC": "30000000", "WATCHDOG_PID": "7"}, 30.0),
        ({"WATCHDOG_USEC": "1500000"}, 1.5),
        ({"WATCHDOG_USEC": "30000000", "WATCHDOG_PID": "8"}, None),
        ({"WATCHDOG_USEC": "0"}, None),
        ({"WATCHDOG_USEC": "-1"}, None),
        ({"WATCHDOG_USEC": "soon"}, None),
        ({"WATCHDOG_USEC": "9" * 5000}, None),
        ({"WATCHDOG_USEC": "٣"}, None),
        ({}, None),
    ],
)
def test_the_time_of_the_watchdog(environment: dict[str, str], seconds: float | None) -> None:
    """A watchdog that is for another process, or without a time, expects nothing of this one."""
    assert watchdog_seconds(environment, 7) == seconds
