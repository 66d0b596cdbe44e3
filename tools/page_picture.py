"""Takes the pictures of the page for the README: `.venv/bin/python3 -m tools.page_picture PORT`, six minutes after the
start of a demo, writes `app/pictures/page.png` and, in dark colours, `page-dark.png`.

    make demo PORT=9300 &
    .venv/bin/python3 -m tools.page_picture 9300
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

from app import loopback
from tools.environments import ROOT
from tools.support.browser import browser, tab

PICTURES = ROOT / "app" / "pictures"
NAMES = {"light": "page.png", "dark": "page-dark.png"}
"""File names by colour scheme."""
LARGEST = 200_000  # bytes
FIRST_SECONDS = 59  # of the figures: nearly the whole shortest window
SCALE = 0.75  # a README is displayed narrower than the page
DRAWN = "[...document.querySelectorAll('.lines')].every((each) => !each.offsetParent || each.querySelector('.uplot'))"
WIDE, TALL = 1440, 1145  # pixels: the verdict, what to change, the workers one by one


def too_early(port: int) -> str | None:
    """Returns a sentence that says why no picture can be taken yet, or None."""
    listed = loopback.get(port, "/api/v1/servers")
    if listed is None:
        return f"no exporter answers on port {port}: start `make demo PORT={port}`, and try again in six minutes"
    paths = [server["path"] for server in json.loads(listed)["servers"]]
    if len(paths) != 1:
        return f"the exporter on port {port} is not the demo's: it has {len(paths)} servers"
    window = json.loads(loopback.get(port, paths[0]) or "{}").get("window") or {"seconds": 0.0}
    if window["seconds"] < FIRST_SECONDS:
        return (
            f"the figures are over {window['seconds']:.0f} s so far, and a picture needs {FIRST_SECONDS} s: "
            f"try again in {FIRST_SECONDS - window['seconds']:.0f} s"
        )
    return None


def take(port: int, directory: Path) -> list[str]:
    """Writes both pictures into the directory; returns a sentence for each error in the browser and each large file."""
    directory.mkdir(exist_ok=True)
    problems: list[str] = []
    with browser() as running:
        for scheme, name in NAMES.items():
            with tab(running, port, WIDE, TALL, device_scale_factor=SCALE, color_scheme=scheme) as shown:
                shown.open("/?range=300")
                shown.until(DRAWN)
                shown.page.screenshot(path=directory / name)
                problems += shown.problems
            if (directory / name).stat().st_size > LARGEST:
                problems.append(f"{directory / name} is larger than {LARGEST} bytes")
    return problems


def main() -> int:
    """Writes the pictures, if the figures cover a whole window."""
    parser = argparse.ArgumentParser(prog=".venv/bin/python3 -m tools.page_picture", description=__doc__)
    parser.add_argument("port", type=int, help="port of the demo's exporter")
    parser.add_argument("--out", type=Path, default=PICTURES, help="directory to write to (default: %(default)s)")
    options = parser.parse_args()
    trouble = too_early(options.port)
    if trouble:
        sys.exit(trouble)
    if problems := take(options.port, options.out):
        sys.exit("\n".join(problems))
    return 0


if __name__ == "__main__":
    sys.exit(main())
