"""What every benchmark has: options, Markdown tables, medians with their range, and the machine it was measured on."""

from __future__ import annotations

import argparse
import os
import platform
import statistics
import subprocess
from collections.abc import Sequence
from pathlib import Path

from tools.support import real_uwsgi


def make_parser(module: str, description: str | None) -> argparse.ArgumentParser:
    """The options of `python3 -m MODULE`: `--write FILE`, as `publish` takes it, and what the caller adds."""
    parser = argparse.ArgumentParser(prog=f"python3 -m {module}", description=description)
    parser.add_argument("--write", type=Path, metavar="FILE", help="also put the text into a document")
    return parser


def publish(text: str, name: str, file: Path | None) -> None:
    """Prints the text of a benchmark, and puts it between the marks of its name in a file, if one is given."""
    print(text, flush=True)
    if file:
        write(file, text, name)


def write(path: Path, text: str, name: str) -> None:
    """Puts the text between `<!-- NAME -->` and `<!-- /NAME -->` in a file, or at the end of a file without them."""
    begin, end = f"<!-- {name} -->", f"<!-- /{name} -->"
    whole = path.read_text() if path.exists() else ""
    before, found, rest = whole.partition(begin)
    _, closed, after = rest.partition(end)
    if bool(found) != bool(closed):
        raise SystemExit(f"{path}: {begin} without {end}")
    path.write_text(f"{before}{begin}\n{text}\n{end}{after or os.linesep}")


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
