"""Prometheus, Alertmanager and their tools: those of the machine, or Debian's, unpacked beside the project.

A package is unpacked and not installed: that needs no root, and starts no service on the machine. Upstream's programs
are as good, where they are on PATH. Programs are called by upstream's names here.

    .venv/bin/PROGRAM         a wrapper that opens the data of the packages as descriptor 9 and runs the program
    .venv/libexec/PROGRAM     the program, which reads its data through that descriptor
    .venv/share/prometheus    the data: templates, without which Alertmanager does not start, and pages

Debian's programs have the place of their data compiled in, /usr/share/prometheus. In the unpacked programs an equally
long path stands in its place, which leads wherever the descriptor does. A program is put there only after it was
proved to work, and the wrapper last: one that is there works.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterable
from pathlib import Path

from app.programs import ProgramError
from tools import commands
from tools.commands import CommandError
from tools.environments import SetupError
from tools.program_proof import prove
from tools.progress import show_step

PACKAGES = {
    "prometheus": ("prometheus",),
    "promtool": ("prometheus", "promtool"),  # since Debian 13 in a package of its own
    "alertmanager": ("prometheus-alertmanager",),
    "amtool": ("prometheus-alertmanager",),
}
"""The packages that a program may be in; to install the first is enough."""

_DEBIANS_NAMES = {"alertmanager": "prometheus-alertmanager"}

_DATA = "usr/share/prometheus"
_COMPILED_IN = f"/{_DATA}".encode()
_DESCRIPTOR = b"/proc/self/fd/9".ljust(len(_COMPILED_IN), b"/")

WRAPPER = """\
#!/bin/sh
# Runs Debian's program, unpacked. It reads its data through descriptor 9: see tools/debian.py.
here="${0%/*}/.."
exec 9<"$here/share/prometheus" || exit
exec "$here/libexec/${0##*/}" "$@"
"""

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


def find_program(program: str, directory: Path) -> Path | None:
    """Where the program is: on PATH, or else in `directory`, where only what `ensure_programs` has put there counts."""
    for folder in [*os.environ.get("PATH", os.defpath).split(os.pathsep), str(directory)]:
        path = _find(program, folder)
        if path and (path.parent.resolve() != directory.resolve() or _is_wrapper(path)):
            return path
    return None


def missing_programs(directory: Path, programs: Iterable[str] = tuple(PACKAGES)) -> list[str]:
    """The programs that are neither on PATH nor in `directory`."""
    return [program for program in programs if not find_program(program, directory)]


def install_advice(programs: Iterable[str]) -> str:
    """What to type on Debian and Ubuntu to have them."""
    packages = dict.fromkeys(PACKAGES[program][0] for program in programs)
    return f"apt-get install --no-install-recommends {' '.join(packages)}"


def ensure_programs(directory: Path, programs: Iterable[str] = tuple(PACKAGES)) -> None:
    """Put those that are missing into `directory`. Raises `SetupError` where apt cannot have them, or where Debian's
    do not work here.
    """
    lacking = missing_programs(directory, programs)
    try:
        for package in dict.fromkeys(package for program in lacking for package in PACKAGES[program]):
            wanted = [program for program in missing_programs(directory, lacking) if package in PACKAGES[program]]
            if wanted:
                with show_step(f"unpacking Debian's {package}"):
                    _unpack(package, wanted, directory)
        lacking = missing_programs(directory, lacking)
        if lacking:
            raise OSError(f"{lacking[0]} is not in the package {PACKAGES[lacking[0]][-1]}")
    except (CommandError, ProgramError, OSError) as error:
        reason = error.last_line if isinstance(error, CommandError) else str(error)
        lacking = missing_programs(directory, lacking)
        raise SetupError(
            f"this machine lacks {', '.join(lacking)}, and cannot unpack Debian's: {reason}\n"
            f"On Debian and Ubuntu: {install_advice(lacking)}\n"
            "Elsewhere: put the programs from https://prometheus.io/download/ on PATH"
        ) from error


def _unpack(package: str, programs: Iterable[str], directory: Path) -> None:
    """Put the programs that are in the package into `directory`, once each has proved to work."""
    with tempfile.TemporaryDirectory() as name:
        temporary = Path(name)
        _download(package, temporary)
        for archive in temporary.glob("*.deb"):
            commands.run_command(["dpkg-deb", "--extract", archive, temporary])
        data, tried = temporary / _DATA, temporary / "tried"
        (tried / "share" / "prometheus").mkdir(parents=True)
        if data.is_dir():
            _merge(data, tried / "share" / "prometheus")
        for program in programs:
            unpacked = _find(program, str(temporary / "usr" / "bin"))
            if unpacked:
                _wrap(unpacked, tried / "bin")
                prove(program, tried / "bin" / unpacked.name)
                _merge(tried, directory.parent)


def _wrap(program: Path, directory: Path) -> None:
    """Put a copy that reads its data through the descriptor beside `directory`, and its wrapper into it."""
    place = directory.parent / "libexec" / program.name
    for folder in (directory, place.parent):
        folder.mkdir(exist_ok=True)
    place.write_bytes(program.read_bytes().replace(_COMPILED_IN, _DESCRIPTOR))
    wrapper = directory / program.name
    wrapper.write_text(WRAPPER)
    for each in (place, wrapper):
        each.chmod(0o755)


def _merge(source: Path, target: Path) -> None:
    """Copy the files of a directory into another; those of bin/ last, and programs that run now are replaced."""
    files = [file for file in source.rglob("*") if file.is_file() or file.is_symlink()]
    for file in sorted(files, key=lambda file: file.parent.name == "bin"):
        place = target / file.relative_to(source)
        place.parent.mkdir(parents=True, exist_ok=True)
        new = place.with_name(f"{place.name}.new")
        new.unlink(missing_ok=True)
        shutil.copy2(file, new, follow_symlinks=False)
        new.replace(place)


def _is_wrapper(program: Path) -> bool:
    """Whether `ensure_programs` has put it there, as it is now: earlier ones were not proved."""
    with program.open("rb") as file:
        return file.read(len(WRAPPER) + 1) == WRAPPER.encode()


def _download(package: str, into: Path) -> None:
    try:
        commands.run_command([*_APT, "download", package], cwd=into)
    except CommandError:
        if os.geteuid() != 0:
            raise
        commands.run_command([*_APT, "update"])  # a fresh container has no lists of packages
        commands.run_command([*_APT, "download", package], cwd=into)


def _find(program: str, folder: str) -> Path | None:
    names = (program, _DEBIANS_NAMES.get(program, program))
    return next((Path(place) for name in names if folder and (place := shutil.which(name, path=folder))), None)
