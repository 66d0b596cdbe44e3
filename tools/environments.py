"""The virtual environments of a checkout: made, filled, and made anew when they no longer fit.

    .venv         the project, installed as editable, with the extras asked for; and the pyuwsgi wheel
    .venv-uwsgi   uWSGI built from source, with Flask. Apart, because both install a program named uwsgi

`make demo` prefers the wheel, which is there in seconds and needs no compiler; `make test` prefers the build,
which is what most people run. Each takes the other where it must. A stamp in an environment says what it was
filled with, so a second run costs a fraction of a second. All of it runs on a bare Python.
"""

from __future__ import annotations

import configparser
import hashlib
import importlib.util
import os
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tools import commands
from tools.commands import CommandError
from tools.progress import note, show_step

ROOT = Path(__file__).resolve().parent.parent
PYTHON = f"Python {sys.version_info.major}.{sys.version_info.minor}"


class SetupError(Exception):
    """Something is missing on this machine; the message says what, and how to get it."""


@dataclass(frozen=True)
class Environment:
    """One virtual environment; it need not exist yet."""

    path: Path

    def program(self, name: str) -> Path:
        return self.path / "bin" / name

    def fits(self) -> bool:
        """Whether its Python runs, is of our version and has pip: an upgraded Python leaves dead ones.

        One that has moved with its checkout does not fit either: its programs name the place they came from.
        """
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
        """Make it, unless it is there and fits."""
        if self.fits():
            return
        refuse_without_venv()
        with show_step(f"making {self.path.name} {'anew ' if self.path.exists() else ''}with {PYTHON}"):
            commands.run_command([sys.executable, "-m", "venv", "--clear", self.path])
            self._stamp("place").write_text(str(self.path))

    def holds(self, what: str, of: str) -> bool:
        """Whether `what` was installed to the end, and in the state that `of` stands for."""
        stamp = self._stamp(what)
        return stamp.is_file() and stamp.read_text() == of

    def install(self, what: str, of: str, arguments: Sequence[str], cwd: Path) -> None:
        """Run pip with `arguments` and remember it. Raises `CommandError` with the end of what pip said."""
        pip = [str(self.program("python")), "-m", "pip", "--disable-pip-version-check"]
        commands.run_command([*pip, "install", *arguments], cwd=cwd)
        self._stamp(what).write_text(of)

    def _stamp(self, what: str) -> Path:
        return self.path / f"holds-{what}"


def refuse_without_venv() -> None:
    """Raise `SetupError` if this Python cannot make virtual environments, as Debian's cannot at first."""
    missing = [name for name in ("venv", "ensurepip") if importlib.util.find_spec(name) is None]
    if missing:
        raise SetupError(
            f"{sys.executable} ({PYTHON}) cannot make a virtual environment: it has no module {missing[0]}.\n"
            "On Debian and Ubuntu: apt-get install python3-venv"
        )


def cannot_build() -> str | None:
    """Why uWSGI cannot be compiled for this Python on this machine, or nothing if it can."""
    compiler = os.environ.get("CC", "gcc").split()[0]
    header = Path(sysconfig.get_paths()["include"]) / "Python.h"
    missing = [] if shutil.which(compiler) else [f"a C compiler ({compiler})"]
    missing += [] if header.is_file() else [f"the headers of {PYTHON} ({header})"]
    return "this machine lacks " + " and ".join(missing) if missing else None


def project(extras: str, root: Path = ROOT) -> Environment:
    """The environment with the project and its `extras`, installed again when setup.cfg has changed."""
    environment = Environment(root / ".venv")
    environment.ensure()
    of = hashlib.sha256((root / "setup.cfg").read_bytes()).hexdigest()
    if not environment.holds(extras, of):
        with show_step(f"installing uwsgi-headroom with {extras.replace(',', ', ')}"):
            environment.install(extras, of, ["--editable", f".[{extras}]"], cwd=root)
    return environment


def built_uwsgi(root: Path = ROOT) -> Path:
    """uWSGI from source. Raises `SetupError` where it cannot be built."""
    environment, of = Environment(root / ".venv-uwsgi"), PYTHON
    if not (environment.fits() and environment.holds("uwsgi", of)):
        reason = cannot_build()
        if reason:
            raise SetupError(f"uWSGI cannot be built: {reason}.\nOn Debian and Ubuntu: apt-get install gcc python3-dev")
        environment.ensure()
        with show_step("building uWSGI from source (a minute or two)"):
            # Not from pip's cache, which may hold a build linked to another Python of the same version.
            environment.install("uwsgi", of, ["--no-cache-dir", "uwsgi", *_needs_of_demo(root)], cwd=root)
    return environment.program("uwsgi")


def wheel_uwsgi(root: Path = ROOT) -> Path:
    """uWSGI from the pyuwsgi wheel, beside the project. Raises `CommandError` where no wheel fits."""
    environment = Environment(root / ".venv")
    if not environment.holds("pyuwsgi", PYTHON):
        with show_step("installing uWSGI (the pyuwsgi wheel)"):
            environment.install("pyuwsgi", PYTHON, ["--only-binary", ":all:", "pyuwsgi"], cwd=root)
    return environment.program("uwsgi")


def _needs_of_demo(root: Path) -> list[str]:
    """What the demo application imports, as the extra `demo` in setup.cfg names it."""
    setup = configparser.RawConfigParser()
    setup.read(root / "setup.cfg")
    return setup.get("options.extras_require", "demo").split("\n")[1:]


def uwsgi_for_demo(root: Path = ROOT) -> Path:
    """The quickest uWSGI to be had: one that was built before, the wheel, or a build."""
    if Environment(root / ".venv-uwsgi").holds("uwsgi", PYTHON):
        return built_uwsgi(root)
    try:
        return wheel_uwsgi(root)
    except CommandError as error:
        note(f"  {error.last_line}\n  so uWSGI has to be built")
    return built_uwsgi(root)


def uwsgi_for_tests(root: Path = ROOT) -> Path:
    """The uWSGI that most people run, built from source; where that is impossible, the wheel."""
    if "UWSGI" in os.environ:
        return Path(os.environ["UWSGI"])
    reason = cannot_build()
    if reason is None:
        return built_uwsgi(root)
    note(f"  {reason}, so the tests run with the pyuwsgi wheel instead of uWSGI built from source")
    return wheel_uwsgi(root)
