"""Loads the application that is measured, from an ini file or by its name, and says how each variant is started."""

from __future__ import annotations

import os
import re
import shutil
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from uwsgi_headroom.analysis.what_if import Setting
from uwsgi_headroom.errors import ConfigError, HeadroomError
from uwsgi_headroom.ini_syntax import DEFAULT_SECTION, LOADS, OTHER_FORMATS
from uwsgi_headroom.tune.application.ini import TUNED, Ini, read_ini
from uwsgi_headroom.tune.application.switched_off import describe, find_group
from uwsgi_headroom.tune.application.variant import Variant
from uwsgi_headroom.tune.experiment.server import Setup

FIRST = Setting(4, 1)
"""What is run first for an application without an ini file: a prediction needs some setting to start from."""

LOOPBACK = "127.0.0.1:{port}"

_NAME = re.compile(r"\w+(\.\w+)*:\w[\w.]*(\(\))?")


@dataclass(frozen=True, slots=True, kw_only=True)
class Application:
    name: str
    """For people."""

    text: str
    """The ini file that is measured, without what each variant sets."""

    present: Variant
    """The variant that is run first."""

    directory: Path
    uwsgi: Path
    off: tuple[str, ...] = ()
    """What of the ini file is left out, by group."""

    ini: Ini | None = None
    """The file that was given, if any."""

    def make_setup(self, variant: Variant, measured: Path) -> Setup:
        """How to start a variant. measured: the file that has `text`."""
        command = (
            str(self.uwsgi),
            f"--ini={measured}:uwsgi",  # without a section, a colon in the path would begin one
            # After the file, so that these options count.
            *("--master", "--need-app", "--die-on-term", "--no-orphans"),
            *variant.list_words(LOOPBACK),
            "--stats={directory}/stats",
        )
        withheld = tuple(list_withheld(os.environ))
        return Setup(name=variant.name, command=command, cwd=self.directory, withheld=withheld)


def load_ini(path: Path, directory: Path | None, uwsgi: str | None, cpus: int) -> Application:
    """The application of an ini file. path: perhaps with a section, as uWSGI takes it: `shop.ini:staging`. Raises
    ConfigError."""
    place = _find_directory(directory)
    file, colon, section = str(path).rpartition(":")
    if not colon or path.exists():
        file, section = str(path), DEFAULT_SECTION
    ini = read_ini(Path(file), cpus, directory=place, section=section)
    homes = [line.value for line in ini.kept if line.key in ("virtualenv", "venv", "home", "pyhome")]
    return Application(
        name=path.name,
        text=ini.render(),
        present=ini.present,
        directory=place,
        uwsgi=find_uwsgi(uwsgi, [str(place / home) for home in homes]),
        off=tuple(describe(ini.off)),
        ini=ini,
    )


def load_app(
    name: str, directory: Path | None, python_path: Sequence[str], virtualenv: str | None, uwsgi: str | None
) -> Application:
    """The application `module:callable`. Raises ConfigError."""
    if not _NAME.fullmatch(name):
        raise ConfigError(f"--app: expected module:callable, such as shop.wsgi:application, not {name}")
    place = _find_directory(directory)
    lines = [f"module = {name}", f"chdir = {place}"]
    for path in python_path:
        if not Path(path).is_dir():
            raise ConfigError(f"--pythonpath: {path} is not a directory")
        lines.append(f"pythonpath = {os.path.abspath(path)}")
    if virtualenv:
        if not (Path(virtualenv) / "bin" / "python").exists():
            raise ConfigError(f"--virtualenv: {virtualenv} has no bin/python")
        lines.append(f"virtualenv = {os.path.abspath(virtualenv)}")
    if any("\n" in line for line in lines):
        raise ConfigError("a directory with a line break in its name cannot be in an ini file")
    lines = [line.replace("%", "%%") for line in lines]
    lines += ["enable-threads = true", "disable-logging = true"]
    return Application(
        name=name,
        text="".join(f"{line}\n" for line in ["[uwsgi]", *lines]),
        present=Variant(FIRST),
        directory=place,
        uwsgi=find_uwsgi(uwsgi, [virtualenv] if virtualenv else []),
    )


def list_withheld(environment: Iterable[str]) -> list[str]:
    """The variables that uWSGI would take as options (`UWSGI_INI` as `ini`) and that are left out, like those options
    in an ini file: they would load another file, or start its daemons."""
    return sorted(name for name in environment if name.startswith("UWSGI_") and _is_withheld(name))


def _is_withheld(variable: str) -> bool:
    option = variable.removeprefix("UWSGI_").lower().replace("_", "-")
    return option in (*LOADS, *OTHER_FORMATS, *TUNED) or find_group(option) is not None


def find_uwsgi(given: str | None, homes: Sequence[str]) -> Path:
    """The uWSGI to run: the one that was given, else that of a virtual environment, of this Python, or on PATH. Raises
    ConfigError if a given one does not exist, and HeadroomError if there is none."""
    if given:
        found = shutil.which(given)
        if found is None:
            raise ConfigError(f"--uwsgi: {given} is not a program")
        return Path(os.path.abspath(found))
    candidates = [*(Path(home) / "bin" / "uwsgi" for home in homes), Path(sys.executable).parent / "uwsgi"]
    for candidate in candidates:
        if os.access(candidate, os.X_OK):
            return Path(os.path.abspath(candidate))
    on_path = shutil.which("uwsgi")
    if on_path is None:
        raise HeadroomError("no uwsgi was found in the virtual environment or on PATH: give --uwsgi FILE")
    return Path(os.path.abspath(on_path))


def _find_directory(directory: Path | None) -> Path:
    try:
        place = Path.cwd() if directory is None else directory.absolute()
    except OSError as error:
        raise ConfigError(f"the current directory cannot be read: {error.strerror}") from None
    if not place.is_dir():
        raise ConfigError(f"--chdir: {directory} is not a directory")
    return place
