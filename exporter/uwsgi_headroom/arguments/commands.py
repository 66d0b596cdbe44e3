"""Defines the commands and their options. Imports no command, so that help appears at once."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

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
    made = {
        "serve": _add_serve(commands),
        "check": _add_check(commands),
        "compare": _add_compare(commands),
        "top": _add_top(commands),
        "pids": _add_pids(commands),
        "report": _add_report(commands),
        "tune": _add_tune(commands),
        "discover": _add_discover(commands),
        "review": _add_review(commands),
        "retire": _add_retire(commands),
        "hash-password": _add_hash_password(commands),
        "completion": _add_completion(commands),
    }
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


def _add_command(commands: argparse._SubParsersAction[Parser], name: str, summary: str, description: str) -> Parser:
    parser = commands.add_parser(
        name, help=summary, description=description, epilog=describe_exit_statuses(name) or None
    )
    parser.summary = summary
    return parser


def _add_version(parser: Parser) -> None:
    parser.add_argument("--version", action="version", version=f"{PROGRAM} {__version__}")


def _add_serve(commands: argparse._SubParsersAction[Parser]) -> Parser:
    parser = _add_command(
        commands,
        "serve",
        summary="export metrics over HTTP (the default)",
        description="Watch uWSGI servers, and serve metrics, a live page and an API over HTTP. If other machines can "
        "reach the address on which serve listens, give --web.config.file a file with TLS and a login: without that "
        "file, everything is unencrypted and open to everybody.",
    )
    _add_version(parser)
    parser.add_argument(
        "--check-config",
        action="store_true",
        help="print what the exporter would do with these settings, the environment and the configuration file, and "
        "what is wrong with them; read no uWSGI, and serve nothing. Exit status: 0 if nothing is wrong, else 1",
    )
    add_settings(parser)
    return parser


def _add_check(commands: argparse._SubParsersAction[Parser]) -> Parser:
    parser = _add_command(
        commands, "check", summary="watch servers for a while, then print a verdict", description=CHECKING
    )
    add_check_flags(parser)
    return parser


def _add_top(commands: argparse._SubParsersAction[Parser]) -> Parser:
    parser = _add_command(
        commands,
        "top",
        summary="watch servers in a terminal",
        description="Watch servers in a terminal. An argument may be the address of a stats server, as for --stats: "
        "top then reads that server itself. It may also be the URL of a running exporter, or of a page of it "
        "(.../servers/NAME opens that server): the exporter then answers from its history. Of an http:// address or a "
        "host:port, top finds out which of the two it is. Without arguments, top watches the exporter on "
        f"{LISTEN_ADDRESS}; if there is none, it watches the servers found on this machine. If standard output is not "
        "a terminal, top prints one snapshot.",
    )
    parser.add_argument("addresses", metavar="ADDRESS|URL", nargs="*", help="what to watch")
    add_http_config_flag(parser)
    parser.add_argument(
        "--interval",
        metavar="SECONDS",
        type=seconds_between(0.25, 60),
        default=1.0,
        help="seconds between two refreshes, 0.25 to 60 (default 1)",
    )
    parser.add_argument("--once", action="store_true", help="print one snapshot and exit")
    parser.add_argument("--json", action="store_true", help="print the snapshot as JSON (several servers: a list)")
    parser.add_argument(
        "--seconds",
        metavar="SECONDS",
        type=seconds_between(2, HISTORY_SECONDS),
        default=3.0,
        help="how long to watch before a snapshot if top reads the server itself (default 3)",
    )
    return parser


def _add_pids(commands: argparse._SubParsersAction[Parser]) -> Parser:
    parser = _add_command(
        commands,
        "pids",
        summary="print the command that restarts some workers",
        description="Print the command that restarts some workers of a server. The command contains their current "
        "PIDs. It also prints how old the requests are that each worker is serving, and what a restart loses. This "
        "command sends no signal and changes nothing. Without --worker and --stuck, it lists all workers.",
    )
    parser.add_argument(
        "server",
        metavar="NAME|ADDRESS|URL",
        help="the name of a server of the exporter on this machine, or of one that is found here; or what check takes",
    )
    parser.add_argument(
        "--worker",
        metavar="NUMBERS",
        action="extend",
        type=_parse_numbers,
        help="which workers, such as 2,3; repeatable",
    )
    parser.add_argument(
        "--stuck",
        action="store_true",
        help=f"only the workers with stuck requests, which have been in service for {STUCK_SECONDS:g} s or longer, or "
        "for the exporter's own --stuck",
    )
    add_http_config_flag(parser)
    return parser


def _parse_numbers(text: str) -> list[int]:
    return [whole_between(1, 100_000)(number) for number in text.split(",")]


def _add_compare(commands: argparse._SubParsersAction[Parser]) -> Parser:
    parser = _add_command(
        commands,
        "compare",
        summary="say what a deploy changed",
        description="Compare requests before and after a reload, or another moment: response time, CPU time, errors, "
        "growth of memory, and what requests wait for. A running exporter answers, from its last hour or from its "
        "history file. A change is named only if chance alone would cause one as large in at most one of 200 "
        "comparisons.",
    )
    parser.add_argument("server", metavar="SERVER", help="the name of a server, or the URL of its page on an exporter")
    parser.add_argument("--exporter", metavar="URL", help=f"the exporter (default http://{LISTEN_ADDRESS})")
    parser.add_argument(
        "--around",
        metavar="TIME",
        help="the moment, such as 14:02, 2026-11-26T14:02 or seconds since 1970 (default: the last reload)",
    )
    for name, words in (("before", "before it (default 20m)"), ("after", "after it (default: an hour, or until now)")):
        parser.add_argument(
            f"--{name}",
            metavar="TIME",
            type=parse_span(60, 30 * 86_400),
            help=f"how long a time {words}, 1m to 30d",
        )
    parser.add_argument("--json", action="store_true", help="print the comparison as JSON")
    add_http_config_flag(parser)
    return parser


def _add_report(commands: argparse._SubParsersAction[Parser]) -> Parser:
    parser = _add_command(commands, "report", summary="write a capacity review", description=DESCRIPTION)
    add_report_flags(parser)
    return parser


def _add_tune(commands: argparse._SubParsersAction[Parser]) -> Parser:
    parser = _add_command(
        commands, "tune", summary="find the best processes and threads by experiment", description=TUNING
    )
    add_tune_flags(parser)
    return parser


def _add_discover(commands: argparse._SubParsersAction[Parser]) -> Parser:
    parser = _add_command(
        commands,
        "discover",
        summary="find the uWSGI masters on this machine",
        description="Find the uWSGI masters on this machine and their stats servers, and print the command that "
        "watches them. For a uWSGI without a stats server, print the steps that turn one on. If you run discover as "
        "root, it first tests, as uWSGI's user, that these steps work. It changes nothing in uWSGI.",
    )
    parser.add_argument(
        "--user",
        metavar="NAME",
        help="the user that runs the exporter and has to read the stats (default: the exporter's systemd unit, else "
        "the user who runs sudo, else you)",
    )
    return parser


def _add_review(commands: argparse._SubParsersAction[Parser]) -> Parser:
    parser = _add_command(
        commands,
        "review",
        summary="list the settings of a uWSGI that will cause trouble",
        description="Review the configuration of uWSGI: list the settings that can cause trouble later. For each, say "
        "why, which line prevents it, and when it does not matter. Without arguments, review every uWSGI on this "
        "machine. Of the values of options, print numbers only: others may be secret.",
    )
    parser.add_argument(
        "subjects",
        metavar="INI|STATS|PID",
        nargs="*",
        help="an ini file, the address of a stats server, or the PID of a master",
    )
    parser.add_argument("--json", action="store_true", help="print the review as JSON")
    return parser


def _add_retire(commands: argparse._SubParsersAction[Parser]) -> Parser:
    parser = _add_command(
        commands,
        "retire",
        summary="stop expecting a server that you removed",
        description="Tell the exporter that you have removed a uWSGI server permanently. The exporter remembers each "
        "server that it found by a pattern, and would report this one as down. Run it as root: it appends a line to a "
        "text file beside the exporter's history file. A running exporter reads that line. The history file is that "
        f"of --config, or else {SHIPPED_HISTORY}.",
    )
    parser.add_argument("names", metavar="NAME", nargs="+", help="the server's name, as in the label `server`")
    parser.add_argument("--history", metavar="FILE", help="the exporter's history file")
    parser.add_argument("--config", metavar="FILE", help="the exporter's configuration file, which names its history")
    parser.add_argument(
        "--force", action="store_true", help="retire the server even if the history does not contain it"
    )
    return parser


def _add_hash_password(commands: argparse._SubParsersAction[Parser]) -> Parser:
    parser = _add_command(
        commands,
        "hash-password",
        summary="hash a password for the exporter's login",
        description="Ask for a password and print its bcrypt hash, for basic_auth_users in the file of "
        "--web.config.file. You type the password twice, and the terminal does not show it. If standard input is not a "
        "terminal, its first line is the password. Needs the extra `login`.",
    )
    parser.add_argument(
        "--cost",
        metavar="NUMBER",
        type=whole_between(*PASSWORD_COST_RANGE),
        default=DEFAULT_PASSWORD_COST,
        help="each step doubles the time of a check, {} to {} (default {}: a quarter of a second, once for each "
        "client)".format(*PASSWORD_COST_RANGE, DEFAULT_PASSWORD_COST),
    )
    return parser


def _add_completion(commands: argparse._SubParsersAction[Parser]) -> Parser:
    parser = _add_command(
        commands,
        "completion",
        summary="print a shell completion script",
        description="Print a script that completes the commands and options of uwsgi-headroom. Save it as the file "
        "that your shell reads. For bash, that is ~/.local/share/bash-completion/completions/uwsgi-headroom. For zsh, "
        "it is a file with the name _uwsgi-headroom in a directory of $fpath. For fish, it is "
        "~/.config/fish/completions/uwsgi-headroom.fish.",
    )
    parser.add_argument("shell", metavar="SHELL", choices=SHELLS, help=", ".join(SHELLS))
    return parser
