"""`python3 -m dashboards`: writes the dashboards, as Grafana 9 to 12 read them; `--check` lists those that differ."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable
from pathlib import Path

from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.models.dashboard import Dashboard

from dashboards.boards import affinity, capacity, fleet, server

FILES: dict[str, Callable[[], Dashboard]] = {
    "fleet.json": fleet.dashboard,
    "server.json": server.dashboard,
    "affinity.json": affinity.dashboard,
    "capacity.json": capacity.dashboard,
}


def render() -> dict[str, str]:
    """The text of every dashboard, by its file's name."""
    return {name: _json(board()) for name, board in FILES.items()}


def _json(board: Dashboard) -> str:
    text = json.dumps(board, cls=JSONEncoder)
    made = {**json.loads(text), "__inputs": [], "__requires": [*_NEEDS]}  # the data source is a variable: no input
    made["__requires"] += [{"type": "panel", "id": kind, "name": kind, "version": ""} for kind in _kinds(text)]
    return json.dumps(made, indent=1, sort_keys=True, ensure_ascii=False) + "\n"


_NEEDS = (
    {"type": "grafana", "id": "grafana", "name": "Grafana", "version": "9.0.0"},
    {"type": "datasource", "id": "prometheus", "name": "Prometheus", "version": "1.0.0"},
)
"""What Grafana's import dialogue and its catalogue read: the oldest versions."""


def _kinds(text: str) -> list[str]:
    """The kinds of panels, those in folded rows included."""
    listed = json.loads(text)["panels"]
    return sorted({panel["type"] for row in listed for panel in (row, *row.get("panels", ()))} - {"row"})


OUT = Path(__file__).parent / "out"


def main(argv: list[str] | None = None) -> int:
    """Writes or checks the dashboards. Returns the exit status: 1 if `--check` found a difference."""
    parser = argparse.ArgumentParser(prog="python3 -m dashboards", description=__doc__, allow_abbrev=False)
    parser.add_argument("--out", type=Path, default=OUT, help="directory to write to (default: dashboards/out)")
    parser.add_argument("--check", action="store_true", help="write nothing; list files that differ")
    options = parser.parse_args(argv)
    made = {options.out / name: text for name, text in render().items()}
    if options.check:
        drifted = [path for path, text in made.items() if not path.is_file() or path.read_text() != text]
        for path in drifted:
            print(f"{path} differs from the output of `python3 -m dashboards`", file=sys.stderr)
        return 1 if drifted else 0
    options.out.mkdir(parents=True, exist_ok=True)
    for path, text in made.items():
        path.write_text(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
