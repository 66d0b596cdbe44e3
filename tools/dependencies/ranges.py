"""Reads the ranges of versions that setup.cfg allows."""

from __future__ import annotations

import configparser
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
EXTRAS = ("top", "login", "report")
"""The extras that users install; the others are for work on the project."""

_REQUIREMENT = re.compile(r"(?P<name>[\w.-]+) *>= *(?P<lowest>[\w.]+) *(?:, *< *(?P<below>[\w.]+))?")


@dataclass(frozen=True)
class Dependency:
    """A package. extra: the one that needs it, empty for every installation; below: the first version that is not
    allowed."""

    name: str
    extra: str
    lowest: str
    below: str

    @property
    def range(self) -> str:
        return f"≥ {self.lowest}, < {self.below}"

    def allows(self, version: str) -> bool:
        """Whether a version is in the range."""
        return numbers(self.lowest) <= numbers(version) < numbers(self.below)


def numbers(version: str) -> tuple[int, ...]:
    """Return a version's numbers, for comparison, without trailing zeros."""
    found = [int(part) for part in re.findall(r"\d+", version)]
    while found and not found[-1]:
        found.pop()
    return tuple(found)


def read_dependencies(path: Path = ROOT / "setup.cfg") -> list[Dependency]:
    """Return the dependencies of every installation, then those of the extras. Raises ValueError if one has no range
    with two ends."""
    settings = configparser.ConfigParser(interpolation=None)
    settings.read(path, "utf-8")
    found = list(_parse("", settings["options"]["install_requires"]))
    for extra in EXTRAS:
        found += _parse(extra, settings["options.extras_require"].get(extra, ""))
    return found


def _parse(extra: str, text: str) -> Iterator[Dependency]:
    for line in filter(None, (line.partition("#")[0].strip() for line in text.splitlines())):
        match = _REQUIREMENT.fullmatch(line)
        if not match or not match["below"]:
            raise ValueError(f"setup.cfg: {line!r} is not a range such as `name >= 1.2, < 3`")
        yield Dependency(match["name"], extra, match["lowest"], match["below"])
