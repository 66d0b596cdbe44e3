"""Defines the commands and their options. Imports no command, so that help appears at once."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from uwsgi_headroom import __version__
from uwsgi_headroom.arguments.check_flags import DESCRIPTION as CHECKING
from uwsgi_headroom.arguments.check_flags import add_check_flags, add_http_config_flag
from uwsgi_headroom.arguments.exit_statuses import describe_exit_statuses
from uwsgi_headroom.arguments.parser import Parser, UsageError, parse_span, seconds_between, suggest, whole_between
from uwsgi_headroom.arguments.report_flags import DESCRIPTION, add_report_flags
from uwsgi_headroom.arguments.tune_flags import DESCRIPTION as TUNING
from uwsgi_headroom.arguments.tune_flags import add_tune_flags
from uwsgi_headroom.config.defaults import (
    DEFAULT_PASSWORD_COST,
    HISTORY_SECONDS,
    LISTEN_ADDRESS,
    PASSWORD_COST_RANGE,
    SHIPPED_HISTORY,
    STUCK_SECONDS,
)
from uwsgi_headroom.config.settings import FLAGS

PROGRAM = "uwsgi-headroom"
DEFAULT_COMMAND = "serve"

SHELLS = ("bash", "zsh", "fish")
"""Those that have a completion script."""


class _Command(NamedTuple):
    name: str
    summary: str
    description: str
    add_flags: Callable[[Parser], None]


@dataclass(frozen=True, slots=True)
class CommandLine:
    """The parser of the program, and the parser of each command by name."""

    program: Parser
    commands: dict[str, Parser]

    def parse(self, arguments: Sequence[str]) -> argparse.Namespace:
        """Parse the options of a command, and add its name as `command`. The default command is `serve`. Raises
        UsageError."""
        first = arguments[0] if arguments else ""
        if first in ("-h", "--help", "--version"):
            return self.program.parse_args([first])
        name, rest = (first, arguments[1:]) if first in self.commands else (DEFAULT_COMMAND, arguments)
        if rest and rest is arguments and not first.startswith("-"):
            raise self._unknown_command(first)
        options = self.commands[name].parse_args(rest)
        options.command = name
        return options

    def _unknown_command(self, text: str) -> UsageError:
        hint = suggest(text, self.commands)
        if not hint and any(mark in text for mark in "/:@"):
            hint = f"; did you mean {PROGRAM} check {text}?"
        return UsageError(f"unknown command {text}{hint}", PROGRAM, self.program.format_usage())


def make_command_line() -> CommandLine:
    """Make the parsers of the whole command line."""
    program = Parser(
        prog=PROGRAM,
        description="Show how much more load a uWSGI server can take, which limit comes first, and what to change.",
        epilog="`uwsgi-headroom --stats ADDRESS` is short for `uwsgi-headroom serve --stats ADDRESS`.",
    )
    program.summary = "how much more load a uWSGI server can take"
    _add_version(program)
    commands = program.add_subparsers(title="commands", required=True, metavar="COMMAND")
    made: dict[str, Parser] = {}
    for name, summary, description, add_flags in COMMANDS:
        made[name] = commands.add_parser(
            name, help=summary, description=description, epilog=describe_exit_statuses(name) or None
        )
        made[name].summary = summary
        add_flags(made[name])
    return CommandLine(program, made)


def find_format(arguments: Sequence[str]) -> str:
    """Find the format that these arguments of `check` request, even if others of them are wrong."""
    parser = Parser(add_help=False)
    parser.add_argument("--format", default="text")
    try:
        found: argparse.Namespace = parser.parse_known_args(arguments)[0]
    except UsageError:  # --format is the last argument, without a value
        return "text"
    return str(found.format)


def add_settings(parser: argparse.ArgumentParser) -> None:
    """Add the flags of `serve`, one for each setting."""
    for setting in FLAGS:
        kind: dict[str, Any] = {"action": "append"} if setting.is_repeatable else {}
        if setting.is_switch:
            kind = {"nargs": "?", "const": "true"}
        parser.add_argument(setting.flag, dest=setting.name, metavar=setting.metavar, help=setting.full_help, **kind)


def _add_version(parser: Parser) -> None:
    parser.add_argument("--version", action="version", version=f"{PROGRAM} {__version__}")


def _add_serve(parser: Parser) -> None:
    _add_version(parser)
    parser.add_argument(
        "--check-config",
        action="store_true",
        help="check the flags, the environment and the configuration file; print the resulting settings and any errors "
        "in them, then exit without connecting to any uWSGI. Exit status: 0 if nothing is wrong, else 1",
    )
    add_settings(parser)


def _add_top(parser: Parser) -> None:
    parser.add_argument("addresses", metavar="ADDRESS|URL", nargs="*", help="what to watch")
    add_http_config_flag(parser)
    parser.add_argument(
        "--interval",
        metavar="SECONDS",
        type=seconds_between(0.25, 60),
        default=1.0,
        help="how many seconds to wait between two refreshes, from 0.25 to 60 (default 1)",
    )
    parser.add_argument("--once", action="store_true", help="print one snapshot and exit")
    parser.add_argument(
        "--json",
        action="store_true",
        help="print the snapshot as JSON: an object, or a list of objects if there are several servers",
    )
    parser.add_argument(
        "--seconds",
        metavar="SECONDS",
        type=seconds_between(2, HISTORY_SECONDS),
        default=3.0,
        help="for a stats server: how many seconds to watch it before the snapshot (default 3)",
    )


def _add_pids(parser: Parser) -> None:
    parser.add_argument(
        "server",
        metavar="NAME|ADDRESS|URL",
        help="the name of a uWSGI server on this machine, the address of its stats server, or the URL of the uWSGI "
        "server's page on an exporter",
    )
    parser.add_argument(
        "--worker",
        metavar="NUMBERS",
        action="extend",
        type=_parse_numbers,
        help="list only these workers, such as 2,3; repeatable",
    )
    parser.add_argument(
        "--stuck",
        action="store_true",
        help="list only workers with stuck requests. A request is stuck if it has been in service for "
        f"{STUCK_SECONDS:g} s or longer; if you gave another time to the exporter (`serve --stuck`), this time counts",
    )
    add_http_config_flag(parser)


def _parse_numbers(text: str) -> list[int]:
    return [whole_between(1, 100_000)(number) for number in text.split(",")]


def _add_compare(parser: Parser) -> None:
    parser.add_argument(
        "server", metavar="SERVER", help="the name of a uWSGI server, or the URL of its page on an exporter"
    )
    parser.add_argument("--exporter", metavar="URL", help=f"the exporter (default http://{LISTEN_ADDRESS})")
    parser.add_argument(
        "--around",
        metavar="TIME",
        help="the time to compare around, such as 14:02, 2026-11-26T14:02 or seconds since 1970 (default: the last "
        "reload)",
    )
    for name, words in (
        ("before", "before the reload or before --around, from 1m to 30d (default 20m)"),
        (
            "after",
            "after the reload or after --around, from 1m to 30d (default: an hour, or the time until now if that "
            "is shorter)",
        ),
    ):
        parser.add_argument(
            f"--{name}",
            metavar="TIME",
            type=parse_span(60, 30 * 86_400),
            help=f"how much time to compare {words}",
        )
    parser.add_argument("--json", action="store_true", help="print the comparison as JSON")
    add_http_config_flag(parser)


def _add_discover(parser: Parser) -> None:
    parser.add_argument(
        "--user",
        metavar="NAME",
        help="the user that runs the exporter and must be able to read the stats (default: the user of the exporter's "
        "systemd unit, else the user who runs sudo, else you)",
    )


def _add_review(parser: Parser) -> None:
    parser.add_argument(
        "subjects",
        metavar="INI|STATS|PID",
        nargs="*",
        help="an ini file, the address of a stats server, or the PID of a master",
    )
    parser.add_argument("--json", action="store_true", help="print the review as JSON")


def _add_retire(parser: Parser) -> None:
    parser.add_argument("names", metavar="NAME", nargs="+", help="the server's name, as in the label `server`")
    parser.add_argument("--history", metavar="FILE", help="the exporter's history file")
    parser.add_argument(
        "--config", metavar="FILE", help="the exporter's configuration file, which names the history file"
    )
    parser.add_argument(
        "--force", action="store_true", help="retire the server even if the history does not contain it"
    )


def _add_hash_password(parser: Parser) -> None:
    parser.add_argument(
        "--cost",
        metavar="NUMBER",
        type=whole_between(*PASSWORD_COST_RANGE),
        default=DEFAULT_PASSWORD_COST,
        help="the cost of the bcrypt hash, from {} to {}: each step doubles the time that the exporter takes to check "
        "a password. At the default of {}, a check takes a quarter of a second; the exporter remembers a password "
        "that was right, so later requests with it are not slow".format(*PASSWORD_COST_RANGE, DEFAULT_PASSWORD_COST),
    )


def _add_completion(parser: Parser) -> None:
    parser.add_argument("shell", metavar="SHELL", choices=SHELLS, help=", ".join(SHELLS))


COMMANDS = (
    _Command(
        "serve",
        "export metrics over HTTP (the default)",
        "Watch uWSGI servers, and serve metrics, a live page and an API over HTTP. If other machines can "
        "reach the address on which `serve` listens, turn on TLS and a login with --web.config.file. Without "
        "--web.config.file, all data is unencrypted, and anyone who can reach the exporter can read it.",
        _add_serve,
    ),
    _Command("check", "watch servers for a while, then print a verdict", CHECKING, add_check_flags),
    _Command(
        "compare",
        "say what a deploy changed",
        "Compare requests before and after a reload, or before and after any other time: response time, CPU time, "
        "errors, growth of memory, and what requests wait for. The figures come from a running exporter: from its last "
        "hour, or from its history file. `compare` reports a change only if it is statistically significant: by chance "
        "alone, a change this large would occur in at most one of 200 comparisons.",
        _add_compare,
    ),
    _Command(
        "top",
        "watch servers in a terminal",
        "Watch uWSGI servers in a terminal. If an argument is the address of a stats server, in the form that `serve "
        "--stats` takes, top reads that stats server. If an argument is the URL of a running exporter or of one of its "
        "pages, top shows what this exporter measures, without waiting for a window; the URL .../servers/NAME opens "
        "the server NAME. If an argument is an http:// address or a host:port, top finds out by itself whether this is "
        f"a stats server or an exporter. Without arguments, top watches the exporter on {LISTEN_ADDRESS}; if no "
        "exporter runs there, top watches the servers found on this machine. If standard output is not a terminal, top "
        "prints one snapshot.",
        _add_top,
    ),
    _Command(
        "pids",
        "print (not run) the command that restarts the workers you choose",
        "Print a command that restarts the workers that you choose (--worker, --stuck) by their current PIDs. Also "
        "print the age of the requests that each worker is serving now: a restart loses these requests. `pids` sends "
        "no signal and changes nothing. Without --worker or --stuck, `pids` lists all workers.",
        _add_pids,
    ),
    _Command("report", "write a capacity review", DESCRIPTION, add_report_flags),
    _Command("tune", "find the best values of processes and threads by experiment", TUNING, add_tune_flags),
    _Command(
        "discover",
        "find the uWSGI masters on this machine",
        "Find the uWSGI masters on this machine and their stats servers, and print the command that watches these "
        "stats servers. For a uWSGI without a stats server, print the steps that turn one on. If you run discover as "
        "root, it first checks, with the rights of uWSGI's user, that these steps will work. `discover` changes "
        "nothing in uWSGI.",
        _add_discover,
    ),
    _Command(
        "review",
        "list settings of uWSGI that will cause trouble",
        "Review the configuration of uWSGI: list the settings that can cause trouble later. For each of these "
        "settings, print why it causes trouble, which line to add to the configuration to prevent this, and when the "
        "setting is harmless. Without arguments, review every uWSGI on this machine. `review` prints a value only if "
        "it is a number, because other values may be secret.",
        _add_review,
    ),
    _Command(
        "retire",
        "stop expecting a server that you removed",
        "Tell the exporter that you have removed a uWSGI server permanently. The exporter remembers each "
        "server that it found by a glob, so without `retire` it reports a removed server as down. Run `retire` as "
        "root: it appends a line to a text file beside the exporter's history file, and a running exporter reads this "
        "line. The history file is that of --history, or else the one in the configuration file (--config), or else "
        f"{SHIPPED_HISTORY}.",
        _add_retire,
    ),
    _Command(
        "hash-password",
        "hash a password for the exporter's login",
        "Ask for a password, and print its bcrypt hash. You then write the hash under basic_auth_users in the file "
        "that you give to `serve --web.config.file`. Type the password twice; the terminal does not show it. If "
        "standard input is not a terminal, the first line of standard input is the password. This command needs the "
        "Python package bcrypt, which the extra `login` installs.",
        _add_hash_password,
    ),
    _Command(
        "completion",
        "print a shell completion script",
        "Print a shell script that completes the commands and options of uwsgi-headroom when you press "
        "Tab. Save the script where your shell looks for completions. For bash, save it as "
        "~/.local/share/bash-completion/completions/uwsgi-headroom. For zsh, save it as _uwsgi-headroom in a directory "
        "of $fpath. For fish, save it as ~/.config/fish/completions/uwsgi-headroom.fish.",
        _add_completion,
    ),
)
"""In the order in which the help lists them."""
