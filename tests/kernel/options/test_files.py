"""Files are read as another process sees them, and a file that is not a regular one does no harm."""

import contextlib
import os
import threading

import pytest

from tests.kernel.trees import PID, make_tree
from uwsgi_headroom.kernel.options import MasterFiles


@pytest.fixture
def files(tmp_path):
    """The files of a process: its root directory holds one file, and another lies outside of it."""
    proc = make_tree(tmp_path, "uwsgi", files={"/etc/app.ini": "inside"})
    (tmp_path / "outside").write_text("outside")
    return MasterFiles(PID, proc=proc)


@pytest.mark.parametrize("name", ["/etc/app.ini", "../etc/app.ini", "/etc/./..//etc/app.ini", "/../../etc/app.ini"])
def test_names(name, files):
    """A name is resolved in the process's root and working directories; `..` does not lead above its root."""
    assert files.read(name) == "inside"


@pytest.mark.parametrize("target", ["/etc/app.ini", "../etc/app.ini", "../../../../etc/app.ini"])
def test_links_stay_within_the_root_directory(target, files, tmp_path):
    (tmp_path / "root/srv/link.ini").symlink_to(target)
    assert files.read("link.ini") == "inside"


def test_a_link_to_the_outside_finds_nothing(files, tmp_path):
    for number, target in enumerate((str(tmp_path / "outside"), "../../outside", "/../outside")):
        (tmp_path / f"root/srv/{number}.ini").symlink_to(target)
        with pytest.raises(OSError, match="No such file"):
            files.read(f"{number}.ini")


def test_a_loop_of_links_ends_in_an_error(files, tmp_path):
    (tmp_path / "root/srv/link.ini").symlink_to("link.ini")
    with pytest.raises(OSError, match="too many symbolic links"):
        files.read("link.ini")


def test_a_fifo_or_a_directory_is_refused(files, tmp_path):
    os.mkfifo(tmp_path / "root/srv/fifo.ini")
    for name in ("fifo.ini", "/etc"):
        with pytest.raises(OSError, match="not a regular file"):
            files.read(name)


def test_a_file_of_the_kernel_is_not_read():
    """Reading /proc/kmsg takes the kernel's messages away from others. It has no size, as this one."""
    with pytest.raises(OSError, match="not a regular file"):
        MasterFiles(os.getpid()).read("/proc/self/status")


def test_an_impossible_name(files):
    with pytest.raises(ValueError, match="null"):
        files.read("a\0b")


def test_a_directory_that_becomes_a_link_at_any_moment_leads_nowhere(files, tmp_path):
    inside, kept, outside = tmp_path / "root/etc", tmp_path / "root/kept", tmp_path / "app.ini"
    outside.write_text("outside")
    ended = threading.Event()

    def replace() -> None:
        while not ended.is_set():
            inside.rename(kept)
            inside.symlink_to(tmp_path)
            inside.unlink()
            kept.rename(inside)

    thread = threading.Thread(target=replace)
    thread.start()
    read = set()
    try:
        for _ in range(500):
            with contextlib.suppress(OSError):
                read.add(files.read("/etc/app.ini"))
            files._end = None
    finally:
        ended.set()
        thread.join()
    assert read <= {"inside"}


def test_too_many_directories(files):
    """A path through hundreds of directories does not use up the exporter's descriptors."""
    before = len(os.listdir("/proc/self/fd"))
    os.makedirs(files._process / "root" / "/".join("d" * 100))
    with pytest.raises(OSError, match="too many directories"):
        files.read("/" + "/".join("d" * 100))
    assert len(os.listdir("/proc/self/fd")) == before
