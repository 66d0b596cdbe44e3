"""Exports the last commit into a directory of its own, from which everything of a release is built.

`python3 -m tools.release.source` prints the version.
"""

from __future__ import annotations

import contextlib
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tools.environments import ROOT, SetupError
from tools.release.archives import extract

MODULE = "exporter/uwsgi_headroom/__init__.py"
_VERSION = re.compile(r'^__version__ = "([^"]+)"$', re.MULTILINE)


@dataclass(frozen=True)
class Source:
    """The files of a commit, without anything else that lies in the checkout.

    root: the directory with the files; epoch: the time of the commit in seconds since 1970, which every file in a
    release has as its time; commit: its hash; scratch: a directory for intermediate files, removed in the end.
    """

    root: Path
    epoch: int
    commit: str
    scratch: Path

    @property
    def version(self) -> str:
        """`__version__` of the exporter."""
        return version_of((self.root / MODULE).read_text())


def version_of(module: str) -> str:
    """Returns `__version__` of a module's text. Raises `SetupError` if there is none."""
    found = _VERSION.search(module)
    if not found:
        raise SetupError(f"{MODULE} has no line: __version__ = ...")
    return found[1]


def changed_files(checkout: Path) -> list[str]:
    """Returns the files that differ from the last commit, or are unknown to git: they are not in a release."""
    return _git(checkout, "status", "--porcelain").splitlines()


@contextlib.contextmanager
def exported(checkout: Path) -> Iterator[Source]:
    """Yields the last commit of `checkout`. Raises `SetupError` outside a clone."""
    if not shutil.which("git"):
        raise SetupError("a release is built from a commit: git is missing")
    commit, epoch = _git(checkout, "log", "-1", "--format=%H %ct").split()
    with tempfile.TemporaryDirectory(prefix="headroom-release-") as name:
        scratch = Path(name)
        archive = scratch / "source.tar"
        # Fixed permissions, whatever the umask and the checkout's own.
        _git(checkout, "-c", "tar.umask=0022", "archive", "--format=tar", f"--output={archive}", "HEAD")
        root = scratch / "source"
        extract(archive, root)
        archive.unlink()
        yield Source(root, int(epoch), commit, scratch)


def _git(checkout: Path, *arguments: str) -> str:
    ran = subprocess.run(["git", *arguments], cwd=checkout, capture_output=True, text=True, check=False)
    if ran.returncode:
        raise SetupError(f"git {arguments[0]}: {ran.stderr.strip()}")
    return ran.stdout


if __name__ == "__main__":
    print(version_of((ROOT / MODULE).read_text()))
