"""The table of docs/how-to-add.md."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from tools.dependencies.ranges import ROOT, Dependency

FILE = ROOT / "docs" / "how-to-add.md"

WHY = {
    "h11": "parses the answers of stats servers over HTTP",
    "httptools": "parses requests to the exporter",
    "msgspec": "decodes stats documents without keeping what it does not know; encodes the API's documents",
    "prometheus-client": "the types of metrics, and the exporter's own `process_*`",
    "psutil": "facts about workers: CPU time, memory, affinity",
    "PyYAML": "the configuration file, with line numbers",
    "starlette": "routes and answers of the HTTP server",
    "rich": "draws `top`",
    "bcrypt": "checks passwords",
    "Jinja2": "the report's HTML",
    "matplotlib": "the report's charts and PDF",
    "numpy": "the report's statistics",
    "scipy": "the report's statistics",
}


def render(dependencies: Sequence[Dependency], lowest: Mapping[str, str], newest: Mapping[str, tuple[str, str]]) -> str:
    """Return the table. lowest: the tested version by name; newest: the tested version and its licence."""
    lines = [
        "| package | for | range | lowest tested | newest tested | licence | why |\n",
        "|---|---|---|---|---|---|---|\n",
    ]
    for each in dependencies:
        version, licence = newest[each.name]
        use = f"`[{each.extra}]`" if each.extra else "all"
        cells = [each.name, use, each.range, lowest[each.name], version, licence, WHY[each.name]]
        lines.append(f"| {' | '.join(cells)} |\n")
    return "".join(lines)


def read_rows(path: Path = FILE) -> dict[str, list[str]]:
    """Return the cells behind the name of each row, by name."""
    _, _, rest = path.read_text().partition("<!-- tested -->\n")
    lines = rest.partition("<!-- /tested -->")[0].splitlines()
    rows = [[cell.strip() for cell in line.strip("| ").split(" | ")] for line in lines if line.startswith("| ")]
    return {row[0]: row[1:] for row in rows[1:]}
