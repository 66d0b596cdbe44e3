"""Unpacks the exporter and everything that it imports into one directory, for several versions of Python at once.

Compiled modules of different versions stand side by side, because their file names contain the version. All other files
are the same for all versions, which is checked. As a program (`make lock`), chooses the versions anew and writes them
with their hashes: deploy/requirements.txt.
"""

import sys
import tempfile
import zipfile
from pathlib import Path

from tools import commands
from tools.commands import CommandError, show_step
from tools.environments import ROOT, Environment, SetupError
from tools.release.source import release_tools

PYTHONS = ("3.11", "3.12", "3.13", "3.14")
"""Debian 12 has 3.11, Ubuntu 24.04 has 3.12, Debian 13 has 3.13, and Ubuntu 26.04 has 3.14."""

MACHINES = {"amd64": "x86_64", "arm64": "aarch64"}
"""The kernel's name of the machine by Debian's name of the architecture."""

GLIBC = 28
"""Minor version of the glibc that the bundle needs at most: Debian 12 has 2.36."""

LOCK = Path("deploy/requirements.txt")
EXTRAS = ("top", "login")
HEADER = (
    f"# The versions that packages bundle: the requirements of setup.cfg with the extras {' and '.join(EXTRAS)}, for "
    f"Python {PYTHONS[0]} and\n# newer. Written by `make lock`: do not edit.\n"
)

_OF_ONE_PYTHON = ("RECORD", "WHEEL")
"""Files of a .dist-info directory that differ between versions of Python. Nothing that runs reads them."""


def platforms(architecture: str) -> list[str]:
    """pip's names of the platforms whose wheels run on `architecture`, newest first. Raises `SetupError` for another
    one."""
    if architecture not in MACHINES:
        raise SetupError(f"no package for {architecture}: choose one of {', '.join(MACHINES)}")
    machine = MACHINES[architecture]
    by_year = {17: "2014", 12: "2010", 5: "1"}
    names: list[str] = []
    for minor in range(GLIBC, 4, -1):
        names.append(f"manylinux_2_{minor}_{machine}")
        names += [f"manylinux{by_year[minor]}_{machine}"] if minor in by_year else []
    return names


def download_wheels(tools: Environment, lock: Path, python: str, architecture: str, target: Path) -> list[Path]:
    pip = [str(tools.program("python")), "-m", "pip", "--disable-pip-version-check", "download", "--no-deps"]
    which = ["--only-binary=:all:", "--require-hashes", "--implementation=cp", f"--python-version={python}"]
    where = [f"--platform={platform}" for platform in platforms(architecture)]
    commands.run_command([*pip, *which, *where, "--dest", str(target), "--requirement", str(lock)])
    return sorted(target.glob("*.whl"))


def unpack_wheel(wheel: Path, tree: Path) -> None:
    """Adds the modules of a wheel to `tree`, without scripts, data files and bytecode. Raises `SetupError` if a file is
    there with other contents."""
    with zipfile.ZipFile(wheel) as archive:
        for name in archive.namelist():
            parts = Path(name).parts
            skipped = parts[0].endswith(".data") or (parts[0].endswith(".dist-info") and parts[-1] in _OF_ONE_PYTHON)
            if name.endswith("/") or skipped:
                continue
            path, content = tree / name, archive.read(name)
            if path.exists() and path.read_bytes() != content:
                raise SetupError(f"{wheel.name}: {name} differs from the file of another version of Python")
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)


def bundle(wheel: Path, lock: Path, tools: Environment, architecture: str, tree: Path) -> None:
    unpack_wheel(wheel, tree)
    for python in PYTHONS:
        with tempfile.TemporaryDirectory(prefix="headroom-wheels-") as downloads:
            for other in download_wheels(tools, lock, python, architecture, Path(downloads)):
                unpack_wheel(other, tree)


def main() -> str | None:
    lowest = tuple(map(int, PYTHONS[0].split(".")))
    if sys.version_info[:2] != lowest:
        return f"make lock: run it with Python {PYTHONS[0]} (PYTHON=python{PYTHONS[0]}), the lowest of the packages"
    try:
        tools = release_tools()
        with tempfile.TemporaryDirectory(prefix="headroom-lock-") as scratch, show_step("choosing versions"):
            made = Path(scratch) / "requirements.txt"
            extras = [f"--extra={extra}" for extra in EXTRAS]
            # Nothing of this machine's index goes into the file.
            silent = ["--no-header", "--no-emit-index-url", "--no-emit-find-links", "--no-emit-trusted-host"]
            pinned = ["--generate-hashes", "--strip-extras", "--quiet", *silent, "--no-emit-options", *extras]
            compile_command = [str(tools.program("pip-compile")), *pinned, "--output-file", str(made), "setup.cfg"]
            commands.run_command(compile_command, cwd=ROOT)
            (ROOT / LOCK).write_text(HEADER + made.read_text())
    except (SetupError, CommandError) as error:
        return f"\nmake lock: {error}"
    return None


if __name__ == "__main__":
    sys.exit(main())
