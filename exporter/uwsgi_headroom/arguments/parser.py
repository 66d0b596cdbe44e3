"""An argument parser made from rows (`Flag`), which raises errors and suggests the nearest option.

Also makes the parsers of numbers that several rows use.
"""

from __future__ import annotations

import argparse
import difflib
import textwrap
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NoReturn, TypeVar

from uwsgi_headroom.errors import HeadroomError
from uwsgi_headroom.numbers import SECONDS, parse_number, parse_quantity

Value = TypeVar("Value")

_NEAR = 0.6
"""Least similarity for a suggestion, 0 to 1 by difflib: `--fromat` to `--format` is 0.88, `chekc` to `check` 0.8."""


class UsageError(HeadroomError):
    """An argument is wrong. `program` is the command that received it, `usage` the usage of that command."""

    def __init__(self, message: str, program: str, usage: str) -> None:
        super().__init__(message)
        self.program, self.usage = program, usage


class _HelpFormatter(argparse.HelpFormatter):
    """Wraps help between words only, never within the name of a file or an option, and keeps the lines of a list."""

    def _split_lines(self, text: str, width: int) -> list[str]:
        return _wrap(" ".join(text.split()), width)

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        return "\n".join(indent + part for line in text.splitlines() for part in _wrap(line, width - len(indent)))


def _wrap(line: str, width: int) -> list[str]:
    """Wrap a line; of one that is indented, as an entry of a list, the further lines begin below its text."""
    indent = "     " if line.startswith(" ") else ""
    return textwrap.wrap(line, width, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False)


@dataclass(frozen=True, slots=True)
class Flag:
    """An option of a command, or a positional argument. The parser, its help, the manual page, the tables in the
    documents and shell completion follow from this row."""

    form: str
    """What to type: the names and the metavar of the value, `-h --help` or `--seconds SECONDS`. A positional argument
    begins with its name in the code: `addresses ADDRESS`."""
    help: str
    parse: Callable[[str], Any] | None = None
    """Raises argparse.ArgumentTypeError."""
    default: Any = None
    values: tuple[str, ...] = ()
    """All that the value may be. The help shows them if there is no metavar; with neither, the flag is a switch."""
    is_checked: bool = True
    """Whether the parser refuses other values. Settings check their own: variables and keys have the same values."""
    is_repeatable: bool = False
    is_optional: bool = False
    """Whether the value may be left out: it is then `true`."""
    extra: Mapping[str, Any] = field(default_factory=dict)
    """Other keywords of argparse's `add_argument`."""

    @property
    def names(self) -> tuple[str, ...]:
        """The names of an option, the short one first; none for a positional argument."""
        return tuple(word for word in self.form.split() if word.startswith("-"))

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

    def describe(self) -> dict[str, Any]:
        """Return the keywords of argparse's `add_argument`."""
        keywords: dict[str, Any] = {"help": self.help}
        if self.names:
            keywords["dest"] = self.name
        if not self.takes_value:
            return {**keywords, "action": "store_true", **self.extra}
        keywords |= {"metavar": self.metavar or None, "type": self.parse, "default": self.default}
        if self.is_checked and self.values:
            keywords["choices"] = self.values
        if self.is_optional:
            keywords |= {"nargs": "?", "const": "true"}
        if self.is_repeatable:
            keywords |= {"default": [], **({"action": "append"} if self.names else {"nargs": "*"})}
        return {**keywords, **self.extra}


_HELP = Flag("-h --help", "show this help message and exit", extra={"action": "help"})


class Parser(argparse.ArgumentParser):
    """An argparse parser of flags that raises UsageError where argparse would print and exit, and that knows options by
    their whole names only: an abbreviation would become ambiguous with the next option of a similar name.

    `summary` describes the command in one line.
    """

    def __init__(self, *, flags: Sequence[Flag] = (), summary: str = "", add_help: bool = True, **kwargs: Any) -> None:
        super().__init__(**kwargs, add_help=False, allow_abbrev=False, formatter_class=_HelpFormatter)
        self.summary = summary
        self.flags = (_HELP, *flags) if add_help else flags
        for flag in self.flags:
            self.add_argument(*(flag.names or (flag.name,)), **flag.describe())

    def parse_args(  # type: ignore[override]
        self, args: Sequence[str] | None = None, namespace: argparse.Namespace | None = None
    ) -> argparse.Namespace:
        """Parse arguments to options. Raises UsageError with the usage of this command."""
        options, unknown = self.parse_known_args(args, namespace)
        if unknown:
            self.error(self._describe_unknown(unknown))
        return options

    def error(self, message: str) -> NoReturn:
        raise UsageError(message, self.prog, self.format_usage())

    @property
    def options(self) -> list[str]:
        """Every known option, including short ones."""
        return [name for flag in self.flags for name in flag.names]

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
    """Make a parser of seconds between two bounds, which are included."""
    return expecting(f"{least:g} to {most:g} seconds", lambda text: parse_number(text, least, most))


def parse_span(least: float, most: float) -> Callable[[str], float]:
    """Make a parser of lengths of time such as `90s`, `10m`, `1h` or `7d` to seconds, between two bounds."""

    def parse(text: str) -> float:
        seconds = parse_quantity(text, SECONDS)
        if not least <= seconds <= most:
            raise ValueError(text)
        return seconds

    return expecting("a length of time, such as 90s, 10m, 1h or 7d", parse)


def number_between(least: float, most: float) -> Callable[[str], float]:
    """Make a parser of numbers between two bounds, which are included."""
    return expecting(f"a number from {least:g} to {most:,.0f}", lambda text: parse_number(text, least, most))


def whole_between(least: int, most: int) -> Callable[[str], int]:
    """Make a parser of whole numbers of ASCII digits between two bounds, which are included."""

    def parse(text: str) -> int:
        # So long a number is out of bounds by its first digits; int() takes a long time for thousands of them.
        if not (text.isascii() and text.isdigit() and least <= int(text[:9]) <= most):
            raise ValueError(text)
        return int(text)

    return expecting(f"a whole number from {least:,} to {most:,}", parse)
