"""Writes manual pages from the command-line parsers into deploy/man: one for the program, one for each command."""

import re
import textwrap
from collections.abc import Iterator, Mapping
from pathlib import Path

from uwsgi_headroom.arguments.commands import EXIT_STATUSES, PROGRAM, CommandLine, make_command_line
from uwsgi_headroom.arguments.parser import Flag, Parser
from uwsgi_headroom.config.settings import FLAGS

DIRECTORY = Path(__file__).resolve().parents[1] / "deploy" / "man"

EXAMPLES: Mapping[str, tuple[tuple[str, str], ...]] = {
    "serve": (
        ("--stats shop=/run/uwsgi/app/shop/stats", "Export one server, as `shop`."),
        ("--stats '/run/uwsgi/app/*/stats'", "Export every server with a socket there, including later ones."),
        ("--config /etc/uwsgi-headroom.yml", "Read servers and settings from a file."),
        ("--web.listen-address :9238 --web.config.file web.yml", "Serve other machines, with TLS and a login."),
    ),
    "check": (
        ("/run/uwsgi/shop.stats", "Watch a server for 30 seconds and report its state."),
        ("--all --seconds 10", "Watch every server of this machine for 10 seconds."),
        ("http://127.0.0.1:9238/servers/shop", "Ask a running exporter, which answers from its history."),
        (
            "--format nagios --min-headroom 2:1.2 --max-queue-wait 100ms:2s /run/uwsgi/shop.stats",
            "Run as a monitoring plugin, with your own thresholds.",
        ),
        (
            "http://127.0.0.1:9238/servers/shop --since-reload --wait 10m",
            "Wait in a pipeline until it is known whether a deploy made the server worse.",
        ),
    ),
    "compare": (
        ("shop", "Say what the last reload of a server changed, by the exporter of this machine."),
        ("shop --around 14:02 --before 1h --after 10m", "Compare the ten minutes after 14:02 with the hour before."),
    ),
    "top": (
        ("", "Watch the servers of this machine."),
        ("http://web1:9238/ http://web2:9238/", "Watch the servers of two exporters."),
        ("--once --json /run/uwsgi/shop.stats", "Print the JSON document of a server and exit."),
    ),
    "pids": (
        ("shop --stuck", "Print the command that restarts the workers of shop with stuck requests."),
        ("/run/uwsgi/shop.stats --worker 2,3", "The same for two workers, without an exporter."),
    ),
    "report": (
        ("--prometheus http://127.0.0.1:9090 --range 12w", "Review the last twelve weeks of every server."),
        (
            "--history /var/lib/uwsgi-headroom/history.sqlite --output review.html",
            "Review a machine without Prometheus.",
        ),
        (
            "--prometheus https://mimir.example/prometheus --http.config.file client.yml "
            "--prometheus-header 'X-Scope-OrgID: web' --service shop",
            "Review one service of a tenant.",
        ),
    ),
    "tune": (
        ("--ini /etc/uwsgi/shop.ini --url /items", "Find the setting for a server with this ini file."),
        ("--ini shop.ini --access-log access.log", "Request the paths of a log."),
        ("--ini shop.ini --clients 64 --max-memory 800M", "Keep to a limit, under the load of 64 clients."),
    ),
    "discover": (("", "List the uWSGI servers of this machine."),),
    "review": (
        ("/etc/uwsgi/shop.ini", "Review a configuration file."),
        ("/run/uwsgi/app/shop/stats", "Review the uWSGI that runs with this stats server."),
    ),
    "retire": (
        ("shop", "Stop reporting a server as down that is gone for good."),
        ("--history /srv/headroom/history.sqlite shop blog", "The same for two servers of another history file."),
    ),
    "hash-password": (("", "Ask for a password and print its hash."),),
    "completion": (
        ("bash > ~/.local/share/bash-completion/completions/uwsgi-headroom", "Enable completion in new bash shells."),
    ),
}
"""Examples by command: the arguments, and what they do."""

_LINE = 78
"""Characters per line of a page, the limit of mandoc's lint."""


def write() -> None:
    DIRECTORY.mkdir(parents=True, exist_ok=True)
    for path, text in pages():
        path.write_text(text)


def pages() -> Iterator[tuple[Path, str]]:
    line = make_command_line()
    yield DIRECTORY / f"{PROGRAM}.1", "\n".join(_program_page(line)) + "\n"
    for name, parser in line.commands.items():
        yield DIRECTORY / f"{PROGRAM}-{name}.1", "\n".join(_command_page(line, name, parser)) + "\n"


def _program_page(line: CommandLine) -> Iterator[str]:
    yield from _begin(PROGRAM, line.program.summary)
    yield from (".SH SYNOPSIS", f".B {_escape(PROGRAM)}", r'.RI [ COMMAND ] " [" OPTION ]...')
    yield from (".SH DESCRIPTION", _text(line.program.description or ""), ".PP", _text(line.program.epilog or ""))
    yield ".SH COMMANDS"
    for name, parser in line.commands.items():
        yield from (".TP", f".BR {_escape(f'{PROGRAM}-{name}')} (1)", _text(_as_sentence(parser.summary)))
    yield ".SH OPTIONS"
    yield from _flags(line.program)
    yield from _see_also(name for name in line.commands)


def _command_page(line: CommandLine, name: str, parser: Parser) -> Iterator[str]:
    positional = next((flag for flag in parser.flags if not flag.names), None)
    yield from _begin(f"{PROGRAM}-{name}", parser.summary)
    yield from (".SH SYNOPSIS", f".B {_escape(f'{PROGRAM} {name}')}", ".RI [ OPTION ]...")
    if positional:
        name_of_value = _quote(positional.metavar)
        yield f".RI [ {name_of_value} ]..." if positional.is_repeatable else f".I {name_of_value}"
    yield from (".SH DESCRIPTION", _text(parser.description or ""))
    yield ".SH OPTIONS"
    yield from _flags(parser)
    if statuses := EXIT_STATUSES.get(name):
        yield ".SH EXIT STATUS"
        for status, meaning in statuses:
            yield from (".TP", f".B {status}", _text(_as_sentence(meaning)))
    if name == "serve":
        yield ".SH ENVIRONMENT"
        for setting in FLAGS:
            meaning = f"Default of {setting.flag}; the option takes precedence."
            yield from (".TP", f".B {setting.variable}", _text(meaning))
    yield ".SH EXAMPLES"
    for arguments, meaning in EXAMPLES[name]:
        yield from (".TP", f".B {_escape(f'{PROGRAM} {name} {arguments}'.rstrip())}", _text(meaning))
    yield from _see_also(other for other in ("", *line.commands) if other != name)


def _begin(name: str, summary: str) -> Iterator[str]:
    yield r".\" Generated from the command-line parsers: do not edit."
    yield f'.TH {_escape(name.upper())} 1 "" "{PROGRAM}" "User Commands"'
    yield from (".SH NAME", rf"{_escape(name)} \-", _text(summary))


def _flags(parser: Parser) -> Iterator[str]:
    for flag in parser.flags:
        yield from (".TP", _tag(flag), _text(flag.help))


def _tag(flag: Flag) -> str:
    if not flag.names:
        return f".I {_quote(flag.value)}"
    names = ", ".join(rf"\fB{_escape(word)}\fR" for word in flag.form.split() if word.startswith("-"))
    return rf"{names} \fI{_escape(flag.value)}\fR" if flag.takes_value else names


def _as_sentence(text: str) -> str:
    begin = text[:1].upper() + text[1:]
    return begin if begin.endswith((".", "]")) else f"{begin}."


def _see_also(names: Iterator[str]) -> Iterator[str]:
    pages = [rf"\fB{_escape(f'{PROGRAM}-{name}' if name else PROGRAM)}\fR(1)" for name in names]
    yield from (".SH SEE ALSO", ", ".join(pages))


def _text(text: str) -> str:
    """Returns prose in short lines, with text between backticks in bold."""
    escaped = re.sub(r"`([^`]+)`", r"\\fB\1\\fR", _escape(text))
    lines = textwrap.wrap(escaped, _LINE, break_long_words=False, break_on_hyphens=False)
    return "\n".join(rf"\&{line}" if line.startswith((".", "'")) else line for line in lines)


def _escape(text: str) -> str:
    return text.replace("\\", r"\e").replace("-", r"\-").replace("'", r"\(aq").replace("~", r"\(ti")


def _quote(text: str) -> str:
    return f'"{_escape(text)}"'


if __name__ == "__main__":
    write()
