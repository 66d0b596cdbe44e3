"""Writes the completion script for zsh, which uses zsh's own `_arguments`."""

from __future__ import annotations

import re
from collections.abc import Iterator

from uwsgi_headroom.completion.candidates import Argument, Candidates, Command

_SCRIPT = """\
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


def render_zsh(candidates: Candidates, default: str) -> str:
    """Write the script. default: the command whose options may follow the program's name directly."""
    names = (f"        {_quote(f'{command.name}:{command.help}')}" for command in candidates.commands)
    return _SCRIPT.format(names="\n".join(names), default=default, cases="\n".join(map(_case, candidates.commands)))


def _case(command: Command) -> str:
    arguments = " \\\n            ".join(_quote(specification) for specification in _specifications(command))
    return f"    {command.name})\n        _arguments -s -S \\\n            {arguments} ;;"


def _specifications(command: Command) -> Iterator[str]:
    for option in command.options:
        for name in option.names:
            others = " ".join(option.names)
            begin = "*" if option.repeatable else f"({others})"
            yield f"{begin}{name}{'=' if _takes_equals(option, name) else ''}[{_escape(option.help)}]{_value(option)}"
    if command.positional:
        yield f"{'*' if command.positional.repeatable else '1'}{_value(command.positional)}"


def _takes_equals(option: Argument, name: str) -> bool:
    return option.takes_value and name.startswith("--")


def _value(argument: Argument) -> str:
    if not argument.takes_value:
        return ""
    what = " ".join(re.findall(r"[a-z]+", argument.names[-1])) if argument.names else "argument"
    action = f"({' '.join(argument.values)})" if argument.values else "_files" if argument.files else " "
    return f"{'::' if argument.is_optional else ':'}{what}:{action}"


def _escape(text: str) -> str:
    return re.sub(r"([\[\]:\\])", r"\\\1", text)


def _quote(text: str) -> str:
    return "'" + text.replace("'", "'\\''") + "'"
