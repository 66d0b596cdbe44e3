"""What the service manager hears."""

import contextlib
import os
import secrets
import socket

import pytest

from tests.service.service_manager import manager
from tests.support.scripted_watch import ScriptedWatch, replayed
from uwsgi_headroom.errors import SourceError
from uwsgi_headroom.service.systemd import (
    LEAST_WATCHDOG_SECONDS,
    Notifier,
    ServiceManager,
    describe_servers,
    watchdog_seconds,
)


@pytest.mark.parametrize("address", ["", f"@headroom-{secrets.token_hex(8)}"], ids=["path", "abstract"])
def test_a_message_is_one_datagram(address):
    """Assignments arrive together, at a path and at an abstract name."""
    with manager(address) as heard:
        Notifier(heard.address).send(READY=1, STATUS="3 servers watched")
        heard.await_state("READY", "1")
    assert heard.messages == [{"READY": "1", "STATUS": "3 servers watched"}]


def test_a_status_is_a_sentence():
    """A line break in it is no assignment."""
    with manager() as heard:
        Notifier(heard.address).send(STATUS="shop\nSTOPPING=1\udcff")
        heard.await_state("STATUS", "shop\\nSTOPPING=1\\udcff")
    assert heard.states("STOPPING") == []
    well = replayed("minified").watch
    never_read = ScriptedWatch("new").watch
    assert describe_servers([]) == "0 servers watched"
    assert describe_servers([never_read]) == "1 server watched"
    assert describe_servers([well, lost(), never_read]) == "3 servers watched, 1 cannot be read"


@pytest.mark.parametrize(
    "address", ["", "/nowhere/socket", "@" + "x" * 300, "/" + "x" * 300, "relative", "/a\0b", "vsock:2:1", "@", "/"]
)
def test_an_address_where_nobody_listens(address):
    Notifier(address).send(READY=1)


def test_a_socket_that_nobody_empties(tmp_path):
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
def test_the_time_of_the_watchdog(environment, seconds):
    """A watchdog that is for another process, or without a time, expects nothing of this one."""
    assert watchdog_seconds(environment, 7) == seconds


PID = os.getpid()


def lost():
    return ScriptedWatch("lost").read(SourceError("refused", "nobody listens")).watch


def test_a_turn_feeds_the_watchdog():
    """The status is sent when it changes, also without a watchdog."""
    with manager() as heard:
        one = ServiceManager({"NOTIFY_SOCKET": heard.address, "WATCHDOG_USEC": "30000000"}, PID)
        for watches in ([], [], [lost()]):
            one.turned(watches)
        heard.await_state("WATCHDOG", "1", 3)
    assert heard.messages == [
        {"WATCHDOG": "1", "STATUS": "0 servers watched"},
        {"WATCHDOG": "1"},
        {"WATCHDOG": "1", "STATUS": "1 server watched, 1 cannot be read"},
    ]
    with manager() as heard:
        one = ServiceManager({"NOTIFY_SOCKET": heard.address, "WATCHDOG_USEC": "1", "WATCHDOG_PID": "1"}, PID)
        one.turned([])
        one.turned([])
        one.stopping()
        heard.await_state("STOPPING", "1")
    assert heard.messages == [{"STATUS": "0 servers watched"}, {"STOPPING": "1"}]


def test_a_failed_reload_is_in_the_status_until_one_succeeds():
    """A reload begins with the time that systemd needs, and ends with READY and its problem."""
    with manager() as heard:
        one = ServiceManager({"NOTIFY_SOCKET": heard.address}, PID)
        one.turned([])
        one.reloading()
        one.reloaded("x.yml:3: unknown key 'a'")
        one.reloading()
        one.reloaded("")
        heard.await_state("READY", "1", 2)
    assert heard.messages[1]["RELOADING"] == "1"
    assert int(heard.messages[1]["MONOTONIC_USEC"]) <= int(heard.messages[3]["MONOTONIC_USEC"])
    problem = "0 servers watched; the configuration was not reloaded: x.yml:3: unknown key 'a'"
    assert heard.states("STATUS") == ["0 servers watched", problem, "0 servers watched"]


def test_nothing_follows_the_end():
    with manager() as heard:
        one = ServiceManager({"NOTIFY_SOCKET": heard.address, "WATCHDOG_USEC": "30000000"}, PID)
        one.stopping()
        one.turned([])
        one.reloaded("")
        one.stopping()
        ServiceManager({"NOTIFY_SOCKET": heard.address}, PID).reloading()
        heard.await_state("RELOADING", "1")
    assert heard.messages[0] == {"STOPPING": "1"}
    assert len(heard.messages) == 2


@pytest.mark.parametrize(("seconds", "warned"), [(LEAST_WATCHDOG_SECONDS - 1, True), (LEAST_WATCHDOG_SECONDS, False)])
def test_a_watchdog_that_is_too_quick(caplog, seconds, warned):
    """A watchdog that could end an exporter that is only slow is reported at start."""
    ServiceManager({"WATCHDOG_USEC": str(int(seconds * 1e6))}, PID)
    assert ("WatchdogSec=" in caplog.text) == warned
