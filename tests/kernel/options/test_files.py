"""Files are read as another process sees them, and nothing that stands there instead of a file does harm."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.kernel.options.trees import PID, make_tree
from uwsgi_headroom.kernel.options.files import MasterFiles


@pytest.fixture
def files(tmp_path: Path) -> MasterFiles:
    """Of a process whose root directory holds one file, and beside the root directory another."""
    proc = make_tree(tmp_path, "uwsgi", files={"/etc/app.ini": "inside"})
    (tmp_path / "outside").write_text("outside")
    return MasterFiles(PID, proc=proc)


@pytest.mark.parametrize("name", ["/etc/app.ini", "../etc/app.ini", "/etc/./..//etc/app.ini", "/../../etc/app.ini"])
def test_names(name: str, files: MasterFiles) -> None:
    """A name is of the process's root and working directories, and nothing is above its root."""
    assert files.read(name) == "inside"


@pytest.mark.parametrize("target", ["/etc/app.ini", "../etc/app.ini", "../../../../etc/app.ini"])
def test_links_stay_within_the_root_directory(target: str, files: MasterFiles, tmp_path: Path) -> None:
    """A link leads where it leads for the process."""
    (tmp_path / "root/srv/link.ini").symlink_to(target)
    assert files.read("link.ini") == "inside"


def test_a_link_to_the_outside_leads_nowhere(files: MasterFiles, tmp_path: Path) -> None:
    """A file of this machine cannot be had through a link in a container."""
    for number, target in enumerate((str(tmp_path / "outside"), "../../outside", "/../outside")):
        (tmp_path / f"root/srv/{number}.ini").symlink_to(target)
        with pytest.raises(OSError, match="outside"):
            files.read(f"{number}.ini")


def test_a_link_to_itself(files: MasterFiles, tmp_path: Path) -> None:
    """Links in a circle are followed so far and no further."""
    (tmp_path / "root/srv/link.ini").symlink_to("link.ini")
    with pytest.raises(OSError, match="too many links"):
        files.read("link.ini")


def test_no_ordinary_file(files: MasterFiles, tmp_path: Path) -> None:
    """A FIFO is not waited for, and a directory is no file."""
    os.mkfifo(tmp_path / "root/srv/fifo.ini")
    for name in ("fifo.ini", "/etc"):
        with pytest.raises(OSError, match="not an ordinary file"):
            files.read(name)


def test_an_impossible_name(files: MasterFiles) -> None:
    """A NUL in a name is an error that can be caught."""
    with pytest.raises(ValueError, match="null"):
        files.read("a\0b")
