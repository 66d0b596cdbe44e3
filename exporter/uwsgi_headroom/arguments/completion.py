"""Writes the completion scripts for bash, zsh and fish: they contain all words, so they do not run this program.

The words are the commands, and the names, values and files of their flags.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterator, Mapping
from shlex import quote

from uwsgi_headroom.arguments.commands import DEFAULT_COMMAND, CommandLine, make_command_line
from uwsgi_headroom.arguments.parser import Flag, Parser
from uwsgi_headroom.terminal_text import print_lines

_FILES = ("FILE", "DIRECTORY", "ADDRESS", "[NAME=]ADDRESS", "ADDRESS|URL")
"""Metavars of values that complete to file names: a stats address may be the path of a socket."""

_LONGEST_HELP = 70


def run(options: argparse.Namespace) -> int:
    print_lines(render_script(make_command_line(), options.shell).splitlines())
    return 0


def render_script(line: CommandLine, shell: str) -> str:
    """Write the script that completes this command line in a shell, one of `SHELLS`. After the program's name, the
    options of the default command are allowed too."""
    return {"bash": _render_bash, "zsh": _render_zsh, "fish": _render_fish}[shell](line.commands)


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
    *) command={default}; {bare} ;;
    esac
    ((COMP_CWORD == 1)) && values="{names}" files=""
    case "$command $previous" in
{values}
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


def _render_bash(commands: Mapping[str, Parser]) -> str:
    return _BASH.format(
        commands="\n".join(f"    {name}) {_bash_command(parser)} ;;" for name, parser in commands.items()),
        default=DEFAULT_COMMAND,
        bare=_bash_command(commands[DEFAULT_COMMAND]),
        names=" ".join(commands),
        values="\n".join(
            f"    {'|'.join(quote(f'{command} {name}') for name in flag.names)}) {_bash_value(flag)} ;;"
            for command, parser in commands.items()
            for flag in parser.flags
            if flag.names and flag.takes_value
        ),
    )


def _bash_command(parser: Parser) -> str:
    positional = (_bash_value(flag) for flag in parser.flags if not flag.names)
    return " ".join((f'options="{" ".join(parser.options)}"', *positional))


def _bash_value(flag: Flag) -> str:
    return f'values="{" ".join(flag.values)}" files={"1" if flag.metavar in _FILES else ""}'


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


def _render_zsh(commands: Mapping[str, Parser]) -> str:
    names = (f"        {quote(f'{name}:{parser.summary}')}" for name, parser in commands.items())
    cases = (
        " \\\n            ".join((f"    {name})\n        _arguments -s -S", *map(quote, _zsh_arguments(parser))))
        + " ;;"
        for name, parser in commands.items()
    )
    return _ZSH.format(names="\n".join(names), default=DEFAULT_COMMAND, cases="\n".join(cases))


def _zsh_arguments(parser: Parser) -> Iterator[str]:
    for flag in parser.flags:
        if not flag.names:
            yield f"{'*' if flag.is_repeatable else '1'}{_zsh_value(flag)}"
        begin = "*" if flag.is_repeatable else f"({' '.join(flag.completed)})"
        meaning = re.sub(r"([\[\]:\\])", r"\\\1", flag.summary[:_LONGEST_HELP])
        for name in flag.completed:
            equals = "=" if flag.takes_value and name.startswith("--") else ""
            yield f"{begin}{name}{equals}[{meaning}]{_zsh_value(flag)}"


def _zsh_value(flag: Flag) -> str:
    if not flag.takes_value:
        return ""
    what = " ".join(re.findall(r"[a-z]+", flag.names[-1])) if flag.names else "argument"
    action = f"({' '.join(flag.values)})" if flag.values else "_files" if flag.metavar in _FILES else " "
    return f":{what}:{action}"


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


def _render_fish(commands: Mapping[str, Parser]) -> str:
    lines = []
    for command, parser in commands.items():
        lines.append(f"__uwsgi_headroom_is_first -a {command} -d {quote(parser.summary)}")
        for flag in parser.flags:
            names = [f"-l {name[2:]}" if name.startswith("--") else f"-s {name[1:]}" for name in flag.completed]
            place = "" if flag.names else "; and not __uwsgi_headroom_is_first"
            meaning = ["-d", quote(flag.summary[:_LONGEST_HELP])] if flag.names else []
            if flag.names and flag.takes_value:
                names.append("-r" if flag.metavar in _FILES else "-x")  # -x: a value follows, which is not a file
            if flag.values:
                names.append(f"-a {quote(' '.join(flag.values))}")
            elif flag.metavar in _FILES:
                names.append("-F")
            lines.append(" ".join((f"'__uwsgi_headroom_is {command}{place}'", *names, *meaning)))
    script = _FISH.format(names=" ".join(commands), default=DEFAULT_COMMAND)
    return script + "".join(f"complete -c uwsgi-headroom -n {line}\n" for line in lines)
