"""The identity of a server: its start, its working directory, its emperor and its systemd unit."""

import os
import time
from pathlib import Path

import pytest

from tests.kernel.contained import started
from tests.support import real_uwsgi
from uwsgi_headroom.kernel.setup import find_systemd_unit, read_identity


def test_a_process_of_this_host():
    """It has the host's name, its directory and its start, and no emperor. After its end, only the host is known."""
    with started("sleep", "60", cwd="/usr") as process:
        identity = read_identity(process.pid)
    assert identity.host == os.uname().nodename
    assert identity.working_directory == "/usr"
    assert identity.started == pytest.approx(time.time(), abs=60)
    assert identity.emperor_pid is None
    ended = read_identity(process.pid)
    assert (ended.started, ended.working_directory, ended.emperor_pid) == (None, None, None)


@pytest.mark.parametrize(("parent", "emperor"), [("uwsgi\n", 6), ("systemd\n", None), (None, None)])
def test_the_emperor_is_a_parent_called_uwsgi(parent, emperor, tmp_path):
    (tmp_path / "7").mkdir()
    (tmp_path / "7" / "stat").write_text("7 (uwsgi) S 6 7 7 0\n")
    if parent is not None:
        (tmp_path / "6").mkdir()
        (tmp_path / "6" / "comm").write_text(parent)
    assert read_identity(7, proc=tmp_path).emperor_pid == emperor


@pytest.mark.integration
def test_the_parent_of_a_real_vassals_master_is_its_emperor():
    vassal = "[uwsgi]\nmaster = true\nstats = %d/vassal.stats\nsocket = %d/vassal.sock\n"
    options = ["--emperor", "{directory}/vassals", "--emperor-stats", "{directory}/stats"]
    with real_uwsgi.bare(*options, files={"vassals/shop.ini": vassal}) as emperor:
        real_uwsgi.wait_until(lambda: b'"ready":1' in emperor.document().replace(b" ", b""), what="the vassal")
        children = Path(f"/proc/{emperor.pid}/task/{emperor.pid}/children").read_text().split()
        assert [read_identity(int(child)).emperor_pid for child in children] == [emperor.pid]


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
def test_a_unit_is_the_innermost_service(tmp_path, cgroup, unit):
    (tmp_path / "proc" / "7").mkdir(parents=True)
    (tmp_path / "proc" / "7" / "cgroup").write_bytes(cgroup)
    assert find_systemd_unit(7, tmp_path) == unit
    assert find_systemd_unit(8, tmp_path) is None, "it has ended"
