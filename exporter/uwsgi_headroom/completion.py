"""Writes the completion scripts for bash, zsh and fish: they contain all words, so they do not run this program.

The words (`Candidates`) are commands, and the options, values and files of each.
"""

from __future__ import annotations

import argparse
import re
import shlex
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from uwsgi_headroom.arguments.commands import DEFAULT_COMMAND, CommandLine
from uwsgi_headroom.arguments.parser import Parser
from uwsgi_headroom.config.settings import FLAGS
from uwsgi_headroom.terminal_text import print_lines


def run(line: CommandLine, shell: str) -> int:
    """Print the script. Returns the exit status."""
    print_lines(render_script(line, shell).splitlines())
    return 0


def render_script(line: CommandLine, shell: str) -> str:
    """Write the script that completes this command line in a shell, one of `SHELLS`. After the program's name, the
    options of the default command are allowed too."""
    render = {"bash": _render_bash, "zsh": _render_zsh, "fish": _render_fish}[shell]
    return render(list_candidates(line), DEFAULT_COMMAND)


_BASH = """\
# Completion of uwsgi-headroom for bash, made by `uwsgi-headroom completion bash`.

_uwsgi_headroom() {{
    local current="${{COMP_WORDS[COMP_CWORD]}}" previous="${{COMP_WORDS[COMP_CWORD-1]}}"
    local command="${{COMP_WORDS[1]}}" options="" values="" files=""
    # bash splits words at "=": --format=js is three words.
    if [[ $current == "=" ]]; then
        current=""
    elif [[ $previous == "=" ]]; then
        previous="${{COMP_WORDS[COMP_CWORD-2]}}"
    fi
    case "$command" in
{commands}
    *) command={default}; options={bare} ;;
    esac
    case "$command $previous" in
{values}
    *)
        if ((COMP_CWORD == 1)); then
            values={names}
        else
            case "$command" in
{positionals}
            esac
        fi ;;
    esac
    [[ $current == -* ]] && values="$options" files=""
    mapfile -t COMPREPLY < <(compgen -W "$values" -- "$current")
    if [[ -n $files ]]; then
        compopt -o filenames
        mapfile -t -O "${{#COMPREPLY[@]}}" COMPREPLY < <(compgen -f -- "$current")
    fi
}}

complete -F _uwsgi_headroom uwsgi-headroom
"""


def _render_bash(candidates: Candidates, default: str) -> str:
    commands = candidates.commands
    values = [
        f"    {'|'.join(_bash_pattern(command.name, name) for name in option.names)}) {_bash_value(option)} ;;"
        for command in commands
        for option in command.options
        if option.takes_value and not option.is_optional
    ]
    positionals = [
        f"            {command.name}) {_bash_value(command.positional)} ;;"
        for command in commands
        if command.positional
    ]
    return _BASH.format(
        commands="\n".join(
            f"    {command.name}) options={_bash_words(_bash_names(command.options))} ;;" for command in commands
        ),
        default=default,
        bare=_bash_words(_bash_names(candidates.bare)),
        values="\n".join(values),
        names=_bash_words(command.name for command in commands),
        positionals="\n".join(positionals),
    )


def _bash_value(argument: Argument) -> str:
    return f"values={_bash_words(argument.values)} files={'1' if argument.files else ''}".rstrip()


def _bash_pattern(command: str, option: str) -> str:
    return shlex.quote(f"{command} {option}")


def _bash_names(options: Iterable[Argument]) -> Iterable[str]:
    return (name for option in options for name in option.names)


def _bash_words(words: Iterable[str]) -> str:
    return f'"{" ".join(words)}"'


_ZSH = """\
#compdef uwsgi-headroom
# Completion of uwsgi-headroom for zsh, made by `uwsgi-headroom completion zsh`.

_uwsgi_headroom() {{
    local -a commands=(
{names}
    )
    local command="${{words[2]}}"
    if ((CURRENT == 2)) && [[ $command != -* ]]; then
        _describe command commands
        return
    fi
    if (($+commands[(r)$command:*])); then
        shift words
        ((CURRENT--))
    else
        command={default}
    fi
    case "$command" in
{cases}
    esac
}}

if [[ $zsh_eval_context[-1] == loadautofunc ]]; then
    _uwsgi_headroom "$@"
else
    compdef _uwsgi_headroom uwsgi-headroom
fi
"""


def _render_zsh(candidates: Candidates, default: str) -> str:
    names = (f"        {_zsh_quote(f'{command.name}:{command.help}')}" for command in candidates.commands)
    return _ZSH.format(names="\n".join(names), default=default, cases="\n".join(map(_zsh_case, candidates.commands)))


def _zsh_case(command: Command) -> str:
    arguments = " \\\n            ".join(_zsh_quote(specification) for specification in _zsh_specifications(command))
    return f"    {command.name})\n        _arguments -s -S \\\n            {arguments} ;;"


def _zsh_specifications(command: Command) -> Iterator[str]:
    for option in command.options:
        for name in option.names:
            others = " ".join(option.names)
            begin = "*" if option.repeatable else f"({others})"
            equals = "=" if option.takes_value and name.startswith("--") else ""
            yield f"{begin}{name}{equals}[{_zsh_escape(option.help)}]{_zsh_value(option)}"
    if command.positional:
        yield f"{'*' if command.positional.repeatable else '1'}{_zsh_value(command.positional)}"


def _zsh_value(argument: Argument) -> str:
    if not argument.takes_value:
        return ""
    what = " ".join(re.findall(r"[a-z]+", argument.names[-1])) if argument.names else "argument"
    action = f"({' '.join(argument.values)})" if argument.values else "_files" if argument.files else " "
    return f"{'::' if argument.is_optional else ':'}{what}:{action}"


def _zsh_escape(text: str) -> str:
    return re.sub(r"([\[\]:\\])", r"\\\1", text)


def _zsh_quote(text: str) -> str:
    return "'" + text.replace("'", "'\\''") + "'"


_FISH = """\
# Completion of uwsgi-headroom for fish, made by `uwsgi-headroom completion fish`.

function __uwsgi_headroom_command
    set -l words (commandline -opc)
    test (count $words) -ge 2; and contains -- $words[2] {names}; and echo $words[2]; or echo {default}
end

function __uwsgi_headroom_is
    test (__uwsgi_headroom_command) = $argv[1]
end

function __uwsgi_headroom_is_first
    test (count (commandline -opc)) -eq 1
end

complete -c uwsgi-headroom -f
"""


def _render_fish(candidates: Candidates, default: str) -> str:
    names = " ".join(command.name for command in candidates.commands)
    return _FISH.format(names=names, default=default) + "\n".join(_fish_lines(candidates)) + "\n"


def _fish_lines(candidates: Candidates) -> Iterator[str]:
    for command in candidates.commands:
        described = f"{command.name} -d {_fish_quote(command.help)}"
        yield f"complete -c uwsgi-headroom -n __uwsgi_headroom_is_first -a {described}"
    for command in candidates.commands:
        condition = f"-n '__uwsgi_headroom_is {command.name}'"
        for option in command.options:
            yield f"complete -c uwsgi-headroom {condition} {_fish_option(option)} -d {_fish_quote(option.help)}"
        if command.positional:
            condition = f"-n '__uwsgi_headroom_is {command.name}; and not __uwsgi_headroom_is_first'"
            yield f"complete -c uwsgi-headroom {condition} {_fish_values(command.positional)}"


def _fish_option(option: Argument) -> str:
    names = [f"-l {name[2:]}" if name.startswith("--") else f"-s {name[1:]}" for name in option.names]
    if not option.takes_value:
        return " ".join(names)
    # -x: a value follows, which is not a file.
    required = [] if option.is_optional else ["-r"] if option.files else ["-x"]
    return " ".join(part for part in (*names, *required, _fish_values(option)) if part)


def _fish_values(argument: Argument) -> str:
    if argument.values:
        return f"-a {_fish_quote(' '.join(argument.values))}"
    return "-F" if argument.files else ""


def _fish_quote(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"


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
