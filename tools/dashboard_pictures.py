"""Takes the pictures of the dashboards: `.venv/bin/python3 -m tools.dashboard_pictures GRAFANA` writes
`dashboards/pictures/*.png`. GRAFANA is the address of a Grafana on this machine that needs no login.

A picture includes the variables, and ends at the end of a panel or a row.
"""

from __future__ import annotations

import argparse
import sys
import time
from urllib.parse import urlencode, urlsplit

from playwright.sync_api import Page

from tools.environments import ROOT
from tools.support.browser import browser, tab

PICTURES = ROOT / "dashboards" / "pictures"
WIDTH, TALLEST = 1600, 4000  # pixels of the page: Grafana draws only the visible panels
SCALE = 0.75  # a README is displayed narrower than the page
LARGEST = 400_000  # bytes
UP_TO = {"fleet": "", "server": "Do the workers share", "affinity": "", "capacity": "What do requests spend"}
"""The row before which a picture ends; empty for the whole page."""

_BOTTOM = """row => {
  const boxes = [...document.querySelectorAll(".react-grid-item")].map(item => [item, item.getBoundingClientRect()]);
  const next = boxes.find(([item]) => row && item.textContent.includes(row));
  return Math.max(...boxes.map(([_, box]) => box.bottom).filter(bottom => !next || bottom <= next[1].top));
}"""

_DRAWN = """() => {
  const panels = [...document.querySelectorAll('[data-testid="data-testid panel content"]')];
  const loading = document.querySelector('[aria-label="Panel loading bar"]');
  return panels.length > 0 && !loading && panels.every(panel => panel.textContent || panel.querySelector("canvas"));
}"""
_PATIENCE = 120_000  # milliseconds
_UNDOCK = "localStorage.setItem('grafana.navigation.docked', 'false')"


def main() -> int:
    """Writes the pictures of all dashboards, or of the named ones."""
    parser = argparse.ArgumentParser(prog=".venv/bin/python3 -m tools.dashboard_pictures", description=__doc__)
    parser.add_argument("address", help="address of Grafana, such as http://127.0.0.1:3000")
    parser.add_argument("name", nargs="*", help=f"dashboard: {', '.join(UP_TO)} (default: all)")
    parser.add_argument("--server", default="shop", help="server on the dashboards of one (default: %(default)s)")
    parser.add_argument("--minutes", type=int, default=15, help="time range of live dashboards (default: %(default)s)")
    parser.add_argument("--to", type=float, default=time.time(), help="end of the range, epoch seconds (default: now)")
    options = parser.parse_args()
    port = urlsplit(options.address).port or 80
    with browser() as running, tab(running, port, width=WIDTH, height=TALLEST, device_scale_factor=SCALE) as shown:
        shown.page.add_init_script(_UNDOCK)
        for name in options.name or UP_TO:
            times = _milliseconds(options.to - 60 * options.minutes, options.to)
            if name == "capacity":
                times = {"from": "now-90d", "to": "now"}
            one = {"var-server": options.server} if name in ("server", "affinity") else {}
            query = urlencode({**times, **one, "theme": "dark"})
            shown.page.goto(f"{options.address}/d/uwsgi-headroom-{name}?{query}", timeout=_PATIENCE)
            shown.page.wait_for_function(_DRAWN, timeout=_PATIENCE)
            _take(shown.page, name)
        if shown.problems:
            sys.exit("\n".join(shown.problems))
    return 0


def _milliseconds(start: float, end: float) -> dict[str, str]:
    return {"from": f"{start * 1000:.0f}", "to": f"{end * 1000:.0f}"}


def _take(page: Page, name: str) -> None:
    picture = PICTURES / f"{name}.png"
    bottom = page.evaluate(_BOTTOM, UP_TO[name])
    page.screenshot(path=picture, clip={"x": 0, "y": 0, "width": WIDTH, "height": bottom + 8})
    if picture.stat().st_size > LARGEST:
        sys.exit(f"{picture} is larger than {LARGEST} bytes")


if __name__ == "__main__":
    sys.exit(main())
