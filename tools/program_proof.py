"""Tests that a program of Prometheus works on this machine: starts servers, and gives tools a file to check.

`--version` is not enough: a program may lack a file that it reads only at its start.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

from app import monitoring
from app.loopback import free_port
from app.programs import Program, running
from tools import commands


def prove(name: str, program: Path) -> None:
    """Raises `CommandError`, `ProgramError` or `OSError` if the program does not work. name: upstream's name of it."""
    with tempfile.TemporaryDirectory(prefix="headroom-") as directory:
        _PROOFS[name](program, Path(directory))


def _prometheus(program: Path, directory: Path) -> None:
    _starts(monitoring.prometheus(program, free_port(), directory, targets=[]), directory)


def _alertmanager(program: Path, directory: Path) -> None:
    _starts(monitoring.alertmanager(program, free_port(), directory, monitoring.NOBODY), directory)


def _promtool(program: Path, directory: Path) -> None:
    (directory / "rules").write_text(json.dumps({"groups": []}))
    commands.run_command([program, "check", "rules", directory / "rules"])


def _amtool(program: Path, directory: Path) -> None:
    (directory / "alertmanager.yml").write_text(json.dumps(monitoring.NOBODY))
    commands.run_command([program, "check-config", directory / "alertmanager.yml"])


def _starts(program: Program, directory: Path) -> None:
    with running([replace(program, sentence="")], directory, cwd=directory):
        pass


_PROOFS: Mapping[str, Callable[[Path, Path], None]] = {
    "prometheus": _prometheus,
    "promtool": _promtool,
    "alertmanager": _alertmanager,
    "amtool": _amtool,
}
