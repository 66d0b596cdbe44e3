"""The command line. What a command needs is imported when that command runs, so that help answers at once."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence

from uwsgi_headroom import __version__, interrupts
from uwsgi_headroom.config.defaults import HISTORY_SECONDS, LISTEN_ADDRESS
from uwsgi_headroom.config.flags import add_flags
from uwsgi_headroom.errors import ConfigError, HeadroomError
from uwsgi_headroom.number_range import OutOfRangeError, parse_number

_COMMANDS = ("serve", "check", "top", "discover")


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
    add_flags(serve)
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
        f"host:port is asked which it is. Without any: the exporter on {LISTEN_ADDRESS}, or else the servers "
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


# argparse puts the names of these two into its message about a text that is no number.
def _seconds(text: str) -> float:
    return _within(text, 2, HISTORY_SECONDS)


def _interval(text: str) -> float:
    return _within(text, 0.25, 60)


def _within(text: str, least: float, most: float) -> float:
    try:
        return parse_number(text, least, most)
    except OutOfRangeError:
        raise argparse.ArgumentTypeError(f"from {least:g} to {most:g} seconds, not {text}") from None


def _serve(options: argparse.Namespace) -> int:
    with interrupts.ending_the_process():
        from uwsgi_headroom import serve
    serve.run(options)
    return 0


def _check(options: argparse.Namespace) -> int:
    with interrupts.ending_the_process():
        from uwsgi_headroom.check import command
    return command.run(options.address, options.seconds, as_json=options.format == "json")


def _top(options: argparse.Namespace) -> int:
    with interrupts.ending_the_process():
        from uwsgi_headroom.top import start
    return start.run(options.addresses, options.interval, options.seconds, once=options.once, as_json=options.json)


def _discover(_options: argparse.Namespace) -> int:
    with interrupts.ending_the_process():
        from uwsgi_headroom.watch import discover
    return discover.run()
