"""The servers of E3, and how each is started: with its defaults, one process unless the name says otherwise."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass, replace

from app.lab.programs import Programs
from app.lab.results import Setup
from tools.environments import ROOT

PONG = "app.lab.applications.pong:application"
_FILE = "app/lab/applications/pong.py"


@dataclass(frozen=True, slots=True)
class Server:
    """A server of the comparison. package: of the lab's environment; empty if Python has it."""

    name: str
    package: str
    command: tuple[str, ...]


def _own(name: str) -> tuple[str, ...]:
    """Returns the command of a server that has no program of its own."""
    return ("python", "-m", "app.lab.applications.serve_pong", name, "{port}")


def _gunicorn(workers: int) -> tuple[str, ...]:
    return ("gunicorn", "--workers", str(workers), "--bind", "127.0.0.1:{port}", PONG)


# With keep-alive or without, uWSGI's router talks HTTP with the clients, as its `http` option of 2010 did.
_ROUTER = ("--http", "127.0.0.1:{port}", "--http-keepalive", "--module", PONG, "--disable-logging")
_SOCKET = ("--http-socket", "127.0.0.1:{port}", "--module", PONG, "--disable-logging")

_MOD_WSGI = (
    *("mod_wsgi-express", "start-server", _FILE, "--host", "127.0.0.1", "--port", "{port}"),
    *("--server-root", "{directory}/apache", "--working-directory", str(ROOT), "--log-to-terminal"),
)

SERVERS = (
    Server("Gunicorn, 1 worker", "gunicorn", _gunicorn(1)),
    Server("Gunicorn, 3 workers", "gunicorn", _gunicorn(3)),
    Server("gevent", "gevent", _own("gevent")),
    Server("Eventlet", "eventlet", _own("eventlet")),
    Server("Tornado", "tornado", _own("tornado")),
    Server("Twisted", "twisted", _own("twisted")),
    Server("Cheroot", "cheroot", _own("cheroot")),
    Server("mod_wsgi", "mod_wsgi", _MOD_WSGI),
    Server("Paster", "paste", _own("paste")),
    Server("wsgiref", "", _own("wsgiref")),
    Server("waitress", "waitress", ("waitress-serve", "--listen=127.0.0.1:{port}", PONG)),
    Server("bjoern", "bjoern", _own("bjoern")),
    Server(
        "granian",
        "granian",
        ("granian", "--interface", "wsgi", "--host", "127.0.0.1", "--port", "{port}", "--no-log", PONG),
    ),
)
UWSGI = {"uWSGI": _ROUTER, "uWSGI, http-socket": _SOCKET}
NAMES = (*UWSGI, *(server.name for server in SERVERS))


def pong_setups(programs: Programs) -> Iterator[Setup]:
    """Yields the servers that are installed."""
    for name, options in UWSGI.items():
        # Its figures are not sampled: the others are not sampled either.
        yield replace(programs.uwsgi_setup("E3", name, options), is_uwsgi=False)
    for server in SERVERS:
        if server.package not in programs.missing:
            yield Setup(
                name=server.name,
                command=(*_in_namespace(server), str(programs.lab.program(server.command[0])), *server.command[1:]),
                is_uwsgi=False,
                cwd=ROOT,
                environment={"PYTHONPATH": str(ROOT)},
            )


def left_out(missing: dict[str, str]) -> dict[str, str]:
    """Returns why a server is not measured, by its name."""
    return {server.name: missing[server.package] for server in SERVERS if server.package in missing}


def _in_namespace(server: Server) -> tuple[str, ...]:
    """Returns what precedes the command: Apache refuses to serve as root, and as another user it could not read a
    checkout in root's home. In a user namespace it keeps root's rights under another name."""
    if server.package != "mod_wsgi" or os.geteuid() != 0:
        return ()
    return ("unshare", "--user", "--map-user=1000", "--map-group=1000")
