"""The command line. What a command needs is imported when that command runs, so that help answers at once."""

from __future__ import annotations

import argparse
import os
import sys
import traceback
from collections.abc import Sequence
from typing import NoReturn

from uwsgi_headroom import __version__, interrupts
from uwsgi_headroom.check.exit_status import UNKNOWN
from uwsgi_headroom.config.defaults import HISTORY_SECONDS, LISTEN_ADDRESS
from uwsgi_headroom.config.flags import add_flags
from uwsgi_headroom.errors import ConfigError, HeadroomError
from uwsgi_headroom.number_range import OutOfRangeError, parse_number
from uwsgi_headroom.terminal_text import print_lines

_COMMANDS = ("serve", "check", "top", "discover")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; the exit status is 0, 1 (it could not) or 2 (wrongly called).

    Of `check` it is that of a monitoring plugin: whatever keeps it from a verdict is 3, with one line that says why.
    """
    arguments = list(sys.argv[1:] if arguments is None else arguments)
    if not arguments or (arguments[0] not in _COMMANDS and arguments[0] not in ("-h", "--help", "--version")):
        arguments.insert(0, "serve")
    if arguments[0] == "check":
        return _run_plugin(arguments)
    try:
        return _run(arguments)
    except BrokenPipeError:
        _discard_output()
        return 1
    except _UsageError as error:
        print_lines([*error.usage.splitlines(), f"{error.program}: error: {error}"], sys.stderr)
        return 2
    except HeadroomError as error:
        print_lines([f"uwsgi-headroom: {error}", *error.details], sys.stderr)
        return 2 if isinstance(error, ConfigError) else 1
    except KeyboardInterrupt:
        return 0


def _run(arguments: Sequence[str]) -> int:
    options = _parser().parse_args(arguments)
    status = int(options.run(options))
    sys.stdout.flush()
    return status


def _run_plugin(arguments: Sequence[str]) -> int:
    """Run a command as a monitoring plugin: no other status says UNKNOWN, so every failure ends in that one."""
    try:
        return _run(arguments)
    except BrokenPipeError:
        _discard_output()
        return UNKNOWN
    except KeyboardInterrupt:
        problem = "interrupted"
    except HeadroomError as error:
        problem = str(error)
    except Exception as error:  # noqa: BLE001 - a traceback would end with status 1, which is a warning
        place = traceback.extract_tb(error.__traceback__)[-1]
        where = f"{type(error).__name__} in {os.path.basename(place.filename)}, line {place.lineno}"
        problem = f"a fault of uwsgi-headroom itself ({where}): please report it"
    print_lines([f"UNKNOWN  {problem}"], sys.stderr)
    return UNKNOWN


def _discard_output() -> None:
    """Send what is left of the output nowhere: its reader (`head`) has read enough, and Python flushes as it ends."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


class _UsageError(HeadroomError):
    """An argument is wrong. `program` is the command it was given to, `usage` how that is called."""

    def __init__(self, message: str, program: str, usage: str) -> None:
        super().__init__(message)
        self.program, self.usage = program, usage


class _Parser(argparse.ArgumentParser):
    """Raises `_UsageError` where argparse would print, and end the process with a status of its own."""

    def error(self, message: str) -> NoReturn:
        raise _UsageError(message, self.prog, self.format_usage())


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(
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
        "Exit status, as of a monitoring plugin: 0 fine, 1 warning, 2 critical, 3 not judged: the server could not be "
        "read, an argument is wrong, or check was interrupted before the first reading or failed.",
    )
    verdict.add_argument("address", metavar="ADDRESS", help="a stats server, as for --stats")
    verdict.add_argument("--seconds", type=_seconds, default=30.0, help="how long to watch (default 30)")
    verdict.add_argument("--format", choices=("text", "json"), default="text")
    verdict.set_defaults(run=_check)
    top = commands.add_parser(
        "top",
        help="watch servers on a terminal",
        description="Watch servers on a terminal. Each argument is a stats server, as for --stats, which is then read "
        "from here, or the URL of a running exporter or of one of its pages (.../servers/NAME opens that server), "
        "which answers from its memory; an http:// address or a "
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
