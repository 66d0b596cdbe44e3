"""Writes the completion script for fish: a line for each command and each option."""

from __future__ import annotations

from collections.abc import Iterator

from uwsgi_headroom.completion.candidates import Argument, Candidates

_BEGIN = """\
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


def render_fish(candidates: Candidates, default: str) -> str:
    """Write the script. default: the command whose options may follow the program's name directly."""
    names = " ".join(command.name for command in candidates.commands)
    return _BEGIN.format(names=names, default=default) + "\n".join(_lines(candidates)) + "\n"


def _lines(candidates: Candidates) -> Iterator[str]:
    for command in candidates.commands:
        yield f"complete -c uwsgi-headroom -n __uwsgi_headroom_is_first -a {command.name} -d {_quote(command.help)}"
    for command in candidates.commands:
        condition = f"-n '__uwsgi_headroom_is {command.name}'"
        for option in command.options:
            yield f"complete -c uwsgi-headroom {condition} {_option(option)} -d {_quote(option.help)}"
        if command.positional:
            condition = f"-n '__uwsgi_headroom_is {command.name}; and not __uwsgi_headroom_is_first'"
            yield f"complete -c uwsgi-headroom {condition} {_values(command.positional)}"


def _option(option: Argument) -> str:
    names = [f"-l {name[2:]}" if name.startswith("--") else f"-s {name[1:]}" for name in option.names]
    if not option.takes_value:
        return " ".join(names)
    # -x: a value follows, which is not a file.
    required = [] if option.is_optional else ["-r"] if option.files else ["-x"]
    return " ".join(part for part in (*names, *required, _values(option)) if part)


def _values(argument: Argument) -> str:
    if argument.values:
        return f"-a {_quote(' '.join(argument.values))}"
    return "-F" if argument.files else ""


def _quote(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"
