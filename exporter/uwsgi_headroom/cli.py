"""The command line, and the only place where the parts are put together."""

from __future__ import annotations

import argparse
import asyncio
import logging
import os
import shlex
import signal
import socket
import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

from uwsgi_headroom import __version__, config, logs
from uwsgi_headroom.check import json_report, text_report
from uwsgi_headroom.check.judge import UNREADABLE, Verdict, check
from uwsgi_headroom.config import flags, variables
from uwsgi_headroom.errors import ConfigError, HeadroomError, ReadError
from uwsgi_headroom.history.window import HISTORY_SECONDS
from uwsgi_headroom.serve import serve_until_signal
from uwsgi_headroom.watch import discover, suspend
from uwsgi_headroom.watch.fleet import Fleet
from uwsgi_headroom.watch.watch import Watch
from uwsgi_headroom.web.connection_limits import BACKLOG

_COMMANDS = ("serve", "check", "top", "discover")

_NEEDED_BY_TOP = "rich>=13.7"
"""The extra `top` of setup.cfg. Not its name: the package is on no index."""

_log = logging.getLogger(__name__)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; the exit status is 0, 1 (it could not) or 2 (wrongly called)."""
    arguments = list(sys.argv[1:] if arguments is None else arguments)
    if not arguments or (arguments[0] not in _COMMANDS and arguments[0] not in ("-h", "--help", "--version")):
        arguments.insert(0, "serve")
    try:
        options = _parser().parse_args(arguments)
        status = int(options.run(options))
        sys.stdout.flush()
        return status
    except BrokenPipeError:  # whoever read it (`head`) has read enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # where Python may flush to as it ends
        return 1
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
    flags.add_flags(serve)
    serve.set_defaults(run=_serve)
    verdict = commands.add_parser(
        "check",
        help="watch a server for a while, then say how it is",
        description="Watch a server, then say how it is and what to change. "
        "Exit status: 0 fine, 1 warning, 2 critical, 3 could not be read.",
    )
    verdict.add_argument("address", metavar="ADDRESS", help="a stats server, as for --stats")
    verdict.add_argument("--seconds", type=_seconds, default=30.0, help="how long to watch (default 30)")
    verdict.add_argument("--format", choices=("text", "json"), default="text")
    verdict.set_defaults(run=_check)
    top = commands.add_parser(
        "top",
        help="watch servers on a terminal",
        description="Watch servers on a terminal. Each argument is a stats server, as for --stats, which is then read "
        "from here, or the URL of a running exporter, which answers from its memory; an http:// address or a "
        f"host:port is asked which it is. Without any: the exporter on {config.LISTEN_ADDRESS}, or else the servers "
        "found on this machine. Where standard output is no terminal, one snapshot is printed. Exit status of a "
        "snapshot: 0, or 3 if a server could not be read.",
    )
    top.add_argument("addresses", metavar="ADDRESS|URL", nargs="*", help="what to look at")
    top.add_argument(
        "--interval", type=_interval, default=1.0, help="seconds between two looks, 0.25 to 60 (default 1)"
    )
    top.add_argument("--once", action="store_true", help="print one snapshot, and end")
    top.add_argument("--json", action="store_true", help="print the document instead (of several servers: a list)")
    top.add_argument(
        "--seconds", type=_seconds, default=3.0, help="how long to watch before a snapshot, if from here (default 3)"
    )
    top.set_defaults(run=_top)
    find = commands.add_parser("discover", help="look for local uWSGI masters and their stats servers")
    find.set_defaults(run=_discover)
    return parser


def _seconds(text: str) -> float:
    seconds = float(text)
    if not 2 <= seconds <= HISTORY_SECONDS:
        raise argparse.ArgumentTypeError(f"from 2 to {HISTORY_SECONDS} seconds, not {text}")
    return seconds


def _interval(text: str) -> float:
    seconds = float(text)
    if not 0.25 <= seconds <= 60:
        raise argparse.ArgumentTypeError(f"from 0.25 to 60 seconds, not {text}")
    return seconds


def _check(options: argparse.Namespace) -> int:
    logs.configure("error", "logfmt")
    server = config.parse_server_argument(options.address, "check")
    if server.address is None:
        raise ConfigError("check looks at one server: give its address, not a glob")
    watch = Watch(server.name, server.address)

    async def judge() -> Verdict:
        task = asyncio.ensure_future(
            check(watch, options.seconds, _show_progress if sys.stderr.isatty() else _show_nothing)
        )
        asyncio.get_running_loop().add_signal_handler(signal.SIGINT, task.cancel)
        suspend.between_reads(watch.reader.pause, watch.reader.resume)
        return await task

    try:
        verdict = asyncio.run(judge())
    except ReadError as error:
        print(f"UNKNOWN  {server.name}  {server.address}: {error}", file=sys.stderr)
        return UNREADABLE
    except asyncio.CancelledError:
        print(f"UNKNOWN  {server.name}  {server.address}: interrupted before the first reading", file=sys.stderr)
        return UNREADABLE
    print(json_report.render_json(verdict) if options.format == "json" else text_report.render_text(verdict))
    return verdict.exit_status


def _top(options: argparse.Namespace) -> int:
    logs.configure("critical", "logfmt")  # what goes wrong stands on the screen
    from uwsgi_headroom.top.feeds.attach import attach  # noqa: PLC0415 - only here is it needed, and it takes a while

    feeds = attach(options.addresses, _discover_servers)
    if options.json:
        from uwsgi_headroom.top import json_dump, once  # noqa: PLC0415

        documents = asyncio.run(once.read_documents(feeds, options.seconds))
        print(json_dump.render_json(documents))
        return once.exit_status(it.state for it in (documents if isinstance(documents, list) else [documents]))
    try:
        from uwsgi_headroom.top import command  # noqa: PLC0415
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] != "rich":
            raise
        # The Python that runs this: that of its own environment, whether pip, pipx or a person made it.
        install = f"{shlex.quote(sys.executable)} -m pip install '{_NEEDED_BY_TOP}'"
        raise HeadroomError(f"top needs rich: {install} (or --json, which needs nothing more)") from None
    return command.main(feeds, options.interval, options.seconds, once=options.once)


def _show_nothing(_left: float) -> None:
    """For when nobody looks."""


def _show_progress(left: float) -> None:
    print(f"\r\x1b[Kwatching for {left:.0f} s more (Ctrl-C: judge now) ", end="", file=sys.stderr, flush=True)
    if left <= 1:
        print("\r\x1b[K", end="", file=sys.stderr, flush=True)


def _discover(_options: argparse.Namespace) -> int:
    masters = asyncio.run(discover.find_masters())
    print(discover.render_report(masters))
    return 0 if any(it.address for it in masters) else 1


def _serve(options: argparse.Namespace) -> int:
    # Until it serves, Ctrl-C ends it at once, as SIGTERM does: a KeyboardInterrupt could come where asyncio prints it.
    signal.signal(signal.SIGINT, lambda _signal, _frame: os._exit(0))
    settings = flags.resolve_config(options)
    logs.configure(settings.log_level, settings.log_format)
    if ignored := variables.unknown(os.environ):
        _log.warning("unknown environment variables are ignored", extra={"fields": {"names": " ".join(ignored)}})
    if not settings.servers:
        settings = replace(settings, servers=_discover_servers())
    sockets = [_open_listener(host, port) for host, port in settings.listen]
    for listener in sockets:
        host, port = listener.getsockname()[:2]
        url = f"http://{f'[{host}]' if ':' in host else host}:{port}/"
        _log.info("listening", extra={"fields": {"url": url, "version": __version__}})
    serve_until_signal(Fleet(settings.servers, settings.settings), sockets)
    return 0


def _discover_servers() -> tuple[config.ServerConfig, ...]:
    """Servers for an exporter that was told of none. Raises HeadroomError with advice where none can be read."""
    masters = asyncio.run(discover.find_masters())
    readable = {it.address: it for it in masters if it.address and not it.trouble}
    names = {address: config.default_name(address) for address in readable}
    taken = Counter(names.values())
    servers = [
        # Sockets of one file name in several folders are told apart by their paths.
        config.ServerConfig(
            names[address] if taken[names[address]] == 1 else str(address).removeprefix("unix://"),
            address,
            where=f"uWSGI master {it.pid}",
        )
        for address, it in readable.items()
    ]
    if not servers:
        raise HeadroomError(f"no --stats given, and none found.\n{discover.render_report(masters)}")
    for it in servers:
        _log.info("found", extra={"fields": {"server": it.name, "address": str(it.address)}})
    return config.refuse_duplicate_names(servers)


def _open_listener(host: str, port: int) -> socket.socket:
    """A listening socket. Raises ConfigError in words that name the address."""
    try:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        if host and ":" not in host:
            family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
        if not host and socket.has_dualstack_ipv6():
            return socket.create_server(("", port), family=socket.AF_INET6, dualstack_ipv6=True, backlog=BACKLOG)
        return socket.create_server((host, port), family=family, backlog=BACKLOG)
    except OSError as error:
        what = "is taken by another program" if error.errno == 98 else f"cannot be listened on ({error.strerror})"
        raise ConfigError(f"{host or '*'}:{port} {what}; choose another with --web.listen-address HOST:PORT") from None
