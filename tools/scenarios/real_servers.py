"""Runs real servers during a scenario: PostgreSQL, Redis and nginx that its application asks, and nginx in front of it.

Each listens on a loopback address of its own, at its well-known port, by which the verdict knows its name.
"""

from __future__ import annotations

import contextlib
import os
import pwd
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

from tests.support.real_uwsgi import accepts, running
from tools.scenarios.client_environment import UNPACKED, find_server

_NGINX = """\
daemon off; master_process off; pid {directory}/nginx.pid; error_log {directory}/nginx.log;
events {{}}
http {{
  access_log off;
  client_body_temp_path {directory}; proxy_temp_path {directory}; fastcgi_temp_path {directory};
  uwsgi_temp_path {directory}; scgi_temp_path {directory};
  server {{ listen {listen}; location / {{ {location} }} }}
}}
"""


@contextlib.contextmanager
def postgres(host: str) -> Iterator[str]:
    """Runs a PostgreSQL with a new database cluster, whose user `postgres` needs no password. It refuses to run as
    root, so that it then runs as `nobody`."""
    with _directory(of_nobody=True) as (directory, user):
        data = str(directory / "data")
        make = [str(_found("initdb")), "-D", data, "-U", "postgres", "-A", "trust", "--no-sync"]
        subprocess.run(make, cwd=directory, user=user, check=True, capture_output=True)
        command = [_found("postgres"), "-D", data, "-h", host, "-p", 5432, "-k", "", "-F"]
        with _started(command, (host, 5432), directory, user):
            yield f"{host}:5432"


@contextlib.contextmanager
def redis(host: str) -> Iterator[str]:
    """Runs a Redis that keeps nothing, and sleeps when it is asked to (`DEBUG SLEEP`)."""
    with _directory() as (directory, _):
        command = [_found("redis-server"), "--bind", host, "--port", 6379, "--save", "", "--appendonly", "no"]
        command += ["--enable-debug-command", "yes", "--dir", directory]
        with _started(command, (host, 6379), directory):
            yield f"{host}:6379"


@contextlib.contextmanager
def nginx(host: str) -> Iterator[str]:
    """Runs an nginx that answers every request itself."""
    with _directory() as (directory, _), _nginx(directory, f"{host}:8080", 'return 200 "ok";', (host, 8080)):
        yield f"{host}:8080"


def nginx_in_front(directory: Path, settings: str) -> contextlib.AbstractContextManager[None]:
    """Runs an nginx in front of the uWSGI that serves HTTP on the socket `web` in a directory. It listens on `front`
    there. settings: directives of its location."""
    front = str(directory / "front")
    location = f"proxy_pass http://unix:{directory}/web:; {settings}"
    return _nginx(directory, f"unix:{front}", location, front)


BESIDE: Mapping[str, Callable[[str], contextlib.AbstractContextManager[str]]] = {
    "postgres": postgres,
    "redis": redis,
    "nginx": nginx,
}
"""Those that an application asks. Each gets a loopback address, and yields its address with the port."""


@contextlib.contextmanager
def _nginx(directory: Path, listen: str, location: str, ready: str | tuple[str, int]) -> Iterator[None]:
    configuration = directory / "nginx.conf"
    configuration.write_text(_NGINX.format(directory=directory, listen=listen, location=location))
    with _started([_found("nginx"), "-p", directory, "-c", configuration, "-e", "stderr"], ready, directory):
        yield


@contextlib.contextmanager
def _started(
    command: Sequence[object], ready: str | tuple[str, int], directory: Path, user: int | None = None
) -> Iterator[None]:
    words = [str(word) for word in command]
    if user is not None:
        words = ["setpriv", f"--reuid={user}", f"--regid={user}", "--clear-groups", *words]
    with running(
        words,
        lambda: accepts(ready),
        words[0],
        cwd=directory,
        log=directory / "server.log",
        environment=_environment(),
    ):
        yield


def _environment() -> dict[str, str]:
    """With the libraries of unpacked servers behind those of the system."""
    libraries = [str(path.parent) for path in UNPACKED.glob("usr/lib/*/lib*.so.*")]
    return {**os.environ, "LD_LIBRARY_PATH": os.pathsep.join(dict.fromkeys(libraries))} if libraries else {**os.environ}


@contextlib.contextmanager
def _directory(*, of_nobody: bool = False) -> Iterator[tuple[Path, int | None]]:
    """Yields a new directory, and the user that it belongs to if that is not the current one."""
    directory = Path(tempfile.mkdtemp(prefix="headroom-"))
    user = pwd.getpwnam("nobody").pw_uid if of_nobody and os.geteuid() == 0 else None
    try:
        if user is not None:
            os.chown(directory, user, -1)
        yield directory, user
    finally:
        shutil.rmtree(directory, ignore_errors=True)


def _found(program: str) -> Path:
    path = find_server(program)
    if path is None:
        raise AssertionError(f"{program} is not available")
    return path
