"""File systems without room, as statvfs(2) would describe them; the mounts and files are this process's own."""

import os
from collections.abc import Callable
from types import SimpleNamespace

import pytest

from uwsgi_headroom.kernel import disks
from uwsgi_headroom.kernel.disks import count_metrics_files, find_full_disks

MB = 1_000_000
ROOM = {"f_frsize": 1, "f_blocks": 1000 * MB, "f_files": 1000, "f_flag": 0}


def give(free: int, inodes: int = 10, **more: int) -> Callable[[str], SimpleNamespace]:
    left = dict.fromkeys(("f_bfree", "f_bavail"), free) | dict.fromkeys(("f_ffree", "f_favail"), inodes)
    return lambda _: SimpleNamespace(**ROOM | left | more)


@pytest.mark.parametrize(
    ("statvfs", "expected"),
    [
        (give(4 * MB), []),
        (give(4 * MB - 1), [False]),
        (give(30_000, f_blocks=2 * MB), []),  # a small one
        (give(0, f_blocks=2 * MB), [False]),
        (give(900 * MB, 0), [True]),
        (give(900 * MB, 0, f_files=0), []),  # as of btrfs, which makes them as it needs them
        (give(0, f_flag=os.ST_RDONLY), []),  # as of an image
        (give(0, f_blocks=0), []),
    ],
)
def test_what_is_full(monkeypatch, tmp_path, statvfs, expected):
    """Neither a small file system nor one that nothing is written to is full. The current directory is uWSGI's own."""
    monkeypatch.setattr(disks.procfs, "read_begin", lambda *_: b"disk / ext4 rw 0 0\n")  # a chroot shows none
    monkeypatch.setattr(os, "statvfs", statvfs)
    monkeypatch.chdir(tmp_path)
    found = [each for each in find_full_disks(os.getpid(), "") if each[0] == "directory"]
    assert [each[3] for each in found] == expected
    assert all(each[1] == "/" for each in found)


@pytest.mark.parametrize(
    ("name", "expected"),
    [("counter_123.db", 3), ("gauge_liveall_9.db", 3), ("histogram_1.db", 3), ("orders.db", None)],
)
def test_the_files_of_metrics(tmp_path, name, expected):
    """They are counted in the folder in which a process has one of its own open."""
    for each in ("counter_1.db", "counter_2.db", name, "counter_2.db"):
        (tmp_path / each).touch()
    with open(tmp_path / name, "rb"):
        assert count_metrics_files(os.getpid()) == ((str(tmp_path), expected) if expected else ("", 0))
    assert count_metrics_files(os.getpid()) == ("", 0)


def test_others_are_never_asked(monkeypatch, tmp_path):
    def refuse(path: str) -> None:
        raise AssertionError(path)

    monkeypatch.setattr(disks, "_LOCAL", ())
    monkeypatch.setattr(os, "statvfs", refuse)
    assert find_full_disks(os.getpid(), "/var/log/uwsgi.log") == ()
    assert find_full_disks(2**22 + 1, "") == ()
