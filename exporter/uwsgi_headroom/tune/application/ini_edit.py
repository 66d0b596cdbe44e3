"""Writes the recommended ini file: the given one with another setting, and every other line as it was."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator, Mapping
from pathlib import Path

from uwsgi_headroom.ini_syntax import list_options
from uwsgi_headroom.tune.application.ini import Ini
from uwsgi_headroom.tune.application.variant import DEFAULT_LISTEN, Variant

_OPTION = re.compile(r"([ \t]*)([^=\s;#\[][^=]*?)(?:([ \t]*=[ \t]*)(.*?))?([ \t]*\r?)")


def edit_ini(ini: Ini, chosen: Variant) -> str:
    """The text of the given file with the chosen variant."""
    lines = ini.text.split("\n")
    for key, value in _list_values(ini, chosen).items():
        _set(lines, ini.section, key, value)
    return "\n".join(lines)


def make_diff(before: str, after: str, path: Path, context: int = 3) -> str:
    """A unified diff, as `patch` reads it; empty if nothing changes."""
    lines = difflib.unified_diff(
        _split(before), _split(after), f"a/{path.name}", f"b/{path.name}", n=context, lineterm="\n"
    )
    return "".join(line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n" for line in lines)


def _split(text: str) -> list[str]:
    # Not splitlines(): only \n ends a line of a diff.
    parts = text.split("\n")
    return [f"{part}\n" for part in parts[:-1]] + ([parts[-1]] if parts[-1] else [])


def _list_values(ini: Ini, chosen: Variant) -> Mapping[str, str | None]:
    """The options that change, with their values; None: the option is left out, or off."""
    present, wanted = ini.present, dict[str, str | None]()
    if chosen.setting.processes != present.setting.processes:
        wanted["processes"] = str(chosen.setting.processes)
    if chosen.setting.threads != present.setting.threads:
        wanted["threads"] = str(chosen.setting.threads)
    if chosen.thunder_lock != present.thunder_lock:
        wanted["thunder-lock"] = "true" if chosen.thunder_lock else None
    if chosen.cheaper != present.cheaper:
        wanted["cheaper"] = None if chosen.cheaper is None else str(chosen.cheaper)
    if chosen.listen != present.listen:
        wanted["listen"] = str(chosen.listen or DEFAULT_LISTEN)
    return wanted


def _list_options(lines: list[str], wanted: str) -> Iterator[tuple[int, re.Match[str]]]:
    """The options of a section, by the index of their line."""
    for option in list_options("\n".join(lines), wanted):
        if match := _OPTION.fullmatch(lines[option.number - 1]):
            yield option.number - 1, match


def _set(lines: list[str], section: str, key: str, value: str | None) -> None:
    """Change the last line of an option, which is the one that counts, or add one."""
    names = ("processes", "workers") if key == "processes" else (key,)
    found = [(number, match) for number, match in _list_options(lines, section) if match[2] in names]
    if found and value is not None:
        number, match = found[-1]
        lines[number] = f"{match[1]}{match[2]}{match[3] or ' = '}{value}{match[5]}"
    elif found:
        for number, _ in reversed(found):
            del lines[number]
    elif value is not None:
        _insert(lines, section, [f"{key} = {value}"])
    elif key in ("thunder-lock", "cheaper"):  # it is on in an included file
        _insert(lines, section, [f"{key} = {'0' if key == 'cheaper' else 'false'}"])


def _insert(lines: list[str], section: str, added: list[str]) -> None:
    """Add lines after the last option that sets processes or threads, else after the last option of the section."""
    options = list(_list_options(lines, section))
    near = [number for number, match in options if match[2] in ("processes", "workers", "threads")]
    last = near[-1] if near else options[-1][0] if options else len(lines) - 1
    ending = "\r" if lines[last].endswith("\r") else ""
    lines[last + 1 : last + 1] = [f"{line}{ending}" for line in added]
