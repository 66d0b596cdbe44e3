"""The command line, and the only place where the parts are put together."""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import logging
import socket
import sys
from collections.abc import Sequence
from dataclasses import replace

import uvicorn

from uwsgi_headroom import __version__, config, discover, logs
from uwsgi_headroom.config import flags
from uwsgi_headroom.errors import ConfigError, HeadroomError
from uwsgi_headroom.fleet import Fleet
from uwsgi_headroom.web.app import application

_COMMANDS = ("serve", "discover")

# Prometheus keeps its connection between scrapes; a minute apart is common.
_KEEP_ALIVE_SECONDS = 120
_SHUTDOWN_SECONDS = 3

_log = logging.getLogger(__name__)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; the exit status is 0, 1 (it could not) or 2 (wrongly called)."""
    arguments = list(sys.argv[1:] if arguments is None else arguments)
    if not arguments or (arguments[0] not in _COMMANDS and arguments[0] not in ("-h", "--help", "--version")):
        arguments.insert(0, "serve")
    options = _parser().parse_args(arguments)
    try:
        return int(options.run(options))
    except ConfigError as error:
        print(f"uwsgi-headroom: {error}", file=sys.stderr)
        return 2
    except HeadroomError as error:
        print(f"uwsgi-headroom: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="uwsgi-headroom",
        description="How much more load a uWSGI server can take, what will give out first, and what to change.",
        epilog="`uwsgi-headroom --stats ADDRESS` is short for `uwsgi-headroom serve --stats ADDRESS`.",
    )
    parser.add_argument("--version", action="version", version=f"uwsgi-headroom {__version__}")
    commands = parser.add_subparsers(title="commands", required=True)
    serve = commands.add_parser("serve", help="export metrics over HTTP (the default)")
    serve.add_argument("--version", action="version", version=f"uwsgi-headroom {__version__}")
    flags.add_to(serve)
    serve.set_defaults(run=_serve)
    find = commands.add_parser("discover", help="look for local uWSGI masters and their stats servers")
    find.set_defaults(run=_discover)
    return parser


def _discover(_options: argparse.Namespace) -> int:
    found = asyncio.run(discover.find())
    print(discover.report(found))
    return 0 if any(it.address for it in found) else 1


def _serve(options: argparse.Namespace) -> int:
    settings = flags.resolve(options)
    logs.configure(settings.log_level, settings.log_format)
    if not settings.servers:
        settings = replace(settings, servers=_discovered())
    sockets = [_listen(host, port) for host, port in settings.listen]
    for listener in sockets:
        host, port = listener.getsockname()[:2]
        url = f"http://{f'[{host}]' if ':' in host else host}:{port}/"
        _log.info("listening", extra={"fields": {"url": url, "version": __version__}})
    with contextlib.suppress(KeyboardInterrupt):
        asyncio.run(run(Fleet(settings.servers, settings.settings), sockets))
    return 0


async def run(fleet: Fleet, sockets: list[socket.socket]) -> None:
    """Serve a fleet on sockets that listen, until a signal ends it."""
    server = uvicorn.Server(
        uvicorn.Config(
            application(fleet),
            loop="asyncio",
            ws="none",
            lifespan="off",
            access_log=False,
            log_config=None,
            log_level="warning",
            server_header=False,
            timeout_keep_alive=_KEEP_ALIVE_SECONDS,
            timeout_graceful_shutdown=_SHUTDOWN_SECONDS,
        )
    )
    try:
        sampling = asyncio.create_task(fleet.run(), name="sampling")
        await server.serve(sockets=sockets)
        sampling.cancel()
    finally:
        await fleet.close()


def _discovered() -> tuple[config.ServerConfig, ...]:
    """Servers for an exporter that was told of none. Raises HeadroomError with advice where none can be read."""
    found = asyncio.run(discover.find())
    servers = [
        config.server(str(it.address), where=f"uWSGI master {it.pid}") for it in found if it.address and not it.trouble
    ]
    if not servers:
        raise HeadroomError(f"no --stats given, and none found.\n{discover.report(found)}")
    for it in servers:
        _log.info("found", extra={"fields": {"server": it.name, "address": str(it.address)}})
    return config.unique(servers)


def _listen(host: str, port: int) -> socket.socket:
    """A listening socket. Raises ConfigError in words that name the address."""
    try:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        if host and ":" not in host:
            family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
        if not host and socket.has_dualstack_ipv6():
            return socket.create_server(("", port), family=socket.AF_INET6, dualstack_ipv6=True, backlog=128)
        return socket.create_server((host, port), family=family, backlog=128)
    except OSError as error:
        what = "is taken by another program" if error.errno == 98 else f"cannot be listened on ({error.strerror})"
        raise ConfigError(f"{host or '*'}:{port} {what}; choose another with --web.listen-address HOST:PORT") from None
