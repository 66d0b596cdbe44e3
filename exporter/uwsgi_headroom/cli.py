"""The command line: runs a command and turns errors into a message and an exit status.

A command's modules are imported when that command runs, so that help appears at once.
"""

from __future__ import annotations

import argparse
import os
import sys
import traceback
from collections.abc import Callable, Sequence
from typing import TextIO

from uwsgi_headroom import interrupts
from uwsgi_headroom.arguments.commands import CommandLine, find_format, make_command_line
from uwsgi_headroom.check import failure
from uwsgi_headroom.check.request import UNKNOWN, Request, Thresholds
from uwsgi_headroom.config.settings import PREFIX
from uwsgi_headroom.errors import ConfigError, HeadroomError, OutputError
from uwsgi_headroom.report.request import ReportRequest
from uwsgi_headroom.same_fields import copy_fields
from uwsgi_headroom.terminal_text import print_lines


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit status: 0, 1 (the command failed) or 2 (usage error). For `check`, the
    status is a monitoring plugin's: 3 without a verdict."""
    arguments = list(sys.argv[1:] if arguments is None else arguments)
    line = make_command_line()
    if arguments[:1] == ["check"]:
        return _run_plugin(line, arguments)
    try:
        return _run(line, arguments)
    except BrokenPipeError:
        _discard_output()
        return 1
    except HeadroomError as error:
        if isinstance(error, OutputError):
            _discard_output()
        _print_error([f"uwsgi-headroom: {error}", *error.details])
        return 2 if isinstance(error, ConfigError) else 1
    except OSError as error:  # such as a file of another user, without `sudo`
        if error.filename is None and not isinstance(error, FileNotFoundError):  # no place for a temporary file
            raise
        _print_error([": ".join(map(str, filter(None, ("uwsgi-headroom", error.filename, error.strerror))))])
        return 1
    except KeyboardInterrupt:
        return 0


def _run(line: CommandLine, arguments: Sequence[str]) -> int:
    if not arguments and _is_typed():
        return _look()
    options = line.parse(arguments)
    prepared = _COMMANDS.get(options.command)
    return prepared(line, options) if prepared else _import_run(options)(options)


def _is_typed() -> bool:
    """Whether a person typed the program's name alone: in a terminal's foreground, without settings of `serve`."""
    try:
        is_foreground = os.tcgetpgrp(sys.stdin.fileno()) == os.getpgrp() and sys.stdout.isatty()
    except (AttributeError, OSError, ValueError):  # there is no standard input, or no terminal
        return False
    return is_foreground and not any(name == "NOTIFY_SOCKET" or name.startswith(PREFIX) for name in os.environ)


def _look() -> int:
    with interrupts.ending_the_process():
        from uwsgi_headroom.check import look
    try:
        with interrupts.ending_the_process():
            from uwsgi_headroom.top import look as shown
    except ModuleNotFoundError:  # rich is an extra
        return look.run(Request())
    return shown.run()


def _run_plugin(line: CommandLine, arguments: Sequence[str]) -> int:
    """Run a command as a monitoring plugin: every failure ends in the status UNKNOWN."""
    details: Sequence[str] = ()
    try:
        return _run(line, arguments)
    except BrokenPipeError:
        _discard_output()
        return UNKNOWN
    except KeyboardInterrupt:
        reason, problem = "interrupted", "interrupted"
    except ConfigError as error:
        reason, problem, details = "usage", str(error), error.details
    except OutputError as error:
        _discard_output()
        _print_error([f"UNKNOWN  {error}"])
        return UNKNOWN
    except HeadroomError as error:
        reason, problem, details = "not_found", str(error), error.details
    except Exception as error:  # noqa: BLE001 - an uncaught exception exits with status 1, which is a warning
        place = traceback.extract_tb(error.__traceback__)[-1]
        where = f"{type(error).__name__} in {os.path.basename(place.filename)}, line {place.lineno}"
        reason, problem = "internal", f"a bug in uwsgi-headroom ({where}): please report it"
    try:
        failure.report(find_format(arguments), reason, problem, details)
    except (OSError, OutputError):
        _discard_output()
        _discard_output(sys.stderr)
    return UNKNOWN


def _discard_output(output: TextIO | None = None) -> None:
    """Discard the rest of an output (the standard one by default): its reader (such as `head`) has closed the pipe, or
    there is no room for it, and Python flushes at exit, and changes the exit status if that fails."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), (output or sys.stdout).fileno())


def _print_error(lines: Sequence[str]) -> None:
    """Print lines to standard error if that can be written: the exit status says the rest."""
    try:
        print_lines(lines, sys.stderr)
    except (OSError, OutputError):
        _discard_output(sys.stderr)


def _check(line: CommandLine, options: argparse.Namespace) -> int:
    if (options.wait or options.not_before is not None) and not options.since_reload:
        line.commands["check"].error("--wait and --not-before need --since-reload")
    if options.code_prefix and not options.code:
        line.commands["check"].error("--code-prefix needs --code")
    with interrupts.ending_the_process():
        from uwsgi_headroom.check import command, look
    run = command.run if options.addresses or options.all else look.run
    return run(
        copy_fields(
            Request,
            options,
            addresses=tuple(options.addresses),
            thresholds=copy_fields(Thresholds, options),
            what_if=tuple(options.what_if or ()),
            http_config=options.http_config_file,
            logs=tuple(options.uwsgi_log or ()),
            code=tuple(options.code_prefix or ()) if options.code else None,
        )
    )


def _report(line: CommandLine, options: argparse.Namespace) -> int:
    if (options.prometheus is None) == (not options.history):
        line.commands["report"].error("give --prometheus URL or --history FILE")
    with interrupts.ending_the_process():
        from uwsgi_headroom.report import command
    return command.run(
        copy_fields(
            ReportRequest,
            options,
            history=tuple(options.history),
            servers=tuple(options.server),
            services=tuple(options.service),
            seconds=options.range,
            headers=tuple(options.prometheus_header),
            http_config=options.http_config_file,
        )
    )


def _import_run(options: argparse.Namespace) -> Callable[[argparse.Namespace], int]:
    """Import what runs a command that takes its options as they are. Ctrl-C meanwhile ends the process."""
    with interrupts.ending_the_process():
        match options.command:
            case "serve" if options.check_config:
                from uwsgi_headroom.service.config_check import run
            case "serve":
                from uwsgi_headroom.service.serve import run
            case "compare":
                from uwsgi_headroom.check.compare_command import run
            case "top":
                from uwsgi_headroom.top.feeds import run
            case "pids":
                from uwsgi_headroom.check.pids import run
            case "tune":
                from uwsgi_headroom.tune.command import run
            case "discover":
                from uwsgi_headroom.discover.report import run
            case "review":
                from uwsgi_headroom.discover.review import run
            case "retire":
                from uwsgi_headroom.watch.retire_command import run
            case "completion":
                from uwsgi_headroom.arguments.completion import run
            case _:
                from uwsgi_headroom.web.security.hash_password import run
    return run


_COMMANDS: dict[str, Callable[[CommandLine, argparse.Namespace], int]] = {"check": _check, "report": _report}
