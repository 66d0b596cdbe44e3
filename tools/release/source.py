"""Exports the last commit into a directory of its own, from which everything of a release is built.

`python3 -m tools.release.source` prints the version.
"""

import contextlib
import gzip
import hashlib
import os
import re
import shutil
import subprocess
import tarfile
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tools.commands import show_step
from tools.environments import ROOT, Environment, SetupError

MODULE = "exporter/uwsgi_headroom/__init__.py"
_VERSION = re.compile(r'^__version__ = "([^"]+)"$', re.MULTILINE)


@dataclass(frozen=True)
class Source:
    """The files of a commit, without anything else that lies in the checkout. root: the directory with the files;
    epoch: the time of the commit, which every file in a release has; scratch: for intermediate files, removed in the
    end."""

    root: Path
    epoch: int
    commit: str
    scratch: Path

    @property
    def version(self) -> str:
        return version_of((self.root / MODULE).read_text())


def version_of(module: str) -> str:
    found = _VERSION.search(module)
    if not found:
        raise SetupError(f"{MODULE} has no line: __version__ = ...")
    return found[1]


def changed_files(checkout: Path) -> list[str]:
    """The files that differ from the last commit, or are unknown to git: they are not in a release."""
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
        source = Source(root, int(epoch), commit, scratch)
        sign(source)
        yield source


def publisher() -> tuple[str, str]:
    """Who publishes a release, `NAME <MAIL>`, and the address of the repository, from the variable PUBLISHER."""
    said = os.environ.get("PUBLISHER", "uwsgi-headroom <root@localhost>")
    found = re.fullmatch(r"([^<>\n]+ <[^<>\s]+@[^<>\s]+>)(?: (https://\S+?)/?)?", said)
    if not found:
        raise SetupError(f"PUBLISHER is not NAME <MAIL> https://ADDRESS-OF-THE-REPOSITORY, but {said}")
    return found[1], found[2] or ""


def sign(source: Source) -> None:
    """Writes the publisher's addresses into an exported commit, if there is one of the repository."""
    name, url = publisher()
    mail, tag = name.partition("<")[2].rstrip(">"), f"v{source.version}"
    for file, pattern, text in (
        ("SECURITY.md", r"`SECURITY-CONTACT`(.*?) \([^)]*\)", rf"{mail}\1"),
        ("README.md", r"(!\[[^]]*\]\()(?!https:)", rf"\1{url}/raw/{tag}/"),
        ("README.md", r"(\]\()(?!https:|#)", rf"\1{url}/blob/{tag}/"),
        ("setup.cfg", r"(?m)^(name = [^\n]*)$", rf"\1\nurl = {url}"),
        ("deploy/kubernetes/uwsgi-headroom/Chart.yaml", r"(?m)^(type: [^\n]*)$", rf"\1\nhome: {url}\nsources: [{url}]"),
        ("deploy/debian/debian/control", r"(?m)^(Standards-Version: [^\n]*)$", rf"\1\nHomepage: {url}"),
    ):
        if url:
            path = source.root / file
            path.write_text(re.sub(pattern, text, path.read_text(), flags=re.DOTALL))


def _git(checkout: Path, *arguments: str) -> str:
    ran = subprocess.run(["git", *arguments], cwd=checkout, capture_output=True, text=True, check=False)
    if ran.returncode:
        raise SetupError(f"git {arguments[0]}: {ran.stderr.strip()}")
    return ran.stdout


def write_tar_gz(directory: Path, prefix: str, epoch: int, target: Path) -> None:
    """Writes the files below `directory` as `prefix`/..., each with the time `epoch`. Permissions become 0755 for
    directories and for files that somebody may execute, else 0644."""
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


REQUIREMENTS = Path(__file__).with_name("requirements.txt")


def release_tools() -> Environment:
    environment = Environment(ROOT / ".venv-release")
    environment.ensure()
    of = hashlib.sha256(REQUIREMENTS.read_bytes()).hexdigest()
    if not environment.holds("release", of):
        with show_step("installing the tools of a release"):
            environment.install("release", of, ["--requirement", str(REQUIREMENTS)], cwd=ROOT)
    return environment


if __name__ == "__main__":
    print(version_of((ROOT / MODULE).read_text()))
