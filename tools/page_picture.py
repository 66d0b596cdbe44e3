"""The picture of the page in the README: `.venv/bin/python3 -m tools.page_picture PORT`, with `make demo` running there
for six minutes, writes `app/pictures/page.png`.

Whoever put it into the README ran it, and only that.
"""

from __future__ import annotations

import argparse
import json
import sys

from app import loopback
from tests.support.browser import browser, tab
from tests.support.real_uwsgi import ROOT

PICTURE = ROOT / "app" / "pictures" / "page.png"
LARGEST = 200_000  # bytes
FIRST_SECONDS = 59  # of the figures: nearly the whole shortest window
SCALE = 0.75  # READMEs are shown narrower than the page
TALL = 1168  # pixels: the verdict, what to change, the workers, the first charts


def too_early(port: int) -> str | None:
    """A sentence that says why there is nothing to take a picture of yet, or None."""
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


def main() -> int:
    """Write it once the figures are over a whole window."""
    parser = argparse.ArgumentParser(prog=".venv/bin/python3 -m tools.page_picture", description=__doc__)
    parser.add_argument("port", type=int, help="of the demo's exporter")
    options = parser.parse_args()
    trouble = too_early(options.port)
    if trouble:
        sys.exit(trouble)
    with browser() as running, tab(running, options.port, width=1280, height=TALL, device_scale_factor=SCALE) as shown:
        shown.open("/?range=300")
        shown.until("document.querySelectorAll('.uplot').length === 5")
        PICTURE.parent.mkdir(exist_ok=True)
        shown.page.screenshot(path=PICTURE)
        if shown.problems:
            sys.exit("\n".join(shown.problems))
    if PICTURE.stat().st_size > LARGEST:
        sys.exit(f"{PICTURE} is larger than {LARGEST} bytes")
    return 0


if __name__ == "__main__":
    sys.exit(main())
