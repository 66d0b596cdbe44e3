"""OOM kills, from trees of `/proc` and `/sys` written by these tests."""

from pathlib import Path

import pytest

from uwsgi_headroom.kernel.memory import OomKills, read_oom_kills

PID = 4242
V1 = {
    "proc/4242/cgroup": "4:memory:/app\n",
    "proc/self/mountinfo": "30 25 0:26 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n",
    "sys/fs/cgroup/memory/app/cgroup.procs": "",
    "sys/fs/cgroup/memory/app/memory.oom_control": "oom_kill_disable 0\nunder_oom 0\noom_kill 3\n",
}
V2 = {
    "proc/4242/cgroup": "0::/app\n",
    "proc/self/mountinfo": "30 25 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n",
    "sys/fs/cgroup/app/cgroup.procs": "",
    "sys/fs/cgroup/app/memory.events": "low 0\nhigh 0\nmax 9\noom 4\noom_kill 2\noom_group_kill 0\n",
}
HOST = {"proc/vmstat": "nr_free_pages 9\noom_kill 7\nunevictable_pgs_scanned 0\n"}


@pytest.mark.parametrize(
    ("files", "kills"),
    [
        (V1 | HOST, OomKills(3, 7)),
        (V2 | HOST, OomKills(2, 7)),
        (V2, OomKills(2, None)),
        (HOST, OomKills(None, 7)),
        (V2 | {"sys/fs/cgroup/app/memory.events": "low 0\n"} | HOST, OomKills(None, 7)),  # before Linux 4.13
        (HOST | {"proc/vmstat": "oom_kill\n"}, OomKills(None, None)),
        (HOST | {"proc/vmstat": "oom_kill many\n"}, OomKills(None, None)),
    ],
)
def test_counts(tmp_path: Path, files: dict[str, str], kills: OomKills) -> None:
    """The counts of both cgroup versions are read; missing or invalid ones are unknown."""
    for name, text in files.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    assert read_oom_kills(PID, root=tmp_path) == kills


def test_of_this_machine() -> None:
    """The host has counted its kills since Linux 4.13."""
    assert (read_oom_kills(1).host or 0) >= 0
