"""Writes tar archives whose bytes depend on the contents alone: sorted names, one time, no users."""

from __future__ import annotations

import gzip
import tarfile
from pathlib import Path


def write_tar_gz(directory: Path, prefix: str, epoch: int, target: Path) -> None:
    """Writes the files below `directory` as `prefix`/..., each with the time `epoch`.

    Permissions become 0755 for directories and for files that somebody may execute, else 0644.
    """
    with (
        target.open("wb") as out,
        gzip.GzipFile("", "wb", 9, out, epoch) as packed,
        tarfile.open(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT) as tar,
    ):
        for path in sorted(directory.rglob("*")):
            member = tar.gettarinfo(path, f"{prefix}/{path.relative_to(directory)}")
            member.mtime, member.uid, member.gid, member.uname, member.gname = epoch, 0, 0, "", ""
            member.mode = 0o755 if member.isdir() or member.mode & 0o111 else 0o644
            if member.isfile():
                with path.open("rb") as content:
                    tar.addfile(member, content)
            else:
                tar.addfile(member)


def extract(archive: Path, directory: Path) -> None:
    """Extracts an archive of our own. Python 3.11.2, of Debian 12, has no filters."""
    with tarfile.open(archive) as tar:
        if hasattr(tarfile, "tar_filter"):
            tar.extractall(directory, filter="tar")
        else:
            tar.extractall(directory)


def rewrite_tar_gz(archive: Path, epoch: int, scratch: Path) -> None:
    """Writes an archive of one top directory anew, so that its bytes depend on the contents alone."""
    extract(archive, scratch)
    (top,) = scratch.iterdir()
    write_tar_gz(top, top.name, epoch, archive)
