"""Overflows of listen queues: captured ones, and those of this network namespace."""

import os
from pathlib import Path

import pytest

from tests.support.other_namespaces import as_nobody, as_root
from uwsgi_headroom.kernel.netstat import ListenOverflows, read_listen_overflows

FIXTURES = Path(__file__).with_name("fixtures")


def test_captured() -> None:
    """The two counts are found by their names among the hundred others."""
    assert read_listen_overflows(proc=FIXTURES / "netstat" / "proc") == ListenOverflows(12, 12)


@pytest.mark.parametrize("text", ["", "TcpExt: SyncookiesSent\nTcpExt: 1\n", "IpExt: ListenDrops\n"])
def test_absent(text: str, tmp_path: Path) -> None:
    """Where the kernel does not count them there are none, which is not 0."""
    (tmp_path / "self" / "net").mkdir(parents=True)
    (tmp_path / "self" / "net" / "netstat").write_text(text)
    assert read_listen_overflows(proc=tmp_path) is None


def test_gone() -> None:
    """The network namespace of a process that ended is not known."""
    assert read_listen_overflows(2**22 + 1) is None


@as_root
def test_any_user_may_know() -> None:
    """The counts of another user's process need no privilege."""
    pid = os.getpid()
    overflows = as_nobody(lambda: read_listen_overflows(pid))
    assert overflows is not None
    assert overflows.drops >= overflows.overflows
