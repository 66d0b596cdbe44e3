"""Keeps `.venv-clients`: real clients of databases and of HTTP from PyPI, and servers that are unpacked from Debian.

Both are made on demand, by the first row that needs them, and stand apart from `.venv`: uWSGI of the scenarios finds
the clients by `pythonpath`. Unpacking a package instead of installing it needs no root and starts no service.
"""

from __future__ import annotations

import functools
import glob
import os
import shutil
import sys
from collections.abc import Callable
from pathlib import Path

from tools import debian
from tools.commands import CommandError
from tools.environments import PYTHON, ROOT, Environment, SetupError
from tools.progress import show_step

ENVIRONMENT = Environment(ROOT / ".venv-clients")
PACKAGES = ENVIRONMENT.path / "lib" / f"python{sys.version_info.major}.{sys.version_info.minor}" / "site-packages"
UNPACKED = ENVIRONMENT.path / "debian"

SERVERS = {
    "redis-server": ("redis-server", "redis-tools", "libjemalloc2", "liblzf1", "libatomic1"),
    "nginx": ("nginx",),
}
"""Debian's packages of a server, with libraries that few machines have."""

_POSTGRES = "/usr/lib/postgresql/*/bin"
"""Where Debian puts programs of PostgreSQL, which are not on PATH."""


def find_server(program: str) -> Path | None:
    """A server's program: on PATH, where Debian installs it, or unpacked."""
    places = [os.environ.get("PATH", os.defpath), "/usr/sbin", *sorted(glob.glob(_POSTGRES), reverse=True)]
    places += [str(UNPACKED / "usr" / name) for name in ("bin", "sbin")]
    found = shutil.which(program, path=os.pathsep.join(places))
    return Path(found) if found else None


def needs(*clients: str, servers: tuple[str, ...] = ()) -> Callable[[], str | None]:
    """For `Scenario.skip`: installs the clients and unpacks the servers that are missing, once, and returns the reason
    if one is not available."""

    def why_not() -> str | None:
        reasons = (*map(_lacks_server, servers), *map(_lacks_client, clients))
        return next(filter(None, reasons), None)

    return why_not


@functools.cache
def _lacks_client(name: str) -> str | None:
    if ENVIRONMENT.fits() and ENVIRONMENT.holds(name, PYTHON):
        return None
    try:
        ENVIRONMENT.ensure()
        with show_step(f"installing {name} for the scenarios"):
            ENVIRONMENT.install(name, PYTHON, ["--only-binary", ":all:", name], cwd=ROOT)
    except CommandError as error:
        return f"{name} cannot be installed: {error.last_line}"
    except SetupError as error:
        return f"{name} cannot be installed: {error}"
    return None


@functools.cache
def _lacks_server(program: str) -> str | None:
    if find_server(program):
        return None
    if program not in SERVERS:
        return f"{program} is not installed"
    try:
        ENVIRONMENT.ensure()  # first, because it empties an environment that does not fit
        UNPACKED.mkdir(exist_ok=True)
        with show_step(f"unpacking Debian's {program}"):
            debian.unpack(SERVERS[program], UNPACKED)
    except (CommandError, SetupError, OSError) as error:
        return f"{program} is not installed, and Debian's cannot be unpacked: {str(error).splitlines()[-1]}"
    return None if find_server(program) else f"{program} is not in Debian's package"
