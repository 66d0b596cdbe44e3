"""Generates the table of flags and variables in `docs/configuration.md` from the rows of the settings."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from tools.generated_files import replace_section
from uwsgi_headroom.config.settings import FLAGS

FILE = Path(__file__).resolve().parents[1] / "docs" / "configuration.md"


def page() -> str:
    """Returns the page with its table as it should be."""
    return replace_section(FILE.read_text(), "settings", "".join(f"{line}\n" for line in _table()))


def _table() -> Iterator[str]:
    yield "| flag | environment | default |"
    yield "|---|---|---|"
    for setting in FLAGS:
        value = "" if setting.is_switch else f" {setting.metavar}"
        repeatable = ", repeatable" if setting.is_repeatable else ""
        default = f" {setting.default}" if setting.default else ""
        yield f"| `{setting.flag}{value}`{repeatable} | `{setting.variable}` |{default} |"
