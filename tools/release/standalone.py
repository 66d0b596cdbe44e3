"""`make standalone`: builds one file that has its own Python, for hosts with an old one or none.

Needs root. PyInstaller packs a CPython that is built on an old Debian, as a program runs on the glibc that it was built
on and on every newer one. The root with that CPython is made once and kept.
"""

import os
import platform
import shutil
import sys
from pathlib import Path

from tools import debian_root
from tools.commands import note, show_step
from tools.debian_root import machine
from tools.environments import ROOT
from tools.release.__main__ import SUMS, add_checksum
from tools.release.bundle import LOCK
from tools.release.distributions import build_distributions
from tools.release.source import Source, exported, release_tools

SUITE = "bullseye"
"""The oldest Debian of the archive: glibc 2.31."""

PYTHON = ("trixie", "python3.13")
"""The suite whose source package is built, and the package."""

_FOLDER = Path("deploy/standalone")


def file_name(version: str) -> str:
    """The name of the program in a release: it runs on this kind of machine."""
    return f"uwsgi-headroom-{version}-linux-{platform.machine()}"


def main() -> int:
    return debian_root.run_check("standalone", _build_into_dist)


def _build_into_dist() -> None:
    root = _prepared(debian_root.cache())
    target = ROOT / "dist"
    target.mkdir(exist_ok=True)
    with exported(ROOT) as source:
        made = _build(source, root, target)
    add_checksum(target / SUMS, made)
    note(f"dist/{made.name}: {made.stat().st_size / 1e6:.1f} MB")


def _prepared(directory: Path) -> Path:
    root = directory / f"{SUITE}-{PYTHON[1]}"
    if root.exists():
        return root
    with debian_root.copied(SUITE, directory) as copy:
        url, components = debian_root.archive(debian_root.targets(), PYTHON[0])
        line = f"deb-src {url} {PYTHON[0]} {' '.join(components)}\n"
        (copy / "etc/apt/sources.list.d/source.list").write_text(line)
        shutil.copy(ROOT / _FOLDER / "build-python", copy / "srv/build-python")
        with machine(copy) as old, show_step(f"building {PYTHON[1]} on {SUITE} (some minutes)"):
            old.run("/srv/build-python", PYTHON[1])
        copy.rename(root)
    return root


def _build(source: Source, root: Path, target: Path) -> Path:
    folder = root / "srv/standalone"
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(source.root / _FOLDER, folder)
    shutil.copyfile(source.root / LOCK, folder / "requirements.txt")
    with show_step(f"wheel of {source.version}"):
        build_distributions(source, release_tools(), source.scratch)
    (wheel,) = source.scratch.glob("*.whl")
    shutil.copyfile(wheel, folder / wheel.name)
    with machine(root) as old, show_step(f"one file, on {SUITE}"):
        old.run("env", "--chdir=/srv/standalone", "./build", str(source.epoch))
    made = target / file_name(source.version)
    shutil.copyfile(folder / "dist/uwsgi-headroom", made)
    made.chmod(0o755)
    os.utime(made, (source.epoch, source.epoch))
    return made


if __name__ == "__main__":
    sys.exit(main())
