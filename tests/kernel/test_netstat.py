"""Listen overflows: from captured files, and of this network namespace."""

import os
from pathlib import Path

import pytest

from tests.support.other_namespaces import as_nobody, as_root
from uwsgi_headroom.kernel.backlogs import ListenOverflows, read_listen_overflows

FIXTURES = Path(__file__).with_name("fixtures")


def test_captured() -> None:
    """The two counts are found by name among a hundred others."""
    assert read_listen_overflows(proc=FIXTURES / "netstat" / "proc") == ListenOverflows(12, 12)


@pytest.mark.parametrize("text", ["", "TcpExt: SyncookiesSent\nTcpExt: 1\n", "IpExt: ListenDrops\n"])
def test_absent(text: str, tmp_path: Path) -> None:
    """If the kernel does not count them, they are None, not 0."""
    (tmp_path / "self" / "net").mkdir(parents=True)
    (tmp_path / "self" / "net" / "netstat").write_text(text)
    assert read_listen_overflows(proc=tmp_path) is None


def test_gone() -> None:
    """The counts of a process that has ended are unknown."""
    assert read_listen_overflows(2**22 + 1) is None


@as_root
def test_no_privilege_is_needed() -> None:
    """Any user may read the counts of another user's process."""
    pid = os.getpid()
    overflows = as_nobody(lambda: read_listen_overflows(pid))
    assert overflows is not None
    assert overflows.drops >= overflows.overflows
