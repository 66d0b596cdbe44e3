"""Loads the application that is measured, from an ini file or by its name, and says how each variant is started.

The paths that are requested may be those of an access log, in the common or the combined log format of Apache and
nginx, also compressed by gzip. Nothing else of the log is kept, and nothing is written.
"""

from __future__ import annotations

import gzip
import os
import random
import re
import shutil
import sys
import zlib
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from uwsgi_headroom.analysis.what_if import Setting
from uwsgi_headroom.errors import ConfigError, HeadroomError
from uwsgi_headroom.ini_syntax import DEFAULT_SECTION, LOADS, OTHER_FORMATS
from uwsgi_headroom.tune.application.ini import TUNED, Ini, describe, find_group, read_ini
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


MOST_PATHS = 500
MOST_BYTES = 60_000
"""Of all paths together, so that a log of long lines takes little memory."""

LONGEST_PATH = 2000

_SEED = 1
# The length of the time is bounded, so that a line of many brackets takes no longer than others.
_REQUEST = re.compile(rb'^\S+ \S+ .*?\[[^\]]{0,99}\] "([A-Z]{3,10}) (\S+)(?: HTTP/[\d.]+)?" \d{3} ')
_LINE = 64 << 10


@dataclass(frozen=True, slots=True)
class Replay:
    """What of a log can be requested again."""

    paths: tuple[str, ...]
    """In the order of the log; a random sample of at most MOST_PATHS."""
    requests: int
    """Lines that could be replayed."""
    left_out: Mapping[str, int]
    """The other requests by method."""
    unreadable: int
    """Lines in another format."""


def read_access_log(path: Path, methods: Collection[str] = ("GET",)) -> Replay:
    """Read a log. methods: those whose requests are replayed, as GET. Raises ConfigError if there is none, or if the
    file cannot be read."""
    try:
        with path.open("rb") as file:
            is_gzip = file.read(2) == b"\x1f\x8b"
        with gzip.open(path) if is_gzip else path.open("rb") as log:
            replay = collect(iter(lambda: log.readline(_LINE), b""), methods)
    except (OSError, EOFError, zlib.error) as error:
        reason = getattr(error, "strerror", None) or "it is damaged"
        raise ConfigError(f"--access-log: {path} cannot be read: {reason}") from None
    if not replay.paths:
        raise ConfigError(f"--access-log: {path} has no request to replay{_describe_none(replay, methods)}")
    return replay


def collect(lines: Iterable[bytes], methods: Collection[str]) -> Replay:
    """Collect a sample of the paths (reservoir sampling: J. S. Vitter, ACM Trans. Math. Softw. 11 (1), 1985)."""
    chance = random.Random(_SEED)  # noqa: S311 - a sample, no secret
    sample: list[tuple[int, bytes]] = []
    requests, unreadable, left_out = 0, 0, Counter[str]()
    for line in lines:
        match = _REQUEST.match(line)
        if match is None:
            unreadable += bool(line.strip())
            continue
        method, target = match[1].decode(), _find_path(match[2])
        if method not in methods or target is None:
            left_out[method] += 1
            continue
        requests += 1
        if len(sample) < MOST_PATHS:
            sample.append((requests, target))
        elif (place := chance.randrange(requests)) < MOST_PATHS:
            sample[place] = (requests, target)
    kept: list[str] = []
    size = 0
    for _, target in sorted(sample):
        size += len(target) + 4
        if size > MOST_BYTES:
            break
        kept.append(target.decode("ascii"))
    return Replay(tuple(kept), requests, dict(left_out), unreadable)


def is_path(text: str) -> bool:
    """Whether a text can be requested: a path, perhaps with a query, in ASCII and without spaces."""
    return re.fullmatch(rf"/[!-~]{{0,{LONGEST_PATH - 1}}}", text) is not None and not text.startswith("//")


def _find_path(target: bytes) -> bytes | None:
    """The path of a request, without the host that a proxy's log may have. Logs escape bytes beyond ASCII (`\\xc3`)."""
    path = re.sub(rb"^https?://[^/]*", b"", target)
    path = re.sub(rb"\\x([0-9A-Fa-f]{2})", rb"%\1", path)
    return path if path.isascii() and is_path(path.decode("ascii")) else None


def _describe_none(replay: Replay, methods: Collection[str]) -> str:
    if others := {method: count for method, count in replay.left_out.items() if method not in methods}:
        names = ", ".join(f"{count:,} {method}" for method, count in sorted(others.items()))
        return f": only {names}, which --allow-methods may allow"
    if replay.left_out:
        return ": none of its requests has a path in ASCII that can be requested"
    if replay.unreadable:
        return ": none of its lines is in the common or combined log format"
    return ": it is empty"
