"""The tables of rights, and what docs/security.md says of two users, measured again."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys

import pytest

from tools.environments import ROOT
from tools.rights.__main__ import render
from tools.rights.measure import Measured
from tools.rights.users import User

ONE, TWO = User("A", "another user"), User("B", "root", name="root")


def table(text: str, over: str) -> dict[str, dict[str, str]]:
    """The cells of the table of figures over a kind of socket: "yes" or "no" by figure and column."""
    _, _, rest = text.partition(f"### Over {over}\n")
    lines = rest.lstrip().partition("\n\n")[0].splitlines()
    head, *rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines if line[:4] != "|---"]
    return {
        name.strip("` "): dict(zip(head[1:], cells, strict=True)) for names, *cells in rows for name in names.split(",")
    }


def test_figures_are_grouped_by_who_has_them() -> None:
    """Those that most users have come first; what a user cannot read at all is said once."""
    measured = {
        ("A", "unix"): Measured(frozenset({"uwsgi_up"}), frozenset(), "permission"),
        ("B", "unix"): Measured(frozenset({"uwsgi_up", "uwsgi_b", "uwsgi_a"}), frozenset(), ""),
        ("A", "tcp"): Measured(frozenset({"uwsgi_up"}), frozenset({("waits", "of process 12 no")}), ""),
        ("B", "tcp"): Measured(frozenset({"uwsgi_up"}), frozenset({("waits", "of process 34 no")}), ""),
    }
    text = render(measured, (ONE, TWO))
    assert "| `uwsgi_up` | yes | yes |\n| `uwsgi_a`, `uwsgi_b` | no | yes |\n" in text
    assert "| A | everything | the stats server cannot be read: permission |\n" in text
    assert "| A, B | waits | of process N no |\n" in text
    assert table(text, "a UNIX socket")["uwsgi_b"] == {"A": "no", "B": "yes"}


def having(cells: dict[str, str]) -> str:
    return "".join(letter for letter, cell in cells.items() if cell == "yes")


@pytest.mark.slow
@pytest.mark.integration
@pytest.mark.skipif(os.getuid() != 0 or not shutil.which("setpriv"), reason="needs root and setpriv")
def test_two_columns_measured_again() -> None:
    """A user in the socket's group has what needs no right; with both capabilities, the same user has the rest."""
    command = [sys.executable, "-m", "tools.rights", "--only", "BF"]
    answer = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert answer.returncode == 0, answer.stderr
    over_unix, over_tcp = (table(answer.stdout, over) for over in ("a UNIX socket", "TCP"))
    assert "uwsgi_worker_open_fds" not in over_unix  # it needs no right since Linux 6.2
    for name in ("uwsgi_worker_unique_memory_bytes", "uwsgi_wait_thread_seconds_total", "uwsgi_harakiri_seconds"):
        assert having(over_unix[name]) == having(over_tcp[name]) == "F", name
    assert having(over_tcp["uwsgi_worker_cpu_seconds_total"]) == "F"
