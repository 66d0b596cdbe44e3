"""Runs the servers beside a uWSGI: real ones that its application asks, nginx in front of it, and stand-ins.

PostgreSQL, Redis and nginx listen on a loopback address of their own each, at the well-known port, by which the verdict
knows their names. They are installed, or unpacked from Debian's packages, without root, by the first row that needs
one; the clients are in `.venv-clients`, where uWSGI finds them by `pythonpath`.

`python3 -m tools.scenarios.beside KIND HOST PORT [SECONDS]` stands in for another server, after a line once it is
ready.

    answer   answers each byte with one byte after SECONDS
    lost     answers one byte on each connection, whose packets are dropped from then on
    hole     takes no connection: its queue is full, so that the kernel drops new clients
    dns      answers each UDP datagram with itself after SECONDS
    backend  answers each line, a number of milliseconds, with one byte after that time. It works on SECONDS requests at
             once, on one of each connection; the others wait, first come, first served
"""

import asyncio
import contextlib
import ctypes
import functools
import glob
import os
import pwd
import shutil
import socket
import struct
import subprocess
import sys
import tempfile
import threading
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from pathlib import Path

from tests.support.real_uwsgi import accepts, running
from tools import debian
from tools.commands import CommandError, show_step
from tools.environments import PYTHON, ROOT, Environment, SetupError

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


_NGINX = """\
daemon off; user root; worker_processes 1; pid {directory}/nginx.pid; error_log {directory}/error.log;
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


def _ready() -> None:
    print("ready", flush=True)


async def _respond(
    host: str,
    port: int,
    read: Callable[[asyncio.StreamReader], Awaitable[bytes]],
    work: Callable[[bytes], Awaitable[None]],
) -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(ConnectionError):
            while asked := await read(reader):
                await work(asked)
                writer.write(b".")
        writer.close()

    server = await asyncio.start_server(serve, host, port, backlog=256)
    _ready()
    await server.serve_forever()


async def answer(host: str, port: int, seconds: float) -> None:
    await _respond(host, port, lambda reader: reader.read(1), lambda _: asyncio.sleep(seconds))


_DROP_ALL = struct.pack("HBBI", 6, 0, 0, 0)  # a filter of one instruction, BPF_RET of no byte


async def lost(host: str, port: int, _seconds: float) -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(1)
        writer.write(b".")
        program = ctypes.create_string_buffer(_DROP_ALL)
        filter_ = struct.pack("HxxxxxxP", 1, ctypes.addressof(program))
        writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, _SO_ATTACH_FILTER, filter_)
        await asyncio.Event().wait()

    server = await asyncio.start_server(serve, host, port, backlog=256)
    _ready()
    await server.serve_forever()


_SO_ATTACH_FILTER = 26  # asm-generic/socket.h


async def backend(host: str, port: int, at_once: float) -> None:
    free = asyncio.Semaphore(round(at_once))

    async def work(line: bytes) -> None:
        async with free:
            await asyncio.sleep(int(line) / 1000)

    await _respond(host, port, lambda reader: reader.readline(), work)


class Echo(asyncio.DatagramProtocol):
    def __init__(self, seconds: float) -> None:
        self.seconds = seconds

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport

    def datagram_received(self, data: bytes, address: object) -> None:
        asyncio.get_running_loop().call_later(self.seconds, self.transport.sendto, data, address)  # type: ignore[attr-defined]


async def dns(host: str, port: int, seconds: float) -> None:
    await asyncio.get_running_loop().create_datagram_endpoint(lambda: Echo(seconds), local_addr=(host, port))
    _ready()
    await asyncio.Event().wait()


def hole(host: str, port: int) -> None:
    with socket.create_server((host, port), backlog=0), contextlib.ExitStack() as stack:
        for _ in range(4):  # the queue takes one or two
            waiting = stack.enter_context(socket.socket())
            waiting.setblocking(False)
            with contextlib.suppress(BlockingIOError):
                waiting.connect((host, port))
        _ready()
        threading.Event().wait()


def main(kind: str, host: str, port: str, seconds: str = "0") -> None:
    with contextlib.suppress(KeyboardInterrupt):
        if kind == "hole":
            hole(host, int(port))
        else:
            asyncio.run(
                {"answer": answer, "dns": dns, "backend": backend, "lost": lost}[kind](host, int(port), float(seconds))
            )


if __name__ == "__main__":
    main(*sys.argv[1:])
