"""Defines the commands and their options. Imports no command, so that help appears at once."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from uwsgi_headroom import __version__
from uwsgi_headroom.arguments.check_flags import DESCRIPTION as CHECKING
from uwsgi_headroom.arguments.check_flags import FLAGS as CHECK_FLAGS
from uwsgi_headroom.arguments.check_flags import HTTP_CONFIG
from uwsgi_headroom.arguments.exit_statuses import describe_exit_statuses
from uwsgi_headroom.arguments.parser import (
    Flag,
    Parser,
    UsageError,
    parse_span,
    seconds_between,
    suggest,
    whole_between,
)
from uwsgi_headroom.arguments.report_flags import DESCRIPTION as REPORTING
from uwsgi_headroom.arguments.report_flags import FLAGS as REPORT_FLAGS
from uwsgi_headroom.arguments.tune_flags import DESCRIPTION as TUNING
from uwsgi_headroom.arguments.tune_flags import FLAGS as TUNE_FLAGS
from uwsgi_headroom.config.defaults import (
    DEFAULT_PASSWORD_COST,
    HISTORY_SECONDS,
    LISTEN_ADDRESS,
    PASSWORD_COST_RANGE,
    SHIPPED_HISTORY,
    STUCK_SECONDS,
)
from uwsgi_headroom.config.settings import FLAGS, SettingRow

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
        flags=(_VERSION,),
        summary="how much more load a uWSGI server can take",
        description="Show how much more load a uWSGI server can take, which limit comes first, and what to change.",
        epilog="`uwsgi-headroom --stats ADDRESS` is short for `uwsgi-headroom serve --stats ADDRESS`.",
    )
    commands = program.add_subparsers(title="commands", required=True, metavar="COMMAND")
    return CommandLine(program, {command["name"]: commands.add_parser(**command) for command in COMMANDS})


def find_format(arguments: Sequence[str]) -> str:
    """Find the format that these arguments of `check` request, even if others of them are wrong."""
    parser = Parser(flags=(Flag("--format FORMAT", "", default="text"),), add_help=False)
    try:
        found: argparse.Namespace = parser.parse_known_args(arguments)[0]
    except UsageError:  # --format is the last argument, without a value
        return "text"
    return str(found.format)


def _describe_setting(setting: SettingRow) -> Flag:
    return Flag(
        f"{setting.flag} {setting.metavar}",
        setting.full_help,
        values=setting.values,
        is_checked=False,
        is_repeatable=setting.is_repeatable,
        is_optional=setting.is_switch,
    )


SETTING_FLAGS = tuple(map(_describe_setting, FLAGS))

_VERSION = Flag(
    "--version",
    "show program's version number and exit",
    extra={"action": "version", "version": f"{PROGRAM} {__version__}"},
)


def _command(name: str, summary: str, description: str, *flags: Flag) -> dict[str, Any]:
    """Return the keywords of a command's parser."""
    epilog = describe_exit_statuses(name) or None
    return {
        "name": name,
        "help": summary,
        "summary": summary,
        "description": description,
        "epilog": epilog,
        "flags": flags,
    }


def _parse_numbers(text: str) -> list[int]:
    return [whole_between(1, 100_000)(number) for number in text.split(",")]


_AROUND = parse_span(60, 30 * 86_400)

COMMANDS = (
    _command(
        "serve",
        "export metrics over HTTP (the default)",
        "Watch uWSGI servers, and serve metrics, a live page and an API over HTTP. If other machines can "
        "reach the address on which `serve` listens, turn on TLS and a login with --web.config.file. Without "
        "--web.config.file, all data is unencrypted, and anyone who can reach the exporter can read it.",
        _VERSION,
        Flag(
            "--check-config",
            "check the flags, the environment and the configuration file; print the resulting settings and any errors "
            "in them, then exit without connecting to any uWSGI. Exit status: 0 if nothing is wrong, else 1",
        ),
        *SETTING_FLAGS,
    ),
    _command("check", "watch servers for a while, then print a verdict", CHECKING, *CHECK_FLAGS),
    _command(
        "compare",
        "say what a deploy changed",
        "Compare requests before and after a reload, or before and after any other time: response time, CPU time, "
        "errors, growth of memory, and what requests wait for. The figures come from a running exporter: from its last "
        "hour, or from its history file. `compare` reports a change only if it is statistically significant: by chance "
        "alone, a change this large would occur in at most one of 200 comparisons.",
        Flag("server SERVER", "the name of a uWSGI server, or the URL of its page on an exporter"),
        Flag("--exporter URL", f"the exporter (default http://{LISTEN_ADDRESS})"),
        Flag(
            "--around TIME",
            "the time to compare around, such as 14:02, 2026-11-26T14:02 or seconds since 1970 (default: the last "
            "reload)",
        ),
        Flag(
            "--before TIME",
            "how much time to compare before the reload or before --around, from 1m to 30d (default 20m)",
            parse=_AROUND,
        ),
        Flag(
            "--after TIME",
            "how much time to compare after the reload or after --around, from 1m to 30d (default: an hour, or "
            "the time until now if that is shorter)",
            parse=_AROUND,
        ),
        Flag("--json", "print the comparison as JSON"),
        HTTP_CONFIG,
    ),
    _command(
        "top",
        "watch servers in a terminal",
        "Watch uWSGI servers in a terminal. If an argument is the address of a stats server, in the form that `serve "
        "--stats` takes, top reads that stats server. If an argument is the URL of a running exporter or of one of its "
        "pages, top shows what this exporter measures, without waiting for a window; the URL .../servers/NAME opens "
        "the server NAME. If an argument is an http:// address or a host:port, top finds out by itself whether this is "
        f"a stats server or an exporter. Without arguments, top watches the exporter on {LISTEN_ADDRESS}; if no "
        "exporter runs there, top watches the servers found on this machine. If standard output is not a terminal, top "
        "prints one snapshot.",
        Flag("addresses ADDRESS|URL", "what to watch", is_repeatable=True),
        HTTP_CONFIG,
        Flag(
            "--interval SECONDS",
            "how many seconds to wait between two refreshes, from 0.25 to 60 (default 1)",
            parse=seconds_between(0.25, 60),
            default=1.0,
        ),
        Flag("--once", "print one snapshot and exit"),
        Flag("--json", "print the snapshot as JSON: an object, or a list of objects if there are several servers"),
        Flag(
            "--seconds SECONDS",
            "for a stats server: how many seconds to watch it before the snapshot (default 3)",
            parse=seconds_between(2, HISTORY_SECONDS),
            default=3.0,
        ),
    ),
    _command(
        "pids",
        "print (not run) the command that restarts the workers you choose",
        "Print a command that restarts the workers that you choose (--worker, --stuck) by their current PIDs. Also "
        "print the age of the requests that each worker is serving now: a restart loses these requests. `pids` sends "
        "no signal and changes nothing. Without --worker or --stuck, `pids` lists all workers.",
        Flag(
            "server NAME|ADDRESS|URL",
            "the name of a uWSGI server on this machine, the address of its stats server, or the URL of the uWSGI "
            "server's page on an exporter",
        ),
        Flag(
            "--worker NUMBERS",
            "list only these workers, such as 2,3; repeatable",
            parse=_parse_numbers,
            is_repeatable=True,
            extra={"action": "extend"},
        ),
        Flag(
            "--stuck",
            "list only workers with stuck requests. A request is stuck if it has been in service for "
            f"{STUCK_SECONDS:g} s or longer; if you gave another time to the exporter (`serve --stuck`), this time "
            "counts",
        ),
        HTTP_CONFIG,
    ),
    _command("report", "write a capacity review", REPORTING, *REPORT_FLAGS),
    _command("tune", "find the best values of processes and threads by experiment", TUNING, *TUNE_FLAGS),
    _command(
        "discover",
        "find the uWSGI masters on this machine",
        "Find the uWSGI masters on this machine and their stats servers, and print the command that watches these "
        "stats servers. For a uWSGI without a stats server, print the steps that turn one on. If you run discover as "
        "root, it first checks, with the rights of uWSGI's user, that these steps will work. `discover` changes "
        "nothing in uWSGI.",
        Flag(
            "--user NAME",
            "the user that runs the exporter and must be able to read the stats (default: the user of the exporter's "
            "systemd unit, else the user who runs sudo, else you)",
        ),
    ),
    _command(
        "review",
        "list settings of uWSGI that will cause trouble",
        "Review the configuration of uWSGI: list the settings that can cause trouble later. For each of these "
        "settings, print why it causes trouble, which line to add to the configuration to prevent this, and when the "
        "setting is harmless. Without arguments, review every uWSGI on this machine. `review` prints a value only if "
        "it is a number, because other values may be secret.",
        Flag(
            "subjects INI|STATS|PID",
            "an ini file, the address of a stats server, or the PID of a master",
            is_repeatable=True,
        ),
        Flag("--json", "print the review as JSON"),
    ),
    _command(
        "retire",
        "stop expecting a server that you removed",
        "Tell the exporter that you have removed a uWSGI server permanently. The exporter remembers each "
        "server that it found by a glob, so without `retire` it reports a removed server as down. Run `retire` as "
        "root: it appends a line to a text file beside the exporter's history file, and a running exporter reads this "
        "line. The history file is that of --history, or else the one in the configuration file (--config), or else "
        f"{SHIPPED_HISTORY}.",
        Flag("names NAME", "the server's name, as in the label `server`", extra={"nargs": "+"}),
        Flag("--history FILE", "the exporter's history file"),
        Flag("--config FILE", "the exporter's configuration file, which names the history file"),
        Flag("--force", "retire the server even if the history does not contain it"),
    ),
    _command(
        "hash-password",
        "hash a password for the exporter's login",
        "Ask for a password, and print its bcrypt hash. You then write the hash under basic_auth_users in the file "
        "that you give to `serve --web.config.file`. Type the password twice; the terminal does not show it. If "
        "standard input is not a terminal, the first line of standard input is the password. This command needs the "
        "Python package bcrypt, which the extra `login` installs.",
        Flag(
            "--cost NUMBER",
            "the cost of the bcrypt hash, from {} to {}: each step doubles the time that the exporter takes to check "
            "a password. At the default of {}, a check takes a quarter of a second; the exporter remembers a password "
            "that was right, so later requests with it are not slow".format(
                *PASSWORD_COST_RANGE, DEFAULT_PASSWORD_COST
            ),
            parse=whole_between(*PASSWORD_COST_RANGE),
            default=DEFAULT_PASSWORD_COST,
        ),
    ),
    _command(
        "completion",
        "print a shell completion script",
        "Print a shell script that completes the commands and options of uwsgi-headroom when you press "
        "Tab. Save the script where your shell looks for completions. For bash, save it as "
        "~/.local/share/bash-completion/completions/uwsgi-headroom. For zsh, save it as _uwsgi-headroom in a directory "
        "of $fpath. For fish, save it as ~/.config/fish/completions/uwsgi-headroom.fish.",
        Flag("shell SHELL", ", ".join(SHELLS), values=SHELLS),
    ),
)
"""In the order in which the help lists them."""
