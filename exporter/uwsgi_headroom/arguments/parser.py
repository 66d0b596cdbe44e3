"""An argument parser made from rows (`Flag`), which raises errors and suggests the nearest option.

Also makes the parsers of numbers that several rows use.
"""

from __future__ import annotations

import argparse
import difflib
import re
import shutil
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NoReturn, TypeVar

from uwsgi_headroom.errors import ConfigError
from uwsgi_headroom.numbers import BYTES, SECONDS, parse_number, parse_quantity
from uwsgi_headroom.terminal_text import join_blocks, print_lines, wrap

Value = TypeVar("Value")

_NEAR = 0.6
"""Least similarity for a suggestion, 0 to 1 by difflib: `--fromat` to `--format` is 0.88, `chekc` to `check` 0.8."""

RARE = (
    "--help --version --web.allowed-hosts --samples-per-second --cpu-residency --read-pollfds --read-locks "
    "--route-template --routes-beyond-loopback --code-prefix --code-beyond-loopback --history-max-size --log.format "
    "--http.config.file --format --not-before --prometheus-header --time-zone"
)
"""Options that the short help of a command (`-h`) leaves out: few people need them."""

_WIDEST, _COLUMN = 100, 26
"""Columns of the help: at most, and at which an explanation begins."""


class UsageError(ConfigError):
    """An argument is wrong. `program` is the command that received it, such as `uwsgi-headroom check`."""

    def __init__(self, message: str, program: str) -> None:
        super().__init__(message, [f"See `{program} --help`."])


@dataclass(frozen=True, slots=True)
class Flag:
    """An option of a command, or a positional argument. The parser, its help, the manual page, the tables in the
    documents and shell completion follow from this row."""

    form: str
    """What to type: the names and the metavar of the value, `-s --seconds SECONDS`. A positional argument begins with
    its name in the code: `addresses ADDRESS`. An option without a value is true; `--no-NAME` makes it false, which the
    form says only where somebody needs that: `--[no-]waits`."""
    help: str
    parse: Callable[[str], Any] | None = None
    """Raises argparse.ArgumentTypeError."""
    default: Any = None
    values: tuple[str, ...] = ()
    """All that the value may be. The help shows them if there is no metavar; with neither, the flag is a switch."""
    is_checked: bool = True
    """Whether the parser refuses other values. Settings check their own: variables and keys have the same values."""
    is_repeatable: bool = False
    extra: Mapping[str, Any] = field(default_factory=dict)
    """Other keywords of argparse's `add_argument`."""
    aliases: tuple[str, ...] = ()
    """Other names: earlier ones, or those of other programs. Only the parser knows them."""
    group: str = ""
    """The title of the options from this one on, in the help."""

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(word.replace("[no-]", "") for word in self.form.split() if word.startswith("-"))

    @property
    def completed(self) -> tuple[str, ...]:
        return (*self.names, *(f"--no-{name[2:]}" for name in self.names if "[no-]" in self.form))

    @property
    def name(self) -> str:
        """The name among the parsed options: `web_listen_address` for `--web.listen-address`."""
        name = (self.form.split()[0], *self.names)[-1]
        return name.lstrip("-").replace(".", "_").replace("-", "_")

    @property
    def metavar(self) -> str:
        last = self.form.split()[-1]
        return "" if last.startswith("-") else last

    @property
    def takes_value(self) -> bool:
        return bool(self.metavar or self.values)

    @property
    def value(self) -> str:
        return self.metavar or "|".join(self.values)

    @property
    def summary(self) -> str:
        return re.split(r" \[|\. |[;:] | \((?:default|YAML)", self.help)[0]

    def describe(self) -> dict[str, Any]:
        keywords: dict[str, Any] = {"dest": self.name} if self.names else {}
        if not self.takes_value:
            return {**keywords, "action": argparse.BooleanOptionalAction, "default": False, **self.extra}
        keywords |= {"metavar": self.metavar or None, "type": self.parse, "default": self.default}
        if self.is_checked and self.values:
            keywords["choices"] = self.values
        if self.is_repeatable:
            keywords |= {"default": [], **({"action": "append"} if self.names else {"nargs": "*"})}
        return {**keywords, **self.extra}


class _Help(argparse.Action):
    """Prints the usual options for `-h`, and all about all of them for `--help`."""

    def __call__(self, parser: Any, _options: object, _values: object, option: str | None = None) -> None:
        print_lines(parser.write_help(is_short=option == "-h"))
        parser.exit()


HELP = Flag("-h --help", "show the usual options (-h), or all of them (--help)", extra={"action": _Help, "nargs": 0})


class Parser(argparse.ArgumentParser):
    """An argparse parser of flags that raises UsageError where argparse would print and exit, and that knows options by
    their whole names only: an abbreviation would become ambiguous with the next option of a similar name.

    `summary` describes the command in one line. A line of `epilog` that is indented is an entry of a list.
    """

    def __init__(self, *, flags: Sequence[Flag] = (), summary: str = "", epilog: str = "", **kwargs: Any) -> None:
        super().__init__(**kwargs, epilog=epilog, add_help=False, allow_abbrev=False)
        self.summary, self.flags = summary, flags
        for flag in flags:
            self.add_argument(*(*flag.names, *flag.aliases) or (flag.name,), **flag.describe())
        switches = (action for action in self._actions if isinstance(action, argparse.BooleanOptionalAction))
        self._switches = {name for each in switches for name in each.option_strings if name.startswith("--")}

    def parse_args(  # type: ignore[override]
        self, args: Sequence[str] | None = None, namespace: argparse.Namespace | None = None
    ) -> argparse.Namespace:
        """Parse arguments to options. Raises UsageError."""
        options, unknown = self.parse_known_args(self._write_switches(args or ()), namespace)
        if unknown:
            self.error(self._describe_unknown(unknown))
        return options

    def error(self, message: str) -> NoReturn:
        raise UsageError(message.removeprefix("argument "), self.prog)

    @property
    def options(self) -> list[str]:
        return [name for flag in self.flags for name in flag.completed]

    def _write_switches(self, words: Sequence[str]) -> list[str]:
        """The words with `--x` for `--x true` and `--x=true`, and with `--no-x` for `false`, as before."""
        written: list[str] = []
        for word in words:
            name, equals, value = word.rpartition("=")
            name = name if equals or not written else written[-1]
            if name not in self._switches or value.lower() not in ("true", "false"):
                written.append(word)
                continue
            if not equals:
                written.pop()
            written.append(name if value.lower() == "true" else f"--no-{name[2:]}")
        return written

    def write_help(self, *, is_short: bool) -> list[str]:
        """Write the help in lines. is_short: only the usual options, each in a line."""
        width = max(40, min(shutil.get_terminal_size().columns, _WIDEST)) - 2
        values = [f"[{flag.value}]..." if flag.is_repeatable else flag.value for flag in self.flags if not flag.names]
        command = " [COMMAND]" * (" " not in self.prog)
        blocks = [wrap(" ".join((f"usage: {self.prog}{command} [OPTION]...", *values)), width)]
        blocks += [wrap(self.description or self.summary, width)] * (not is_short)
        title, groups = "options", dict[str, list[str]]()
        rare = RARE.split() if is_short and " " in self.prog else ()
        for flag in self.flags:
            title = flag.group or title
            if not {*flag.names}.intersection(rare):
                groups.setdefault(title, []).extend(self._explain(flag, width, is_short=is_short))
        blocks += [[f"{title}:", *lines] for title, lines in groups.items()]
        closing = self.epilog or ""
        if rare:
            closing += f"\n\n`{self.prog} --help` lists all options, and explains them."
        for text in filter(None, closing.split("\n\n")):
            entries = [(line, re.findall(r"^ *\S+  +|", line)[0]) for line in text.split("\n")]
            blocks.append([each for line, begin in entries for each in wrap(line, width, rest=" " * len(begin))])
        return join_blocks(blocks)

    def _explain(self, flag: Flag, width: int, *, is_short: bool) -> list[str]:
        names = ", ".join(word for word in flag.form.split() if word.startswith("-"))
        form = " ".join(filter(None, (f"  {names}" if names else " ", flag.value)))
        text = flag.summary if is_short else flag.help
        begin = [form] * (len(form) > _COLUMN - 2)
        return [*begin, *wrap(text, width, " " * _COLUMN if begin else f"{form:{_COLUMN}}", " " * _COLUMN)]

    def _describe_unknown(self, unknown: Sequence[str]) -> str:
        option = next((word for word in unknown if word.startswith("-")), "")
        if not option:
            meant = f"; did you mean --stats {unknown[0]}?" if "--stats" in self.options else ""
            return f"unexpected argument: {unknown[0]}{meant}"
        option = option.partition("=")[0]
        return f"unknown option {option}{suggest(option, self.options)}"


def suggest(text: str, known: Iterable[str]) -> str:
    """Return `; did you mean check?`, or an empty text if no known text is similar."""
    near = difflib.get_close_matches(text, list(known), 1, _NEAR)
    return f"; did you mean {near[0]}?" if near else ""


def expecting(expected: str, parse: Callable[[str], Value]) -> Callable[[str], Value]:
    """Make a parser for argparse, whose message says what was expected, from one that raises ValueError."""

    def parse_or_explain(text: str) -> Value:
        try:
            return parse(text)
        except ValueError:
            raise argparse.ArgumentTypeError(f"expected {expected}, not {text}") from None

    return parse_or_explain


def seconds_between(least: float, most: float) -> Callable[[str], float]:
    return expecting(f"{least:g} to {most:g} seconds", lambda text: parse_number(text, least, most))


def parse_span(least: float, most: float) -> Callable[[str], float]:
    """Make a parser of lengths of time such as `90s`, `10m`, `1h` or `7d` to seconds, between two bounds."""

    def parse(text: str) -> float:
        seconds = parse_quantity(text, SECONDS)
        if not least <= seconds <= most:
            raise ValueError(text)
        return seconds

    return expecting("a length of time, such as 90s, 10m, 1h or 7d", parse)


def parse_size(text: str) -> float:
    """Parse `800M` or `1.5GB` to bytes; a megabyte has 10**6."""
    if not (size := parse_quantity(text.upper(), BYTES)) > 0:
        raise argparse.ArgumentTypeError(f"expected a size, such as 800M or 1.5G, not {text}")
    return size


def whole_between(least: int, most: int) -> Callable[[str], int]:
    def parse(text: str) -> int:
        # So long a number is out of bounds by its first digits; int() takes a long time for thousands of them.
        if not (text.isascii() and text.isdigit() and least <= int(text[:9]) <= most):
            raise ValueError(text)
        return int(text)

    return expecting(f"a whole number from {least:,} to {most:,}", parse)
