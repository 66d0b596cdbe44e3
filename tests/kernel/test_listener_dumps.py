"""Lists of listeners that servers share for a moment."""

import socket

import pytest

from tools.support.clock import MovableClock
from uwsgi_headroom.kernel import sock_diag
from uwsgi_headroom.kernel.backlogs import MOST_SHARED_SECONDS, ListenerDumps


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The families that the kernel was asked for; each list takes a millisecond of the test's clock."""
    families: list[str] = []

    def dump(family: sock_diag.Family) -> dict[int, bytes]:
        families.append(family)
        HANDS.move(0.001)
        return {}

    monkeypatch.setattr(sock_diag, "dump_listeners", dump)
    return families


HANDS = MovableClock()


def test_a_list_is_shared_for_fifty_times_as_long_as_it_took(asked: list[str]) -> None:
    """A list of one millisecond serves all servers that are read within the next 49; families are apart."""
    dumps = ListenerDumps(HANDS.clock.monotonic, HANDS.clock.monotonic)
    for _ in range(5):
        dumps.list_listeners("unix")
        HANDS.move(0.008)
    assert asked == ["unix"]
    dumps.list_listeners("inet")
    HANDS.move(0.010)
    dumps.list_listeners("unix")
    assert asked == ["unix", "inet", "unix"]


def test_a_sample_never_has_the_list_of_the_last_one(asked: list[str]) -> None:
    """At the default rate, samples of one server are at least 160 ms apart."""
    assert MOST_SHARED_SECONDS < 0.16
    dumps = ListenerDumps(HANDS.clock.monotonic, HANDS.clock.monotonic)
    for _ in range(3):
        dumps.list_listeners("unix")
        HANDS.move(0.16)
    assert asked == ["unix"] * 3


def test_forgotten_lists_are_asked_for_again() -> None:
    """A socket that was opened since is there after `forget`."""
    dumps = ListenerDumps(lambda: 0.0)
    dumps.list_listeners("unix")
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind("")
        listening.listen()
        dumps.forget()
        names = {listener.name for listener in dumps.list_listeners("unix")}
    assert any(name.startswith("@") for name in names)
