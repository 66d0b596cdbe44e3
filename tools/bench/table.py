"""What every benchmark has: Markdown tables, medians with their range, and the machine it was measured on."""

from __future__ import annotations

import os
import platform
import statistics
import subprocess
from collections.abc import Sequence
from pathlib import Path

from tests.support import real_uwsgi


def write(path: Path, text: str, name: str) -> None:
    """Puts the text between `<!-- NAME -->` and `<!-- /NAME -->` in a file. Raises SystemExit without these marks."""
    begin, end = f"<!-- {name} -->", f"<!-- /{name} -->"
    before, found, rest = path.read_text().partition(begin)
    _, closed, after = rest.partition(end)
    if not (found and closed):
        raise SystemExit(f"{path}: {begin} and {end} are missing")
    path.write_text(f"{before}{begin}\n{text}\n{end}{after}")


def render_table(head: str, rows: Sequence[str]) -> str:
    """Returns a Markdown table; the cells of `head` and of each row are separated by ` | `."""
    return "\n".join(f"| {line} |" for line in (head, " | ".join("---" for _ in head.split(" | ")), *rows))


def spread(values: Sequence[float], scale: float = 1.0, digits: int = 2) -> str:
    """Median and range of values, in units of 1 / `scale`."""
    median, least, most = (
        f"{scale * value:,.{digits}f}" for value in (statistics.median(values), min(values), max(values))
    )
    return f"{median} ({least}-{most})"


def machine() -> str:
    version = subprocess.run(
        [real_uwsgi.uwsgi_binary(), "--version"], capture_output=True, text=True, check=True
    ).stdout
    return (
        f"Machine: {os.cpu_count()} CPUs, {platform.system()} {platform.release()}, {platform.python_implementation()} "
        f"{platform.python_version()}, uWSGI {version.strip()}."
    )


def load_average() -> str:
    """The machine's load averages of the last 1, 5 and 15 minutes."""
    return "/".join(f"{load:.1f}" for load in os.getloadavg())
