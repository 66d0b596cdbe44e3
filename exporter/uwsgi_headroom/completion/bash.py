"""Writes the completion script for bash. It needs neither the package bash-completion nor this program to run."""

from __future__ import annotations

import shlex
from collections.abc import Iterable

from uwsgi_headroom.completion.candidates import Argument, Candidates

_SCRIPT = """\
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


def render_bash(candidates: Candidates, default: str) -> str:
    """Write the script. default: the command whose options may follow the program's name directly."""
    commands = candidates.commands
    values = [
        f"    {'|'.join(_pattern(command.name, name) for name in option.names)}) {_value(option)} ;;"
        for command in commands
        for option in command.options
        if option.takes_value and not option.is_optional
    ]
    positionals = [
        f"            {command.name}) {_value(command.positional)} ;;" for command in commands if command.positional
    ]
    return _SCRIPT.format(
        commands="\n".join(f"    {command.name}) options={_words(_names(command.options))} ;;" for command in commands),
        default=default,
        bare=_words(_names(candidates.bare)),
        values="\n".join(values),
        names=_words(command.name for command in commands),
        positionals="\n".join(positionals),
    )


def _value(argument: Argument) -> str:
    return f"values={_words(argument.values)} files={'1' if argument.files else ''}".rstrip()


def _pattern(command: str, option: str) -> str:
    return shlex.quote(f"{command} {option}")


def _names(options: Iterable[Argument]) -> Iterable[str]:
    return (name for option in options for name in option.names)


def _words(words: Iterable[str]) -> str:
    return f'"{" ".join(words)}"'
