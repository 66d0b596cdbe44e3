"""The picture of the page in the README: `python -m tests.web.picture PORT`, with `make demo` running there for six
minutes, writes `app/pictures/page.png`.

Whoever put it into the README ran it, and only that.
"""

from __future__ import annotations

import argparse
import sys

from tests.real import ROOT
from tests.web.browser import browser, tab

PICTURE = ROOT / "app" / "pictures" / "page.png"
LARGEST = 200_000  # bytes
SCALE = 0.75  # READMEs are shown narrower than the page
TALL = 1168  # pixels: the verdict, what to change, the workers, the first charts


def main() -> int:
    """Write it once the figures are over a whole window."""
    parser = argparse.ArgumentParser(prog="python -m tests.web.picture", description=__doc__)
    parser.add_argument("port", type=int, help="of the demo's exporter")
    asked = parser.parse_args()
    with browser() as running, tab(running, asked.port, width=1280, height=TALL, device_scale_factor=SCALE) as shown:
        shown.open("/?range=300")
        shown.until("JSON.parse(heard).window?.seconds > 59")
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
