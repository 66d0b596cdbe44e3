"""Reads what `discover` prints, as a person does: which lines to paste, where, and what it lists in the end."""

from __future__ import annotations

import re
import shlex
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

_BLOCK = re.compile(r"^([\w.-]+): (?:no stats server|uWSGI)\b")
_STEP = re.compile(r"^ {1,3}(\d+)\. (.*)$")
_PASTED = " " * 4
_FILE = re.compile(r"\b(?:to|in|of) (/[^\s,;:]+)")


@dataclass(frozen=True)
class Step:
    """A numbered step. lines: what is to be pasted, empty if the step is advice; file: what the lines are appended to,
    empty if they are commands."""

    heading: str
    lines: str = ""
    file: str = ""

    @property
    def reloads(self) -> bool:
        named = re.search(r"\breload\b", self.heading, re.IGNORECASE)
        return bool(named and self.lines and not self.file and not self.restarts)

    @property
    def restarts(self) -> bool:
        """Whether the step stops and starts uWSGI, with its lines or as its user does it."""
        return bool(re.match(r"(?:restart|stop and start)\b", self.heading, re.IGNORECASE))

    @property
    def is_options(self) -> bool:
        """Whether the lines are options for the command line that starts uWSGI."""
        return "command line" in self.heading and self.lines.startswith("--")


@dataclass(frozen=True)
class Block:
    """What is said about one uWSGI; name: as it begins."""

    name: str
    steps: tuple[Step, ...]


def blocks(printed: str) -> list[Block]:
    """Returns the blocks of uWSGIs, without stats or with stats that the exporter cannot read yet."""
    found: list[Block] = []
    lines: list[str] = []
    name = ""
    for line in [*printed.splitlines(), "end"]:
        if line and not line[0].isspace():
            if name:
                found.append(Block(name, _steps(lines)))
            begun = _BLOCK.match(line)
            name, lines = begun[1] if begun else "", []
        else:
            lines.append(line)
    return found


def stats_addresses(printed: str) -> dict[str, str]:
    """Returns the addresses of the command that watches all servers, by name."""
    words = watch_command(printed)
    pairs = [word.partition("=") for before, word in pairwise(words) if before == "--stats"]
    return {name: address for name, _, address in pairs}


def watch_command(printed: str) -> list[str]:
    """Returns the words of the command that watches all servers, empty if none is printed."""
    _, said, after = f"\n{printed}".partition("\nTo watch ")
    if not said:
        return []
    command: list[str] = []
    for line in after.splitlines()[1:]:
        command.append(line.strip().removesuffix("\\"))
        if not line.endswith("\\"):
            break
    return shlex.split(" ".join(command))


def _steps(lines: Sequence[str]) -> tuple[Step, ...]:
    """The steps of a block. A heading may go on in the next lines, up to a blank one; what is pasted is indented."""
    steps: list[Step] = []
    pasted: list[str] = []
    heading = before = ""
    for line in [*lines, "  0. end"]:
        begun, belongs = _STEP.match(line), line.startswith(_PASTED) or not line.strip()
        if begun or not (belongs or (before and not pasted)):
            steps += [_step(heading, pasted)] if heading else []
            heading, pasted = (begun[2] if begun else ""), []
        elif heading and belongs:
            pasted += [line] if pasted or line.strip() else []
        elif heading:
            heading += f" {line.strip()}"
        before = line.strip()
    return tuple(steps)


def _step(heading: str, pasted: Sequence[str]) -> Step:
    file = _FILE.search(heading)
    appended = file and re.search(r"\b(?:add|append|write|put)\b", heading, re.IGNORECASE)
    return Step(heading, textwrap.dedent("\n".join(pasted)).strip("\n"), file[1] if file and appended else "")
