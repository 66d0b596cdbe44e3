"""Measures which figure needs which right, and prints tables.

Starts real uWSGI servers as www-data, and the exporter as each user of `tools/rights/users.py`, over a UNIX socket and
over TCP. Needs root, `setpriv` and `unshare`.
"""

from __future__ import annotations

import argparse
import os
import re
import sys
from collections.abc import Mapping, Sequence

from tools.rights.measure import Measured, measure_all
from tools.rights.mounts import enter_own_namespace
from tools.rights.users import USERS, User

_KINDS = {"unix": "Over a UNIX socket", "tcp": "Over TCP"}

MOST_NAMED = 55
"""A larger group of figures is what the stats document itself has, which everyone who may connect can read."""

Measurements = Mapping[tuple[str, str], Measured]


def render(measured: Measurements, users: Sequence[User] = USERS) -> str:
    """Return the tables of figures, and of what the API says is unknown."""
    legend = [f"| {user.letter} | {user.words} |\n" for user in users]
    parts = ["| column | the exporter runs as |\n|---|---|\n", *legend, "\n"]
    for over, title in _KINDS.items():
        parts += [f"### {title}\n\n", *_figures(measured, over, users), "\n", *_unknowns(measured, over, users), "\n"]
    return "".join(parts).removesuffix("\n")


def rows(measured: Measurements, over: str, users: Sequence[User]) -> dict[frozenset[str], list[str]]:
    """Return the figures by the set of users that have them."""
    names = sorted(set().union(*(measured[user.letter, over].figures for user in users)))
    by_users: dict[frozenset[str], list[str]] = {}
    for name in names:
        having = frozenset(user.letter for user in users if name in measured[user.letter, over].figures)
        by_users.setdefault(having, []).append(name)
    return by_users


def _figures(measured: Measurements, over: str, users: Sequence[User]) -> list[str]:
    letters = [user.letter for user in users]
    lines = [f"| figures | {' | '.join(letters)} |\n", f"|---|{'---|' * len(letters)}\n"]
    found = rows(measured, over, users)
    for having in sorted(found, key=lambda having: (-len(having), sorted(having))):
        cells = " | ".join("yes" if letter in having else "no" for letter in letters)
        lines.append(f"| {_name_all(found[having])} | {cells} |\n")
    return lines


def _name_all(names: Sequence[str]) -> str:
    return ", ".join(f"`{name}`" for name in names) if len(names) <= MOST_NAMED else f"all others ({len(names)})"


def _unknowns(measured: Measurements, over: str, users: Sequence[User]) -> list[str]:
    by_reason: dict[tuple[str, str], list[str]] = {}
    for user in users:
        one = measured[user.letter, over]
        reasons = {("everything", f"the stats server cannot be read: {one.problem}")} if one.problem else one.unknown
        for what, why in sorted(reasons):
            by_reason.setdefault((what, re.sub(r"process \d+", "process N", why)), []).append(user.letter)
    lines = ["| column | `unknown` in the API | why |\n|---|---|---|\n"]
    return lines + [f"| {', '.join(letters)} | {what} | {why} |\n" for (what, why), letters in by_reason.items()]


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; returns the exit status."""
    parser = argparse.ArgumentParser(prog="python3 -m tools.rights", description=__doc__)
    parser.add_argument("--only", default="", metavar="LETTERS", help="measure these users alone")
    options = parser.parse_args(argv)
    if os.getuid() != 0:
        parser.error("needs root, to run the exporter as other users")
    enter_own_namespace(sys.argv[1:] if argv is None else argv)
    users = [user for user in USERS if not options.only or user.letter in options.only]
    print(render(measure_all(users), users))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
