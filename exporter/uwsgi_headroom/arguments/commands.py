"""Defines the commands, their options and their exit statuses. Imports no command, so that help appears at once."""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from uwsgi_headroom import __version__
from uwsgi_headroom.arguments.parser import (
    HELP,
    Flag,
    Parser,
    UsageError,
    parse_size,
    parse_span,
    seconds_between,
    suggest,
    whole_between,
)
from uwsgi_headroom.check.request import FORMATS, UNSET, WATCH_SECONDS, parse_maximum, parse_minimum
from uwsgi_headroom.config.defaults import (
    DEFAULT_PASSWORD_COST,
    HISTORY_SECONDS,
    LEAST_CLIENTS,
    LISTEN_ADDRESS,
    PASSWORD_COST_RANGE,
    SHIPPED_HISTORY,
    STUCK_SECONDS,
    TUNE_SECONDS,
)
from uwsgi_headroom.config.settings import FLAGS, find_setting
from uwsgi_headroom.report.request import DEFAULT_OUTPUT, DEFAULT_RANGE, parse_range
from uwsgi_headroom.report.request import FORMATS as REPORT_FORMATS

EXIT_STATUSES: Mapping[str, tuple[tuple[int, str], ...]] = {
    "serve": ((0, "stopped by SIGINT"), (1, "no server was found"), (2, "a setting is wrong")),
    "check": (
        (0, "OK"),
        (1, "warning"),
        (2, "critical"),
        (3, "unknown: no server could be read, an argument is wrong, or check was interrupted or failed"),
    ),
    "compare": ((0, "the comparison was printed"), (1, "no comparison is possible"), (2, "an argument is wrong")),
    "top": ((0, "you quit, or top printed a snapshot with every server"), (3, "a server could not be read")),
    "pids": (
        (0, "the workers were listed, and the command that restarts the chosen ones was printed"),
        (1, "nothing can be restarted: no such worker, no stuck request, or the PIDs are not known"),
        (2, "an argument is wrong"),
    ),
    "report": (
        (0, "the report was written"),
        (1, "no report was written: the source has no data, it cannot be read, or the command was interrupted"),
        (2, "an argument is wrong"),
        (3, "a partial report was written, because the source failed halfway"),
    ),
    "tune": (
        (0, "tune recommends a setting, which may be the present setting"),
        (1, "tune recommends nothing: the application does not run, the machine is too busy, or tune was interrupted"),
        (2, "an argument, the ini file or the access log is wrong"),
    ),
    "review": (
        (0, "no setting is certain to cause trouble (some may)"),
        (1, "a setting is certain to cause trouble, or there is no uWSGI or file to review"),
        (2, "an argument is wrong"),
    ),
    "hash-password": (
        (0, "the hash was printed"),
        (1, "the Python package bcrypt is missing"),
        (2, "an argument is wrong, or the password is longer than bcrypt can hash"),
    ),
    "discover": ((0, "a stats server was found"), (1, "no stats server was found")),
}
"""By command: each status, lowest first, and what it means, as a clause."""


HTTP_CONFIG = Flag(
    "--http.config.file FILE",
    "a file with the login, the trusted certificates or the client certificate to use with an exporter or a "
    "Prometheus, in the format of promtool's --http.config.file",
)
"""For every command that reads an exporter or a Prometheus."""

_maximum = partial(Flag, parse=parse_maximum, default=UNSET)
_json = partial(Flag, "-j --json")
_as_json = {"action": "store_const", "const": "json", "dest": "format", "default": argparse.SUPPRESS}

CHECK_FORMATS = (
    _json("print the verdict as one JSON document, even after a failure", extra=_as_json),
    Flag(
        "--format",
        "how to print the verdict: as text, as JSON, or as one line with performance data for Nagios (default text)",
        default="text",
        values=FORMATS,
    ),
)

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
        """Parse the options of a command, by default `serve`, and add its name as `command`. Raises UsageError."""
        first = arguments[0] if arguments else ""
        if first == "help":
            arguments = [*arguments[1:2], "--help"]
            first = arguments[0]
        if first in (*HELP.names, *_VERSION.names):
            return self.program.parse_args([first])
        name, rest = (first, arguments[1:]) if first in self.commands else (DEFAULT_COMMAND, arguments)
        if rest and rest is arguments and not first.startswith("-"):
            hint = suggest(first, self.commands)
            if not hint and any(mark in first for mark in "/:@"):
                hint = f"; did you mean {PROGRAM} check {first}?"
            raise UsageError(f"unknown command {first}{hint}", PROGRAM)
        options = self.commands[name].parse_args(rest)
        options.command = name
        return options


def make_command_line() -> CommandLine:
    commands = {name: Parser(prog=f"{PROGRAM} {name}", **row) for name, row in COMMANDS}
    listed = "\n".join(f"  {name:{max(map(len, commands))}}  {command.summary}" for name, command in commands.items())
    program = Parser(
        prog=PROGRAM,
        flags=(HELP, _VERSION),
        summary="how much more load a uWSGI server can take",
        description="Show how much more load a uWSGI server can take, which limit comes first, and what to change.",
        epilog=f"`sudo {PROGRAM}` alone, in a terminal, looks at every uWSGI of this machine for ten seconds, and says "
        f"what is wrong.\n\ncommands:\n{listed}\n\n`{PROGRAM} --stats ADDRESS` is short for "
        f"`{PROGRAM} serve --stats ADDRESS`, and `{PROGRAM} help COMMAND` for `{PROGRAM} COMMAND --help`.",
    )
    return CommandLine(program, commands)


def find_format(arguments: Sequence[str]) -> str:
    try:
        found: argparse.Namespace = Parser(flags=CHECK_FORMATS).parse_known_args(arguments)[0]
    except UsageError:  # --format is the last argument, or has another value
        return "text"
    return str(found.format)


SETTING_FLAGS = tuple(
    Flag(
        setting.form,
        f"{setting.own_help} [{setting.variable}{', separated by spaces' * setting.is_repeatable}]",
        values=setting.values,
        is_checked=False,
        is_repeatable=setting.is_repeatable,
        extra={"default": None} if setting.is_switch else {},
        aliases=setting.aliases,
        group=setting.group,
    )
    for setting in FLAGS
)

_VERSION = Flag(
    "-V --version",
    "show the version of the program",
    extra={"action": "version", "version": f"{PROGRAM} {__version__}"},
)


def _command(name: str, summary: str, description: str, *flags: Flag) -> tuple[str, dict[str, Any]]:
    statuses = [f"  {status}  {meaning}" for status, meaning in EXIT_STATUSES.get(name, ())]
    epilog = "\n".join(["exit status:", *statuses]) if statuses else ""
    return name, {"summary": summary, "description": description, "epilog": epilog, "flags": (HELP, *flags)}


_AROUND = parse_span(60, 30 * 86_400)

COMMANDS = (
    _command(
        "serve",
        "export metrics over HTTP",
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
    _command(
        "check",
        "watch servers for a while, then print a verdict",
        "Watch uWSGI servers, then print a verdict and what to change. With several servers, print one line for each "
        "server, the worst first, then the details of each server that is not OK. The exit status is the verdict, as "
        "for a Nagios plugin. With several servers, the worst server decides the exit status: critical is worse than "
        "warning, warning is worse than unknown, and unknown is worse than OK. Without an address, look at every "
        "uWSGI of this machine for ten seconds, also at those without stats.",
        Flag(
            "addresses ADDRESS",
            "the address of a stats server, a glob, or `app:SOCKET` or `pid:PID` of a uWSGI without stats (default: "
            "every uWSGI of this machine, for 10 s); or the URL of an exporter, or of one server's page on it: the "
            "exporter then answers at once, from its history",
            is_repeatable=True,
        ),
        HTTP_CONFIG,
        Flag("-a --all", "print all of each server that is not OK; with addresses, print everything that is known"),
        Flag(
            "-s --seconds SECONDS",
            f"how many seconds to watch (default {WATCH_SECONDS:g}). If you give the URL of a running exporter, "
            "`check` does not watch: it prints at once what the exporter measured over a window of this length, or "
            "over the next longer window that it has (`serve --window`)",
            parse=seconds_between(2, HISTORY_SECONDS),
        ),
        *CHECK_FORMATS,
        Flag(
            "--save FILE",
            "also write what the servers are judged by to a new file, for a bug report: without paths, addresses, "
            "names of users, hosts or applications, and code. `check FILE` judges it again",
        ),
        Flag(
            "--stuck AGE",
            f"count a request as stuck once it has been in service for this long, from 1s to 24h (default "
            f"{STUCK_SECONDS:g}s)",
        ),
        Flag("--read-locks", find_setting("--read-locks").own_help),
        Flag("--[no-]read-pollfds", find_setting("--read-pollfds").own_help, extra={"default": None}),
        Flag(
            "--code",
            "ten times a second, also find out, from the workers' memory, which Python function and line each busy "
            "thread runs, and print the functions that take the most time. Only names of functions and files, and line "
            "numbers, are read, no values of variables",
        ),
        Flag("--code-prefix PATH", find_setting("--code-prefix").own_help, is_repeatable=True),
        Flag(
            "--uwsgi-log [NAME=]PATH",
            "read uWSGI's log from this file, or from journal:UNIT (default: the file that uWSGI writes it to, if you "
            "may read it), and name causes of problems that only the log shows. NAME is the server's name; you may "
            "omit NAME if there is only one server. Repeatable",
            is_repeatable=True,
            aliases=("--log",),
        ),
        Flag("--no-log", "read no log that you do not name", extra={"action": "store_true"}),
        Flag(
            "--what-if PROCESSESxTHREADS",
            "also predict the throughput, response time and memory of a setting, such as 8x4 (8 processes with 4 "
            "threads each). For several settings, repeat the flag, or put commas between the settings",
            is_repeatable=True,
        ),
        Flag(
            "--since-reload",
            "also compare the requests since the last reload or restart of uWSGI with earlier requests, in a deploy "
            "pipeline. The verdict is critical if requests are slower, use more CPU or fail more often, or if "
            "memory grows. The verdict is unknown until there are enough requests to judge. Needs an exporter",
            group="after a deploy",
        ),
        Flag(
            "--wait TIME",
            "how long --since-reload may wait for a verdict, such as 10m (default 0)",
            parse=parse_span(0, 3600),
            default=0.0,
        ),
        Flag(
            "--not-before SECONDS",
            "with --since-reload: ignore reloads before this time, in seconds since 1970 (as `date +%s` prints them)",
            parse=seconds_between(0, 1e12),
        ),
        Flag(
            "--min-headroom WARNING[:CRITICAL]",
            "the lowest acceptable headroom. For example, 2:1.2 gives a warning below 2, and is critical below 1.2. "
            "A headroom of 2 means that the load can double",
            parse=parse_minimum,
            default=UNSET,
            group="your own thresholds",
        ),
        Flag(
            "--min-requests WARNING[:CRITICAL]",
            "the fewest requests that are OK while `check` watches. For example, 1 gives a warning if none comes",
            parse=parse_minimum,
            default=UNSET,
            group="your own thresholds",
        ),
        _maximum(
            "--max-queue-wait WARNING[:CRITICAL]",
            "the longest average wait in the listen queue that is OK: 100ms:2s is a warning above 100ms, and critical "
            "above 2s",
        ),
        _maximum(
            "--max-response-time WARNING[:CRITICAL]",
            "the longest average response time that is OK: 500ms:2s is a warning above 500ms, and critical above 2s",
        ),
        _maximum(
            "--max-p95 WARNING[:CRITICAL]",
            "the highest acceptable 95th percentile of response times inside uWSGI, such as 800ms:2s. The percentile "
            "is estimated from samples, so a threshold has to be at least twice the time between samples, which means "
            "at least 50ms if `check` itself reads the stats server",
        ),
        _maximum(
            "--max-p99 WARNING[:CRITICAL]",
            "the highest acceptable 99th percentile of response times, such as 1s:3s. At least 100 requests are "
            "needed to judge it. All thresholds that you set with flags apply in addition to the built-in checks: "
            "they can only make a verdict worse",
        ),
    ),
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
        _json("print the comparison as JSON"),
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
        _json("print the snapshot as JSON: an object, or a list of objects if there are several servers"),
        Flag(
            "-s --seconds SECONDS",
            "for a stats server: how many seconds to watch it before the snapshot (default 3)",
            parse=seconds_between(2, HISTORY_SECONDS),
            default=3.0,
        ),
    ),
    _command(
        "pids",
        "print the command that restarts chosen workers",
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
            parse=lambda text: [whole_between(1, 100_000)(number) for number in text.split(",")],
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
    _command(
        "report",
        "write a capacity review",
        "Write a capacity review of uWSGI servers from weeks of their history: how much of each limit is used at peak, "
        "what users feel, how the load grows, and what to change. The history comes from a Prometheus that scrapes the "
        "exporter, or from the file that `serve --history` writes.",
        Flag("--prometheus URL", "the URL of a Prometheus, or of another store with the same API"),
        Flag(
            "--history FILE",
            "a history file of an exporter. For several machines, give the history file of each: servers with the "
            "same name then count as one service",
            is_repeatable=True,
        ),
        Flag("--server NAME", "review this server only. May be repeated", is_repeatable=True),
        Flag("--service NAME", "review this service only. May be repeated", is_repeatable=True),
        Flag(
            "--range TIME",
            "how much time to review, such as 36h, 30d or 12w; the range ends now, or at --until (default 30d)",
            parse=parse_range,
            default=DEFAULT_RANGE,
        ),
        Flag(
            "--until TIME",
            "the end of the range, such as 2026-10-01 or 2026-10-01T12:00 (default: now; with --history, the end of "
            "the records)",
        ),
        Flag(
            "--time-zone ZONE",
            "the time zone of days and hours in the report, such as Europe/Berlin (default: this machine's)",
        ),
        Flag("-o --output FILE", f"the file (default {DEFAULT_OUTPUT})", default=DEFAULT_OUTPUT, aliases=("--out",)),
        _json("write the report as JSON", extra=_as_json),
        Flag(
            "--format",
            "the format of the report (default: by the ending of --output)",
            values=REPORT_FORMATS,
        ),
        HTTP_CONFIG,
        Flag(
            "--prometheus-header NAME:VALUE",
            "a header to send with each request, such as 'X-Scope-OrgID: shop'. May be repeated",
            is_repeatable=True,
        ),
    ),
    _command(
        "tune",
        "find the best processes and threads by experiment",
        "Find out by experiment how many processes and threads are best for an application. tune starts the "
        "application in a separate uWSGI on loopback, measures at most five other settings against the present one, "
        "and recommends the smallest that is as good as the best. tune sends requests only to the uWSGI that it "
        "started, and changes none of your files. The application connects to its databases and other backends as "
        "usual, so let it use test databases.",
        Flag(
            "--ini FILE",
            "the ini file of your server, perhaps with a section (shop.ini:staging)",
            extra={"required": True},
        ),
        Flag("--uwsgi FILE", "the uWSGI program (default: the one in the virtual environment, else the one on PATH)"),
        Flag(
            "--url PATH",
            "a path to request, such as '/items?page=2' (default /); repeat it for several paths, which take turns",
            is_repeatable=True,
        ),
        Flag(
            "--access-log FILE",
            "instead of --url: an access log in the common or combined format, whose GET requests tune repeats",
        ),
        Flag(
            "--clients NUMBER",
            f"clients that ask without a pause (default: as many as the present threads, but at least {LEAST_CLIENTS})",
            parse=whole_between(1, 2000),
        ),
        Flag(
            "-s --seconds SECONDS",
            f"how many seconds to measure in each run (default {TUNE_SECONDS:g})",
            parse=seconds_between(1.0, 600.0),
            default=TUNE_SECONDS,
        ),
        Flag(
            "--max-memory SIZE",
            "recommend nothing that takes more memory in all, such as 800M (default: the memory that is available)",
            parse=parse_size,
        ),
        Flag(
            "-o --output FILE",
            "the file for the diff of the ini file (default: its name with .diff, in the working directory)",
        ),
        Flag("--yes", "start without asking"),
    ),
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
        _json("print the review as JSON"),
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
        Flag("-c --config FILE", "the configuration file, which names the other", aliases=("--config.file",)),
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
