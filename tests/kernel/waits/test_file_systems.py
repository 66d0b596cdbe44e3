"""File systems that a program or another host serves."""

import os
import threading
from collections.abc import Callable

import pytest

from uwsgi_headroom.kernel.aside import NotYetError
from uwsgi_headroom.kernel.waits.file_systems import FileServers, find_kind, list_mounts

MOUNTS = [("NFS", "/srv"), ("FUSE", "/srv/media"), ("NFS", "/home")]


class Asks:
    def __init__(self, mounts: list[tuple[str, str]] | None) -> None:
        self.mounts = mounts

    def ask(self, question: Callable[..., object], *_: object) -> object:
        assert question is list_mounts
        if self.mounts is None:
            raise NotYetError
        return self.mounts


@pytest.mark.parametrize(
    ("kind", "path", "expected"),
    [
        ("FUSE", "", ("FUSE", "/srv/media")),
        ("NFS", "", ("NFS", "")),  # of two
        ("NFS", "/home/a", ("NFS", "/home")),
        ("", "/srv/media/logo", ("FUSE", "/srv/media")),  # the nearest one
        ("", "/srv/mediator", ("NFS", "/srv")),
        ("", "/var/log/a", ("", "")),
        ("", "", ("", "")),  # as of a page fault  # a disk of this host
    ],
)
def test_the_mount_is_named(kind, path, expected):
    """By the kernel's function, if only one mount is of that kind; by the path of the file, where it is known."""
    assert FileServers(Asks(MOUNTS)).find(1, kind, path) == expected
    assert FileServers(Asks(None)).find(1, kind, path) == (kind, "")


def test_this_process():
    """Mounts can be listed, without those of local disks; a thread that runs waits for none."""
    assert all(each[0] in ("FUSE", "NFS", "CIFS", "9P", "Ceph") for each in list_mounts(os.getpid()))
    assert find_kind(os.getpid(), threading.get_native_id()) == ""
    with pytest.raises(OSError, match="No such"):
        list_mounts(1 << 22)
