"""The systemd unit of a process, from its cgroup."""

from __future__ import annotations

from pathlib import Path

import pytest

from uwsgi_headroom.kernel.identity import find_systemd_unit


@pytest.mark.parametrize(
    ("cgroup", "unit"),
    [
        (b"0::/system.slice/uwsgi.service\n", "uwsgi.service"),
        (b"0::/system.slice/system-uwsgi.slice/uwsgi@shop.service\n", "uwsgi@shop.service"),
        (b"0::/user.slice/user-1.slice/user@1.service/app.slice/shop.service\n", "shop.service"),
        (b"0::/system.slice/uwsgi.service/workers\n", "uwsgi.service"),
        (b"0::/system.slice/my\\x2dshop.service\n", "my\\x2dshop.service"),
        (b"4:memory:/system.slice/other.service\n1:name=systemd:/system.slice/uwsgi.service\n0::/\n", "uwsgi.service"),
        (b"0::/\n", None),
        (b"0::/user.slice/user-0.slice/session-1.scope\n", None),
        (b"0::/system.slice/$(id).service\n", None),
        (b"0::/\xff.service\n", None),
    ],
)
def test_a_unit_is_the_innermost_service(tmp_path: Path, cgroup: bytes, unit: str | None) -> None:
    """The unit is found in cgroup version 2 and in systemd's own hierarchy of version 1."""
    (tmp_path / "proc" / "7").mkdir(parents=True)
    (tmp_path / "proc" / "7" / "cgroup").write_bytes(cgroup)
    assert find_systemd_unit(7, tmp_path) == unit


def test_a_process_that_has_ended_has_no_unit(tmp_path: Path) -> None:
    """A process that has ended has no unit, and nothing is raised."""
    assert find_systemd_unit(7, tmp_path) is None
