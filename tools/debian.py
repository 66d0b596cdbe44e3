"""Finds Prometheus, Alertmanager and their tools on PATH, or unpacks Debian's packages, which needs no root.

    .venv/bin/PROGRAM         a wrapper that opens the data of the packages as descriptor 9 and runs the program
    .venv/libexec/PROGRAM     the program, which reads its data through that descriptor
    .venv/share/prometheus    the data: templates, which Alertmanager needs to start, and web pages

Debian's programs contain the path of their data, /usr/share/prometheus; the unpacked copies one of the same length
through descriptor 9. A program is put in place after a test run, its wrapper last: so every wrapper in place works.
This module uses upstream's names of the programs.
"""

import json
import os
import shutil
import tempfile
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

from app import monitoring
from app.loopback import free_port
from app.programs import Program, ProgramError, running
from tools import commands
from tools.commands import CommandError, show_step
from tools.environments import SetupError

PACKAGES = {
    "prometheus": ("prometheus",),
    "promtool": ("prometheus", "promtool"),  # a separate package since Debian 13
    "alertmanager": ("prometheus-alertmanager",),
    "amtool": ("prometheus-alertmanager",),
}
"""The packages that may contain a program; installing the first is enough."""

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

# apt gives up within seconds on a mirror that does not answer.
_APT = ("apt-get", "-qq", *(f"-oAcquire::{each}" for each in ("Retries=0", "http::Timeout=5", "https::Timeout=5")))


def find_program(program: str, directory: Path) -> Path | None:
    """The program's path: on PATH, else in `directory`."""
    return _find(program, os.pathsep.join([os.environ.get("PATH", os.defpath), str(directory)]))


def missing_programs(directory: Path, programs: Iterable[str] = tuple(PACKAGES)) -> list[str]:
    return [program for program in programs if not find_program(program, directory)]


def install_advice(programs: Iterable[str]) -> str:
    packages = dict.fromkeys(PACKAGES[program][0] for program in programs)
    return f"apt-get install --no-install-recommends {' '.join(packages)}"


def ensure_programs(directory: Path, programs: Iterable[str] = tuple(PACKAGES)) -> None:
    """Puts missing programs into `directory`. Raises `SetupError` if Debian's cannot be downloaded, or do not work."""
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


def unpack(packages: Iterable[str], directory: Path) -> None:
    """Unpacks packages into a directory that exists. Raises `CommandError` if apt cannot download one."""
    with tempfile.TemporaryDirectory() as name:
        for package in packages:
            _download(package, Path(name))
        for archive in Path(name).glob("*.deb"):
            commands.run_command(["dpkg-deb", "--extract", archive, directory])


def _unpack(package: str, programs: Iterable[str], directory: Path) -> None:
    """Puts those of `programs` that the package contains into `directory`, each after a successful test run."""
    with tempfile.TemporaryDirectory() as name:
        temporary = Path(name)
        unpack([package], temporary)
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
    """Writes a patched copy of the program, which reads its data through the descriptor, and its wrapper."""
    place = directory.parent / "libexec" / program.name
    for folder in (directory, place.parent):
        folder.mkdir(exist_ok=True)
    place.write_bytes(program.read_bytes().replace(_COMPILED_IN, _DESCRIPTOR))
    wrapper = directory / program.name
    wrapper.write_text(WRAPPER)
    for file in (place, wrapper):
        file.chmod(0o755)


def _merge(source: Path, target: Path) -> None:
    """Copies the files of a directory into another, those of bin/ last; replaces programs even while they run."""
    files = [file for file in source.rglob("*") if file.is_file() or file.is_symlink()]
    for file in sorted(files, key=lambda file: file.parent.name == "bin"):
        place = target / file.relative_to(source)
        place.parent.mkdir(parents=True, exist_ok=True)
        new = place.with_name(f"{place.name}.new")
        new.unlink(missing_ok=True)
        shutil.copy2(file, new, follow_symlinks=False)
        new.replace(place)


def _download(package: str, into: Path) -> None:
    try:
        commands.run_command([*_APT, "download", package], cwd=into)
    except CommandError:
        if os.geteuid() != 0:
            raise
        commands.run_command([*_APT, "update"])  # a fresh container has no package lists
        commands.run_command([*_APT, "download", package], cwd=into)


def _find(program: str, path: str) -> Path | None:
    names = (program, _DEBIANS_NAMES.get(program, program))
    return next((Path(place) for name in names if (place := shutil.which(name, path=path))), None)


def prove(name: str, program: Path) -> None:
    """Starts a server, or gives a tool a file to check: a program may lack a file that it reads only at its start.
    Raises `CommandError`, `ProgramError` or `OSError` if it does not work. name: upstream's name of it."""
    with tempfile.TemporaryDirectory(prefix="headroom-") as name_of_directory:
        directory = Path(name_of_directory)
        checked = directory / "checked.yml"
        if name == "promtool":
            checked.write_text(json.dumps({"groups": []}))
            commands.run_command([program, "check", "rules", checked])
        elif name == "amtool":
            checked.write_text(json.dumps(monitoring.NOBODY))
            commands.run_command([program, "check-config", checked])
        elif name == "prometheus":
            _start(monitoring.prometheus(program, free_port(), directory, targets=[]), directory)
        else:
            _start(monitoring.alertmanager(program, free_port(), directory, monitoring.NOBODY), directory)


def _start(program: Program, directory: Path) -> None:
    with running([replace(program, sentence="")], directory, cwd=directory):
        pass
