"""Lists the benchmarks, each with the command that runs it: `python3 -m tools.bench`."""

from __future__ import annotations

import ast
from pathlib import Path

HERE = Path(__file__).parent

BENCHES = {
    "What does it cost?": (
        *("scrape", "cost", "many_servers", "hour_memory", "scale", "page", "routes", "history"),
        *("uwsgi_log", "login", "hostile", "hostile.guessing", "stopped_mid_read"),
    ),
    "Are its figures right?": ("accuracy", "waits", "waits.locks", "waits.hot_worker", "code"),
    "Are its predictions and verdicts right?": ("model", "ramp", "days", "deploys"),
}
"""The modules of this folder that are run, by what they answer."""


def find_module(name: str) -> Path:
    """The file that `python3 -m tools.bench.NAME` runs."""
    path = HERE.joinpath(*name.split("."))
    return path / "__main__.py" if path.is_dir() else path.with_suffix(".py")


def describe(name: str) -> str:
    """The first paragraph of a benchmark's docstring, as one line."""
    docstring = ast.get_docstring(ast.parse(find_module(name).read_text())) or ""
    return " ".join(docstring.partition("\n\n")[0].split())


def main() -> None:
    for question, names in BENCHES.items():
        print(f"{question}\n")
        for name in names:
            print(f"  python3 -m tools.bench.{name}\n      {describe(name)}")
        print()


if __name__ == "__main__":
    main()
