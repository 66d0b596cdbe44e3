"""Creates the virtual environments of a checkout, and recreates those that no longer fit.

    .venv         the project, installed as editable, with the requested extras; and the pyuwsgi wheel
    .venv-uwsgi   uWSGI built from source, with Flask, and gevent for the tests: both install a program named uwsgi

`make demo` prefers the wheel, which installs in seconds and needs no compiler; `make test` the build, which most people
run. Each falls back to the other. A stamp file in an environment records what is installed, so that a second run is
fast. This module needs only Python's standard library.
"""

import configparser
import hashlib
import importlib.util
import os
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tools import commands
from tools.commands import CommandError, note, show_step

ROOT = Path(__file__).resolve().parent.parent
PYTHON = f"Python {sys.version_info.major}.{sys.version_info.minor}"

BUILD_PACKAGES = "gcc python3-dev libcrypt-dev"
"""What building uWSGI needs on Debian and Ubuntu. Up to Debian 13 the compiler brings libcrypt, which uWSGI links."""


class SetupError(Exception):
    """Something is missing on this machine; the message says what, and how to install it."""


@dataclass(frozen=True)
class Environment:
    path: Path

    def program(self, name: str) -> Path:
        return self.path / "bin" / name

    def fits(self) -> bool:
        """Whether its Python runs, has this Python's version, and has pip: an upgrade of Python breaks environments.
        A moved one does not fit: its programs contain the old path."""
        place = self._stamp("place")
        if place.is_file() and place.read_text() != str(self.path):
            return False
        question = "import pip, sys; print(*sys.version_info[:2], sep='.')"
        command = [str(self.program("python")), "-c", question]
        try:
            answer = subprocess.run(command, capture_output=True, text=True, check=False)
        except OSError:
            return False
        return f"Python {answer.stdout.strip()}" == PYTHON

    def ensure(self) -> None:
        if self.fits():
            return
        refuse_without_venv()
        with show_step(f"{'recreating' if self.path.exists() else 'creating'} {self.path.name} with {PYTHON}"):
            if self.path.is_symlink():  # `--clear` would empty the environment of another checkout
                self.path.unlink()
            commands.run_command([sys.executable, "-m", "venv", "--clear", self.path])
            self._stamp("place").write_text(str(self.path))

    def holds(self, what: str, of: str) -> bool:
        """Whether `what` was installed completely, in the version identified by `of`."""
        stamp = self._stamp(what)
        return stamp.is_file() and stamp.read_text() == of

    def install(self, what: str, of: str, arguments: Sequence[str], cwd: Path) -> None:
        """Runs pip with `arguments` and writes the stamp. Raises `CommandError` with the end of pip's output."""
        pip = [str(self.program("python")), "-m", "pip", "--disable-pip-version-check"]
        commands.run_command([*pip, "install", *arguments], cwd=cwd)
        self._stamp(what).write_text(of)

    def _stamp(self, what: str) -> Path:
        return self.path / f"holds-{what}"


def refuse_without_venv() -> None:
    """Raises `SetupError` if this Python cannot create virtual environments; Debian's lacks a package for that."""
    missing = [name for name in ("venv", "ensurepip") if importlib.util.find_spec(name) is None]
    if missing:
        raise SetupError(
            f"{sys.executable} ({PYTHON}) cannot make a virtual environment: it has no module {missing[0]}.\n"
            "On Debian and Ubuntu: apt-get install python3-venv"
        )


def cannot_build() -> str | None:
    """The reason why uWSGI cannot be compiled for this Python on this machine, or None if it can."""
    compiler = os.environ.get("CC", "gcc").split()[0]
    header = Path(sysconfig.get_paths()["include"]) / "Python.h"
    found = shutil.which(compiler)
    missing = [] if found else [f"a C compiler ({compiler})"]
    missing += [] if header.is_file() else [f"the headers of {PYTHON} ({header})"]
    missing += ["libcrypt to link with"] if found and not _links(found, "-lcrypt") else []
    return "this machine lacks " + " and ".join(missing) if missing else None


def _links(compiler: str, option: str) -> bool:
    with tempfile.TemporaryDirectory(prefix="headroom-") as directory:
        command = [compiler, "-x", "c", "-", option, "-o", f"{directory}/program"]
        program = b"int main(void) { return 0; }"
        return not subprocess.run(command, input=program, capture_output=True, check=False).returncode


def project(extras: str, root: Path = ROOT) -> Environment:
    environment = Environment(root / ".venv")
    environment.ensure()
    of = hashlib.sha256((root / "setup.cfg").read_bytes()).hexdigest()
    if not environment.holds(extras, of):
        with show_step(f"installing uwsgi-headroom with {extras.replace(',', ', ')}"):
            environment.install(extras, of, ["--editable", f".[{extras}]"], cwd=root)
    return environment


def built_uwsgi(root: Path = ROOT) -> Path:
    environment, of = Environment(root / ".venv-uwsgi"), PYTHON
    if not (environment.fits() and environment.holds("uwsgi", of)):
        reason = cannot_build()
        if reason:
            raise SetupError(
                f"uWSGI cannot be built: {reason}.\nOn Debian and Ubuntu: apt-get install {BUILD_PACKAGES}"
            )
        environment.ensure()
        with show_step("building uWSGI from source (a minute or two)"):
            # Not from pip's cache, which may hold a build linked to another Python of the same version.
            environment.install("uwsgi", of, ["--no-cache-dir", "uwsgi", *_needs_of_demo(root)], cwd=root)
    return environment.program("uwsgi")


def _add_gevent(environment: Environment, root: Path) -> None:
    if environment.holds("gevent", PYTHON):
        return
    try:
        with show_step("installing gevent beside uWSGI"):
            environment.install("gevent", PYTHON, ["--only-binary", ":all:", "gevent"], cwd=root)
    except CommandError as error:
        note(f"  {error.last_line}\n  so the scenarios with gevent are skipped")


def wheel_uwsgi(root: Path = ROOT) -> Path:
    environment = Environment(root / ".venv")
    if not environment.holds("pyuwsgi", PYTHON):
        with show_step("installing uWSGI (the pyuwsgi wheel)"):
            environment.install("pyuwsgi", PYTHON, ["--only-binary", ":all:", "pyuwsgi"], cwd=root)
    return environment.program("uwsgi")


def _needs_of_demo(root: Path) -> list[str]:
    setup = configparser.RawConfigParser()
    setup.read(root / "setup.cfg")
    return setup.get("options.extras_require", "demo").split("\n")[1:]


def uwsgi_for_demo(root: Path = ROOT) -> Path:
    """The uWSGI that is available soonest: an earlier build, else the wheel, else a new build."""
    if Environment(root / ".venv-uwsgi").holds("uwsgi", PYTHON):
        return built_uwsgi(root)
    try:
        return wheel_uwsgi(root)
    except CommandError as error:
        note(f"  {error.last_line}\n  so uWSGI is built from source")
    return built_uwsgi(root)


def uwsgi_for_tests(root: Path = ROOT) -> Path:
    """uWSGI built from source, which most people run; if it cannot be built, the wheel."""
    if "UWSGI" in os.environ:
        return Path(os.environ["UWSGI"])
    reason = cannot_build()
    if reason is None:
        uwsgi = built_uwsgi(root)
        _add_gevent(Environment(root / ".venv-uwsgi"), root)
        return uwsgi
    note(f"  {reason}, so the tests run with the pyuwsgi wheel instead of uWSGI built from source")
    note(f"  With it, tests of reloads and of emperors fail. On Debian and Ubuntu: apt-get install {BUILD_PACKAGES}")
    return wheel_uwsgi(root)
