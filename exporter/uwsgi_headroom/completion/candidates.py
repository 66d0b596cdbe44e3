"""Lists the candidates for completion: commands, and the options, values and files of each."""

from __future__ import annotations

import argparse
from dataclasses import dataclass

from uwsgi_headroom.arguments.commands import DEFAULT_COMMAND, CommandLine
from uwsgi_headroom.arguments.parser import Parser
from uwsgi_headroom.config.settings import FLAGS

_FILES = ("FILE", "DIRECTORY", "ADDRESS", "[NAME=]ADDRESS", "ADDRESS|URL")
"""Metavars of arguments that complete to file names: a stats address may be the path of a socket."""

_VALUES = {setting.flag: setting.values for setting in FLAGS}
"""Values by flag. argparse does not check these: the settings do, for variables and keys as well."""

_LONGEST_HELP = 70


@dataclass(frozen=True, slots=True)
class Argument:
    """An option, or a positional argument, which has no names. help: one line; values: the allowed values, if listed;
    files: whether a path is allowed; takes_value: whether a value follows; is_optional: whether the value may be left
    out."""

    names: tuple[str, ...]
    help: str
    values: tuple[str, ...]
    files: bool
    takes_value: bool
    is_optional: bool
    repeatable: bool


@dataclass(frozen=True, slots=True)
class Command:
    """A command, its options and its positional argument."""

    name: str
    help: str
    options: tuple[Argument, ...]
    positional: Argument | None


@dataclass(frozen=True, slots=True)
class Candidates:
    """All candidates. bare: options that are allowed without a command."""

    commands: tuple[Command, ...]
    bare: tuple[Argument, ...]


def list_candidates(line: CommandLine) -> Candidates:
    """List the candidates of a command line."""
    commands = tuple(_command(name, parser) for name, parser in line.commands.items())
    default = next(command for command in commands if command.name == DEFAULT_COMMAND)
    return Candidates(commands, default.options)


def _command(name: str, parser: Parser) -> Command:
    arguments = [_argument(action) for action in parser.arguments]
    return Command(
        name=name,
        help=parser.summary,
        options=tuple(argument for argument in arguments if argument.names),
        positional=next((argument for argument in arguments if not argument.names), None),
    )


def _argument(action: argparse.Action) -> Argument:
    return Argument(
        names=tuple(action.option_strings),
        help=_first_sentence(action.help or ""),
        values=tuple(action.choices or _VALUES.get("".join(action.option_strings[-1:]), ())),
        files=action.metavar in _FILES,
        takes_value=action.nargs != 0,
        is_optional=action.nargs == "?",
        repeatable=isinstance(action, argparse._AppendAction) or action.nargs == "*",
    )


def _first_sentence(text: str) -> str:
    """Shorten a help text to fit beside a candidate."""
    short = text.partition(" [")[0].partition(". ")[0].partition(";")[0].partition(":")[0].removesuffix(".")
    return short if len(short) <= _LONGEST_HELP else f"{short[:_LONGEST_HELP].rpartition(' ')[0]} ..."
