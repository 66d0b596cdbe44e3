"""The list of mounts is read again when it changes, and only then."""

import ctypes
import os
from pathlib import Path

from tests.support.other_namespaces import as_root, in_child
from tools.support.clock import MovableClock
from uwsgi_headroom.kernel.cgroups import LONGEST_SECONDS, Mounts


def test_the_list() -> None:
    """The list is that of the kernel."""
    assert Mounts().read() == Path("/proc/self/mountinfo").read_text()


def test_one_reading_without_changes() -> None:
    """Without a change, the same text is returned for a minute; then it is read again."""
    hands = MovableClock()
    mounts = Mounts(hands.clock.monotonic)
    first = mounts.read()
    assert mounts.read() is first
    hands.move(LONGEST_SECONDS)
    again = mounts.read()
    assert again == first
    assert again is not first


@as_root
def test_a_mount(tmp_path: Path) -> None:
    """A mount is seen at the next reading, and its end; a child in another mount namespace has a list of its own."""
    mounts = Mounts()
    before = mounts.read()
    libc = ctypes.CDLL(None)

    def mount_and_read() -> list[bool]:
        libc.unshare(0x00020000)  # CLONE_NEWNS
        libc.mount(b"none", b"/", None, 0x44000, None)  # MS_REC | MS_PRIVATE
        found = [str(tmp_path) in mounts.read()]
        libc.mount(b"none", os.fsencode(tmp_path), b"tmpfs", 0, None)
        found.append(str(tmp_path) in mounts.read())
        libc.umount(os.fsencode(tmp_path))
        return [*found, str(tmp_path) in mounts.read()]

    assert in_child(mount_and_read) == [False, True, False]
    assert mounts.read() == before
