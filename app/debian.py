"""Prometheus, Alertmanager and their tools: those of the machine, or Debian's, unpacked beside the project.

A package is unpacked and not installed: that needs no root, and starts no service on the machine. Upstream's programs
are as good, where they are on PATH. Programs are called by upstream's names here.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterable
from pathlib import Path

from app import commands
from app.commands import CommandError
from app.environments import SetupError
from app.progress import step

PACKAGES = {
    "prometheus": "prometheus",
    "promtool": "prometheus",
    "alertmanager": "prometheus-alertmanager",
    "amtool": "prometheus-alertmanager",
}
"""The package that a program is in."""

_DEBIANS_NAMES = {"alertmanager": "prometheus-alertmanager"}

# A mirror that does not answer is given up in seconds.
_APT = (
    "apt-get",
    "-qq",
    "-o",
    "Acquire::Retries=0",
    "-o",
    "Acquire::http::Timeout=5",
    "-o",
    "Acquire::https::Timeout=5",
)


def find(program: str, directory: Path) -> Path | None:
    """Where the program is: on PATH, or else in `directory`."""
    return _find(program, [*os.environ.get("PATH", os.defpath).split(os.pathsep), str(directory)])


def missing(directory: Path, programs: Iterable[str] = tuple(PACKAGES)) -> list[str]:
    """The programs that are neither on PATH nor in `directory`."""
    return [program for program in programs if not find(program, directory)]


def advice(programs: Iterable[str]) -> str:
    """What to type on Debian and Ubuntu to have them."""
    packages = dict.fromkeys(PACKAGES[program] for program in programs)
    return f"apt-get install --no-install-recommends {' '.join(packages)}"


def ensure(directory: Path, programs: Iterable[str] = tuple(PACKAGES)) -> None:
    """Put those that are missing into `directory`. Raises `SetupError` where apt cannot have them."""
    lacking = missing(directory, programs)
    try:
        for package in dict.fromkeys(PACKAGES[program] for program in lacking):
            with step(f"unpacking Debian's {package}"):
                _unpack(package, [it for it in lacking if PACKAGES[it] == package], directory)
    except (CommandError, OSError) as error:
        reason = error.last_line if isinstance(error, CommandError) else str(error)
        lacking = missing(directory, lacking)
        raise SetupError(
            f"this machine lacks {', '.join(lacking)}, and cannot unpack Debian's: {reason}\n"
            f"On Debian and Ubuntu: {advice(lacking)}\n"
            "Elsewhere: put the programs from https://prometheus.io/download/ on PATH"
        ) from error


def _unpack(package: str, programs: Iterable[str], directory: Path) -> None:
    with tempfile.TemporaryDirectory() as name:
        temporary = Path(name)
        _download(package, temporary)
        for archive in temporary.glob("*.deb"):
            commands.run(["dpkg-deb", "--extract", archive, temporary])
        for program in programs:
            unpacked = _find(program, [str(temporary / "usr" / "bin")])
            if unpacked is None:
                raise OSError(f"{program} is not in the package {package}")
            commands.run([unpacked, "--version"])  # it may be in want of a library
            shutil.copy2(unpacked, directory / unpacked.name)


def _download(package: str, into: Path) -> None:
    try:
        commands.run([*_APT, "download", package], cwd=into)
    except CommandError:
        if os.geteuid() != 0:
            raise
        commands.run([*_APT, "update"])  # a fresh container has no lists of packages
        commands.run([*_APT, "download", package], cwd=into)


def _find(program: str, directories: Iterable[str]) -> Path | None:
    path = os.pathsep.join(directory for directory in directories if directory)
    names = (program, _DEBIANS_NAMES.get(program, program))
    return next((Path(place) for name in names if (place := shutil.which(name, path=path))), None)
